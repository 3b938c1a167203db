//! The device tree: RAM, reserved memory, the command line, CPUs and the devices that the kernel
//! drives.

use super::board::{Controller, Devices, Uart, UartKind};
use arch_boot::cpus::{self, Cpu, Cpus, Start};
use arch_boot::memory::{self, Ram, Ranges};
use arrayvec::ArrayVec;
use dtoolkit::fdt::{Fdt, FdtNode};
use dtoolkit::standard::NodeStandard;
use dtoolkit::{Node, Property};
use mm::addr::{PhysAddr, PhysRange};

/// Maximum size of a device tree in bytes, by the boot protocol.
pub const LARGEST: u64 = 2 << 20;
/// End of the early direct map: higher addresses are taken for errors.
pub const REACH: u64 = 1 << 46;
/// Number of interrupts of a GIC.
const INTERRUPTS: u32 = 1020;

/// The size of the device tree that begins with these bytes, from the header's second word; `None`
/// when it exceeds the limit.
pub fn length(bytes: &[u8]) -> Option<u64> {
    let length = u32::from_be_bytes(bytes.get(4..8)?.try_into().ok()?);
    (1..=LARGEST)
        .contains(&length.into())
        .then_some(length.into())
}

/// The device tree at the beginning of `bytes`, when it is complete and well-formed.
pub fn parse(bytes: &[u8]) -> Option<Fdt<'_>> {
    Fdt::new(bytes.get(..length(bytes)? as usize)?).ok()
}

/// The range of `length` bytes from `start`, when it is not empty and in reach.
pub fn range(start: u64, length: u64) -> Option<PhysRange> {
    let end = start
        .checked_add(length)
        .filter(|end| start < *end && *end <= REACH)?;
    Some(PhysRange::new(PhysAddr(start), PhysAddr(end)))
}

/// The number in a property of one cell or two.
fn big_endian(cells: &[u8]) -> u64 {
    let sum = |sum, byte: &u8| sum << 8 | u64::from(*byte);
    cells.iter().fold(0, sum)
}

/// The `reg` windows of a node.
fn windows(node: FdtNode<'_>) -> ArrayVec<PhysRange, 8> {
    let all = node.reg().ok().flatten().into_iter().flatten();
    all.filter_map(|reg| range(reg.address().ok()?, reg.size().ok()?))
        .take(8)
        .collect()
}

/// The number of entry `index` of `interrupts`. A GIC's have three cells: kind (0 shared, 1
/// private), number, flags; those of the Raspberry Pi 3 two: bank, number.
fn interrupt(node: &FdtNode<'_>, index: usize, cells: usize) -> Option<u32> {
    let property = node.property("interrupts")?;
    let cell = |i: usize| {
        let at = (index * cells + i) * 4;
        let bytes = property.value().get(at..at + 4)?;
        Some(u32::from_be_bytes(bytes.try_into().ok()?))
    };
    let number = match (cells, cell(0)?) {
        (2, bank @ 0..=2) => cell(1)?.checked_add(bank * 32),
        (3, 0) => cell(1)?.checked_add(32),
        (3, 1) => cell(1)?.checked_add(16),
        _ => None,
    };
    number.filter(|number| *number < INTERRUPTS)
}

/// RAM, and the ranges of it in use. Reserved memory with `no-map` is left out of RAM.
pub fn memory(fdt: Fdt<'_>) -> (Ram, Ranges) {
    let (mut ram, mut reserved) = (Ram::new(REACH), Ranges::new());
    let named = |node: &FdtNode<'_>| node.name_without_address() == "memory";
    for node in fdt.root().children().filter(named) {
        for range in windows(node) {
            ram.add(range);
        }
    }
    for entry in fdt.memory_reservations() {
        if let Some(range) = range(entry.address(), entry.size()) {
            keep_out(&mut ram, &mut reserved, range);
        }
    }
    if let Some(parent) = fdt.find_node("/reserved-memory") {
        for node in parent.children() {
            for range in windows(node) {
                match node.property("no-map") {
                    Some(_) => ram.remove(range),
                    None => keep_out(&mut ram, &mut reserved, range),
                }
            }
        }
    }
    (ram, reserved)
}

