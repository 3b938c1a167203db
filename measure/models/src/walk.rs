//! Walks of page tables in guest memory.
//!
//! [`walk`] reads what hardware would read for one address and says where; it changes nothing (the
//! accessed and dirty bits are the emulator's to set, before it reports the access).

pub mod aarch64;
pub mod x86_64;

/// Guest RAM by physical address.
pub trait Ram {
    /// The 8 bytes at an aligned address as a little-endian number; `None` where there is no RAM.
    fn read_u64(&self, physical: u64) -> Option<u64>;
}

/// The registers that page tables hang from, of one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Roots {
    /// No translation: virtual addresses are physical ones.
    #[default]
    Off,
    /// x86_64 in long mode.
    X86_64 {
        /// CR3: the first table, and the PCID.
        cr3: u64,
        /// CR4: PGE, LA57, PCIDE.
        cr4: u64,
        /// IA32_EFER: LMA, NXE.
        efer: u64,
    },
    /// aarch64, EL1&0, stage 1.
    Aarch64 {
        /// TTBR0_EL1.
        ttbr0: u64,
        /// TTBR1_EL1.
        ttbr1: u64,
        /// TCR_EL1.
        tcr: u64,
    },
}

impl Roots {
    /// The tag (PCID, ASID) that translations are cached under; 0 without tags.
    pub fn tag(&self) -> u16 {
        match *self {
            Roots::Off => 0,
            Roots::X86_64 { cr3, cr4, .. } => x86_64::tag(cr3, cr4),
            Roots::Aarch64 { ttbr0, ttbr1, tcr } => aarch64::tag(ttbr0, ttbr1, tcr),
        }
    }
}

/// Why an address has no translation. Levels are named by what one entry spans, as a power of two:
/// 48, 39, 30, 21, 12.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Not canonical (x86_64), or outside of both ranges (aarch64).
    Address,
    /// An entry that is not present, or that points nowhere because walks are disabled (EPD0/1).
    Absent {
        /// The level of the entry.
        level: u8,
    },
    /// An entry with reserved bits set, or of a kind that its level does not have.
    Malformed {
        /// The level of the entry.
        level: u8,
    },
    /// An entry without its access flag (aarch64), which no TLB may hold.
    Unused {
        /// The level of the entry.
        level: u8,
    },
    /// A table that is no RAM.
    NoRam {
        /// The physical address of the entry.
        physical: u64,
    },
    /// A mode that is not modelled; the text names it.
    Unsupported(&'static str),
}

/// One translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Translation {
    /// Physical address of the first byte of the page or block.
    pub physical: u64,
    /// Size of the page or block as a power of two: 12, 21, 30, or 39 (aarch64).
    pub size: u8,
    /// Whether it is one of 16 that may be cached as one (aarch64).
    pub contiguous: bool,
    /// Whether it holds under each tag.
    pub global: bool,
    /// Whether a write needs nothing more from the walker: allowed, and marked as written.
    pub writable: bool,
    /// The entry itself.
    pub entry: u64,
}

/// An entry that a walk read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Physical address of the entry.
    pub at: u64,
    /// What it spans, as a power of two.
    pub level: u8,
    /// The table it points to, unless the walk ended here.
    table: u64,
    /// Whether writes are allowed below, unless the walk ended here.
    writable: Option<bool>,
}

impl Step {
    /// The table it points to, unless the walk ended here, and whether writes are allowed below.
    pub fn table(&self) -> Option<(u64, bool)> {
        self.writable.map(|writable| (self.table, writable))
    }
}

/// Where a walk begins: a table, the level of its entries, and whether all entries above allow
/// writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// Physical address of the table.
    pub table: u64,
    /// What one of its entries spans, as a power of two.
    pub level: u8,
    /// Bits of the address that choose the entry: 9, or fewer in a first table.
    pub index_bits: u8,
    /// Whether writes are allowed below it.
    pub writable: bool,
}

/// What a walk read and found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walk {
    steps: [Step; 5],
    read: u8,
    /// The translation, or why there is none.
    pub found: Result<Translation, Fault>,
}

impl Walk {
    /// A walk that found nothing before it read an entry.
    pub(crate) fn none(fault: Fault) -> Self {
        Walk {
            steps: Default::default(),
            read: 0,
            found: Err(fault),
        }
    }

    /// The entries in the order in which they were read.
    pub fn steps(&self) -> &[Step] {
        &self.steps[..usize::from(self.read)]
    }
}

/// Walks from the root to the translation of `address`.
pub fn walk(roots: &Roots, address: u64, ram: &impl Ram) -> Walk {
    match start(roots, address) {
        Ok(start) => walk_from(roots, start, address, ram),
        Err(fault) => Walk::none(fault),
    }
}

/// The first table of the walk for `address`.
pub fn start(roots: &Roots, address: u64) -> Result<Start, Fault> {
    match *roots {
        Roots::Off => Err(Fault::Unsupported("a walk without translation")),
        Roots::X86_64 { cr3, cr4, efer } => x86_64::start(cr3, cr4, efer, address),
        Roots::Aarch64 { ttbr0, ttbr1, tcr } => aarch64::start(ttbr0, ttbr1, tcr, address),
    }
}

/// What one entry says.
pub(crate) enum Entry {
    /// The next table, and whether writes are allowed below.
    Table { table: u64, writable: bool },
    /// A page or block, by the rights of this entry alone.
    Leaf(Translation),
}

/// Walks from a table that a walk cache knows.
pub fn walk_from(roots: &Roots, start: Start, address: u64, ram: &impl Ram) -> Walk {
    let mut walk = Walk::none(Fault::Address);
    let mut next = start;
    loop {
        let index = (address >> next.level) & ((1 << next.index_bits) - 1);
        let at = next.table + index * 8;
        walk.steps[usize::from(walk.read)] = Step {
            at,
            level: next.level,
            ..Step::default()
        };
        walk.read += 1;
        let Some(raw) = ram.read_u64(at) else {
            walk.found = Err(Fault::NoRam { physical: at });
            return walk;
        };
        match decode(roots, raw, next.level, address) {
            Ok(Entry::Table { table, writable }) => {
                let writable = next.writable && writable;
                let step = &mut walk.steps[usize::from(walk.read) - 1];
                (step.table, step.writable) = (table, Some(writable));
                next = Start {
                    table,
                    level: next.level - 9,
                    index_bits: 9,
                    writable,
                };
            }
            Ok(Entry::Leaf(leaf)) => {
                walk.found = Ok(Translation {
                    writable: leaf.writable && next.writable,
                    ..leaf
                });
                return walk;
            }
            Err(fault) => {
                walk.found = Err(fault);
                return walk;
            }
        }
    }
}

fn decode(roots: &Roots, raw: u64, level: u8, address: u64) -> Result<Entry, Fault> {
    match *roots {
        Roots::Off => Err(Fault::Unsupported("a walk without translation")),
        Roots::X86_64 { cr4, efer, .. } => x86_64::decode(raw, level, cr4, efer),
        Roots::Aarch64 { tcr, .. } => aarch64::decode(raw, level, address, tcr),
    }
}
