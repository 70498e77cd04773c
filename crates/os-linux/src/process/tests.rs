//! Tests of detached processes, with `sleep` and `sh` as the process.
#![allow(clippy::unwrap_used)]

use super::*;
use std::process::Stdio;

const LONG: Duration = Duration::from_secs(30);
const OPTIONS: DetachedOptions = DetachedOptions { max_file_bytes: 4096 };

fn quiet(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

#[test]
fn a_detached_process_has_its_own_session_and_is_known_by_start_time() {
    let process = spawn_detached(&mut quiet("sleep", &["600"]), OPTIONS).unwrap();
    let id = process.id();
    let stat = fs::read_to_string(format!("/proc/{}/stat", id.pid)).unwrap();
    let session = stat.rsplit_once(')').unwrap().1.split_ascii_whitespace().nth(3).unwrap().to_owned();
    assert_eq!(session, id.pid.to_string());

    assert_eq!(Process::open(id).unwrap().map(|held| held.id()), Some(id));
    let other = ProcessId { start_ticks: id.start_ticks + 1, ..id };
    assert!(Process::open(other).unwrap().is_none(), "another start time is another process");

    assert!(!process.wait_ended(Duration::ZERO).unwrap());
    process.terminate().unwrap();
    assert!(process.wait_ended(LONG).unwrap());
    assert!(Process::open(id).unwrap().is_none(), "a zombie is gone");
    assert_eq!(process.reap(), Some(Ended::Signalled(libc::SIGTERM)));
    assert_eq!(process.reap(), None);
    process.kill().unwrap();
}

#[test]
fn an_exit_code_is_collected() {
    let process = spawn_detached(&mut quiet("sh", &["-c", "exit 7"]), OPTIONS).unwrap();
    assert!(process.wait_ended(LONG).unwrap());
    let ended = process.reap().unwrap();
    assert_eq!((ended, ended.to_string().as_str()), (Ended::Exited(7), "exited with code 7"));
}

#[test]
fn files_are_capped_and_the_process_lives_on() {
    let file = tempfile_path();
    let script = format!("head -c 100000 /dev/zero > '{}' 2>/dev/null; exit 3", file.display());
    let process = spawn_detached(&mut quiet("sh", &["-c", &script]), OPTIONS).unwrap();
    assert!(process.wait_ended(LONG).unwrap());
    assert_eq!(process.reap(), Some(Ended::Exited(3)));
    let length = fs::metadata(&file).unwrap().len();
    fs::remove_file(&file).unwrap();
    assert_eq!(length, 4096);
}

#[test]
fn inherited_descriptors_end_here() {
    use std::os::fd::AsRawFd;
    let file = fs::File::open("/dev/null").unwrap();
    rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).unwrap();
    let script = format!("test -e /proc/self/fd/{}", file.as_raw_fd());
    let plain = quiet("sh", &["-c", &script]).status().unwrap();
    assert!(plain.success(), "a plain child inherits it");
    let process = spawn_detached(&mut quiet("sh", &["-c", &script]), OPTIONS).unwrap();
    assert!(process.wait_ended(LONG).unwrap());
    assert_eq!(process.reap(), Some(Ended::Exited(1)));
}

fn tempfile_path() -> std::path::PathBuf {
    std::env::temp_dir().join(format!("os-linux-cap-{}", std::process::id()))
}

#[test]
fn processes_are_found_by_a_whole_argument() {
    let mark = format!("{}.25", 100_000 + std::process::id());
    let process = spawn_detached(&mut quiet("sleep", &[&mark]), OPTIONS).unwrap();
    // The child shows its own arguments only after exec, which `spawn` has waited for.
    assert_eq!(find_by_argument(&mark).unwrap(), [process.id()]);
    assert_eq!(find_by_argument(&mark[..mark.len() - 1]).unwrap(), []);
    process.kill().unwrap();
    assert!(process.wait_ended(LONG).unwrap());
    assert_eq!(find_by_argument(&mark).unwrap(), []);
    assert_eq!(process.reap(), Some(Ended::Signalled(libc::SIGKILL)));
}

#[test]
fn a_program_name_may_hold_parentheses() {
    let line = "12 (a) b) R) S 1 12 12 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 987654 1 2";
    let stat = parse_stat(line).unwrap();
    assert_eq!((stat.state, stat.start_ticks), (b'S', 987_654));
    assert!(parse_stat("12 (sh").is_none());
    assert!(parse_stat("").is_none());
}

#[test]
fn this_boot_and_this_process_are_known() {
    assert_eq!(boot_id().unwrap(), boot_id().unwrap());
    assert!(start_ticks(std::process::id()).unwrap().is_some());
    assert!(start_ticks(u32::MAX).unwrap().is_none());
    assert!(Process::open(ProcessId { pid: 0, start_ticks: 0 }).unwrap().is_none());
}
