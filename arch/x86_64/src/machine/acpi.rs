//! Facts from the ACPI tables (ACPI 6.5 ch. 5.2): CPUs, interrupt controllers, power off, reset.
//! Without tables: the PC's defaults. Read once at boot through the early direct map, then kept.

use super::{direct_map, early};
use arch_boot::acpi::{self, AcpiTable, IsaLine, Memory};
use arch_boot::cpus::{self, Cpus};
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
        // SAFETY: a register the firmware names for this purpose; a memory one is in
        // `BootInfo::devices`.
        unsafe {
            match (self.io, wide) {
                (true, true) => Port::new(self.at as u16).write(value),
                (true, false) => Port::new(self.at as u16).write(value as u8),
                (false, true) => direct_map::pointer::<u16>(self.at).write_volatile(value),
                (false, false) => direct_map::pointer::<u8>(self.at).write_volatile(value as u8),
            }
        }
    }
}

/// Lines of the ISA bus.
const ISA_LINES: usize = 16;
const PC_LINES: [IsaLine; ISA_LINES] = {
    let mut lines = [IsaLine::isa(0); ISA_LINES];
    let mut irq = 0;
    while irq < ISA_LINES {
        lines[irq] = IsaLine::isa(irq as u8);
        irq += 1;
    }
    lines
};

/// ACPI's fixed hardware, the part that turns the power off (4.8.3.2).
#[derive(Clone, Copy)]
pub struct Power {
    /// PM1 control registers (16 bits) a and b, each with the value for "off"; a port of 0 means no
    /// register.
    pub controls: [(u16, u8); 2],
    /// The port and the value that make the firmware hand the registers over (SMI_CMD,
    /// ACPI_ENABLE); (0, 0) when it has done so.
    pub enable: (u16, u8),
}

/// The platform as the tables describe it.
pub struct Platform {
    /// Physical address of the local APIC's page.
    pub local_apic: u64,
    /// Physical address of the first I/O APIC.
    pub io_apic: u64,
    isa: [IsaLine; ISA_LINES],
    /// The CPUs that can be used.
    pub cpus: Cpus,
    /// The power manager of machines with ACPI's fixed hardware.
    pub power: Option<Power>,
    /// Sleep control register: hardware-reduced machines (QEMU microvm).
    pub sleep_control: Option<Register>,
    /// Reset register and the value to write.
    pub reset: Option<(Register, u8)>,
}

impl Platform {
    /// The PC's defaults: both APICs at their reset addresses, ISA lines one to one, edge, active
    /// high.
    const fn pc() -> Self {
        Platform {
            local_apic: 0xfee0_0000,
            io_apic: 0xfec0_0000,
            isa: PC_LINES,
            cpus: Cpus::new_const(),
            power: None,
            sleep_control: None,
            reset: None,
        }
    }

    /// How ISA line `irq` is wired.
    pub fn isa_line(&self, irq: u8) -> IsaLine {
        self.isa[usize::from(irq) % ISA_LINES]
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

/// The platform as the tables describe it.
pub fn platform() -> &'static Platform {
    // SAFETY: see `Holder`.
    unsafe { &*PLATFORM.0.get() }
}

/// Reads the tables under the RSDP, as far as the early direct map reaches: firmware puts them
/// below 4 GiB.
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
fn read_madt(table: AcpiTable, platform: &mut Platform) {
    platform.local_apic = u64::from(Tables.u32(table.at + 36));
    for cpu in acpi::local_apics(&Tables, table) {
        cpus::list(&mut platform.cpus, cpu);
    }
    for (kind, at) in acpi::madt(&Tables, table) {
        match kind {
            // I/O APIC whose inputs start at global interrupt 0.
            1 if Tables.u32(at + 8) == 0 => platform.io_apic = u64::from(Tables.u32(at + 4)),
            // Interrupt source override of an ISA line.
            2 => {
                let (irq, line) = acpi::override_of_isa(&Tables, at);
                if let Some(slot) = platform.isa.get_mut(usize::from(irq)) {
                    *slot = line;
                }
            }
            // Local APIC address, with 64 bits.
            5 => platform.local_apic = Tables.u64(at + 4),
            _ => {}
        }
    }
}

/// Fixed ACPI description table, 5.2.9.
fn read_fadt(table: AcpiTable, platform: &mut Platform) {
    let flags = Tables.u32(table.at + 112);
    platform.power = power(table);
    if flags & 1 << 10 != 0 && table.len >= 129 {
        platform.reset = register(table.at + 116).map(|r| (r, Tables.u8(table.at + 128)));
    }
    if flags & 1 << 20 != 0 && table.len >= 256 {
        platform.sleep_control = register(table.at + 244);
    }
}

/// The fixed hardware's registers; without an "off" value in the DSDT it is 0, as in QEMU.
fn power(fadt: AcpiTable) -> Option<Power> {
    let [pm1a, pm1b] = [64, 68].map(|at| Tables.u32(fadt.at + at) as u16);
    let x_dsdt = if fadt.len >= 148 {
        Tables.u64(fadt.at + 140)
    } else {
        0
    };
    let places = [x_dsdt, Tables.u32(fadt.at + 40).into()];
    let dsdt = places
        .into_iter()
        .find_map(|at| AcpiTable::named(&Tables, at, b"DSDT"));
    let off = dsdt.and_then(|dsdt| acpi::sleep_types_of_off(&Tables, dsdt));
    let (a, b) = off.unwrap_or_default();
    let enable = (Tables.u32(fadt.at + 48) as u16, Tables.u8(fadt.at + 52));
    (pm1a != 0).then_some(Power {
        controls: [(pm1a, a), (pm1b, b)],
        enable,
    })
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
        if at > early::limit() - N as u64 {
            return [0; N];
        }
        // SAFETY: the early direct map covers all below its limit, whatever is there; any bytes
        // make an array.
        unsafe { direct_map::pointer::<[u8; N]>(at).read_unaligned() }
    }
}
