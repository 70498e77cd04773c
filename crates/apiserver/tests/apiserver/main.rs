//! The whole server: over TLS and in process, one module per concern.

#![allow(clippy::unwrap_used, reason = "a test stops where something is missing")]

mod connections;
mod credentials;
mod documents;
mod nodes;
mod permissions;
mod support;
