//! The translation of one CPU: two levels of TLB, walk caches, and the walk that fills them.

use crate::config::{BadPreset, Preset};
use crate::entry::{Entry, Kind, TABLE_SIZE};
use crate::flush::Flush;
use crate::tlb::Tlb;
use crate::walk::{Fault, Ram, Roots, Start, Step, Translation, Walk, start, walk_from};
use crate::walk_cache::WalkCache;

/// Who asks for a translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// A load.
    Read,
    /// A store.
    Write,
    /// An instruction fetch.
    Fetch,
}

/// How an address was translated.
#[derive(Clone, Copy, Debug)]
pub enum Found {
    /// By the first level: the physical address.
    First(u64),
    /// By the second level: the physical address.
    Second(u64),
    /// By a walk, or not at all.
    Walked(Walked),
}

/// A walk, and what came of it.
#[derive(Clone, Copy, Debug)]
pub struct Walked {
    /// The physical address, unless there is no translation.
    pub physical: Option<u64>,
    /// What was read.
    pub walk: Walk,
    /// Whether a write had to walk because of a cached entry that is read-only or clean.
    pub rewalk: bool,
    /// Levels that walk caches saved.
    pub skipped: u8,
    /// What was cached.
    pub cached: CachedAs,
}

/// What a walk left in the TLB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CachedAs {
    /// The page or block, or a piece of it; or nothing.
    Single,
    /// A run of 16, by the contiguous bit.
    Contiguous,
    /// Four pages, coalesced.
    Coalesced,
}

/// The MMU of a CPU.
#[derive(Clone, Debug)]
pub struct Mmu {
    roots: Roots,
    tag: u16,
    /// By `roots`: see [`ignored`].
    ignored: u32,
    dtlb: Tlb,
    /// The first level of stores, if it is not `dtlb`.
    stlb: Option<Tlb>,
    itlb: Tlb,
    tlb2: Tlb,
    /// The second level of instructions, if it is not `tlb2`.
    itlb2: Option<Tlb>,
    walk_cache: WalkCache,
    /// Whether `tlb2` holds entries that point to the last level of tables.
    tables_in_tlb2: bool,
    coalesces: bool,
}

/// How many bits at the top of an address may be ignored: the top byte on aarch64. On x86_64 with
/// five levels of tables bit 56 is the sign.
fn ignored(roots: &Roots) -> u32 {
    match roots {
        Roots::Aarch64 { .. } => 8,
        Roots::X86_64 { .. } | Roots::Off => 0,
    }
}

impl Mmu {
    /// An MMU that is off, with nothing cached.
    pub fn new(preset: &Preset) -> Result<Self, BadPreset> {
        let own = |what, shape: Option<_>| shape.map(|shape| Tlb::new(what, shape)).transpose();
        Ok(Self {
            roots: Roots::Off,
            tag: 0,
            ignored: 0,
            dtlb: Tlb::new("dtlb", preset.dtlb)?,
            stlb: own("stlb", preset.stlb)?,
            itlb: Tlb::new("itlb", preset.itlb)?,
            tlb2: Tlb::new("tlb2", preset.tlb2)?,
            itlb2: own("itlb2", preset.itlb2)?,
            walk_cache: WalkCache::new(preset.walk),
            tables_in_tlb2: preset.walk.mib2.is_none(),
            coalesces: preset.coalesces,
        })
    }

    /// The root registers from now on. Nothing is dropped: what the instruction that writes them
    /// drops is a flush of its own.
    pub fn set_roots(&mut self, roots: Roots) {
        self.roots = roots;
        self.tag = roots.tag();
        self.ignored = ignored(&roots);
    }

    /// An address with its ignored bits equal to the highest one below them.
    #[inline]
    fn extended(&self, address: u64) -> u64 {
        ((address << self.ignored) as i64 >> self.ignored) as u64
    }

