//! ACPI's static tables (ACPI 6.5 chapter 5.2): from the root pointer to each table, and the tables
//! that both architectures read.
//!
//! Lengths and addresses in the tables are not trusted: all reads go through [`Memory`].

use crate::cpus::{self, Cpu, Cpus, Start};

/// Physical memory with the firmware's tables in it.
pub trait Memory {
    /// The bytes at a physical address; zeros where none can be read.
    fn bytes<const N: usize>(&self, at: u64) -> [u8; N];

    /// A number of 8 bits.
    fn u8(&self, at: u64) -> u8 {
        self.bytes::<1>(at)[0]
    }
    /// A number of 16 bits.
    fn u16(&self, at: u64) -> u16 {
        u16::from_le_bytes(self.bytes(at))
    }
    /// A number of 32 bits.
    fn u32(&self, at: u64) -> u32 {
        u32::from_le_bytes(self.bytes(at))
    }
    /// A number of 64 bits.
    fn u64(&self, at: u64) -> u64 {
        u64::from_le_bytes(self.bytes(at))
    }
}

/// The bytes of every table's header.
const HEADER: u64 = 36;
/// Upper limit on the size of a table, in bytes.
const LONGEST: u32 = 1 << 20;

/// A table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcpiTable {
    /// Its name.
    pub signature: [u8; 4],
    /// Where it begins, with its header.
    pub at: u64,
    /// Its bytes, the header's included.
    pub len: u64,
}

impl AcpiTable {
    fn read(memory: &impl Memory, at: u64) -> Option<AcpiTable> {
        let len = memory.u32(at + 4);
        let sound = at != 0 && (HEADER as u32..=LONGEST).contains(&len);
        sound.then(|| AcpiTable {
            signature: memory.bytes(at),
            at,
            len: len.into(),
        })
    }
}

/// The tables under a root pointer (RSDP, 5.2.5): by the XSDT, else by the RSDT. None when it is
/// not one.
pub fn tables<M: Memory>(memory: &M, rsdp: u64) -> impl Iterator<Item = AcpiTable> + '_ {
    let is_root = &memory.bytes::<8>(rsdp) == b"RSD PTR ";
    let xsdt = match memory.u8(rsdp + 15) {
        2.. if is_root => memory.u64(rsdp + 24),
        _ => 0,
    };
    let (root, width) = match xsdt {
        0 => (u64::from(memory.u32(rsdp + 16)), 4),
        xsdt => (xsdt, 8),
    };
    let root = AcpiTable::read(memory, root).filter(|_| is_root);
    let places = root.map_or(0..0, |root| root.at + HEADER..root.at + root.len);
    places.step_by(width).filter_map(move |place| {
        let at = match width {
            4 => memory.u32(place).into(),
            _ => memory.u64(place),
        };
        AcpiTable::read(memory, at)
    })
}

/// The entries of a MADT (5.2.12), each by its kind and where it begins: {kind, length, ...} from
/// byte 44 on.
pub fn madt<M: Memory>(memory: &M, table: AcpiTable) -> impl Iterator<Item = (u8, u64)> + '_ {
    let mut at = table.at + 44;
    core::iter::from_fn(move || {
        let (entry, len) = (at, u64::from(memory.u8(at + 1)));
        at += len;
        (len >= 2 && at <= table.at + table.len).then(|| (memory.u8(entry), entry))
    })
}

/// A MADT's entry for the interface of a GIC to a CPU (5.2.12.14).
pub const GICC: u8 = 11;

/// The CPUs of a PC's MADT that are enabled: entries for a local APIC (kind 0, an ID of 8 bits) and
/// a local x2APIC (kind 9, one of 32), of which a CPU may have both. All bits set is no CPU's ID.
pub fn local_apics<M: Memory>(memory: &M, table: AcpiTable) -> Cpus {
    let mut found = Cpus::new();
    for (kind, at) in madt(memory, table) {
        let (id, flags) = match kind {
            0 => (u32::from(memory.u8(at + 3)), memory.u32(at + 4)),
            9 => (memory.u32(at + 4), memory.u32(at + 8)),
            _ => continue,
        };
        let none = if kind == 0 { 0xff } else { u32::MAX };
        if flags & 1 != 0 && id != none {
            let (id, start) = (id.into(), Start::Sipi);
            cpus::list(&mut found, Cpu { id, start });
        }
    }
    found
}

/// The CPUs of an Arm machine's MADT that are enabled; PSCI starts them.
pub fn gic_interfaces<M: Memory>(memory: &M, table: AcpiTable) -> Cpus {
    let mut found = Cpus::new();
    for (_, at) in madt(memory, table).filter(|(kind, _)| *kind == GICC) {
        if memory.u32(at + 12) & 1 != 0 {
            let (id, start) = (memory.u64(at + 68), Start::Psci);
            cpus::list(&mut found, Cpu { id, start });
        }
    }
    found
}

