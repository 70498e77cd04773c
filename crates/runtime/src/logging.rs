//! Log lines on standard error, for people or as JSON.

use std::str::FromStr;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Environment variable that [`filter_from_env`] reads.
pub const FILTER_VARIABLE: &str = "SOCIALWEB_LOG";

/// How a log line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// For people.
    #[default]
    Human,
    /// One JSON object a line.
    Json,
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "human" => Ok(Self::Human),
            "json" => Ok(Self::Json),
            other => Err(Error::Format(other.to_owned())),
        }
    }
}

/// Why logging was not set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Unknown format.
    #[error("unknown log format {0:?}: use \"human\" or \"json\"")]
    Format(String),
    /// Unreadable filter.
    #[error(
        "cannot read the log filter {0:?}: use a level (error, warn, info, debug, trace) or pairs such as \"info,store=debug\""
    )]
    Filter(String),
    /// Someone set up logging before.
    #[error("logging is already set up in this process")]
    AlreadySet,
}

/// The flag's value if there is one, else [`FILTER_VARIABLE`], else `info`.
#[must_use]
pub fn filter_from_env(flag: Option<&str>) -> String {
    flag.map(str::to_owned)
        .or_else(|| std::env::var(FILTER_VARIABLE).ok().filter(|v| !v.is_empty()))
        .unwrap_or_else(|| "info".to_owned())
}

/// Reads a filter: a level, or comma-separated `target=level` pairs.
///
/// # Errors
/// When it is neither.
pub fn parse_filter(filter: &str) -> Result<Targets, Error> {
    let bad = || Error::Filter(filter.to_owned());
    // `Targets` takes a word it does not know as a target's name; a misspelt level is a mistake.
    for part in filter.split(',').filter(|part| !part.contains('=')) {
        part.trim().parse::<tracing_subscriber::filter::LevelFilter>().map_err(|_| bad())?;
    }
    filter.parse().map_err(|_| bad())
}

/// Sets up logging for the process, on standard error, in color if that is a terminal.
///
/// # Errors
/// When the filter cannot be read or logging is already set up.
pub fn init(format: Format, filter: &str) -> Result<(), Error> {
    use std::io::IsTerminal;
    let targets = parse_filter(filter)?;
    let registry = tracing_subscriber::registry().with(targets);
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    match format {
        Format::Human => registry.with(layer.with_ansi(std::io::stderr().is_terminal())).try_init(),
        Format::Json => registry.with(layer.json().flatten_event(true)).try_init(),
    }
    .map_err(|_| Error::AlreadySet)
}

#[cfg(test)]
mod tests;
