//! Tests of the record and the verdict.
#![allow(clippy::unwrap_used)]

use super::*;

fn record() -> Record {
    let process = Some(RecordedProcess { pid: 7, start_ticks: 70 });
    Record { boot_id: "this".to_owned(), process, timings: Timings::default(), lost: None }
}

#[test]
fn the_verdict_is_lost_only_when_that_is_certain() {
    let this = Ok("this".to_owned());
    assert_eq!(judge(&Ok(Some(record())), &this), Verdict::Hold(ProcessId { pid: 7, start_ticks: 70 }));
    assert_eq!(judge(&Ok(Some(Record { process: None, ..record() })), &this), Verdict::Search);
    assert!(matches!(judge(&Ok(Some(record())), &Ok("another".to_owned())), Verdict::Lost(_)));
    assert!(matches!(judge(&Ok(None), &this), Verdict::Lost(_)));
    let unreadable = Err(std::io::Error::other("no /proc"));
    assert!(matches!(judge(&Ok(Some(record())), &unreadable), Verdict::Unknown(_)));
    let damaged = Err(Error::Kernel("any".to_owned()));
    assert!(matches!(judge(&damaged, &this), Verdict::Unknown(_)));
    let lost = Record { lost: Some("fatal words".to_owned()), ..record() };
    assert_eq!(judge(&Ok(Some(lost)), &unreadable), Verdict::Lost("fatal words".to_owned()));
}

#[test]
fn a_record_survives_its_file_and_damage_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("record.json");
    assert_eq!(Record::read(&path).unwrap(), None);
    record().write(&path).unwrap();
    assert_eq!(Record::read(&path).unwrap(), Some(record()));
    fs::write(&path, "{").unwrap();
    assert!(Record::read(&path).is_err());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing unfinished stays");
}