/// Adds a range to those in use; with a full list it is removed from RAM. The rest of the list is
/// for the ranges that the kernel itself reserves.
pub fn keep_out(ram: &mut Ram, reserved: &mut Ranges, range: PhysRange) {
    if reserved.remaining_capacity() > 8 {
        memory::reserve(reserved, range);
    } else {
        ram.remove(range);
    }
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

/// The loader's initramfs, by the properties in /chosen.
pub fn initramfs(fdt: Fdt<'_>) -> Option<PhysRange> {
    let chosen = fdt.find_node("/chosen")?;
    let address = |name: &str| {
        // One cell or two, as the loader likes.
        Some(big_endian(chosen.property(name)?.value()))
    };
    let (start, end) = (address("linux,initrd-start")?, address("linux,initrd-end")?);
    range(start, end.checked_sub(start)?)
}

/// The CPUs, and how each is started (Devicetree Specification 3.8). Disabled ones wait to be
/// started by their `enable-method`; failed ones are left out.
pub fn cpus(fdt: Fdt<'_>) -> Cpus {
    let Some(parent) = fdt.find_node("/cpus") else {
        return Cpus::new();
    };
    let starts = |node: &FdtNode<'_>, name: &str, with: &[u8]| {
        node.property(name)
            .is_some_and(|p| p.value().starts_with(with))
    };
    let usable = |node: &FdtNode<'_>| {
        starts(node, "device_type", b"cpu") && !starts(node, "status", b"fail")
    };
    let number = |node: &FdtNode<'_>, name: &str| {
        let property = node.property(name)?;
        let value = property.value();
        (value.len() <= 8).then(|| big_endian(value))
    };
    let mut cpus = Cpus::new();
    for node in parent.children().filter(usable) {
        let start = if starts(&node, "enable-method", b"psci") {
            Start::Psci
        } else if starts(&node, "enable-method", b"spin-table") {
            let at = number(&node, "cpu-release-addr");
            at.filter(|at| *at < REACH)
                .map_or(Start::Unknown, |at| Start::Spin(PhysAddr(at)))
        } else {
            Start::Unknown
        };
        if let Some(id) = number(&node, "reg") {
            cpus::list(&mut cpus, Cpu { id, start });
        }
    }
    cpus
}

/// The address of the console's registers on its own bus: `stdout-path` in /chosen, a path or an
/// alias, up to its settings; without it the alias `serial0`, which is at the header's pins of a
/// Raspberry Pi, be it the PL011 or the mini UART.
fn console(fdt: Fdt<'_>) -> Option<PhysAddr> {
    let chosen = fdt.find_node("/chosen");
    let path = chosen.and_then(|chosen| chosen.property("stdout-path"));
    let path = path.as_ref().and_then(|path| path.value_as::<&str>().ok());
    let name = path.map_or("serial0", |path| path.split(':').next().unwrap_or(path));
    let node = if name.starts_with('/') {
        fdt.find_node(name)?
    } else {
        let alias = fdt.find_node("/aliases")?.property(name)?;
        fdt.find_node(alias.value_as::<&str>().ok()?)?
    };
    Some(windows(node).first()?.start)
}

/// The devices, by their `compatible` strings, anywhere in the tree.
pub fn devices(fdt: Fdt<'_>) -> Devices {
    let mut found = Found {
        console: console(fdt),
        ..Found::default()
    };
    found.collect(fdt.root(), &|address| address, 0);
    let mut out = found.devices;
    if let (None, [Some(cores), Some(peripherals)]) = (out.controller, found.bcm2836) {
        out.controller = Some(Controller::Bcm2836(cores, peripherals));
    }
    out
}

