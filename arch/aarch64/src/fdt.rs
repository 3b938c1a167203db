//! What the device tree tells: RAM, what of it is taken, the command line, and where the few devices are.
//!
//! Device addresses are taken as they stand: buses with `ranges` other than identity are not followed.

use arrayvec::ArrayVec;
use dtoolkit::fdt::{Fdt, FdtNode};
use dtoolkit::standard::NodeStandard;
use dtoolkit::{Node, Property};
use mm::addr::{PhysAddr, PhysRange};

/// Which interrupt controller there is, and its register windows.
#[derive(Clone, Copy, Debug)]
pub enum Gic {
    /// GICv2: distributor, CPU interface.
    V2(PhysRange, PhysRange),
    /// GICv3: distributor, the first region of redistributors.
    V3(PhysRange, PhysRange),
}

/// The devices the kernel drives.
#[derive(Clone, Copy, Debug, Default)]
pub struct Devices {
    /// PL011 and its interrupt.
    pub uart: Option<(PhysRange, u32)>,
    /// The interrupt controller.
    pub gic: Option<Gic>,
    /// PL031.
    pub rtc: Option<PhysRange>,
    /// The virtual timer's interrupt.
    pub timer: Option<u32>,
    /// PSCI by `smc` (true) or `hvc`.
    pub psci_smc: Option<bool>,
}

/// Memory as the tree describes it, unsorted.
#[derive(Debug, Default)]
pub struct Memory {
    /// RAM.
    pub ram: ArrayVec<PhysRange, 32>,
    /// Reserved parts of it.
    pub reserved: ArrayVec<PhysRange, 32>,
}

/// The `reg` windows of a node.
fn windows(node: FdtNode<'_>) -> ArrayVec<PhysRange, 8> {
    let mut out = ArrayVec::new();
    for reg in node.reg().ok().flatten().into_iter().flatten() {
        if let (Ok(start), Ok(size)) = (reg.address::<u64>(), reg.size::<u64>())
            && size > 0
            && let Some(end) = start.checked_add(size)
            && !out.is_full()
        {
            out.push(PhysRange::new(PhysAddr(start), PhysAddr(end)));
        }
    }
    out
}

/// The interrupt number of entry `index` of `interrupts`, three cells each: kind (0 shared, 1 private), number, flags.
fn interrupt(node: &FdtNode<'_>, index: usize) -> Option<u32> {
    let property = node.property("interrupts")?;
    let cell = |i: usize| {
        property
            .value()
            .get(i * 4..i * 4 + 4)
            .map(|b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]))
    };
    match (cell(index * 3)?, cell(index * 3 + 1)?) {
        (0, number) => Some(32 + number),
        (1, number) => Some(16 + number),
        _ => None,
    }
}

/// RAM and reserved memory.
pub fn memory(fdt: Fdt<'_>) -> Memory {
    let mut out = Memory::default();
    for node in fdt
        .root()
        .children()
        .filter(|n| n.name_without_address() == "memory")
    {
        for range in windows(node) {
            if out.ram.try_push(range).is_err() {
                break;
            }
        }
    }
    for reserved in fdt.memory_reservations() {
        let start = PhysAddr(reserved.address());
        reserve(&mut out, PhysRange::new(start, start + reserved.size()));
    }
    if let Some(parent) = fdt.find_node("/reserved-memory") {
        for node in parent.children() {
            for range in windows(node) {
                reserve(&mut out, range);
            }
        }
    }
    out
}

fn reserve(out: &mut Memory, range: PhysRange) {
    assert!(
        out.reserved.try_push(range).is_ok(),
        "more than 32 reserved ranges in the device tree"
    );
}

/// The command line; empty when there is none.
pub fn command_line<'a>(fdt: Fdt<'a>) -> &'a str {
    let Some(chosen) = fdt.find_node("/chosen") else {
        return "";
    };
    let text = chosen
        .properties()
        .find(|p| p.name() == "bootargs")
        .and_then(|p| p.value_as::<&str>().ok());
    text.unwrap_or("")
}

/// The loader's initramfs.
pub fn initramfs(fdt: Fdt<'_>) -> Option<PhysRange> {
    let chosen = fdt.find_node("/chosen")?;
    let address = |name: &str| {
        let value = chosen.property(name)?;
        // One cell or two, as the loader likes.
        Some(
            value
                .value()
                .iter()
                .fold(0u64, |sum, byte| sum << 8 | u64::from(*byte)),
        )
    };
    let (start, end) = (address("linux,initrd-start")?, address("linux,initrd-end")?);
    (start < end).then(|| PhysRange::new(PhysAddr(start), PhysAddr(end)))
}

/// The devices, by their `compatible` words, wherever they stand in the tree.
pub fn devices(fdt: Fdt<'_>) -> Devices {
    let mut out = Devices::default();
    collect(fdt.root(), &mut out, 0);
    // The console that /chosen names goes before the first one.
    let chosen = fdt.find_node("/chosen");
    let path = chosen.and_then(|c| {
        c.property("stdout-path")
            .and_then(|p| p.value_as::<&str>().ok())
    });
    if let Some(node) = path.and_then(|p| fdt.find_node(p.split(':').next().unwrap_or(p)))
        && node.is_compatible("arm,pl011")
    {
        uart(node, &mut out);
    }
    out
}

fn uart(node: FdtNode<'_>, out: &mut Devices) {
    if let Some(window) = windows(node).first() {
        out.uart = Some((*window, interrupt(&node, 0).unwrap_or(0)));
    }
}

fn collect(parent: FdtNode<'_>, out: &mut Devices, depth: u32) {
    for node in parent.children() {
        if node
            .property("status")
            .is_some_and(|s| s.value().starts_with(b"disabled"))
        {
            continue;
        }
        let is = |name: &str| node.is_compatible(name);
        let regs = windows(node);
        let pair = || Some((*regs.first()?, *regs.get(1)?));
        if is("arm,pl011") && out.uart.is_none() {
            uart(node, out);
        } else if is("arm,pl031") {
            out.rtc = regs.first().copied();
        } else if is("arm,gic-v3") {
            out.gic = pair().map(|(d, r)| Gic::V3(d, r));
        } else if is("arm,cortex-a15-gic") || is("arm,gic-400") {
            out.gic = pair().map(|(d, c)| Gic::V2(d, c));
        } else if is("arm,armv8-timer") {
            // Secure, non-secure, virtual, hypervisor.
            out.timer = interrupt(&node, 2);
        } else if is("arm,psci") || is("arm,psci-0.2") || is("arm,psci-1.0") {
            out.psci_smc = node
                .property("method")
                .map(|m| m.value().starts_with(b"smc"));
        }
        if depth < 4 {
            collect(node, out, depth + 1);
        }
    }
}
