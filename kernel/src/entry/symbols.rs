//! Names for addresses in backtraces, from the image's own symbol table.
//!
//! The blob: u32 count, u32 zero, then `count` entries {u64 address, u32 name offset, u32 name
//! length} sorted by address, then the mangled names; offsets count from the blob's start, all
//! little-endian.

use crate::entry::payload;

const HEADER_BYTES: usize = 8;
const ENTRY_BYTES: usize = 16;

/// The function that holds `address`, mangled, and how far into it the address is.
pub fn lookup(address: u64) -> Option<(&'static str, u64)> {
    let blob = payload::get().symbols;
    let count = u32::from_le_bytes(blob.get(..4)?.try_into().ok()?) as usize;
    let entries = blob.get(HEADER_BYTES..HEADER_BYTES + count * ENTRY_BYTES)?;
    let entry = |i: usize| &entries[i * ENTRY_BYTES..(i + 1) * ENTRY_BYTES];
    let start = |i: usize| u64::from_le_bytes(entry(i)[..8].try_into().unwrap_or_default());
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low.midpoint(high);
        if start(middle) <= address {
            low = middle + 1
        } else {
            high = middle
        }
    }
    let index = low.checked_sub(1)?;
    let word = |at: usize| {
        u32::from_le_bytes(entry(index)[at..at + 4].try_into().unwrap_or_default()) as usize
    };
    let name = blob.get(word(8)..word(8) + word(12))?;
    Some((core::str::from_utf8(name).ok()?, address - start(index)))
}
