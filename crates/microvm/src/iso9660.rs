//! Writes a small ISO 9660 image with one flat directory: Rock Ridge names in the primary volume,
//! Joliet names in a supplementary one, so that every reader finds `user-data`.
//!
//! Layout in sectors of 2048 bytes: 16 primary, 17 supplementary, 18 terminator, 19-22 path tables,
//! 23 and 24 the two root directories, then the files.

#[cfg(test)]
mod tests;

const SECTOR: usize = 2048;
const PATH_TABLES: u32 = 19;
const ROOT: u32 = 23;
const JOLIET_ROOT: u32 = 24;
const FILES: u32 = 25;

/// A file of the image.
pub(crate) struct File<'a> {
    /// Its name, as a Linux guest sees it.
    pub name: &'a str,
    /// Its content.
    pub content: &'a [u8],
}

/// The image, or `None` when the names do not fit into one sector of directory.
pub(crate) fn image(label: &str, files: &[File<'_>]) -> Option<Vec<u8>> {
    let mut extents = Vec::new();
    let mut next = FILES;
    for file in files {
        extents.push(next);
        next = next.checked_add(u32::try_from(file.content.len().div_ceil(SECTOR)).ok()?)?;
    }
    let total = next;
    let mut image = vec![0; 16 * SECTOR];
    image.extend(descriptor(label, total, false));
    image.extend(descriptor(label, total, true));
    let mut end = vec![0; SECTOR];
    end[..7].copy_from_slice(b"\xffCD001\x01");
    image.extend(end);
    for (root, big_endian) in [(ROOT, false), (ROOT, true), (JOLIET_ROOT, false), (JOLIET_ROOT, true)] {
        image.extend(path_table(root, big_endian));
    }
    image.extend(directory(files, &extents, false)?);
    image.extend(directory(files, &extents, true)?);
    for file in files {
        image.extend_from_slice(file.content);
        image.resize(image.len().next_multiple_of(SECTOR), 0);
    }
    Some(image)
}

fn descriptor(label: &str, total: u32, joliet: bool) -> Vec<u8> {
    let mut out = vec![0; SECTOR];
    out[0] = if joliet { 2 } else { 1 };
    out[1..7].copy_from_slice(b"CD001\x01");
    let (root, tables) = if joliet { (JOLIET_ROOT, PATH_TABLES + 2) } else { (ROOT, PATH_TABLES) };
    // Identifier fields: system, volume, then from 190 on set, publisher, preparer and application.
    for range in [8..40, 40..72, 190..813] {
        fill(&mut out[range], joliet);
    }
    let label: Vec<u8> =
        if joliet { label.encode_utf16().flat_map(u16::to_be_bytes).collect() } else { label.bytes().collect() };
    let length = label.len().min(32);
    out[40..40 + length].copy_from_slice(&label[..length]);
    out[80..88].copy_from_slice(&both32(total));
    if joliet {
        out[88..91].copy_from_slice(b"%/E");
    }
    out[120..124].copy_from_slice(&both16(1));
    out[124..128].copy_from_slice(&both16(1));
    out[128..132].copy_from_slice(&both16(SECTOR as u16));
    out[132..140].copy_from_slice(&both32(10));
    out[140..144].copy_from_slice(&tables.to_le_bytes());
    out[148..152].copy_from_slice(&(tables + 1).to_be_bytes());
    out[156..190].copy_from_slice(&record(&[0], root, SECTOR as u32, true, &[]));
    // Dates: no date is sixteen digits zero and a zero offset.
    for start in [813, 830, 847, 864] {
        out[start..start + 16].fill(b'0');
    }
    out[881] = 1;
    out
}

fn fill(field: &mut [u8], joliet: bool) {
    for (index, byte) in field.iter_mut().enumerate() {
        *byte = if joliet && index % 2 == 0 { 0 } else { b' ' };
    }
}

fn path_table(root: u32, big_endian: bool) -> Vec<u8> {
    let mut out = vec![0; SECTOR];
    out[0] = 1;
    out[2..6].copy_from_slice(&if big_endian { root.to_be_bytes() } else { root.to_le_bytes() });
    out[6..8].copy_from_slice(&if big_endian { 1u16.to_be_bytes() } else { 1u16.to_le_bytes() });
    out
}

fn directory(files: &[File<'_>], extents: &[u32], joliet: bool) -> Option<Vec<u8>> {
    let root = if joliet { JOLIET_ROOT } else { ROOT };
    // The first record announces the system use sharing protocol, which Rock Ridge rides on.
    let sharing: &[u8] = if joliet { &[] } else { b"SP\x07\x01\xbe\xef\x00" };
    let mut out = record(&[0], root, SECTOR as u32, true, sharing);
    out.extend(record(&[1], root, SECTOR as u32, true, &[]));
    let mut order: Vec<usize> = (0..files.len()).collect();
    order.sort_by_key(|index| files[*index].name);
    for index in order {
        let file = &files[index];
        let length = u32::try_from(file.content.len()).ok()?;
        let (name, extra) = if joliet {
            (file.name.encode_utf16().flat_map(u16::to_be_bytes).collect(), Vec::new())
        } else {
            (format!("FILE{index}.;1").into_bytes(), rock_ridge(file.name)?)
        };
        if 34 + name.len() + extra.len() > 250 {
            return None;
        }
        out.extend(record(&name, extents[index], length, false, &extra));
    }
    if out.len() > SECTOR {
        return None;
    }
    out.resize(SECTOR, 0);
    Some(out)
}

/// A regular file that all may read, and its name.
fn rock_ridge(name: &str) -> Option<Vec<u8>> {
    let mut out = b"PX\x24\x01".to_vec();
    for value in [0o100_444, 1, 0, 0] {
        out.extend(both32(value));
    }
    out.extend([b'N', b'M', u8::try_from(5 + name.len()).ok()?, 1, 0]);
    out.extend(name.bytes());
    Some(out)
}

fn record(name: &[u8], extent: u32, length: u32, is_directory: bool, extra: &[u8]) -> Vec<u8> {
    let mut out = vec![0; 33];
    out[2..10].copy_from_slice(&both32(extent));
    out[10..18].copy_from_slice(&both32(length));
    // 1 January 1970: an image says nothing about when it was made.
    out[18..25].copy_from_slice(&[70, 1, 1, 0, 0, 0, 0]);
    out[25] = if is_directory { 2 } else { 0 };
    out[28..32].copy_from_slice(&both16(1));
    out[32] = name.len() as u8;
    out.extend_from_slice(name);
    if out.len() % 2 == 1 {
        out.push(0);
    }
    out.extend_from_slice(extra);
    if out.len() % 2 == 1 {
        out.push(0);
    }
    out[0] = out.len() as u8;
    out
}

fn both16(value: u16) -> [u8; 4] {
    let ([a, b], [c, d]) = (value.to_le_bytes(), value.to_be_bytes());
    [a, b, c, d]
}

fn both32(value: u32) -> [u8; 8] {
    let mut out = [0; 8];
    out[..4].copy_from_slice(&value.to_le_bytes());
    out[4..].copy_from_slice(&value.to_be_bytes());
    out
}
