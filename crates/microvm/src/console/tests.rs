//! Tests of reading a console.
#![allow(clippy::unwrap_used)]

use super::*;
use std::io::Write;

fn words(parts: &[&[u8]]) -> Words {
    let mut scanner = Scanner::default();
    for part in parts {
        scanner.feed(part);
    }
    scanner.end();
    scanner.words
}

#[test]
fn words_are_found_in_any_place_and_in_pieces() {
    let ready = words(&[b"\x1b[2J\x1bcsocialweb-no", b"de: ready\r\n", b"later\r\n"]);
    assert_eq!(ready, Words { ready: true, fatal: None, last: "later".to_owned() });
    let fatal = words(&[b"x socialweb-node: fatal: no route\n[ 1.0] Kernel panic - not syncing: init\n"]);
    assert_eq!(fatal.fatal.as_deref(), Some("socialweb-node: fatal: no route"), "the first words count");
    let panic = words(&[b"[    1.5] Kernel panic - not syncing: Attempted to kill init!"]);
    assert_eq!(panic.fatal.as_deref(), Some("Kernel panic - not syncing: Attempted to kill init!"));
    assert_eq!(words(&[b"", b"\n\r\n"]), Words::default());
}

#[test]
fn a_line_without_end_takes_bounded_memory() {
    let mut scanner = Scanner::default();
    for _ in 0..100 {
        scanner.feed(&[b'x'; 1000]);
    }
    assert_eq!(scanner.line.len(), MAX_LINE);
    scanner.feed(b"\nsocialweb-node: ready\n");
    assert!(scanner.words.ready);
}

#[test]
fn a_growing_file_is_followed_and_cut() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("console.log");
    let mut file = OpenOptions::new().create(true).append(true).open(&path).unwrap();
    let mut scanner = Scanner::default();
    file.write_all(b"socialweb-node: rea").unwrap();
    scanner.look(&path, 1000).unwrap();
    assert!(!scanner.words.ready);
    file.write_all(b"dy").unwrap();
    scanner.look(&path, 1000).unwrap();
    assert!(scanner.words.ready, "without waiting for the end of the line");

    file.write_all(&vec![b'x'; 2000]).unwrap();
    scanner.look(&path, 1000).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), 0);
    assert_eq!(fs::metadata(path.with_extension("old")).unwrap().len(), 250);
    file.write_all(b"\nsocialweb-node: fatal: late\n").unwrap();
    scanner.look(&path, 1000).unwrap();
    assert_eq!(scanner.words.fatal.as_deref(), Some("socialweb-node: fatal: late"));
}
