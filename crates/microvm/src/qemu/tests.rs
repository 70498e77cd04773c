//! Tests of the command line.

use super::*;

#[test]
fn commas_in_paths_are_doubled_and_drives_keep_their_order() {
    let drive = |serial: &str, path: &str| Drive { serial: serial.to_owned(), path: path.into() };
    let guest = Guest {
        name: "sw-1".to_owned(),
        acceleration: Acceleration::Tcg,
        cpus: 2,
        memory_mib: 256,
        kernel: "/k".into(),
        initramfs: Some("/i".into()),
        command_line: "quiet",
        network: true,
        drives: vec![drive("cidata", "/a,b/seed"), drive("join", "/join"), drive("image0", "/x.tar")],
        console: "/a,b/console".into(),
        log: "/log".into(),
    };
    let line: Vec<String> = arguments(&guest).iter().map(|one| one.to_string_lossy().into_owned()).collect();
    let at = |text: &str| line.iter().position(|one| one == text);
    assert!(at("file=/a,,b/seed,if=none,id=d0,format=raw,readonly=on").is_some());
    assert!(at("file,id=console,append=on,path=/a,,b/console").is_some());
    let serials = ["cidata", "join", "image0"].map(|serial| {
        line.iter().position(|one| one.ends_with(&format!("serial={serial}"))).expect("the drive is there")
    });
    assert!(serials.is_sorted());
    assert!(at(&name_argument("sw-1")).is_some());
    assert!(at("user,id=n0,ipv6=off").is_some());
    let bare = Guest { network: false, drives: vec![], ..guest };
    assert!(!arguments(&bare).iter().any(|one| one == "-netdev" || one == "-drive"));
}
