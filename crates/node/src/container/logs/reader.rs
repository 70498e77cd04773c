//! Reads a log, also while it is written and rotated.

use std::io::{self, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio::sync::{mpsc, watch};

use super::files;
use super::format::{Filter, Formatter, Stream};

/// What of a log to show, as in `PodLogOptions`.
#[derive(Debug, Clone, Default)]
pub struct LogOptions {
    /// Go on with what is written later, until the container ends.
    pub follow: bool,
    /// Only so many last lines.
    pub tail_lines: Option<u64>,
    /// Only lines written then or later.
    pub since: Option<Timestamp>,
    /// Begin each line with its time.
    pub timestamps: bool,
    /// Only so many bytes.
    pub limit_bytes: Option<u64>,
    /// Only this stream.
    pub stream: Option<Stream>,
}

/// The text of a log. Dropping it ends the reading.
pub struct LogStream(mpsc::Receiver<io::Result<Bytes>>);

impl futures_util::Stream for LogStream {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context)
    }
}

/// Pieces read ahead of a slow client.
const BACKLOG: usize = 4;
const PIECE: usize = 32 << 10;

/// Opens a log. When following, `ended` turns true at the container's end, after its last line.
pub async fn read(
    path: &Path,
    options: LogOptions,
    ended: watch::Receiver<bool>,
    follow_interval: Duration,
) -> io::Result<LogStream> {
    let (start, offset) = {
        let (path, tail) = (path.to_owned(), options.tail_lines);
        blocking(move || start(&path, tail)).await?
    };
    let mut file = File::open(&start).await?;
    file.seek(SeekFrom::Start(offset)).await?;
    let (sender, receiver) = mpsc::channel(BACKLOG);
    let filter = Filter {
        since: options.since,
        timestamps: options.timestamps,
        stream: options.stream,
        limit_bytes: options.limit_bytes,
    };
    let reader = Reader {
        path: path.to_owned(),
        file,
        formatter: Formatter::new(filter),
        ended,
        sender,
        follow_interval,
        follow: options.follow,
    };
    tokio::spawn(reader.run());
    Ok(LogStream(receiver))
}

struct Reader {
    path: PathBuf,
    file: File,
    formatter: Formatter,
    ended: watch::Receiver<bool>,
    sender: mpsc::Sender<io::Result<Bytes>>,
    follow_interval: Duration,
    follow: bool,
}

impl Reader {
    async fn run(mut self) {
        if let Err(error) = self.copy().await {
            let _ = self.sender.send(Err(error)).await;
        }
    }

    async fn copy(&mut self) -> io::Result<()> {
        loop {
            // Seen before the end of the file, so that nothing written before the end is missed.
            let ended = *self.ended.borrow() || self.ended.has_changed().is_err();
            if !self.drain().await? {
                return Ok(());
            }
            if self.next_file().await? {
                continue;
            }
            if !self.follow || ended {
                return Ok(());
            }
            tokio::select! {
                () = tokio::time::sleep(self.follow_interval) => {}
                _ = self.ended.wait_for(|ended| *ended) => {}
                () = self.sender.closed() => return Ok(()),
            }
        }
    }

    /// Copies up to the end of the file; false if nobody wants more.
    async fn drain(&mut self) -> io::Result<bool> {
        let mut piece = vec![0; PIECE];
        loop {
            if self.formatter.done() {
                return Ok(false);
            }
            let count = self.file.read(&mut piece).await?;
            if count == 0 {
                return Ok(true);
            }
            let mut out = Vec::new();
            self.formatter.feed(&piece[..count], &mut out);
            if !out.is_empty() && self.sender.send(Ok(out.into())).await.is_err() {
                return Ok(false);
            }
        }
    }

    /// Goes on with the file after this one, if this one is no longer written.
    async fn next_file(&mut self) -> io::Result<bool> {
        let current = inode(&self.file.metadata().await?);
        let path = self.path.clone();
        let next = blocking(move || next(&path, current)).await?;
        let Some(next) = next else { return Ok(false) };
        // Written to between the last read and the rotation.
        if !self.drain().await? {
            return Ok(true);
        }
        match File::open(next).await {
            Ok(file) => {
                self.file = file;
                Ok(true)
            }
            // Rotated once more in between: look again.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
            Err(error) => Err(error),
        }
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

fn inode(metadata: &std::fs::Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// The file after the one with this inode; `None` if that one is still written or all are gone.
fn next(path: &Path, current: (u64, u64)) -> io::Result<Option<PathBuf>> {
    let files = match files(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        files => files?,
    };
    let is_current = |file: &PathBuf| std::fs::metadata(file).is_ok_and(|metadata| inode(&metadata) == current);
    Ok(match files.iter().position(is_current) {
        Some(index) => files.into_iter().nth(index + 1),
        // It was removed while it was read: the oldest one left follows.
        None => files.into_iter().next(),
    })
}

/// Where to begin so that only so many lines follow.
fn start(path: &Path, tail_lines: Option<u64>) -> io::Result<(PathBuf, u64)> {
    let files = files(path)?;
    let not_found = || io::Error::from(io::ErrorKind::NotFound);
    let Some(mut wanted) = tail_lines else {
        return Ok((files.into_iter().next().ok_or_else(not_found)?, 0));
    };
    for file in files.iter().rev() {
        match tail(file, &mut wanted)? {
            Some(offset) => return Ok((file.clone(), offset)),
            None => continue,
        }
    }
    Ok((files.into_iter().next().ok_or_else(not_found)?, 0))
}

/// The offset after which `wanted` lines follow; `None`, and `wanted` less, if there are fewer.
fn tail(file: &Path, wanted: &mut u64) -> io::Result<Option<u64>> {
    use std::io::{Read, Seek};
    let mut file = std::fs::File::open(file)?;
    let mut end = file.metadata()?.len();
    if *wanted == 0 {
        return Ok(Some(end));
    }
    let size = end;
    let mut piece = vec![0; PIECE];
    while end > 0 {
        let begin = end.saturating_sub(PIECE as u64);
        let count = usize::try_from(end - begin).unwrap_or(PIECE);
        file.seek(SeekFrom::Start(begin))?;
        file.read_exact(&mut piece[..count])?;
        for (index, _) in piece[..count].iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n') {
            let after = begin + index as u64 + 1;
            if after == size {
                continue; // ends the last line
            }
            *wanted -= 1;
            if *wanted == 0 {
                return Ok(Some(after));
            }
        }
        end = begin;
    }
    if size > 0 {
        *wanted -= 1; // the first line of the file
        if *wanted == 0 {
            return Ok(Some(0));
        }
    }
    Ok(None)
}
