//! The Raspberry Pi's mailbox: property tags request facts and a framebuffer from the VideoCore's
//! firmware (raspberrypi/firmware's wiki, "Mailboxes" and "Mailbox property interface").

use super::mmio::Mmio;
use super::{early, image, regs};
use crate::fdt::REACH;
use arch_boot::Framebuffer;
use arch_boot::memory::{self, Ram};
use core::sync::atomic::{AtomicU32, Ordering};
use mm::addr::{PhysAddr, PhysRange};

/// From the firmware: a message, and whether there is none.
const READ: u64 = 0x00;
const READ_STATUS: u64 = 0x18;
const EMPTY: u32 = 1 << 30;
/// To the firmware: a message, and whether there is no room for one.
const WRITE: u64 = 0x20;
const WRITE_STATUS: u64 = 0x38;
const FULL: u32 = 1 << 31;
/// The channel of property tags, in the low four bits of what is sent; above them is where the
/// message lies.
const PROPERTIES: u32 = 8;
/// Offset of the ARM's first GiB in the firmware's address space, uncached: the two highest bits
/// set.
const BUS: u32 = 0xc000_0000;
const GIB: u64 = 1 << 30;
/// Limit of reads of a status register, for firmware that does not answer.
const PATIENCE: u32 = 1 << 22;

/// Response flag of a message and of a tag.
const ANSWERED: u32 = 1 << 31;
const BOARD_REVISION: u32 = 0x0001_0002;
const ARM_MEMORY: u32 = 0x0001_0005;
const GPU_MEMORY: u32 = 0x0001_0006;
const BUFFER: u32 = 0x0004_0001;
const SIZE: u32 = 0x0004_0003;
const PITCH: u32 = 0x0004_0008;
const SET_SIZE: u32 = 0x0004_8003;
const SET_VIRTUAL_SIZE: u32 = 0x0004_8004;
const SET_DEPTH: u32 = 0x0004_8005;
const SET_ALPHA: u32 = 0x0004_8007;
const ALPHA_IGNORED: u32 = 2;
const SET_OFFSET: u32 = 0x0004_8009;

/// Start of a BCM2711's peripherals, which hide the RAM behind them.
const PERIPHERALS: u64 = 0xfc00_0000;

/// A message: its bytes, [`ANSWERED`], then five words for each tag (which, bytes, [`ANSWERED`],
/// two values), then 0. Whole cache lines, which nothing shares.
#[repr(C, align(64))]
struct Message([AtomicU32; 48]);
static MESSAGE: Message = Message([const { AtomicU32::new(0) }; 48]);

/// A tag and its two values, of which some tags use only the first.
type Tag = (u32, [u32; 2]);

/// The mailbox, used at boot only.
pub(crate) struct Mailbox(Mmio);

impl Mailbox {
    /// Maps the registers at `window`.
    pub(crate) fn new(window: PhysRange) -> Self {
        early::map(memory::whole_pages_around(window), true);
        Mailbox(Mmio::new(window.start.0))
    }

    /// RAM that the firmware leaves to the ARM: below 1 GiB, and on larger boards the rest by their
    /// revision. `None` without an answer.
    pub(crate) fn ram(&self) -> Option<Ram> {
        let [arm, gpu, revision] = self.ask([
            (ARM_MEMORY, [0; 2]),
            (GPU_MEMORY, [0; 2]),
            (BOARD_REVISION, [0; 2]),
        ])?;
        let mut ram = Ram::new(REACH);
        let bytes = |[start, length]: [u32; 2]| {
            let start = PhysAddr(u64::from(start));
            PhysRange::new(start, PhysAddr(start.0 + u64::from(length)))
        };
        ram.add(bytes(arm));
        // Less than the first GiB in use (`total_mem` in config.txt): then nothing above it is ours
        // either.
        if bytes(gpu).end.0 >= GIB {
            let end = board_memory(revision[0]);
            for (start, limit) in [(GIB, PERIPHERALS), (4 * GIB, u64::MAX)] {
                let end = end.min(limit).max(start);
                ram.add(PhysRange::new(PhysAddr(start), PhysAddr(end)));
            }
        }
        (!ram.is_empty()).then_some(ram)
    }