    /// Whether addresses are translated.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.roots != Roots::Off
    }

    /// Fast path: the physical address, if the entry that the first level used last has it.
    #[inline]
    pub fn last(&self, address: u64, side: Side) -> Option<u64> {
        let address = self.extended(address);
        let tlb = match side {
            Side::Fetch => &self.itlb,
            Side::Write => self.stlb.as_ref().unwrap_or(&self.dtlb),
            Side::Read => &self.dtlb,
        };
        let entry = tlb.last(address, self.tag)?;
        (entry.writable || side != Side::Write).then(|| entry.physical(address))
    }

    /// Translates through all levels.
    pub fn translate(&mut self, address: u64, side: Side, ram: &impl Ram) -> Found {
        let address = self.extended(address);
        let (tag, write) = (self.tag, side == Side::Write);
        let (first, second) = self.levels(side);
        let mut rewalk = false;
        if let Some(entry) = first.find(address, tag) {
            if entry.writable || !write {
                return Found::First(entry.physical(address));
            }
            first.remove(address, tag);
            rewalk = true;
        }
        if let Some(entry) = second.find(address, tag) {
            if entry.writable || !write {
                first.fill(address, entry.whole());
                return Found::Second(entry.physical(address));
            }
            second.remove(address, tag);
            rewalk = true;
        }
        Found::Walked(self.walk(address, side, rewalk, ram))
    }

    /// The two levels of a side.
    fn levels(&mut self, side: Side) -> (&mut Tlb, &mut Tlb) {
        match side {
            Side::Fetch => {
                let second = self.itlb2.as_mut().unwrap_or(&mut self.tlb2);
                (&mut self.itlb, second)
            }
            Side::Write => {
                let first = self.stlb.as_mut().unwrap_or(&mut self.dtlb);
                (first, &mut self.tlb2)
            }
            Side::Read => (&mut self.dtlb, &mut self.tlb2),
        }
    }

    fn walk(&mut self, address: u64, side: Side, rewalk: bool, ram: &impl Ram) -> Walked {
        let mut walked = Walked {
            physical: None,
            walk: Walk::none(Fault::Address),
            rewalk,
            skipped: 0,
            cached: CachedAs::Single,
        };
        let top = match start(&self.roots, address) {
            Ok(top) => top,
            Err(fault) => {
                walked.walk = Walk::none(fault);
                return walked;
            }
        };
        let from = self.known_table(address, top.level).unwrap_or(top);
        walked.skipped = (top.level - from.level) / 9;
        walked.walk = walk_from(&self.roots, from, address, ram);
        for step in walked.walk.steps() {
            self.keep_table(address, step);
        }
        if let Ok(found) = walked.walk.found {
            let entry = self.entry(address, &found, &walked.walk, ram);
            walked.physical = Some(entry.physical(address));
            walked.cached = self.fill(address, side, entry, &found);
        }
        walked
    }

    /// The lowest table that walk caches know for an address, below the level of the first table.
    fn known_table(&mut self, address: u64, highest: u8) -> Option<Start> {
        if self.tables_in_tlb2
            && let Some(entry) = self.tlb2.find_table(address, self.tag)
        {
            return Some(Start {
                table: entry.physical,
                level: 12,
                index_bits: 9,
                writable: entry.writable,
            });
        }
        self.walk_cache.find(address, self.tag, highest)
    }

    /// Keeps an entry that points to a table in walk caches.
    fn keep_table(&mut self, address: u64, step: &Step) {
        match step.table() {
            Some((table, writable)) if self.tables_in_tlb2 && step.level == TABLE_SIZE => {
                self.tlb2.fill_table(Entry {
                    base: address & (u64::MAX << TABLE_SIZE),
                    physical: table,
                    size: TABLE_SIZE,
                    leaf: TABLE_SIZE,
                    tag: self.tag,
                    global: false,
                    writable,
                    kind: Kind::Table,
                });
            }
            _ => self.walk_cache.insert(address, self.tag, step),
        }
    }

    /// The largest entry that the tables allow for a translation.
    fn entry(&self, address: u64, found: &Translation, walk: &Walk, ram: &impl Ram) -> Entry {
        let mut size = found.size;
        if found.contiguous {
            size += 4;
        } else if self.coalesces && are_alike(found, walk, ram) {
            size += 2;
        }
        let in_page = (1 << found.size) - 1;
        let base = address & (u64::MAX << size);
        let physical = found.physical | (address & in_page);
        Entry {
            base,
            physical: physical - (address - base),
            size,
            leaf: found.size,
            tag: self.tag,
            global: found.global,
            writable: found.writable,
            kind: Kind::Page,
        }
    }

    /// Caches what a walk found in both levels.
    fn fill(&mut self, address: u64, side: Side, entry: Entry, found: &Translation) -> CachedAs {
        let (first, second) = self.levels(side);
        let size = second.fill(address, entry).max(first.fill(address, entry));
        match size > found.size {
            false => CachedAs::Single,
            true if found.contiguous => CachedAs::Contiguous,
            true => CachedAs::Coalesced,
        }
    }

    /// Drops what a flush names; returns how many entries of TLBs.
    pub fn flush(&mut self, flush: &Flush) -> u64 {
        let levels = [&mut self.dtlb, &mut self.itlb, &mut self.tlb2];
        let levels = levels.into_iter().chain(self.stlb.as_mut());
        let levels = levels.chain(self.itlb2.as_mut());
        let dropped = levels.map(|level| level.flush(flush)).sum();
        self.walk_cache.flush(flush);
        dropped
    }

    /// The entries of the first data level and of the second level, in no order: for tests.
    pub fn held(&self) -> (Vec<Entry>, Vec<Entry>) {
        let first = self.dtlb.entries().copied().collect();
        (first, self.tlb2.entries().copied().collect())
    }
}

/// Whether a single page is one of four, aligned, contiguous in memory and equal in all other bits
/// of their entries. The entries are in one line, which the walk has read already.
fn are_alike(found: &Translation, walk: &Walk, ram: &impl Ram) -> bool {
    let Some(step) = walk.steps().last() else {
        return false;
    };
    if found.size != 12 || found.physical >> 12 & 3 != step.at >> 3 & 3 {
        return false;
    }
    let first_entry = found.entry - ((step.at >> 3 & 3) << 12);
    (0..4).all(|index| {
        let at = (step.at & !0x1f) + index * 8;
        ram.read_u64(at) == Some(first_entry + (index << 12))
    })
}
