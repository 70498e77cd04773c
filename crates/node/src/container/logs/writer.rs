//! Writes what a process prints to its log, and begins a new file when one is full.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::format::{Stream, write_line};

/// Text after which a line without newline is written in parts, as other runtimes do.
const MAX_TEXT: usize = 16 << 10;

/// Appends to one log.
pub(in crate::container) struct LogWriter {
    path: PathBuf,
    file: File,
    size: u64,
    max_bytes: u64,
    max_files: usize,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl LogWriter {
    /// Opens or makes the log with its directories.
    pub(in crate::container) fn open(path: &Path, max_bytes: u64, max_files: usize) -> io::Result<Self> {
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        let file = append(path)?;
        let size = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), file, size, max_bytes, max_files, stdout: Vec::new(), stderr: Vec::new() })
    }

    /// Writes every line that these bytes complete.
    pub(in crate::container) fn write(&mut self, stream: Stream, bytes: &[u8]) -> io::Result<()> {
        let time = Timestamp::now();
        let mut out = Vec::with_capacity(bytes.len() + 64);
        let pending = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, full) = match piece.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (piece, false),
            };
            pending.extend_from_slice(text);
            while pending.len() > MAX_TEXT {
                let rest = pending.split_off(MAX_TEXT);
                write_line(&mut out, time, stream, false, pending);
                *pending = rest;
            }
            if full {
                write_line(&mut out, time, stream, true, pending);
                pending.clear();
            }
        }
        self.append(&out)
    }

    /// Writes what was not ended with a newline.
    pub(in crate::container) fn finish(&mut self) -> io::Result<()> {
        let mut out = Vec::new();
        for (stream, pending) in [(Stream::Stdout, &mut self.stdout), (Stream::Stderr, &mut self.stderr)] {
            if !pending.is_empty() {
                write_line(&mut out, Timestamp::now(), stream, true, &std::mem::take(pending));
            }
        }
        self.append(&out)
    }

    fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        // Cut between lines only, so that every file can be read on its own.
        let mut start = 0;
        let mut end = 0;
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            let length = (end - start + line.len()) as u64;
            if self.size + length > self.max_bytes && self.size + ((end - start) as u64) > 0 {
                self.put(&lines[start..end])?;
                self.rotate()?;
                start = end;
            }
            end += line.len();
        }
        self.put(&lines[start..end])
    }

    fn put(&mut self, lines: &[u8]) -> io::Result<()> {
        self.file.write_all(lines)?;
        self.size += lines.len() as u64;
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        let stamp = Timestamp::now().strftime("%Y%m%d-%H%M%S.%9f").to_string();
        let mut old = self.path.clone().into_os_string();
        old.push(format!(".{stamp}"));
        fs::rename(&self.path, old)?;
        self.file = append(&self.path)?;
        self.size = 0;
        let files = super::files(&self.path)?;
        for surplus in files.iter().take(files.len().saturating_sub(self.max_files.max(1))) {
            fs::remove_file(surplus)?;
        }
        Ok(())
    }
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}
