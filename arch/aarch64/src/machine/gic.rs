//! The interrupt controller: GICv2 by memory (Arm IHI 0048), GICv3 by system registers (IHI 0069).
//! One priority; what devices send goes to the boot CPU. Every interrupt is level-sensitive, as the
//! device tree of QEMU's `virt` says.

use super::mmio::Mmio;
use super::regs;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use mm::addr::PhysRange;

/// Distributor registers (bytes).
const GICD_CTLR: u64 = 0x000;
const GICD_TYPER: u64 = 0x004;
const GICD_IGROUPR: u64 = 0x080;
const GICD_ISENABLER: u64 = 0x100;
const GICD_ICENABLER: u64 = 0x180;
/// An interrupt that firmware left active would never be signalled again.
const GICD_ICACTIVER: u64 = 0x380;
const GICD_IPRIORITYR: u64 = 0x400;
const GICD_ITARGETSR: u64 = 0x800;
const GICD_IROUTER: u64 = 0x6000;
/// GICv3: ARE, both groups on; a write takes effect when RWP is clear.
const CTLR_V3: u32 = 1 << 4 | 1 << 1 | 1;
const CTLR_RWP: u32 = 1 << 31;

/// GICv2 CPU interface registers.
const GICC_CTLR: u64 = 0x00;
const GICC_PMR: u64 = 0x04;
const GICC_IAR: u64 = 0x0c;
const GICC_EOIR: u64 = 0x10;

/// GICv3 redistributor: a frame of 64 KiB for control, the next for private interrupts.
const GICR_TYPER: u64 = 0x008;
const GICR_WAKER: u64 = 0x014;
const GICR_SGI: u64 = 0x1_0000;
const TYPER_VLPIS: u32 = 1 << 1;
const TYPER_LAST: u32 = 1 << 4;
const WAKER_SLEEP: u32 = 1 << 1;
const WAKER_ASLEEP: u32 = 1 << 2;

/// Priority mask that lets every priority through; the kernel's interrupts have the middle one.
const PRIORITY_MASK: u32 = 0xf0;
const PRIORITY: u32 = 0xa0a0_a0a0;
/// First of the special interrupt numbers: none pending.
const SPURIOUS: u32 = 1020;

/// The software-generated interrupt from CPU to CPU.
pub(crate) const IPI: u32 = 0;
const GICD_SGIR: u64 = 0xf00;

/// 0 (not yet, or none), 2 or 3.
static VERSION: AtomicU32 = AtomicU32::new(0);
static DISTRIBUTOR: AtomicU64 = AtomicU64::new(0);
/// The CPU interface (v2), the boot CPU's redistributor (v3).
static LOCAL: AtomicU64 = AtomicU64::new(0);
/// The first region of redistributors (v3).
static REDISTRIBUTORS: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
/// 2 or 3; 0 before either was turned on.
pub(crate) fn version() -> u32 {
    VERSION.load(Ordering::Relaxed)
}

fn distributor() -> Mmio {
    Mmio::new(DISTRIBUTOR.load(Ordering::Relaxed))
}

fn local() -> Mmio {
    Mmio::new(LOCAL.load(Ordering::Relaxed))
}

/// Registers of 32 interrupts each that the distributor has.
fn words(distributor: Mmio) -> u64 {
    u64::from(distributor.read(GICD_TYPER) & 0x1f) + 1
}

/// Turns a GICv2 on with every interrupt disabled: distributor, CPU interface. Returns the boot
/// CPU's target for [`send`].
pub(crate) fn init_v2(window: PhysRange, cpu: PhysRange) -> u64 {
    DISTRIBUTOR.store(window.start.0, Ordering::Relaxed);
    LOCAL.store(cpu.start.0, Ordering::Relaxed);
    let gicd = distributor();
    gicd.write(GICD_CTLR, 0);
    // Banked: reads as this CPU's bit.
    let target = gicd.read(GICD_ITARGETSR);
    for word in 1..words(gicd) {
        gicd.write(GICD_ICENABLER + word * 4, u32::MAX);
        gicd.write(GICD_ICACTIVER + word * 4, u32::MAX);
        for byte in 0..8 {
            gicd.write(GICD_IPRIORITYR + word * 32 + byte * 4, PRIORITY);
            gicd.write(GICD_ITARGETSR + word * 32 + byte * 4, target);
        }
    }
    gicd.write(GICD_CTLR, 1);
    VERSION.store(2, Ordering::Relaxed);
    init_interface()
}

