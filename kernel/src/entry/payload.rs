//! The payload that the image tool appends to the kernel: the symbols and the default initramfs.
//! The layout stands in `tools/src/machine/image.rs`; all numbers are little-endian u64, offsets
//! count from the header's start.

use crate::arch::boot::BootInfo;
use arch_boot::payload::{MAGIC, WORDS};
use mm::addr::{PhysAddr, PhysRange};
use spin::Once;

const VERSION: u64 = 1;
const HEADER_BYTES: u64 = 8 * WORDS as u64;

/// The parts of the payload; empty where the image has none.
pub struct Payload {
    /// Function symbols, see [`crate::entry::symbols`].
    pub symbols: &'static [u8],
    /// The default initramfs.
    pub initramfs: &'static [u8],
}

static PAYLOAD: Once<Payload> = Once::new();

/// Finds the payload at `start`, by `read`, which gives the bytes of reserved RAM; a kernel without
/// one (straight from the linker) has empty parts.
pub fn init(info: &BootInfo, start: PhysAddr, read: fn(PhysRange) -> &'static [u8]) {
    PAYLOAD.call_once(|| {
        find(info, start, read).unwrap_or(Payload {
            symbols: &[],
            initramfs: &[],
        })
    });
}

/// The payload, empty before [`init`].
pub fn get() -> &'static Payload {
    const NONE: &Payload = &Payload {
        symbols: &[],
        initramfs: &[],
    };
    PAYLOAD.get().unwrap_or(NONE)
}

fn find(info: &BootInfo, start: PhysAddr, read: fn(PhysRange) -> &'static [u8]) -> Option<Payload> {
    // Without a payload the image may end where RAM ends or where another reservation starts.
    info.reserved
        .iter()
        .find(|r| r.contains(start) && r.end - start >= HEADER_BYTES)?;
    let header = read(PhysRange::new(start, start + HEADER_BYTES));
    let word =
        |i: usize| u64::from_le_bytes(header[8 * i..8 * i + 8].try_into().unwrap_or_default());
    if header[..8] != MAGIC || word(1) != VERSION {
        return None;
    }
    let bytes = read(PhysRange::new(start, start + word(6)));
    let part = |offset: u64, len: u64| {
        bytes
            .get(offset as usize..(offset + len) as usize)
            .unwrap_or_default()
    };
    Some(Payload {
        symbols: part(word(2), word(3)),
        initramfs: part(word(4), word(5)),
    })
}
