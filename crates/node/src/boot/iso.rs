//! Reads one file from the root directory of an ISO 9660 image: Joliet names, else Rock Ridge
//! names, else plain ones. Nothing that the image says is trusted beyond a bound.

use std::io::{self, Read, Seek, SeekFrom};

const SECTOR: u64 = 2048;
/// Volume descriptors looked at.
const MAX_DESCRIPTORS: u64 = 32;
/// Largest root directory, bytes.
const MAX_DIRECTORY: u32 = 256 * 1024;

struct Volume {
    joliet: bool,
    extent: u32,
    size: u32,
}

/// Reads the file `name` of the root directory, up to `limit` bytes; a larger file is an error.
pub(crate) fn read_root_file<R: Read + Seek>(image: &mut R, name: &str, limit: usize) -> io::Result<Vec<u8>> {
    let volume = volume(image)?;
    if volume.size > MAX_DIRECTORY {
        return Err(bad("the root directory is too large"));
    }
    let directory = read_at(image, volume.extent, volume.size as usize)?;
    let mut at = 0;
    while at < directory.len() {
        let length = usize::from(directory[at]);
        if length == 0 {
            // Records do not cross sectors; the rest of this one is padding.
            at = (at / SECTOR as usize + 1) * SECTOR as usize;
            continue;
        }
        let record = directory.get(at..at + length).ok_or_else(|| bad("a directory record is cut off"))?;
        at += length;
        let Some(entry) = entry(record, volume.joliet) else { continue };
        if !entry.directory && entry.name.eq_ignore_ascii_case(name) {
            if entry.size as usize > limit {
                return Err(bad("the file is larger than allowed"));
            }
            return read_at(image, entry.extent, entry.size as usize);
        }
    }
    Err(io::Error::new(io::ErrorKind::NotFound, format!("the image has no file {name:?}")))
}

fn volume<R: Read + Seek>(image: &mut R) -> io::Result<Volume> {
    let mut primary = None;
    for index in 0..MAX_DESCRIPTORS {
        let sector = read_at(image, u32::try_from(16 + index).unwrap_or(u32::MAX), SECTOR as usize)?;
        if &sector[1..6] != b"CD001" {
            return Err(bad("not an ISO 9660 image"));
        }
        let root = &sector[156..190];
        let found = |joliet| Volume { joliet, extent: le32(&root[2..6]), size: le32(&root[10..14]) };
        match sector[0] {
            1 => primary = Some(found(false)),
            2 if matches!(&sector[88..91], b"%/@" | b"%/C" | b"%/E") => return Ok(found(true)),
            255 => break,
            _ => {}
        }
    }
    primary.ok_or_else(|| bad("no primary volume descriptor"))
}

struct Entry {
    name: String,
    directory: bool,
    extent: u32,
    size: u32,
}

fn entry(record: &[u8], joliet: bool) -> Option<Entry> {
    let fixed = record.get(..33)?;
    let length = usize::from(fixed[32]);
    let raw = record.get(33..33 + length)?;
    let name = if joliet {
        let units: Vec<u16> = raw.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
        String::from_utf16_lossy(&units)
    } else {
        let padded = 33 + length + usize::from(length % 2 == 0);
        rock_ridge(record.get(padded..).unwrap_or_default())
            .unwrap_or_else(|| String::from_utf8_lossy(raw).into_owned())
    };
    let name = name.split(';').next().unwrap_or_default().trim_end_matches('.').to_owned();
    Some(Entry { name, directory: fixed[25] & 2 != 0, extent: le32(&fixed[2..6]), size: le32(&fixed[10..14]) })
}

/// The alternate name in a record's system use area.
fn rock_ridge(mut area: &[u8]) -> Option<String> {
    let mut name = Vec::new();
    while let Some(head) = area.get(..4) {
        let length = usize::from(head[2]);
        let field = area.get(..length).filter(|field| field.len() >= 4)?;
        if &head[..2] == b"NM" {
            name.extend_from_slice(field.get(5..)?);
        }
        area = &area[length..];
    }
    if name.is_empty() { None } else { Some(String::from_utf8_lossy(&name).into_owned()) }
}

fn read_at<R: Read + Seek>(image: &mut R, sector: u32, length: usize) -> io::Result<Vec<u8>> {
    image.seek(SeekFrom::Start(u64::from(sector) * SECTOR))?;
    let mut data = vec![0; length];
    image.read_exact(&mut data)?;
    Ok(data)
}

fn le32(bytes: &[u8]) -> u32 {
    bytes.try_into().map_or(0, u32::from_le_bytes)
}

fn bad(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}