/// Turns this CPU's part of a GICv2 on: banked registers of the distributor, CPU interface.
fn init_interface() -> u64 {
    let (gicd, gicc) = (distributor(), local());
    gicd.write(GICD_ICENABLER, u32::MAX);
    gicd.write(GICD_ICACTIVER, u32::MAX);
    for byte in 0..8 {
        gicd.write(GICD_IPRIORITYR + byte * 4, PRIORITY);
    }
    gicd.write(GICD_ISENABLER, 1 << IPI);
    gicc.write(GICC_PMR, PRIORITY_MASK);
    gicc.write(GICC_CTLR, 1);
    u64::from(gicd.read(GICD_ITARGETSR) & 0xff)
}

/// Turns a GICv3 on with every interrupt disabled: distributor, redistributor. Returns the boot
/// CPU's target for [`send`].
pub(crate) fn init_v3(window: PhysRange, redistributors: PhysRange) -> u64 {
    DISTRIBUTOR.store(window.start.0, Ordering::Relaxed);
    let gicd = distributor();
    gicd.write(GICD_CTLR, 0);
    wait_for_writes(gicd);
    for word in 1..words(gicd) {
        gicd.write(GICD_ICENABLER + word * 4, u32::MAX);
        gicd.write(GICD_ICACTIVER + word * 4, u32::MAX);
        gicd.write(GICD_IGROUPR + word * 4, u32::MAX);
        for byte in 0..8 {
            gicd.write(GICD_IPRIORITYR + word * 32 + byte * 4, PRIORITY);
        }
    }
    gicd.write(GICD_CTLR, CTLR_V3);
    wait_for_writes(gicd);

    REDISTRIBUTORS[0].store(redistributors.start.0, Ordering::Relaxed);
    REDISTRIBUTORS[1].store(redistributors.end.0, Ordering::Relaxed);
    VERSION.store(3, Ordering::Relaxed);
    let Some(own) = find_redistributor() else {
        panic!("no GIC redistributor for CPU affinity {:#x}", affinity())
    };
    LOCAL.store(own, Ordering::Relaxed);
    init_redistributor(Mmio::new(own))
}

/// Turns this CPU's part of a GICv3 on: redistributor, CPU interface.
fn init_redistributor(gicr: Mmio) -> u64 {
    gicr.write(GICR_WAKER, gicr.read(GICR_WAKER) & !WAKER_SLEEP);
    while gicr.read(GICR_WAKER) & WAKER_ASLEEP != 0 {
        core::hint::spin_loop();
    }
    gicr.write(GICR_SGI + GICD_ICENABLER, u32::MAX);
    gicr.write(GICR_SGI + GICD_ICACTIVER, u32::MAX);
    gicr.write(GICR_SGI + GICD_IGROUPR, u32::MAX);
    for byte in 0..8 {
        gicr.write(GICR_SGI + GICD_IPRIORITYR + byte * 4, PRIORITY);
    }
    gicr.write(GICR_SGI + GICD_ISENABLER, 1 << IPI);
    // ICC_SRE_EL1.SRE: the system registers; then the mask, and group 1 on.
    regs::write!("S3_0_C12_C12_5", regs::read!("S3_0_C12_C12_5") | 1);
    regs::isb();
    regs::write!("S3_0_C4_C6_0", u64::from(PRIORITY_MASK));
    regs::write!("S3_0_C12_C12_4", 0);
    regs::write!("S3_0_C12_C12_7", 1);
    regs::isb();
    affinity()
}

