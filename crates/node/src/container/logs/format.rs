//! One line of a log file, and the bytes of a file turned into what a reader asked for.

use jiff::Timestamp;

/// Which stream of a process a line came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Stream {
    fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// Appends a line; `full` says that the process ended it with a newline.
pub(super) fn write_line(out: &mut Vec<u8>, time: Timestamp, stream: Stream, full: bool, text: &[u8]) {
    out.extend_from_slice(format!("{time:.9} {} {} ", stream.name(), if full { 'F' } else { 'P' }).as_bytes());
    out.extend_from_slice(text);
    out.push(b'\n');
}

/// A parsed line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    time_text: &'a [u8],
    pub(super) time: Timestamp,
    pub(super) stream: Stream,
    pub(super) full: bool,
    pub(super) text: &'a [u8],
}

/// Reads a line without its newline; `None` if it is not of the format.
pub(super) fn parse_line(line: &[u8]) -> Option<Line<'_>> {
    let mut parts = line.splitn(4, |byte| *byte == b' ');
    let time_text = parts.next()?;
    let time = std::str::from_utf8(time_text).ok()?.parse().ok()?;
    let stream = match parts.next()? {
        b"stdout" => Stream::Stdout,
        b"stderr" => Stream::Stderr,
        _ => return None,
    };
    let full = match parts.next()? {
        b"F" => true,
        b"P" => false,
        _ => return None,
    };
    Some(Line { time_text, time, stream, full, text: parts.next()? })
}

/// What of a log is shown, and how.
#[derive(Debug, Clone, Default)]
pub(super) struct Filter {
    pub(super) since: Option<Timestamp>,
    pub(super) timestamps: bool,
    pub(super) stream: Option<Stream>,
    pub(super) limit_bytes: Option<u64>,
}

/// Turns the bytes of log files, in any pieces, into what is shown of them.
pub(super) struct Formatter {
    filter: Filter,
    pending: Vec<u8>,
    within_line: bool,
    written: u64,
}

/// No line that the writer makes is longer; a longer one is not a log line and is left out.
const MAX_LINE: usize = 64 << 10;

impl Formatter {
    pub(super) fn new(filter: Filter) -> Self {
        Self { filter, pending: Vec::new(), within_line: false, written: 0 }
    }

    /// Whether the limit was reached, after which nothing more is shown.
    pub(super) fn done(&self) -> bool {
        self.filter.limit_bytes.is_some_and(|limit| self.written >= limit)
    }

    /// Takes bytes of a file and appends what is shown of them.
    pub(super) fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.pending.len() + piece.len() <= MAX_LINE {
                self.pending.extend_from_slice(piece);
            }
            if piece.ends_with(b"\n") {
                let line = std::mem::take(&mut self.pending);
                self.line(line.strip_suffix(b"\n").unwrap_or(&line), out);
            }
        }
    }

    fn line(&mut self, line: &[u8], out: &mut Vec<u8>) {
        let Some(line) = parse_line(line) else { return };
        if self.filter.stream.is_some_and(|stream| stream != line.stream)
            || self.filter.since.is_some_and(|since| line.time < since)
        {
            return;
        }
        if self.filter.timestamps && !self.within_line {
            self.emit(line.time_text, out);
            self.emit(b" ", out);
        }
        self.emit(line.text, out);
        if line.full {
            self.emit(b"\n", out);
        }
        self.within_line = !line.full;
    }

    fn emit(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let left = self.filter.limit_bytes.map_or(u64::MAX, |limit| limit.saturating_sub(self.written));
        let count = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        out.extend_from_slice(&bytes[..count]);
        self.written += count as u64;
    }
}