    /// A framebuffer of the size that the firmware has chosen for the monitor, 32 bits a pixel.
    pub(crate) fn screen(&self) -> Option<Framebuffer> {
        let [[width, height]] = self.ask([(SIZE, [0; 2])])?;
        let [.., [depth, _], _, _, [start, bytes], [pitch, _]] = self.ask([
            (SET_SIZE, [width, height]),
            (SET_VIRTUAL_SIZE, [width, height]),
            (SET_DEPTH, [32, 0]),
            (SET_ALPHA, [ALPHA_IGNORED, 0]),
            (SET_OFFSET, [0; 2]),
            // Its alignment.
            (BUFFER, [4096, 0]),
            (PITCH, [0; 2]),
        ])?;
        let start = PhysAddr(u64::from(start & !BUS));
        let needed = u64::from(pitch) * u64::from(height);
        let sound = depth == 32 && u64::from(pitch) >= 4 * u64::from(width) && needed > 0;
        (sound && u64::from(bytes) >= needed).then(|| Framebuffer {
            window: PhysRange::new(start, start + needed),
            width,
            height,
            pitch,
            bytes_per_pixel: 4,
            // Or the other way round; the console's text is grey.
            colours: [(8, 16), (8, 8), (8, 0)],
        })
    }

    /// Sends tags and returns the firmware's values; `None` when it did not answer each of them.
    fn ask<const N: usize>(&self, tags: [Tag; N]) -> Option<[[u32; 2]; N]> {
        let at = image::physical(&raw const MESSAGE).0;
        if at + size_of::<Message>() as u64 > GIB {
            return None;
        }
        let words = &MESSAGE.0;
        let put = |n: usize, word: u32| words[n].store(word, Ordering::Relaxed);
        let get = |n: usize| words[n].load(Ordering::Relaxed);
        put(0, size_of::<Message>() as u32);
        put(1, 0);
        for (n, (tag, values)) in tags.into_iter().enumerate() {
            for (i, word) in [tag, 8, 0, values[0], values[1]].into_iter().enumerate() {
                put(2 + 5 * n + i, word);
            }
        }
        put(2 + 5 * N, 0);
        clean_and_invalidate();
        self.exchange(at as u32 | BUS | PROPERTIES)?;
        clean_and_invalidate();
        let answered = |n: usize| get(n) & ANSWERED != 0;
        let all = answered(1) && (0..N).all(|n| answered(2 + 5 * n + 2));
        all.then(|| core::array::from_fn(|n| [get(2 + 5 * n + 3), get(2 + 5 * n + 4)]))
    }

    /// Sends a word and waits until the firmware returns it.
    fn exchange(&self, word: u32) -> Option<()> {
        self.wait(WRITE_STATUS, FULL)?;
        self.0.write(WRITE, word);
        for _ in 0..PATIENCE {
            self.wait(READ_STATUS, EMPTY)?;
            if self.0.read(READ) == word {
                return Some(());
            }
        }
        None
    }

    fn wait(&self, status: u64, bit: u32) -> Option<()> {
        (0..PATIENCE)
            .any(|_| self.0.read(status) & bit == 0)
            .then_some(())
    }
}

/// Bytes of RAM on the board, from its revision's new form (bit 23); the old form was before 64-bit
/// boards.
fn board_memory(revision: u32) -> u64 {
    if revision & 1 << 23 == 0 {
        return 0;
    }
    (256 << 20) << (revision >> 20 & 7)
}

/// Cleans and invalidates the message's cache lines: the firmware reads and writes memory.
fn clean_and_invalidate() {
    let start = &raw const MESSAGE as u64;
    // DminLine: log2 of the words in the smallest line.
    let line = 4u64 << (regs::read!("ctr_el0") >> 16 & 0xf);
    // SAFETY: a barrier before and after; cleaning and invalidating keeps what the CPU wrote.
    unsafe { core::arch::asm!("dsb sy", options(nostack, preserves_flags)) };
    for at in (start..start + size_of::<Message>() as u64).step_by(line as usize) {
        // SAFETY: as above; the message is mapped.
        unsafe { core::arch::asm!("dc civac, {}", in(reg) at, options(nostack, preserves_flags)) };
    }
    // SAFETY: as above.
    unsafe { core::arch::asm!("dsb sy", options(nostack, preserves_flags)) };
}