/// Turns another CPU's part on. Returns its target for [`send`]; `None` when it has no
/// redistributor among those that are known.
pub(crate) fn init_secondary(timer: u32) -> Option<u64> {
    // Below 32 each CPU has its own.
    let own = 1 << (timer % 32);
    if version() == 2 {
        let target = init_interface();
        distributor().write(GICD_ISENABLER, own);
        return Some(target);
    }
    let gicr = Mmio::new(find_redistributor()?);
    let target = init_redistributor(gicr);
    gicr.write(GICR_SGI + GICD_ISENABLER, own);
    Some(target)
}

/// Interrupts another CPU.
pub(crate) fn send(target: u64) {
    if version() == 2 {
        distributor().write(GICD_SGIR, (target as u32) << 16 | IPI);
        return;
    }
    // ICC_SGI1R_EL1: Aff3, range of Aff0, Aff2, number, Aff1, one bit for Aff0.
    let field = |shift: u32| target >> shift & 0xff;
    let value = field(32) << 48
        | (field(0) >> 4) << 44
        | field(16) << 32
        | u64::from(IPI) << 24
        | field(8) << 16
        | 1 << (field(0) & 15);
    regs::write!("S3_0_C12_C11_5", value);
    regs::isb();
}

fn wait_for_writes(gicd: Mmio) {
    while gicd.read(GICD_CTLR) & CTLR_RWP != 0 {
        core::hint::spin_loop();
    }
}

/// This CPU's affinity as GICD_IROUTER takes it: Aff3 in bits 39..32, Aff2 to Aff0 in bits 23..0.
fn affinity() -> u64 {
    regs::read!("mpidr_el1") & 0xff_00ff_ffff
}

/// The redistributor with this CPU's affinity.
fn find_redistributor() -> Option<u64> {
    let packed = (affinity() & 0xff_ffff | (affinity() >> 32 & 0xff) << 24) as u32;
    let [mut at, end] = [&REDISTRIBUTORS[0], &REDISTRIBUTORS[1]].map(|a| a.load(Ordering::Relaxed));
    while at < end {
        let frame = Mmio::new(at);
        let kind = frame.read(GICR_TYPER);
        if frame.read(GICR_TYPER + 4) == packed {
            return Some(at);
        }
        if kind & TYPER_LAST != 0 {
            break;
        }
        // Two frames; with virtual LPIs four.
        at += if kind & TYPER_VLPIS != 0 {
            0x4_0000
        } else {
            0x2_0000
        };
    }
    None
}

/// Enables an interrupt on this CPU.
pub(crate) fn enable(interrupt: u32) {
    let (word, bit) = (u64::from(interrupt / 32) * 4, 1 << (interrupt % 32));
    if VERSION.load(Ordering::Relaxed) == 2 {
        distributor().write(GICD_ISENABLER + word, bit);
    } else if interrupt < 32 {
        local().write(GICR_SGI + GICD_ISENABLER, bit);
    } else {
        distributor().write64(GICD_IROUTER + u64::from(interrupt) * 8, affinity());
        distributor().write(GICD_ISENABLER + word, bit);
    }
}

/// Acknowledges the pending interrupt, if any: the value that [`end`] takes, whose low bits are the
/// number.
pub(crate) fn take() -> Option<u32> {
    let raw = match VERSION.load(Ordering::Relaxed) {
        2 => local().read(GICC_IAR),
        _ => regs::read!("S3_0_C12_C12_0") as u32,
    };
    (!(SPURIOUS..SPURIOUS + 4).contains(&number(raw))).then_some(raw)
}

/// The interrupt's number.
pub(crate) fn number(raw: u32) -> u32 {
    if VERSION.load(Ordering::Relaxed) == 2 {
        raw & 0x3ff
    } else {
        raw
    }
}

/// Ends an interrupt whose device no longer asserts it.
pub(crate) fn end(raw: u32) {
    if VERSION.load(Ordering::Relaxed) == 2 {
        local().write(GICC_EOIR, raw);
    } else {
        regs::write!("S3_0_C12_C12_1", u64::from(raw));
        regs::isb();
    }
}
