//! Drives, seeds and module lists without a machine.

use super::drives::{images, parse_join_secret, parse_user_data};
use super::iso::read_root_file;
use super::modules::Modules;
use std::io::Cursor;

/// A minimal image: descriptors at 16.., root directory at 20, file at 21.
fn image(joliet: bool, name: &[u8], rock_ridge: &[u8], content: &[u8]) -> Vec<u8> {
    let mut image = vec![0u8; 2048 * 24];
    let mut descriptor = |sector: usize, kind: u8, escape: &[u8]| {
        let at = sector * 2048;
        image[at] = kind;
        image[at + 1..at + 6].copy_from_slice(b"CD001");
        image[at + 88..at + 88 + escape.len()].copy_from_slice(escape);
        image[at + 158..at + 162].copy_from_slice(&20u32.to_le_bytes());
        image[at + 166..at + 170].copy_from_slice(&2048u32.to_le_bytes());
    };
    descriptor(16, 1, b"");
    if joliet {
        descriptor(17, 2, b"%/E");
    } else {
        descriptor(17, 255, b"");
    }
    descriptor(18, 255, b"");
    let mut record = vec![0u8; 33];
    record[2..6].copy_from_slice(&21u32.to_le_bytes());
    record[10..14].copy_from_slice(&u32::try_from(content.len()).unwrap().to_le_bytes());
    record[32] = u8::try_from(name.len()).unwrap();
    record.extend_from_slice(name);
    if name.len().is_multiple_of(2) {
        record.push(0);
    }
    record.extend_from_slice(rock_ridge);
    record[0] = u8::try_from(record.len()).unwrap();
    let mut directory = vec![34u8];
    directory.extend_from_slice(&[0; 31]);
    directory.extend_from_slice(&[1, 0]);
    directory[25] = 2;
    directory.extend_from_slice(&record);
    image[20 * 2048..20 * 2048 + directory.len()].copy_from_slice(&directory);
    image[21 * 2048..21 * 2048 + content.len()].copy_from_slice(content);
    image
}

#[test]
fn a_file_is_found_by_each_kind_of_name() {
    let wide: Vec<u8> = "user-data".encode_utf16().flat_map(u16::to_be_bytes).collect();
    let mut nm = b"NM".to_vec();
    nm.extend_from_slice(&[14, 1, 0]);
    nm.extend_from_slice(b"user-data");
    for image in [
        image(true, &wide, b"", b"hello"),
        image(false, b"USER_DAT.;1", &nm, b"hello"),
        image(false, b"USER-DATA.;1", b"", b"hello"),
    ] {
        assert_eq!(read_root_file(&mut Cursor::new(image), "user-data", 10).unwrap(), b"hello");
    }
}

#[test]
fn broken_images_are_errors() {
    let good = image(false, b"USER-DATA.;1", b"", b"hello");
    assert!(read_root_file(&mut Cursor::new(good.clone()), "user-data", 4).is_err(), "over the limit");
    assert!(read_root_file(&mut Cursor::new(good.clone()), "meta-data", 4).is_err(), "absent");
    for cut in [0, 100, 16 * 2048, 20 * 2048, 21 * 2048 + 2] {
        assert!(read_root_file(&mut Cursor::new(&good[..cut]), "user-data", 10).is_err(), "cut at {cut}");
    }
    // Any single byte may be wrong: an error or an answer, never a panic.
    for at in (16 * 2048..20 * 2048 + 100).step_by(7) {
        for value in [0, 1, 127, 255] {
            let mut broken = good.clone();
            broken[at] = value;
            let _ = read_root_file(&mut Cursor::new(broken), "user-data", 10);
        }
    }
}

#[test]
fn user_data_needs_its_header() {
    let config = serde_json::json!({
        "server": "https://10.0.2.2:6443", "cluster": "c", "nodeName": "n", "certificateAuthority": "ca",
        "podCidr": "10.244.0.0/24", "serviceCidr": "10.96.0.0/16", "clusterDns": "10.96.0.10",
        "clusterDomain": "cluster.local",
    });
    let good = format!("#socialweb-node\n{config}");
    assert_eq!(parse_user_data(good.as_bytes()).unwrap().node_name, "n");
    assert!(parse_user_data(config.to_string().as_bytes()).is_err());
    assert!(parse_user_data(b"#cloud-config\n{}").is_err());
}

#[test]
fn the_join_secret_is_zero_padded_and_never_shown() {
    let mut data = br#"{"token":"secret"}"#.to_vec();
    data.resize(512, 0);
    assert_eq!(parse_join_secret(&data).unwrap().token, "secret");
    let error = parse_join_secret(br#"{"token":"secret","#).unwrap_err();
    assert!(!error.to_string().contains("secret\""));
    assert!(parse_join_secret(&[0; 512]).is_err());
}

#[test]
fn images_are_ordered_by_number() {
    let drives = ["image10", "image2", "cidata", "imagex"].map(|s| (s.to_owned(), s.into())).into();
    assert_eq!(images(&drives), [std::path::PathBuf::from("image2"), "image10".into()]);
}

#[test]
fn module_sets_are_lists_of_files() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("order-pod"), "a.ko\n\nsub/b.ko\n").unwrap();
    let modules = Modules::new(dir.path());
    assert_eq!(modules.files("pod").unwrap(), [dir.path().join("a.ko"), dir.path().join("sub/b.ko")]);
    assert!(modules.files("absent").unwrap().is_empty());
    assert!(modules.load("absent").is_ok());
    assert!(modules.load("pod").is_err(), "the files do not exist");
}
