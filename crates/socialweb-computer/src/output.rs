//! Printing results: for people, or as JSON.

use anyhow::Result;
use serde::Serialize;
use std::io::{IsTerminal, Write};

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// For people
    Human,
    /// JSON
    Json,
}

impl Format {
    /// Prints a result in this format; `human` makes the lines for people.
    pub(crate) fn print(self, value: &impl Serialize, human: impl FnOnce() -> String) -> Result<()> {
        let text = match self {
            Self::Human => human(),
            Self::Json => serde_json::to_string_pretty(value)?,
        };
        write_line(text.trim_end_matches('\n'))
    }
}

/// Writes to standard output; a reader that went away is not an error.
fn write_line(text: &str) -> Result<()> {
    match writeln!(std::io::stdout().lock(), "{text}") {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// Rows under headings, aligned.
pub(crate) fn table(headings: &[&str], rows: &[Vec<String>]) -> String {
    let all: Vec<Vec<&str>> = std::iter::once(headings.to_vec())
        .chain(rows.iter().map(|row| row.iter().map(String::as_str).collect()))
        .collect();
    let width = |column: usize| all.iter().filter_map(|row| row.get(column)).map(|c| c.chars().count()).max();
    let widths: Vec<usize> = (0..headings.len()).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &Vec<&str>| {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        format!("{}\n", cells.join("   ").trim_end())
    };
    all.iter().map(line).collect()
}

/// Progress on standard error: one line that is rewritten on a terminal, plain lines otherwise.
pub(crate) struct Progress {
    terminal: bool,
    last: String,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self { terminal: std::io::stderr().is_terminal(), last: String::new() }
    }

    /// Says what is going on, if it is something new.
    pub(crate) fn say(&mut self, text: &str) {
        if text == self.last {
            return;
        }
        text.clone_into(&mut self.last);
        if self.terminal {
            eprint!("\r\x1b[K{text}");
        } else {
            eprintln!("{text}");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.terminal && !self.last.is_empty() {
            eprint!("\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests;