/// How an ISA interrupt reaches the I/O APICs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IsaLine {
    /// Global number of the input.
    pub input: u32,
    /// Active low rather than high.
    pub active_low: bool,
    /// Level-triggered rather than edge.
    pub level: bool,
}

impl IsaLine {
    /// The default without an override: the input of the same number, edge-triggered, active high.
    pub const fn isa(irq: u8) -> IsaLine {
        IsaLine {
            input: irq as u32,
            active_low: false,
            level: false,
        }
    }
}

/// An entry of kind 2 of a MADT (5.2.12.5): which ISA interrupt is wired otherwise, and how.
pub fn override_of_isa<M: Memory>(memory: &M, at: u64) -> (u8, IsaLine) {
    let flags = memory.u8(at + 8);
    let line = IsaLine {
        input: memory.u32(at + 4),
        active_low: flags & 3 == 3,
        level: flags >> 2 & 3 == 3,
    };
    (memory.u8(at + 3), line)
}

/// What the power manager's two registers take for "off" (SLP_TYPa and b): the first two numbers of
/// the package `_S5_` in a DSDT (7.4.2). Firmware writes them as constants, so its byte code need
/// not be run (20.2: NameOp, the name, PackageOp, PkgLength, how many, then ZeroOp, OneOp or
/// BytePrefix and a byte each).
pub fn sleep_types_of_off<M: Memory>(memory: &M, dsdt: AcpiTable) -> Option<(u8, u8)> {
    let mut names = dsdt.at + HEADER..dsdt.at + dsdt.len;
    let at = names.find(|at| &memory.bytes::<4>(*at) == b"_S5_" && memory.u8(at + 4) == 0x12)?;
    // The two highest bits: how many more bytes PkgLength has.
    let mut next = at + 7 + u64::from(memory.u8(at + 5) >> 6);
    let mut number = || {
        let (op, value) = (memory.u8(next), memory.u8(next + 1));
        next += if op == 0x0a { 2 } else { 1 };
        match op {
            0 | 1 => Some(op),
            0x0a => Some(value),
            _ => None,
        }
    };
    Some((number()?, number()?))
}

