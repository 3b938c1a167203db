//! The Raspberry Pi 3's interrupt controllers: one at the cores (BCM2836 "QA7" ARM-local
//! peripherals), and behind it one for the peripherals (BCM2835 ARM Peripherals, 7). Both only show
//! levels: an interrupt ends when its device is quiet.
//!
//! Numbers: bank * 32 + bit for peripherals as the device tree counts them (bank 0 basic, 1, 2),
//! [`LOCAL`] + bit for the cores'.

use super::mmio::Mmio;
use super::regs;
use core::sync::atomic::{AtomicU64, Ordering};
use mm::addr::PhysRange;

/// First number of the interrupts of a core.
const LOCAL: u32 = 96;
/// From other cores, by the core's mailbox 0.
pub(crate) const IPI: u32 = LOCAL + 4;
/// The virtual timer's.
pub(crate) const VIRTUAL_TIMER: u32 = LOCAL + 3;

/// At the cores: where the peripherals go (0: core 0, as IRQ); of each core, side by side, which
/// timers interrupt, whether its mailboxes do, what is pending.
const ROUTING: u64 = 0x0c;
const TIMER_CONTROL: u64 = 0x40;
const MAILBOX_CONTROL: u64 = 0x50;
const SOURCE: u64 = 0x60;
const SOURCE_PERIPHERALS: u32 = 1 << 8;
/// Mailbox 0: what is written is set, what is written to the other is cleared. 16 bytes a core.
const MAILBOX_SET: u64 = 0x80;
const MAILBOX_CLEAR: u64 = 0xc0;

/// For peripherals, from the address in the device tree: pending by bank, enable, disable.
const PENDING: [u64; 3] = [0x00, 0x04, 0x08];
const ENABLE: [u64; 3] = [0x18, 0x10, 0x14];
const DISABLE: [u64; 3] = [0x24, 0x1c, 0x20];
/// Bits of the basic register that only repeat the other two.
const BASIC: u32 = 0xff;

static CORES: AtomicU64 = AtomicU64::new(0);
static PERIPHERALS: AtomicU64 = AtomicU64::new(0);

fn cores() -> Mmio {
    Mmio::new(CORES.load(Ordering::Relaxed))
}

fn peripherals() -> Mmio {
    Mmio::new(PERIPHERALS.load(Ordering::Relaxed))
}

/// The running core.
fn core() -> u64 {
    regs::read!("mpidr_el1") & 3
}

/// Lets interrupts from other cores come to this one. Returns its number, for [`send`].
pub(crate) fn init_secondary(timers: u32) -> u64 {
    cores().write(TIMER_CONTROL + 4 * core(), timers);
    cores().write(MAILBOX_CLEAR + 16 * core(), u32::MAX);
    cores().write(MAILBOX_CONTROL + 4 * core(), 1);
    core()
}

/// Interrupts a core.
pub(crate) fn send(core: u64) {
    cores().write(MAILBOX_SET + 16 * core, 1);
}

/// Initialises both controllers with every interrupt disabled but that from other cores. Returns
/// what [`init_secondary`] does.
pub(crate) fn init(at_cores: PhysRange, for_peripherals: PhysRange) -> u64 {
    CORES.store(at_cores.start.0, Ordering::Relaxed);
    PERIPHERALS.store(for_peripherals.start.0, Ordering::Relaxed);
    cores().write(ROUTING, 0);
    for disable in DISABLE {
        peripherals().write(disable, u32::MAX);
    }
    init_secondary(0)
}

/// The bit of a core's own interrupt.
pub(crate) fn bit(interrupt: u32) -> u32 {
    1 << (interrupt - LOCAL)
}

/// Enables an interrupt on core 0.
pub(crate) fn enable(interrupt: u32) {
    if interrupt >= LOCAL {
        let on = cores().read(TIMER_CONTROL);
        cores().write(TIMER_CONTROL, on | bit(interrupt));
    } else {
        peripherals().write(ENABLE[interrupt as usize / 32], 1 << (interrupt % 32));
    }
}

/// The lowest interrupt that is pending, the cores' own first.
pub(crate) fn take() -> Option<u32> {
    let source = cores().read(SOURCE + 4 * core());
    let own = source & (SOURCE_PERIPHERALS - 1);
    if own & 1 << (IPI - LOCAL) != 0 {
        // Before its reason is looked for: what comes later is signalled again.
        cores().write(MAILBOX_CLEAR + 16 * core(), u32::MAX);
        return Some(IPI);
    }
    if own != 0 {
        return Some(LOCAL + own.trailing_zeros());
    }
    if source & SOURCE_PERIPHERALS == 0 {
        return None;
    }
    let pending =
        |bank: usize| peripherals().read(PENDING[bank]) & if bank == 0 { BASIC } else { u32::MAX };
    (0..PENDING.len()).find_map(|bank| {
        let bits = pending(bank);
        (bits != 0).then(|| bank as u32 * 32 + bits.trailing_zeros())
    })
}
