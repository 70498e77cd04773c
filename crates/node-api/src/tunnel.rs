//! The tunnel: after the upgrade the API server is the HTTP/2 client and the agent the server.
//!
//! | request | answer |
//! | --- | --- |
//! | `GET /logs/<ns>/<pod>/<uid>/<container>?` [`LogOptions`] | the log, `text/plain`, streamed while following |
//! | `POST /exec/<ns>/<pod>/<uid>/<container>?` [`ExecOptions`] | [`frame`](crate::frame)s both ways |
//! | `POST /attach/<ns>/<pod>/<uid>/<container>?` [`ExecOptions`] | frames both ways |
//! | `POST /portforward/<ns>/<pod>/<uid>?port=N` | raw bytes both ways |
//! | `GET /healthz` | `ok` |
//!
//! `<uid>` guards against a Pod recreated under the same name. A failure before streaming starts is
//! an HTTP error whose body is a Kubernetes `Status`.

use serde::{Deserialize, Serialize};

/// Upgrade token of the tunnel.
pub const PROTOCOL: &str = "socialweb-node-tunnel/1";

/// Options of a log request, the fields of Kubernetes' `PodLogOptions`. Encoded in the query as one
/// parameter `options` holding percent-encoded JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LogOptions {
    /// Keep streaming.
    pub follow: bool,
    /// The previous instance of the container.
    pub previous: bool,
    /// Prefix each line with its RFC 3339 time.
    pub timestamps: bool,
    /// Only the newest lines.
    pub tail_lines: Option<u64>,
    /// Only lines younger than this, seconds.
    pub since_seconds: Option<u64>,
    /// Only lines after this RFC 3339 time.
    pub since_time: Option<String>,
    /// Stop after this many bytes.
    pub limit_bytes: Option<u64>,
}

/// Options of an exec or attach, encoded like [`LogOptions`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExecOptions {
    /// The command and its arguments; empty for attach.
    pub command: Vec<String>,
    /// Whether the client sends standard input.
    pub stdin: bool,
    /// Whether it wants standard output.
    pub stdout: bool,
    /// Whether it wants standard error.
    pub stderr: bool,
    /// Whether to allocate a terminal.
    pub tty: bool,
}
