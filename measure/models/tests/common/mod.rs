//! Guest memory with page tables that are built by hand, and small cores.
#![allow(dead_code)] // Each test program uses a part of it.

use models::config::{CacheShape, Fill, Latencies, Preset, TlbArray, WalkCacheShape};
use models::walk::Walk;
use models::{Machine, Ram, Roots};

/// RAM from physical address 0, in which tables are made one after the other.
#[derive(Clone)]
pub struct Memory {
    words: Vec<u64>,
    next: u64,
}

impl Ram for Memory {
    fn read_u64(&self, physical: u64) -> Option<u64> {
        assert_eq!(physical % 8, 0);
        self.words.get((physical / 8) as usize).copied()
    }
}

/// Bits of x86_64: present, writable, accessed, dirty; and those that tests add.
pub const X86_TABLE: u64 = 0x23;
pub const X86_PAGE: u64 = 0x63;
pub const X86_LARGE: u64 = 0x80;
pub const X86_GLOBAL: u64 = 0x100;
/// Bits of aarch64: table; page with AF and nG; block with AF and nG; those that tests add.
pub const ARM_TABLE: u64 = 0x3;
pub const ARM_PAGE: u64 = 0xc03;
pub const ARM_BLOCK: u64 = 0xc01;
pub const ARM_NOT_GLOBAL: u64 = 0x800;
pub const ARM_CONTIGUOUS: u64 = 1 << 52;

/// PGE and PCIDE.
pub const CR4: u64 = 1 << 7 | 1 << 17;
/// LMA and NXE.
pub const EFER: u64 = 1 << 10 | 1 << 11;
/// T0SZ = T1SZ = 16, 4 KiB granules, 16-bit ASIDs.
pub const TCR: u64 = 16 | 16 << 16 | 0b10 << 30 | 1 << 36;

/// The root of `Memory`.
pub const ROOT: u64 = 0x1000;

impl Memory {
    /// `bytes` of RAM with one empty table at [`ROOT`].
    pub fn new(bytes: u64) -> Self {
        Self {
            words: vec![0; (bytes / 8) as usize],
            next: ROOT + 0x1000,
        }
    }

    pub fn read(&self, at: u64) -> u64 {
        self.words[(at / 8) as usize]
    }

    pub fn write(&mut self, at: u64, value: u64) {
        self.words[(at / 8) as usize] = value;
    }

    /// Where the entry of an address is that spans `2^level` bytes; makes the tables above it.
    pub fn entry(&mut self, address: u64, level: u32, table_bits: u64) -> u64 {
        let mut table = ROOT;
        for above in [39, 30, 21].into_iter().take_while(|&above| above > level) {
            let at = table + (address >> above & 0x1ff) * 8;
            if self.read(at) == 0 {
                self.write(at, self.next | table_bits);
                self.next += 0x1000;
            }
            table = self.read(at) & 0xffff_ffff_f000;
        }
        table + (address >> level & 0x1ff) * 8
    }

    /// Maps an address with raw bits, at a level.
    pub fn map_x86(&mut self, address: u64, level: u32, entry: u64) {
        let at = self.entry(address, level, X86_TABLE);
        self.write(at, entry);
    }

    pub fn map_arm(&mut self, address: u64, level: u32, entry: u64) {
        let at = self.entry(address, level, ARM_TABLE);
        self.write(at, entry);
    }
}

pub fn x86(pcid: u64) -> Roots {
    Roots::X86_64 {
        cr3: ROOT | pcid,
        cr4: CR4,
        efer: EFER,
    }
}

/// Both halves have the same table, as Quire's and Linux's have not.
pub fn arm(asid: u64) -> Roots {
    Roots::Aarch64 {
        ttbr0: ROOT | asid << 48,
        ttbr1: ROOT,
        tcr: TCR,
    }
}

/// A core with small caches and TLBs, walk caches off.
pub const SMALL: Preset = Preset {
    name: "small",
    l1i: CacheShape::new(1024, 2),
    l1d: CacheShape::new(1024, 2),
    l2: Some(CacheShape::new(4096, 4)),
    last: CacheShape::new(16384, 4),
    fill: Fill::Misses,
    dtlb: &[TlbArray::new(4, 4, &[12, 14, 16, 21, 25, 30])],
    stlb: None,
    itlb: &[TlbArray::new(4, 4, &[12, 14, 16, 21, 25, 30])],
    tlb2: &[TlbArray::new(16, 4, &[12, 14, 16, 21, 25, 30])],
    itlb2: None,
    walk: WalkCacheShape::new(0, 0, Some(0)),
    coalesces: true,
    latencies: Latencies {
        l1: 4,
        l2: 10,
        last: 40,
        remote: 80,
        memory: 200,
        tlb2: 7,
    },
    base_mcpi: 250,
};

/// The physical address, the size and whether it is global of what a walk found.
pub fn page(walk: &Walk) -> (u64, u8, bool) {
    let page = walk.found.expect("mapped");
    (page.physical, page.size, page.global)
}

/// Whether the data side of CPU 0 holds the line of a physical address.
pub fn holds(machine: &Machine, physical: u64) -> bool {
    let held = machine.caches().held(0);
    held.iter().any(|line| line.number == physical / 64)
}

/// The levels of the entries that a walk read.
pub fn levels(walk: &Walk) -> Vec<u8> {
    walk.steps().iter().map(|step| step.level).collect()
}

/// One CPU of a kind with these roots.
pub fn one(preset: Preset, roots: Roots) -> Machine {
    let mut machine = Machine::new(preset, 1).expect("a preset that can be");
    machine.set_roots(0, roots);
    machine
}

/// A generator for streams: xorshift64*, by Marsaglia and Vigna.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16) % limit
    }
}
