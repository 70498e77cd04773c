//! Tests of the archive and of the check of the agent.
#![allow(clippy::unwrap_used)]

use super::*;

#[test]
fn entries_are_aligned_and_named() {
    let mut archive = Archive::default();
    archive.add("dev", DIRECTORY, b"");
    archive.add("init", EXECUTABLE, b"12345");
    let bytes = archive.finish();
    assert_eq!(bytes.len() % 512, 0);
    let (mut at, mut seen) = (0, Vec::new());
    loop {
        let header = std::str::from_utf8(&bytes[at..at + 110]).unwrap();
        assert!(header.starts_with("070701"));
        let field = |index: usize| usize::from_str_radix(&header[6 + index * 8..][..8], 16).unwrap();
        let name_end = at + 110 + field(11);
        let name = std::str::from_utf8(&bytes[at + 110..name_end - 1]).unwrap();
        if name == "TRAILER!!!" {
            break;
        }
        let start = name_end.next_multiple_of(4);
        seen.push((name.to_owned(), field(1), bytes[start..start + field(6)].to_vec()));
        at = (start + field(6)).next_multiple_of(4);
    }
    assert_eq!(seen, [("dev".to_owned(), 0o040_755, vec![]), ("init".to_owned(), 0o100_755, b"12345".to_vec())]);
}

#[test]
fn an_agent_that_cannot_be_pid_1_is_refused_with_a_reason() {
    let dir = tempfile::tempdir().unwrap();
    let why = |path: &Path| read_agent(path).unwrap_err().to_string();
    assert!(why(&dir.path().join("absent")).contains("No such file"));
    assert!(why(dir.path()).contains("not a file"));
    let script = dir.path().join("script");
    fs::write(&script, "#!/bin/sh\n").unwrap();
    assert!(why(&script).contains("not an x86-64"));
    // This very test is linked dynamically.
    assert!(why(&std::env::current_exe().unwrap()).contains("dynamically"));
}

#[test]
fn only_the_newest_archives_stay() {
    let dir = tempfile::tempdir().unwrap();
    let paths: Vec<PathBuf> = (0..4).map(|index| dir.path().join(index.to_string())).collect();
    for (index, path) in paths.iter().enumerate() {
        let file = fs::File::create(path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(index as u64)).unwrap();
    }
    prune(dir.path(), &paths[0], 2).unwrap();
    let left: Vec<bool> = paths.iter().map(|path| path.exists()).collect();
    assert_eq!(left, [true, false, false, true]);
}
