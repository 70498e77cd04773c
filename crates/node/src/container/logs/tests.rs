//! Logs are written, rotated and read as the log subresource wants them.

use std::path::Path;
use std::time::Duration;

use futures_util::StreamExt;
use tokio::sync::watch;

use super::format::{Filter, Formatter, parse_line};
use super::{LogOptions, LogStream, LogWriter, Stream, files, path, read};

const INTERVAL: Duration = Duration::from_millis(5);
const PATIENCE: Duration = Duration::from_secs(20);

async fn all(mut stream: LogStream) -> String {
    let mut text = Vec::new();
    while let Some(piece) = tokio::time::timeout(PATIENCE, stream.next()).await.expect("the log ends") {
        text.extend_from_slice(&piece.unwrap());
    }
    String::from_utf8(text).unwrap()
}

async fn text(log: &Path, options: LogOptions) -> String {
    let (_sender, ended) = watch::channel(true);
    all(read(log, options, ended, INTERVAL).await.unwrap()).await
}

fn log_of(directory: &Path, lines: usize, max_bytes: u64) -> std::path::PathBuf {
    let log = path(directory, "default", "web", "1-2", "main", 3);
    let mut writer = LogWriter::open(&log, max_bytes, 3).unwrap();
    for line in 0..lines {
        writer.write(Stream::Stdout, format!("line {line}\n").as_bytes()).unwrap();
    }
    log
}

#[test]
fn the_path_is_the_one_that_log_collectors_expect() {
    let log = path(Path::new("/var/log/pods"), "default", "web", "1-2", "main", 3);
    assert_eq!(log, Path::new("/var/log/pods/default_web_1-2/main/3.log"));
}

#[tokio::test]
async fn lines_carry_time_and_stream_and_the_last_needs_no_newline() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("0.log");
    let mut writer = LogWriter::open(&log, 1 << 20, 5).unwrap();
    writer.write(Stream::Stdout, b"one\ntw").unwrap();
    writer.write(Stream::Stderr, b"bad\n").unwrap();
    writer.write(Stream::Stdout, b"o\nend").unwrap();
    writer.finish().unwrap();
    let raw = std::fs::read_to_string(&log).unwrap();
    let lines: Vec<_> = raw.lines().map(|line| parse_line(line.as_bytes()).unwrap()).collect();
    let texts: Vec<_> = lines.iter().map(|line| (line.stream, line.full, line.text)).collect();
    let expected: [(Stream, bool, &[u8]); 4] = [
        (Stream::Stdout, true, b"one"),
        (Stream::Stderr, true, b"bad"),
        (Stream::Stdout, true, b"two"),
        (Stream::Stdout, true, b"end"),
    ];
    assert_eq!(texts, expected);
    assert_eq!(text(&log, LogOptions::default()).await, "one\nbad\ntwo\nend\n");
    let stderr = LogOptions { stream: Some(Stream::Stderr), ..LogOptions::default() };
    assert_eq!(text(&log, stderr).await, "bad\n");
}

#[tokio::test]
async fn long_lines_are_parted_and_joined_again() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("0.log");
    let long = "x".repeat(40_000);
    let mut writer = LogWriter::open(&log, 1 << 20, 5).unwrap();
    writer.write(Stream::Stdout, format!("{long}\nshort\n").as_bytes()).unwrap();
    let raw = std::fs::read_to_string(&log).unwrap();
    assert_eq!(raw.lines().filter(|line| line.contains(" stdout P ")).count(), 2);
    assert_eq!(text(&log, LogOptions::default()).await, format!("{long}\nshort\n"));
    // One time at the beginning of the joined line.
    let with_times = text(&log, LogOptions { timestamps: true, ..LogOptions::default() }).await;
    assert_eq!(with_times.lines().count(), 2);
    for line in with_times.lines() {
        assert!(line.split_once(' ').unwrap().0.parse::<jiff::Timestamp>().is_ok(), "{}", &line[..40]);
    }
}