impl AcpiTable {
    /// The table at an address, when there is one with this name.
    pub fn named<M: Memory>(memory: &M, at: u64, signature: &[u8; 4]) -> Option<AcpiTable> {
        AcpiTable::read(memory, at).filter(|table| &table.signature == signature)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::vec::Vec;

    struct Bytes(Vec<u8>);

    impl Memory for Bytes {
        fn bytes<const N: usize>(&self, at: u64) -> [u8; N] {
            let bytes = self.0.get(at as usize..).and_then(|b| b.first_chunk());
            bytes.copied().unwrap_or([0; N])
        }
    }

    impl Bytes {
        fn put(&mut self, at: usize, bytes: &[u8]) {
            self.0[at..at + bytes.len()].copy_from_slice(bytes);
        }
        fn table(&mut self, at: usize, signature: &[u8; 4], len: u32) -> AcpiTable {
            self.put(at, signature);
            self.put(at + 4, &len.to_le_bytes());
            AcpiTable {
                signature: *signature,
                at: at as u64,
                len: len.into(),
            }
        }
    }

    fn machine(revision: u8) -> (Bytes, [AcpiTable; 2]) {
        let mut memory = Bytes([0; 1024].into());
        memory.put(16, b"RSD PTR ");
        memory.put(16 + 15, &[revision]);
        memory.put(16 + 16, &100u32.to_le_bytes());
        memory.put(16 + 24, &200u64.to_le_bytes());
        memory.table(100, b"RSDT", 36 + 8);
        memory.table(200, b"XSDT", 36 + 24);
        let tables = [
            memory.table(300, b"APIC", 44 + 8 + 12),
            memory.table(400, b"FACP", 276),
        ];
        memory.put(100 + 36, &300u32.to_le_bytes());
        memory.put(100 + 40, &400u32.to_le_bytes());
        memory.put(200 + 36, &300u64.to_le_bytes());
        // Nothing at 0 and nothing where no memory is.
        memory.put(200 + 44, &[0; 8]);
        memory.put(200 + 52, &(1u64 << 40).to_le_bytes());
        (memory, tables)
    }

    #[test]
    fn by_the_old_root_and_the_new_one() {
        let (memory, [madt, fadt]) = machine(0);
        assert_eq!(tables(&memory, 16).collect::<Vec<_>>(), [madt, fadt]);
        let (memory, [madt, _]) = machine(2);
        assert_eq!(tables(&memory, 16).collect::<Vec<_>>(), [madt]);
        assert_eq!(tables(&memory, 17).count(), 0, "no root pointer");
        assert_eq!(tables(&memory, 4096).count(), 0, "no memory");
    }

    #[test]
    fn entries_end_with_the_table_or_where_they_make_no_sense() {
        let (mut memory, [table, _]) = machine(2);
        memory.put(344, &[0, 8]);
        memory.put(352, &[1, 12]);
        let kinds = |memory: &Bytes| madt(memory, table).collect::<Vec<_>>();
        assert_eq!(kinds(&memory), [(0, 344), (1, 352)]);
        memory.put(352, &[1, 13]);
        assert_eq!(kinds(&memory), [(0, 344)], "longer than the table");
        memory.put(344, &[0, 0]);
        assert_eq!(kinds(&memory), [], "no length");
    }

    fn ids(cpus: Cpus) -> Vec<u64> {
        cpus.iter().map(|cpu| cpu.id).collect()
    }

    #[test]
    fn cpus_of_a_pc() {
        let mut memory = Bytes([0; 4096].into());
        let table = memory.table(0, b"APIC", 44 + 5 * 8 + 3 * 16);
        // IDs 0 and 4, 4 again, a disabled one that could be plugged in, none.
        for (i, (id, flags)) in [(0, 1), (4, 1), (4, 1), (5, 2), (255, 1)]
            .iter()
            .enumerate()
        {
            memory.put(44 + i * 8, &[0, 8, 0, *id, *flags]);
        }
        // x2APICs 4 and 300, none.
        for (i, id) in [4, 300, u32::MAX].iter().enumerate() {
            memory.put(84 + i * 16, &[9, 16]);
            memory.put(84 + i * 16 + 4, &id.to_le_bytes());
            memory.put(84 + i * 16 + 8, &[1]);
        }
        assert_eq!(ids(local_apics(&memory, table)), [0, 4, 300]);
        let cut = AcpiTable {
            len: 44 + 12,
            ..table
        };
        assert_eq!(
            ids(local_apics(&memory, cut)),
            [0],
            "the second entry is cut"
        );
    }

    #[test]
    fn more_cpus_than_are_listed() {
        let mut memory = Bytes([0; 4096].into());
        let table = memory.table(0, b"APIC", 44 + 200 * 8);
        for i in 0..200 {
            memory.put(44 + i * 8, &[0, 8, 0, i as u8, 1]);
        }
        assert_eq!(local_apics(&memory, table).len(), 128);
    }

    #[test]
    fn cpus_with_a_gic() {
        let mut memory = Bytes([0; 4096].into());
        let table = memory.table(0, b"APIC", 44 + 4 * 80);
        // Two clusters; the third is disabled, the fourth is the first again.
        for (i, (affinity, flags)) in [(0, 1), (0x100, 1), (0x200, 0), (0, 1)].iter().enumerate() {
            memory.put(44 + i * 80, &[GICC, 80]);
            memory.put(44 + i * 80 + 12, &[*flags]);
            memory.put(44 + i * 80 + 68, &u64::to_le_bytes(*affinity));
        }
        assert_eq!(ids(gic_interfaces(&memory, table)), [0, 0x100]);
    }

    #[test]
    fn lines_that_are_wired_otherwise() {
        let mut memory = Bytes([0; 64].into());
        // The timer at input 2 as usual; the system control interrupt, low and level; a laptop's
        // keyboard, low.
        memory.put(0, &[2, 10, 0, 0, 2, 0, 0, 0, 0, 0]);
        memory.put(10, &[2, 10, 0, 9, 9, 0, 0, 0, 0xf, 0]);
        memory.put(20, &[2, 10, 0, 1, 1, 0, 0, 0, 0x7, 0]);
        let line = |input, active_low, level| IsaLine {
            input,
            active_low,
            level,
        };
        assert_eq!(override_of_isa(&memory, 0), (0, line(2, false, false)));
        assert_eq!(override_of_isa(&memory, 10), (9, line(9, true, true)));
        assert_eq!(override_of_isa(&memory, 20), (1, line(1, true, false)));
    }

    #[test]
    fn what_off_is_called() {
        let off = |code: &[u8]| {
            let mut memory = Bytes([0; 256].into());
            let dsdt = memory.table(16, b"DSDT", HEADER as u32 + 64);
            memory.put(16 + HEADER as usize + 10, code);
            sleep_types_of_off(&memory, dsdt)
        };
        // QEMU's, a usual one, one with a long PkgLength, one with numbers of no known form,
        // another package's name.
        assert_eq!(off(b"\x08_S5_\x12\x06\x04\0\0\0\0"), Some((0, 0)));
        let usual = b"\x08_S5_\x12\x0a\x04\x0a\x07\x0a\x05\0\0";
        assert_eq!(off(usual), Some((7, 5)));
        let long = b"\x08_S5_\x12\x4a\0\x04\x01\x0a\x05\0\0";
        assert_eq!(off(long), Some((1, 5)));
        assert_eq!(off(b"\x08_S5_\x12\x06\x04\x70\0\0\0"), None);
        assert_eq!(off(b"\x08_S4_\x12\x06\x04\0\0\0\0"), None);
    }
}
