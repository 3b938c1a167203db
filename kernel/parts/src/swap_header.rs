//! The header of a swap area, in its first page, as mkswap(8) writes it: after 1024 bytes that a
//! boot loader may have, the version, the number of the last page, how many pages are bad, a UUID,
//! a label, and which they are; the magic word at the end of the page.

/// Where the version is.
pub const INFO: u64 = 1024;
/// Where the magic word is.
pub const MAGIC: u64 = 4096 - 10;
/// How many numbers of bad pages have room between.
const MOST_BAD: u32 = (MAGIC as u32 - 1536) / 4;

/// Of the area that these bytes at [`INFO`] and [`MAGIC`] describe, how many pages may be used: all
/// but that of the header and the bad ones. `None`: it is no header, or there is no such area among
/// so many `pages`.
pub fn usable(info: [u8; 12], magic: [u8; 10], pages: u64) -> Option<u64> {
    let word = |n: usize| u32::from_ne_bytes([0, 1, 2, 3].map(|i| info[4 * n + i]));
    let (version, last, bad) = (word(0), word(1), word(2));
    let is_one = magic == *b"SWAPSPACE2" && version == 1 && bad <= MOST_BAD;
    let fits = u64::from(last) < pages;
    let usable = last.saturating_sub(bad);
    (is_one && fits && usable != 0).then_some(usable.into())
}

#[cfg(test)]
mod tests {
    use super::usable;

    #[test]
    fn headers() {
        let header = |version: u32, last: u32, bad: u32, magic: &[u8; 10], pages| {
            let mut info = [0; 12];
            for (to, word) in info.chunks_exact_mut(4).zip([version, last, bad]) {
                to.copy_from_slice(&word.to_ne_bytes());
            }
            usable(info, *magic, pages)
        };
        let good = b"SWAPSPACE2";
        for (version, last, bad, magic, pages, wanted) in [
            (1, 9, 0, good, 10, Some(9)),
            (1, 5, 0, good, 10, Some(5)),
            (1, 9, 2, good, 10, Some(7)),
            (1, 700, 637, good, 1000, Some(63)),
            // Longer than the device, no page, all bad, too many bad, another version or word.
            (1, 10, 0, good, 10, None),
            (1, 9, 0, good, 0, None),
            (1, 0, 0, good, 10, None),
            (1, 9, 9, good, 10, None),
            (1, 9, u32::MAX, good, 10, None),
            (1, 700, 638, good, 1000, None),
            (0, 9, 0, good, 10, None),
            (1 << 24, 9, 0, good, 10, None),
            (1, 9, 0, b"SWAP-SPACE", 10, None),
        ] {
            let found = header(version, last, bad, magic, pages);
            assert_eq!(found, wanted, "{version} {last} {bad} {pages}");
        }
    }
}
