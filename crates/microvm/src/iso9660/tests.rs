//! Tests of the image's structure; the integration tests mount one in a real kernel.
#![allow(clippy::unwrap_used)]

use super::*;

fn sector(image: &[u8], number: u32) -> &[u8] {
    &image[number as usize * SECTOR..][..SECTOR]
}

fn le32(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes[..4].try_into().unwrap())
}

/// Name, extent and length of each record.
fn records(directory: &[u8]) -> Vec<(Vec<u8>, u32, u32)> {
    let (mut out, mut at) = (Vec::new(), 0);
    while directory[at] != 0 {
        let record = &directory[at..at + directory[at] as usize];
        out.push((record[33..33 + record[32] as usize].to_vec(), le32(&record[2..]), le32(&record[10..])));
        at += record.len();
    }
    out
}

#[test]
fn both_trees_lead_to_the_files() {
    let long = vec![b'x'; SECTOR + 1];
    let files = [File { name: "user-data", content: b"hello" }, File { name: "meta-data", content: &long }];
    let image = image("cidata", &files).unwrap();
    assert_eq!(image.len() % SECTOR, 0);
    assert_eq!(&sector(&image, 16)[..7], b"\x01CD001\x01");
    assert_eq!(&sector(&image, 16)[40..48], b"cidata  ");
    assert_eq!(&sector(&image, 17)[88..91], b"%/E");
    assert_eq!(&sector(&image, 18)[..6], b"\xffCD001");
    assert_eq!(le32(&sector(&image, 16)[80..]) as usize * SECTOR, image.len());

    let joliet = records(sector(&image, le32(&sector(&image, 17)[158..])));
    let name: Vec<u8> = "user-data".encode_utf16().flat_map(u16::to_be_bytes).collect();
    let (_, extent, length) = joliet.iter().find(|record| record.0 == name).unwrap();
    assert_eq!(&sector(&image, *extent)[..*length as usize], b"hello");

    let primary = sector(&image, le32(&sector(&image, 16)[158..]));
    assert_eq!(records(primary).len(), 4);
    assert!(primary.windows(9).any(|window| window == b"meta-data"), "Rock Ridge holds the name");
    let extents: Vec<(u32, u32)> = records(primary)[2..].iter().map(|record| (record.1, record.2)).collect();
    let mut same: Vec<(u32, u32)> = joliet[2..].iter().map(|record| (record.1, record.2)).collect();
    same.sort_unstable();
    let mut extents = extents;
    extents.sort_unstable();
    assert_eq!(extents, same);
}

#[test]
fn too_many_or_too_long_names_are_refused() {
    let name = "n".repeat(300);
    assert!(image("cidata", &[File { name: &name, content: b"" }]).is_none());
    let names: Vec<String> = (0..40).map(|index| format!("file-{index}")).collect();
    let files: Vec<File<'_>> = names.iter().map(|name| File { name, content: b"" }).collect();
    assert!(image("cidata", &files).is_none());
}
