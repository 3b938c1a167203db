//! ACPI's static tables (ACPI 6.5 chapter 5.2): the way from the root pointer to each of them, and what both architectures ask.
//!
//! Nothing here trusts a length or an address further than to read what [`Memory`] gives.

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
/// No table that is read here has more bytes.
const LONGEST: u32 = 1 << 20;

/// A table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// Its name.
    pub signature: [u8; 4],
    /// Where it begins, with its header.
    pub at: u64,
    /// Its bytes, the header's included.
    pub len: u64,
}

impl Table {
    fn read(memory: &impl Memory, at: u64) -> Option<Table> {
        let len = memory.u32(at + 4);
        let sound = at != 0 && (HEADER as u32..=LONGEST).contains(&len);
        sound.then(|| Table {
            signature: memory.bytes(at),
            at,
            len: len.into(),
        })
    }
}

/// The tables under a root pointer (RSDP, 5.2.5): by the XSDT, else by the RSDT. None when it is not one.
pub fn tables<M: Memory>(memory: &M, rsdp: u64) -> impl Iterator<Item = Table> + '_ {
    let is_root = &memory.bytes::<8>(rsdp) == b"RSD PTR ";
    let xsdt = match memory.u8(rsdp + 15) {
        2.. if is_root => memory.u64(rsdp + 24),
        _ => 0,
    };
    let (root, width) = match xsdt {
        0 => (u64::from(memory.u32(rsdp + 16)), 4),
        xsdt => (xsdt, 8),
    };
    let root = Table::read(memory, root).filter(|_| is_root);
    let places = root.map_or(0..0, |root| root.at + HEADER..root.at + root.len);
    places.step_by(width).filter_map(move |place| {
        let at = match width {
            4 => memory.u32(place).into(),
            _ => memory.u64(place),
        };
        Table::read(memory, at)
    })
}

/// The entries of a MADT (5.2.12), each by its kind and where it begins: {kind, length, ...} from byte 44 on.
pub fn madt<M: Memory>(memory: &M, table: Table) -> impl Iterator<Item = (u8, u64)> + '_ {
    let mut at = table.at + 44;
    core::iter::from_fn(move || {
        let (entry, len) = (at, u64::from(memory.u8(at + 1)));
        at += len;
        (len >= 2 && at <= table.at + table.len).then(|| (memory.u8(entry), entry))
    })
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
        fn table(&mut self, at: usize, signature: &[u8; 4], len: u32) -> Table {
            self.put(at, signature);
            self.put(at + 4, &len.to_le_bytes());
            Table {
                signature: *signature,
                at: at as u64,
                len: len.into(),
            }
        }
    }

    fn machine(revision: u8) -> (Bytes, [Table; 2]) {
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
}
