//! The console: the port that the board's description names, driven by `pl011` or `mini_uart`.

use super::mmio::Mmio;
use super::{mini_uart, pl011};
use crate::board::UartKind;
use arch_boot::patience::Patience;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use mm::addr::PhysRange;

static PATIENCE: Patience = Patience::new();

/// Physical address of the registers; 0 before the board is known, or when it has no port.
static BASE: AtomicU64 = AtomicU64::new(0);
static MINI: AtomicBool = AtomicBool::new(false);

/// Bytes that had arrived before [`init`] turned the FIFO on, which empties it; the bytes, their
/// number, and how many were read since.
static EARLY: [AtomicU8; 32] = [const { AtomicU8::new(0) }; 32];
static EARLY_LEN: AtomicUsize = AtomicUsize::new(0);
static EARLY_READ: AtomicUsize = AtomicUsize::new(0);

fn port() -> Option<(Mmio, UartKind)> {
    let base = BASE.load(Ordering::Relaxed);
    let kind = if MINI.load(Ordering::Relaxed) {
        UartKind::Mini
    } else {
        UartKind::Pl011
    };
    (base != 0).then(|| (Mmio::new(base), kind))
}

fn get((port, kind): (Mmio, UartKind)) -> Option<u8> {
    match kind {
        UartKind::Pl011 => pl011::get(port),
        UartKind::Mini => mini_uart::get(port),
    }
}

/// Initialises the port; its window is in the direct map.
pub(crate) fn init(window: PhysRange, kind: UartKind) {
    let port = Mmio::new(window.start.0);
    for (n, slot) in EARLY.iter().enumerate() {
        let Some(byte) = get((port, kind)) else { break };
        slot.store(byte, Ordering::Relaxed);
        EARLY_LEN.store(n + 1, Ordering::Relaxed);
    }
    match kind {
        UartKind::Pl011 => pl011::init(port),
        UartKind::Mini => mini_uart::init(port),
    }
    MINI.store(kind == UartKind::Mini, Ordering::Relaxed);
    BASE.store(window.start.0, Ordering::Relaxed);
}

/// Whether there is a port.
pub(crate) fn is_there() -> bool {
    port().is_some()
}

/// Enables the interrupt of received bytes.
pub(crate) fn enable_interrupt() {
    match port() {
        Some((port, UartKind::Pl011)) => pl011::enable_interrupt(port),
        Some((port, UartKind::Mini)) => mini_uart::enable_interrupt(port),
        None => {}
    }
}

/// Clears the interrupt; [`read`] then takes the bytes.
pub(crate) fn acknowledge() {
    if let Some((port, UartKind::Pl011)) = port() {
        pl011::acknowledge(port);
    }
}

/// Writes bytes, waiting for room. Works from the first instruction of `kernel_main` on.
pub fn write(bytes: &[u8]) {
    let Some((port, kind)) = port() else { return };
    let has_room = || match kind {
        UartKind::Pl011 => pl011::has_room(port),
        UartKind::Mini => mini_uart::has_room(port),
    };
    for byte in bytes {
        PATIENCE.wait(has_room);
        match kind {
            UartKind::Pl011 => pl011::put(port, *byte),
            UartKind::Mini => mini_uart::put(port, *byte),
        }
    }
}

/// A byte that has arrived, if any.
pub fn read() -> Option<u8> {
    let early = EARLY_READ.load(Ordering::Relaxed);
    if early < EARLY_LEN.load(Ordering::Relaxed) {
        EARLY_READ.store(early + 1, Ordering::Relaxed);
        return Some(EARLY[early].load(Ordering::Relaxed));
    }
    get(port()?)
}
