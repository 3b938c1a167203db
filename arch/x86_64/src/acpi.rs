//! The few facts needed from ACPI tables (ACPI 6.5 ch. 5.2): CPUs, interrupt controllers, power off, reset.
//! Without tables: the PC's defaults. Read once at boot through the early direct map, then kept.

use crate::boot::physical;
use crate::serial;
use arch_boot::acpi::{self, Memory, Table};
use arch_boot::{Cpu, Cpus, Start};
use arrayvec::ArrayVec;
use core::cell::UnsafeCell;
use mm::addr::{PAGE_SIZE, PhysAddr, PhysRange};
use x86_64::instructions::port::Port;

/// A register as ACPI describes it (generic address structure, 5.2.3.2).
#[derive(Clone, Copy)]
pub struct Register {
    io: bool,
    at: u64,
}

impl Register {
    /// Writes `value`, 8 or 16 bits as `wide` says.
    pub fn write(self, value: u16, wide: bool) {
        // SAFETY: a register the firmware names for this purpose; a memory one is in `BootInfo::devices`.
        unsafe {
            match (self.io, wide) {
                (true, true) => Port::new(self.at as u16).write(value),
                (true, false) => Port::new(self.at as u16).write(value as u8),
                (false, true) => physical::<u16>(self.at).write_volatile(value),
                (false, false) => physical::<u8>(self.at).write_volatile(value as u8),
            }
        }
    }
}

/// How an ISA interrupt reaches the I/O APIC.
#[derive(Clone, Copy)]
pub struct Line {
    /// Input of the first I/O APIC.
    pub input: u32,
    /// Active low rather than high.
    pub active_low: bool,
    /// Level-triggered rather than edge.
    pub level: bool,
}

/// What the tables said.
pub struct Platform {
    /// Physical address of the local APIC's page.
    pub local_apic: u64,
    /// Physical address of the first I/O APIC.
    pub io_apic: u64,
    serial: Line,
    /// The CPUs that can be used.
    pub cpus: Cpus,
    /// PM1a control block (16 bits): machines with ACPI's fixed hardware.
    pub pm1a_control: Option<u16>,
    /// Sleep control register: hardware-reduced machines (QEMU microvm).
    pub sleep_control: Option<Register>,
    /// Reset register and the value to write.
    pub reset: Option<(Register, u8)>,
}

impl Platform {
    /// The PC's defaults: both APICs at their reset addresses, ISA lines one to one, edge, active high.
    const fn pc() -> Self {
        Platform {
            local_apic: 0xfee0_0000,
            io_apic: 0xfec0_0000,
            serial: Line {
                input: serial::ISA_IRQ as u32,
                active_low: false,
                level: false,
            },
            cpus: Cpus::new_const(),
            pm1a_control: None,
            sleep_control: None,
            reset: None,
        }
    }

    /// Adds a CPU whose flags say that it is there, unless it is listed already, as the other kind of APIC.
    fn add_cpu(&mut self, id: u32, flags: u32) {
        let cpu = Cpu {
            id: id.into(),
            start: Start::Sipi,
        };
        if flags & 1 != 0 && !self.cpus.is_full() && !self.cpus.contains(&cpu) {
            self.cpus.push(cpu);
        }
    }

    /// How ISA line `irq` is wired.
    pub fn isa_line(&self, irq: u8) -> Line {
        if irq == serial::ISA_IRQ {
            self.serial
        } else {
            Line {
                input: u32::from(irq),
                active_low: false,
                level: false,
            }
        }
    }

    /// The device pages the kernel must map.
    pub fn windows(&self, into: &mut ArrayVec<PhysRange, 16>) {
        let registers = [self.sleep_control, self.reset.map(|r| r.0)];
        let memory = registers
            .into_iter()
            .flatten()
            .filter(|r| !r.io)
            .map(|r| r.at);
        for at in [self.local_apic, self.io_apic].into_iter().chain(memory) {
            let start = at & !(PAGE_SIZE - 1);
            let range = PhysRange::new(PhysAddr(start), PhysAddr(start + PAGE_SIZE));
            if !into.contains(&range) {
                into.push(range);
            }
        }
    }
}

struct Holder(UnsafeCell<Platform>);
// SAFETY: written once by `read_tables` on the boot CPU before any other use, read-only afterwards.
unsafe impl Sync for Holder {}
static PLATFORM: Holder = Holder(UnsafeCell::new(Platform::pc()));

/// What the tables said.
pub fn platform() -> &'static Platform {
    // SAFETY: see `Holder`.
    unsafe { &*PLATFORM.0.get() }
}

/// Reads the tables under the RSDP. Tables beyond the early direct map do not occur: firmware puts them below 4 GiB.
pub fn read_tables(rsdp: u64) {
    let mut platform = Platform::pc();
    for table in acpi::tables(&Tables, rsdp) {
        match &table.signature {
            b"APIC" => read_madt(table, &mut platform),
            b"FACP" => read_fadt(table, &mut platform),
            _ => {}
        }
    }
    // SAFETY: boot CPU, before any other user of the platform.
    unsafe { *PLATFORM.0.get() = platform };
}

/// Multiple APIC description table, 5.2.12.
fn read_madt(table: Table, platform: &mut Platform) {
    platform.local_apic = u64::from(Tables.u32(table.at + 36));
    for (kind, at) in acpi::madt(&Tables, table) {
        match kind {
            // Local APIC, with an ID of 8 bits; local x2APIC, with one of 32.
            0 => platform.add_cpu(Tables.u8(at + 3).into(), Tables.u32(at + 4)),
            9 => platform.add_cpu(Tables.u32(at + 4), Tables.u32(at + 8)),
            // I/O APIC whose inputs start at global interrupt 0.
            1 if Tables.u32(at + 8) == 0 => platform.io_apic = u64::from(Tables.u32(at + 4)),
            // Interrupt source override of an ISA line.
            2 if Tables.u8(at + 3) == serial::ISA_IRQ => {
                let flags = Tables.u8(at + 8);
                let (active_low, level) = (flags & 3 == 3, flags >> 2 & 3 == 3);
                platform.serial = Line {
                    input: Tables.u32(at + 4),
                    active_low,
                    level,
                };
            }
            _ => {}
        }
    }
}

/// Fixed ACPI description table, 5.2.9.
fn read_fadt(table: Table, platform: &mut Platform) {
    let flags = Tables.u32(table.at + 112);
    let pm1a = Tables.u32(table.at + 64);
    if pm1a != 0 {
        platform.pm1a_control = Some(pm1a as u16);
    }
    if flags & 1 << 10 != 0 && table.len >= 129 {
        platform.reset = register(table.at + 116).map(|r| (r, Tables.u8(table.at + 128)));
    }
    if flags & 1 << 20 != 0 && table.len >= 256 {
        platform.sleep_control = register(table.at + 244);
    }
}

/// A generic address structure: space (0 memory, 1 I/O), width, offset, size, address.
fn register(at: u64) -> Option<Register> {
    let (space, address) = (Tables.u8(at), Tables.u64(at + 4));
    (space <= 1 && address != 0).then_some(Register {
        io: space == 1,
        at: address,
    })
}

/// The tables through the early direct map.
struct Tables;

impl Memory for Tables {
    fn bytes<const N: usize>(&self, at: u64) -> [u8; N] {
        // SAFETY: firmware tables lie below 4 GiB, which the early direct map covers; any bytes make an array.
        unsafe { physical::<[u8; N]>(at & 0xffff_ffff).read_unaligned() }
    }
}
