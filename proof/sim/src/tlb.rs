//! One CPU's translation caches.

use mm::addr::{Pfn, VirtAddr, VirtRange};
use mm::arch::{Asid, Attrs, Level};

/// A translation that a TLB holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cached {
    /// The tag.
    pub asid: Asid,
    /// The first address that it translates.
    pub va: VirtAddr,
    /// The level of the leaf it was made from.
    pub level: Level,
    /// Bytes that it translates: those of the level, or of a contiguous block.
    pub bytes: u64,
    /// The frame of the first address.
    pub pfn: Pfn,
    /// The rights.
    pub attrs: Attrs,
    /// The table and index of the entry it was made from.
    pub source: (Pfn, usize),
}

/// A cached pointer to a PTE table (paging-structure cache; intermediate TLB entry).
#[derive(Clone, Copy)]
struct Pointer {
    asid: Asid,
    va: VirtAddr,
    table: Pfn,
    read_only: bool,
}

/// A flush of a range: one invalidation for each `stride`; translations between two of them stay.
#[derive(Clone, Copy)]
pub struct Flush {
    pub range: VirtRange,
    pub stride: Level,
    /// Pointers to tables are flushed, too.
    pub tables: bool,
}

impl Flush {
    /// Whether an invalidation covers a translation of `bytes` from `va` on.
    pub fn hits(&self, va: VirtAddr, bytes: u64) -> bool {
        let (first, step) = (
            self.range.start.align_down(self.stride.bytes()).0,
            self.stride.bytes(),
        );
        let next = first + va.0.saturating_sub(first).div_ceil(step) * step;
        next < (va.0 + bytes).min(self.range.end.0)
    }
}

/// One CPU's caches and its root.
#[derive(Default)]
pub struct CpuCaches {
    pub root: Option<(Pfn, Asid)>,
    leaves: Vec<Cached>,
    pointers: Vec<Pointer>,
}

impl CpuCaches {
    /// Loads a root. Translations without a tag do not survive it.
    pub fn activate(&mut self, root: Pfn, asid: Asid) {
        self.leaves
            .retain(|c| c.asid.0 != 0 || c.attrs.contains(Attrs::GLOBAL));
        self.pointers.retain(|p| p.asid.0 != 0);
        self.root = Some((root, asid));
    }
    /// The root and the tag that the CPU has loaded. Panics before the first.
    pub fn loaded(&self) -> (Pfn, Asid) {
        self.root.expect("a CPU runs in an address space")
    }
    pub fn leaves(&self) -> &[Cached] {
        &self.leaves
    }
    pub fn find(&self, asid: Asid, va: VirtAddr) -> Option<Cached> {
        let hit = |c: &&Cached| {
            (c.asid == asid || c.attrs.contains(Attrs::GLOBAL)) && va.align_down(c.bytes) == c.va
        };
        self.leaves.iter().find(hit).copied()
    }
    /// Caches a translation in place of an older one of the same size. One of another size stays: a
    /// contiguous block may be held whole and page by page, and the older one is used.
    pub fn insert(&mut self, cached: Cached) {
        let same = |c: &Cached| (c.asid, c.va, c.bytes) == (cached.asid, cached.va, cached.bytes);
        self.leaves.retain(|c| !same(c));
        self.leaves.push(cached);
    }
    /// Drops the translations of an address.
    pub fn remove(&mut self, asid: Asid, va: VirtAddr) {
        self.leaves
            .retain(|c| c.asid != asid || va.align_down(c.bytes) != c.va);
    }
    pub fn evict(&mut self, which: usize) {
        if !self.leaves.is_empty() {
            let at = which % self.leaves.len();
            self.leaves.swap_remove(at);
        }
    }
    pub fn pointer(&self, asid: Asid, va: VirtAddr) -> Option<(Pfn, bool)> {
        let va = va.align_down(Level::Pmd.bytes());
        self.pointers
            .iter()
            .find(|p| p.asid == asid && p.va == va)
            .map(|p| (p.table, p.read_only))
    }
    /// Caches a pointer to a table, and whether it is read-only.
    pub fn insert_pointer(&mut self, asid: Asid, va: VirtAddr, (table, read_only): (Pfn, bool)) {
        let va = va.align_down(Level::Pmd.bytes());
        self.pointers.retain(|p| p.asid != asid || p.va != va);
        self.pointers.push(Pointer {
            asid,
            va,
            table,
            read_only,
        });
    }

    pub fn flush_range(&mut self, asid: Asid, flush: Flush) {
        self.leaves
            .retain(|c| c.asid != asid || !flush.hits(c.va, c.bytes));
        if flush.tables {
            self.pointers
                .retain(|p| p.asid != asid || !flush.hits(p.va, Level::Pmd.bytes()));
        }
    }
    pub fn flush_asid(&mut self, asid: Asid) {
        self.leaves.retain(|c| c.asid != asid);
        self.pointers.retain(|p| p.asid != asid);
    }
    pub fn flush_kernel(&mut self, range: VirtRange) {
        self.leaves.retain(|c| {
            !(c.attrs.contains(Attrs::GLOBAL) && c.va < range.end && c.va + c.bytes > range.start)
        });
    }
}
