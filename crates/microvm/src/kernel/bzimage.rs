//! Cuts the uncompressed kernel out of a bzImage. QEMU enters it directly (PVH), without BIOS code
//! and without decompressing in the guest.

/// No kernel is larger.
const MAX_SIZE: usize = 512 << 20;
/// Blocks of the legacy LZ4 format hold at most this much.
const BLOCK: usize = 8 << 20;
const LZ4_LEGACY: u32 = 0x184c_2102;

/// The kernel inside, or `None` when it is not there in this format.
pub(super) fn uncompressed(image: &[u8]) -> Option<Vec<u8>> {
    if image.get(0x202..0x206)? != b"HdrS" {
        return None;
    }
    let setup_sectors = match *image.get(0x1f1)? {
        0 => 4,
        count => usize::from(count),
    };
    let start = ((setup_sectors + 1) * 512).checked_add(le32(image, 0x248)? as usize)?;
    let payload = image.get(start..start.checked_add(le32(image, 0x24c)? as usize)?)?;
    if le32(payload, 0)? != LZ4_LEGACY {
        return None;
    }
    // The payload ends with the kernel's size.
    let (blocks, size) = payload[4..].split_last_chunk::<4>()?;
    let size = u32::from_le_bytes(*size) as usize;
    if size > MAX_SIZE {
        return None;
    }
    let mut out = Vec::with_capacity(size);
    let mut at = 0;
    while at < blocks.len() {
        let length = le32(blocks, at)? as usize;
        let block = blocks.get(at + 4..(at + 4).checked_add(length)?)?;
        let before = out.len();
        out.resize((before + BLOCK).min(size), 0);
        let count = lz4_flex::block::decompress_into(block, &mut out[before..]).ok()?;
        out.truncate(before + count);
        at += 4 + length;
    }
    (out.len() == size && out.starts_with(b"\x7fELF")).then_some(out)
}

fn le32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk::<4>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(kernel: &[u8]) -> Vec<u8> {
        let mut payload = LZ4_LEGACY.to_le_bytes().to_vec();
        for block in kernel.chunks(BLOCK) {
            let block = lz4_flex::block::compress(block);
            payload.extend(u32::try_from(block.len()).expect("small").to_le_bytes());
            payload.extend(block);
        }
        payload.extend(u32::try_from(kernel.len()).expect("small").to_le_bytes());
        let mut image = vec![0; 2 * 512 + 100];
        image[0x1f1] = 1;
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x248..0x24c].copy_from_slice(&100u32.to_le_bytes());
        image[0x24c..0x250].copy_from_slice(&u32::try_from(payload.len()).expect("small").to_le_bytes());
        image.extend(payload);
        image
    }

    #[test]
    fn the_kernel_is_cut_out_whole() {
        let mut kernel = b"\x7fELF".to_vec();
        kernel.extend((0..BLOCK + 1000).map(|index| (index % 251) as u8));
        let image = packed(&kernel);
        assert!(uncompressed(&image) == Some(kernel), "several blocks are joined");
        for end in [0x1f0, 0x203, 0x249, 1000, image.len() - 1] {
            assert!(uncompressed(&image[..end]).is_none(), "cut at {end}");
        }
    }

    #[test]
    fn what_is_not_a_kernel_is_left_alone() {
        assert!(uncompressed(&packed(b"not an executable")).is_none());
        let mut other = packed(b"\x7fELF");
        let start = 2 * 512 + 100;
        other[start] ^= 1;
        assert!(uncompressed(&other).is_none(), "another compression");
        let mut lies = packed(b"\x7fELF");
        let end = lies.len();
        lies[end - 4..].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(uncompressed(&lies).is_none(), "a size without bound");
    }
}