/// The devices found so far.
#[derive(Default)]
struct Found {
    devices: Devices,
    console: Option<PhysAddr>,
    /// The Raspberry Pi 3's two interrupt controllers.
    bcm2836: [Option<PhysRange>; 2],
}

/// Converts an address on a bus to a physical address.
type ToCpu<'a> = &'a dyn Fn(u64) -> u64;

impl Found {
    /// Looks at the nodes on one bus.
    fn collect(&mut self, bus: FdtNode<'_>, to_cpu: ToCpu<'_>, depth: u32) {
        for node in bus.children() {
            let disabled = |s: &[u8]| s.starts_with(b"disabled");
            if node.property("status").is_some_and(|s| disabled(s.value())) {
                continue;
            }
            self.look(node, to_cpu);
            if depth < 4 {
                self.collect(node, &|address| to_cpu(to_parent(node, address)), depth + 1);
            }
        }
    }

    fn look(&mut self, node: FdtNode<'_>, to_cpu: ToCpu<'_>) {
        let is = |name: &str| node.is_compatible(name);
        let raw = windows(node);
        let window = |i: usize| {
            let raw = raw.get(i)?;
            range(to_cpu(raw.start.0), raw.len())
        };
        let pair = || Some((window(0)?, window(1)?));
        let out = &mut self.devices;
        if is("arm,pl011") || is("brcm,bcm2835-aux-uart") {
            let chosen = self.console.is_some() && raw.first().map(|r| r.start) == self.console;
            // A port with a device behind it talks to that, not to us.
            let free = || out.uart.is_none() && node.children().next().is_none();
            if let Some(window) = window(0).filter(|_| chosen || free()) {
                out.uart = Some(uart(node, window));
            }
        } else if is("arm,pl031") {
            out.rtc = window(0);
        } else if is("arm,gic-v3") {
            out.controller = pair().map(|(d, r)| Controller::GicV3(d, r));
        } else if is("arm,cortex-a15-gic") || is("arm,gic-400") {
            out.controller = pair().map(|(d, c)| Controller::GicV2(d, c));
        } else if is("brcm,bcm2836-l1-intc") {
            self.bcm2836[0] = window(0);
        } else if is("brcm,bcm2836-armctrl-ic") {
            self.bcm2836[1] = window(0);
        } else if is("arm,armv8-timer") {
            // Secure, non-secure, virtual, hypervisor.
            out.timer = interrupt(&node, 2, 3);
        } else if is("arm,psci") || is("arm,psci-0.2") || is("arm,psci-1.0") {
            out.psci_smc = node
                .property("method")
                .map(|m| m.value().starts_with(b"smc"));
        } else if is("brcm,bcm2835-mbox") {
            out.mailbox = window(0);
        } else if is("brcm,bcm2835-pm") || is("brcm,bcm2711-pm") || is("brcm,bcm2835-pm-wdt") {
            out.watchdog = window(0);
        }
    }
}

fn uart(node: FdtNode<'_>, window: PhysRange) -> Uart {
    let bytes = node.property("interrupts").map_or(0, |p| p.value().len());
    Uart {
        kind: if node.is_compatible("arm,pl011") {
            UartKind::Pl011
        } else {
            UartKind::Mini
        },
        window,
        interrupt: interrupt(&node, 0, bytes / 4),
    }
}

/// Converts an address behind `bus` to one in front of it, by its `ranges`; an address outside all
/// of them stays the same.
fn to_parent(bus: FdtNode<'_>, address: u64) -> u64 {
    for range in bus.ranges().ok().flatten().into_iter().flatten() {
        if let (Ok(child), Ok(parent), Ok(len)) = (
            range.child_bus_address::<u64>(),
            range.parent_bus_address::<u64>(),
            range.length::<u64>(),
        ) && address.wrapping_sub(child) < len
        {
            return parent.saturating_add(address - child);
        }
    }
    address
}

#[cfg(test)]
#[path = "fdt_tests.rs"]
mod tests;