#[tokio::test]
async fn files_are_rotated_and_read_as_one() {
    let directory = tempfile::tempdir().unwrap();
    let log = log_of(directory.path(), 100, 1000);
    let sizes: Vec<_> = files(&log).unwrap().iter().map(|file| file.metadata().unwrap().len()).collect();
    assert_eq!(sizes.len(), 3);
    assert!(sizes.iter().all(|size| *size <= 1000), "{sizes:?}");
    let text = text(&log, LogOptions::default()).await;
    assert!(text.ends_with("line 98\nline 99\n"));
    // The oldest are gone; what is left has no gap.
    let first: usize = text.lines().next().unwrap()["line ".len()..].parse().unwrap();
    let expected: String = (first..100).map(|line| format!("line {line}\n")).collect();
    assert_eq!(text, expected);
    assert!(first > 0);
}

#[tokio::test]
async fn the_tail_reaches_over_files() {
    let directory = tempfile::tempdir().unwrap();
    let log = log_of(directory.path(), 100, 1000);
    for (tail, first) in [(1, 99), (20, 80), (35, 65)] {
        let options = LogOptions { tail_lines: Some(tail), ..LogOptions::default() };
        let expected: String = (first..100).map(|line| format!("line {line}\n")).collect();
        assert_eq!(text(&log, options).await, expected);
    }
    assert_eq!(text(&log, LogOptions { tail_lines: Some(0), ..LogOptions::default() }).await, "");
    let everything = text(&log, LogOptions { tail_lines: Some(1000), ..LogOptions::default() }).await;
    assert_eq!(everything, text(&log, LogOptions::default()).await);
}

#[tokio::test]
async fn bytes_are_limited_and_old_lines_left_out() {
    let directory = tempfile::tempdir().unwrap();
    let log = log_of(directory.path(), 3, 1 << 20);
    assert_eq!(text(&log, LogOptions { limit_bytes: Some(9), ..LogOptions::default() }).await, "line 0\nli");
    let hour = jiff::SignedDuration::from_hours(1);
    let later = LogOptions { since: Some(jiff::Timestamp::now() + hour), ..LogOptions::default() };
    assert_eq!(text(&log, later).await, "");
    let earlier = LogOptions { since: Some(jiff::Timestamp::now() - hour), ..LogOptions::default() };
    assert_eq!(text(&log, earlier).await, "line 0\nline 1\nline 2\n");
}

#[tokio::test]
async fn following_goes_on_over_rotations_until_the_container_ends() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("0.log");
    let mut writer = LogWriter::open(&log, 400, 100).unwrap();
    let (sender, ended) = watch::channel(false);
    writer.write(Stream::Stdout, b"line 0\n").unwrap();
    let mut stream = read(&log, LogOptions { follow: true, ..LogOptions::default() }, ended, INTERVAL).await.unwrap();
    let first = tokio::time::timeout(PATIENCE, stream.next()).await.unwrap().unwrap().unwrap();
    assert_eq!(&first[..], b"line 0\n");
    for line in 1..200 {
        writer.write(Stream::Stdout, format!("line {line}\n").as_bytes()).unwrap();
        if line % 50 == 0 {
            tokio::task::yield_now().await;
        }
    }
    sender.send_replace(true);
    let expected: String = (1..200).map(|line| format!("line {line}\n")).collect();
    assert_eq!(all(stream).await, expected);
}

#[tokio::test]
async fn following_with_a_limit_ends_at_the_limit() {
    let directory = tempfile::tempdir().unwrap();
    let log = log_of(directory.path(), 3, 1 << 20);
    let (_sender, ended) = watch::channel(false);
    let options = LogOptions { follow: true, limit_bytes: Some(6), ..LogOptions::default() };
    assert_eq!(all(read(&log, options, ended, INTERVAL).await.unwrap()).await, "line 0");
}

#[tokio::test]
async fn a_log_that_does_not_exist_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let (_sender, ended) = watch::channel(true);
    let missing = read(&directory.path().join("0.log"), LogOptions::default(), ended, INTERVAL).await;
    assert_eq!(missing.err().map(|error| error.kind()), Some(std::io::ErrorKind::NotFound));
}

#[test]
fn what_is_no_log_line_is_left_out() {
    let mut formatter = Formatter::new(Filter::default());
    let mut out = Vec::new();
    formatter.feed(b"garbage\n2026-01-01T00:00:00Z stdout F good\n2026-01-01T00:00:00Z nowhere F bad\n", &mut out);
    formatter.feed(&vec![b'x'; 1 << 20], &mut out);
    formatter.feed(b"\n2026-01-01T00:00:00Z stdout F \n", &mut out);
    assert_eq!(out, b"good\n\n");
}
