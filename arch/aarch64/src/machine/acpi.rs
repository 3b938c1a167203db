//! Facts from ACPI's tables where UEFI passes no device tree (ACPI 6.5; SPCR and its interface
//! types: Microsoft's "Serial Port Console Redirection Table" and "Debug Port Table 2").

use super::early;
use crate::board::{Controller, Devices, Uart, UartKind};
use crate::fdt::{REACH, range};
use arch_boot::DIRECT_MAP;
use arch_boot::acpi::{self, AcpiTable, GICC, Memory};
use arch_boot::cpus::Cpus;
use mm::addr::{PhysAddr, PhysRange};

/// The tables, mapped as they are read.
struct Tables;

impl Memory for Tables {
    fn bytes<const N: usize>(&self, at: u64) -> [u8; N] {
        if at == 0 || at >= REACH - N as u64 {
            return [0; N];
        }
        early::map(PhysRange::new(PhysAddr(at), PhysAddr(at + N as u64)), false);
        // SAFETY: the direct map now covers the bytes; the firmware's tables name each other, and
        // any bytes make an array.
        unsafe { ((DIRECT_MAP + at) as *const [u8; N]).read_unaligned() }
    }
}

/// The devices and CPUs that the tables under `rsdp` name; `None` without an interrupt controller
/// among them, which the kernel requires.
pub fn read(rsdp: PhysAddr) -> Option<(Devices, Cpus)> {
    let (mut devices, mut cpus) = (Devices::default(), Cpus::new());
    for table in acpi::tables(&Tables, rsdp.0) {
        match &table.signature {
            b"APIC" => {
                devices.controller = controller(table);
                cpus = acpi::gic_interfaces(&Tables, table);
            }
            b"FACP" => devices.psci_smc = psci_smc(table),
            // The virtual timer's interrupt.
            b"GTDT" => devices.timer = Some(Tables.u32(table.at + 64)),
            b"SPCR" => devices.uart = uart(table),
            _ => {}
        }
    }
    devices.controller.is_some().then_some((devices, cpus))
}

/// Kinds of the MADT's entries (5.2.12): the distributor, a range of redistributors.
const GICD: u8 = 12;
const GICR: u8 = 14;

/// The GIC: version 3 where there are redistributors, listed as ranges or per CPU.
fn controller(madt: AcpiTable) -> Option<Controller> {
    let (mut distributor, mut interface, mut redistributors) = (None, None, None);
    for (kind, at) in acpi::madt(&Tables, madt) {
        match kind {
            GICD => distributor = Some(Tables.u64(at + 8)),
            GICR => redistributors = range(Tables.u64(at + 4), Tables.u32(at + 12).into()),
            GICC if interface.is_none() => {
                interface = Some(Tables.u64(at + 32));
                let own = Tables.u64(at + 60);
                if own != 0 && redistributors.is_none() {
                    redistributors = range(own, 0x2_0000);
                }
            }
            _ => {}
        }
    }
    let distributor = distributor?;
    match (redistributors, interface) {
        (Some(all), _) => Some(Controller::GicV3(range(distributor, 0x1_0000)?, all)),
        (None, Some(interface)) if interface != 0 => Some(Controller::GicV2(
            range(distributor, 0x1000)?,
            range(interface, 0x2000)?,
        )),
        _ => None,
    }
}

/// How PSCI is called (FADT, ARM_BOOT_ARCH, 5.2.9.4): bit 0 it is there, bit 1 by `hvc`.
fn psci_smc(fadt: AcpiTable) -> Option<bool> {
    let flags = Tables.u16(fadt.at + 129);
    (fadt.len >= 131 && flags & 1 != 0).then_some(flags & 2 == 0)
}

/// The console, when it is a memory-mapped PL011 or an SBSA UART.
fn uart(spcr: AcpiTable) -> Option<Uart> {
    let (interface, space) = (Tables.u8(spcr.at + 36), Tables.u8(spcr.at + 40));
    let start = Tables.u64(spcr.at + 44);
    let (wired, interrupt) = (Tables.u8(spcr.at + 52), Tables.u32(spcr.at + 54));
    let pl011 = matches!(interface, 3 | 0xd | 0xe) && space == 0 && start != 0;
    let window = range(start, 0x1000).filter(|_| pl011)?;
    Some(Uart {
        kind: UartKind::Pl011,
        window,
        // Bit 3: by the GIC.
        interrupt: (wired & 8 != 0).then_some(interrupt),
    })
}
