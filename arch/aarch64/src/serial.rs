//! The console: a PL011 (Arm DDI 0183), as the firmware set its speed.

use super::mmio::Mmio;
use core::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use mm::addr::PhysRange;

/// Data.
const DR: u64 = 0x00;
/// Flags: receive FIFO empty, transmit FIFO full.
const FR: u64 = 0x18;
const FR_RXFE: u32 = 1 << 4;
const FR_TXFF: u32 = 1 << 5;
/// Line control: 8 bits, FIFOs on.
const LCR_H: u64 = 0x2c;
const LCR_8N1_FIFO: u32 = 0b11 << 5 | 1 << 4;
/// Control: receive, transmit, on.
const CR: u64 = 0x30;
const CR_ON: u32 = 1 << 9 | 1 << 8 | 1;
/// Interrupt FIFO levels, mask, clear.
const IFLS: u64 = 0x34;
const IMSC: u64 = 0x38;
const ICR: u64 = 0x44;
/// Receive, and receive timeout: bytes that do not fill the FIFO to its level.
const INT_RX: u32 = 1 << 4 | 1 << 6;

/// Physical address of the registers; 0 before the device tree was read, or when there is no PL011.
static BASE: AtomicU64 = AtomicU64::new(0);

/// Bytes that had arrived before [`init`] turned the FIFO on, which empties it; how many, and how many were read since.
static EARLY: [AtomicU8; 32] = [const { AtomicU8::new(0) }; 32];
static EARLY_LEN: AtomicUsize = AtomicUsize::new(0);
static EARLY_READ: AtomicUsize = AtomicUsize::new(0);

fn port() -> Option<Mmio> {
    let base = BASE.load(Ordering::Relaxed);
    (base != 0).then(|| Mmio::new(base))
}

/// Takes the port; its window is in the direct map.
pub(crate) fn init(window: PhysRange) {
    let port = Mmio::new(window.start.0);
    for (n, slot) in EARLY.iter().enumerate() {
        if port.read(FR) & FR_RXFE != 0 {
            break;
        }
        slot.store(port.read(DR) as u8, Ordering::Relaxed);
        EARLY_LEN.store(n + 1, Ordering::Relaxed);
    }
    port.write(IMSC, 0);
    port.write(ICR, 0x7ff);
    port.write(CR, 0);
    port.write(LCR_H, LCR_8N1_FIFO);
    port.write(CR, CR_ON);
    BASE.store(window.start.0, Ordering::Relaxed);
}

/// Lets received bytes interrupt.
pub(crate) fn enable_interrupt() {
    if let Some(port) = port() {
        port.write(IFLS, 0);
        port.write(IMSC, INT_RX);
    }
}

/// Clears the interrupt; [`read`] then takes the bytes.
pub(crate) fn acknowledge() {
    if let Some(port) = port() {
        port.write(ICR, INT_RX);
    }
}

/// Writes bytes, waiting for room. Works from the first instruction of `kernel_main` on.
pub fn write(bytes: &[u8]) {
    let Some(port) = port() else { return };
    for byte in bytes {
        while port.read(FR) & FR_TXFF != 0 {
            core::hint::spin_loop();
        }
        port.write(DR, u32::from(*byte));
    }
}

/// A byte that has arrived, if any.
pub fn read() -> Option<u8> {
    let early = EARLY_READ.load(Ordering::Relaxed);
    if early < EARLY_LEN.load(Ordering::Relaxed) {
        EARLY_READ.store(early + 1, Ordering::Relaxed);
        return Some(EARLY[early].load(Ordering::Relaxed));
    }
    let port = port()?;
    (port.read(FR) & FR_RXFE == 0).then(|| port.read(DR) as u8)
}
