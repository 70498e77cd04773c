//! Reads a guest's serial console as it grows, for the words that decide: ready or fatal.
//!
//! What a guest prints is not trusted: it is bounded and made printable before anyone sees it.

#[cfg(test)]
mod tests;

use crate::{Error, files};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

const READY: &str = "socialweb-node: ready";
const FATAL: &str = "socialweb-node: fatal:";
const PANIC: &str = "Kernel panic - not syncing";

/// Longest line that is kept, bytes.
const MAX_LINE: usize = 1024;
/// How much one look reads at a time.
const CHUNK: usize = 64 * 1024;

/// What a console has said so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Words {
    /// The agent said that it is ready.
    pub ready: bool,
    /// The first words of an end, the agent's or the kernel's.
    pub fatal: Option<String>,
    /// The last line that is not empty.
    pub last: String,
}

/// Follows one console file.
#[derive(Debug, Default)]
pub(crate) struct Scanner {
    offset: u64,
    line: Vec<u8>,
    /// What was found.
    pub words: Words,
}

impl Scanner {
    /// Reads what was added, up to `max` bytes, and cuts the file when it is longer than `max`.
    pub(crate) fn look(&mut self, path: &Path, max: u64) -> Result<(), Error> {
        let mut file = File::open(path).map_err(Error::file("read", path))?;
        let length = file.metadata().map_err(Error::file("read", path))?.len();
        if length < self.offset {
            self.offset = 0;
        }
        file.seek(SeekFrom::Start(self.offset)).map_err(Error::file("read", path))?;
        let mut buffer = vec![0; CHUNK.min(usize::try_from(max).unwrap_or(CHUNK))];
        loop {
            let count = file.read(&mut buffer).map_err(Error::file("read", path))?;
            if count == 0 {
                break;
            }
            self.feed(&buffer[..count]);
            self.offset += count as u64;
        }
        // The words may come without an end of line, as the last thing a guest says.
        let line = printable(&self.line);
        self.words.ready |= line.contains(READY);
        if self.offset > max {
            cut(path, max / 4)?;
            self.offset = 0;
        }
        Ok(())
    }

    /// Takes an unfinished last line as finished; for a guest that has ended.
    pub(crate) fn end(&mut self) {
        let line = std::mem::take(&mut self.line);
        self.words.line(&line);
    }

    fn feed(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let room = MAX_LINE.saturating_sub(self.line.len());
            self.line.extend(&part[..part.len().min(room)]);
            if part.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                self.words.line(&line);
            }
        }
    }
}

impl Words {
    fn line(&mut self, line: &[u8]) {
        let line = printable(line);
        if line.is_empty() {
            return;
        }
        self.ready |= line.contains(READY);
        if self.fatal.is_none() {
            // Firmware writes to the same line, so the words may start anywhere in it.
            self.fatal = [FATAL, PANIC].iter().find_map(|words| Some(line[line.find(words)?..].to_owned()));
        }
        self.last = line;
    }
}

/// Text without control characters, trimmed.
pub(crate) fn printable(bytes: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(bytes).chars().filter(|c| !c.is_control()).take(MAX_LINE).collect();
    text.trim().to_owned()
}

/// Keeps the newest `keep` bytes beside the log as `<name>.old` and empties the log, to which its
/// writer appends.
fn cut(path: &Path, keep: u64) -> Result<(), Error> {
    let newest = files::tail(path, keep).map_err(Error::file("read", path))?;
    OpenOptions::new().write(true).open(path).and_then(|file| file.set_len(0)).map_err(Error::file("cut", path))?;
    let old = path.with_extension("old");
    fs::write(&old, newest).map_err(Error::file("write", &old))
}
