//! A PID 1 for tests, compiled by the tests into a static binary: it finds its drives as the real
//! agent does, tells on the console what it sees, and then does what its seed says.

use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_int, c_long, c_ulong, c_void};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

unsafe extern "C" {
    fn mount(source: *const c_char, target: *const c_char, kind: *const c_char, flags: c_ulong, data: *const c_void) -> c_int;
    fn syscall(number: c_long, ...) -> c_long;
}

const FINIT_MODULE: c_long = 313;

fn attach(source: &str, target: &str, kind: &str, flags: c_ulong) {
    let text = |text: &str| CString::new(text).expect("no zero byte");
    let (source, target, kind) = (text(source), text(target), text(kind));
    let result = unsafe { mount(source.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, std::ptr::null()) };
    assert!(result == 0, "mount: {}", std::io::Error::last_os_error());
}

fn load(set: &str) {
    let order = fs::read_to_string(format!("/modules/order-{set}")).expect("an order file");
    for name in order.lines() {
        let file = File::open(format!("/modules/{name}")).expect("a module file");
        let result = unsafe { syscall(FINIT_MODULE, file.as_raw_fd(), c"".as_ptr(), 0) };
        let error = std::io::Error::last_os_error();
        assert!(result == 0 || error.raw_os_error() == Some(17), "module {name}: {error}");
    }
}

fn drives() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir("/sys/block").expect("sysfs").flatten() {
        if let Ok(serial) = fs::read_to_string(entry.path().join("serial")) {
            found.insert(serial.trim().to_owned(), entry.file_name().to_string_lossy().into_owned());
        }
    }
    found
}

fn main() {
    attach("devtmpfs", "/dev", "devtmpfs", 0);
    attach("proc", "/proc", "proc", 0);
    attach("sysfs", "/sys", "sysfs", 0);
    let mut console = File::options().write(true).open("/dev/console").expect("a console");
    let mut say = |line: String| {
        let _ = console.write_all(format!("{line}\n").as_bytes());
    };
    load("base");
    let start = Instant::now();
    while drives().len() < 2 && start.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let drives = drives();
    say(format!("test: drives {drives:?}"));
    say(format!("test: network {}", fs::exists("/sys/class/net/eth0").unwrap_or(false)));
    load("iso");
    fs::create_dir("/seed").expect("a directory");
    attach(&format!("/dev/{}", drives["cidata"]), "/seed", "iso9660", 1);
    let user_data = fs::read_to_string("/seed/user-data").expect("user data");
    say(format!("test: header {:?}", user_data.lines().next().unwrap_or_default()));
    let mut start = [0; 24];
    File::open(format!("/dev/{}", drives["join"])).and_then(|mut drive| drive.read_exact(&mut start)).expect("a join drive");
    // The secret itself is not for consoles.
    say(format!("test: join drive holds JSON {}", start.starts_with(b"{\"token\":")));
    if let Some(drive) = drives.get("image0") {
        let mut image = String::new();
        File::open(format!("/dev/{drive}")).and_then(|drive| drive.take(12).read_to_string(&mut image)).expect("an image");
        say(format!("test: image {image:?}"));
    }
    if user_data.contains("\"test\":\"fatal\"") {
        say("socialweb-node: fatal: told to fail".to_owned());
    } else if user_data.contains("\"test\":\"panic\"") {
        return;
    } else if user_data.contains("\"test\":\"modules\"") {
        for set in ["pod", "nft", "nft-filter"] {
            load(set);
            say(format!("test: loaded {set}"));
        }
        say("socialweb-node: ready".to_owned());
    } else {
        say("socialweb-node: ready".to_owned());
    }
    loop {
        std::thread::park();
    }
}
