//! The kernel's own half: direct map, image, device windows, stacks.

use super::entry;
use crate::addr::{Order, PAGE_SIZE, Pfn, PhysAddr, VirtAddr, VirtRange};
use crate::arch::{Attrs, Entry, Level, Machine, PhysMem, Tlb};
use crate::frame::zone::For;
use crate::frame::{Kind, Mm, OutOfMemory};
use crate::stat::Event;
use crate::sync::{Lock, rank};
use alloc::sync::Arc;

/// The kernel's own half: maps with the largest entries that fit. Tables under the root are never freed, so a machine that
/// copies its kernel half into each user root (`Machine::prepare_root`) stays right as long as every 512 GiB slot was mapped
/// once before the first user root is made.
pub struct KernelSpace<M: Machine> {
    mm: Arc<Mm<M>>,
    root: Lock<Pfn, { rank::KERNEL_SPACE }>,
}

impl<M: Machine> KernelSpace<M> {
    /// Takes over `root` as the kernel's table (the tables under it are allocated from `mm`).
    pub fn new(mm: Arc<Mm<M>>, root: Pfn) -> Self {
        KernelSpace {
            mm,
            root: Lock::new(root),
        }
    }

    /// The memory manager that its tables come from.
    pub fn mm(&self) -> &Arc<Mm<M>> {
        &self.mm
    }

    /// Maps `va ..` to `pa ..` with the largest entries that fit. Was absent before. On failure nothing is mapped.
    pub fn map(&self, va: VirtRange, pa: PhysAddr, attrs: Attrs) -> Result<(), OutOfMemory> {
        assert!(
            (va.start.0 | va.end.0 | pa.0) & (PAGE_SIZE - 1) == 0,
            "the kernel maps whole pages"
        );
        let root = self.root.lock();
        let mut at = va.start;
        while at < va.end {
            let to = pa + (at - va.start);
            let level = largest(self.mm.machine(), at, to, va.end - at);
            if let Err(error) = self.map_one(*root, at, to, level, attrs) {
                self.clear(
                    *root,
                    VirtRange {
                        start: va.start,
                        end: at,
                    },
                );
                return Err(error);
            }
            at += level.bytes();
        }
        Ok(())
    }

    /// Unmaps and flushes; entries that cross an end of the range are our own mistake.
    pub fn unmap(&self, va: VirtRange) {
        let root = self.root.lock();
        self.clear(*root, va);
    }

    fn map_one(
        &self,
        root: Pfn,
        va: VirtAddr,
        pa: PhysAddr,
        leaf: Level,
        attrs: Attrs,
    ) -> Result<(), OutOfMemory> {
        let (mut table, mut level) = (root, Level::Pgd);
        while level > leaf {
            let index = level.index(va);
            let lower = level.lower().expect("above a leaf there is a lower level");
            let child = match entry::read(&self.mm, table, index, level) {
                Entry::Table(child) => child,
                Entry::Absent => {
                    let child = self.mm.alloc(Order(0), Kind::Table, For::Kernel)?;
                    self.mm.machine().mem().zero(child, Order(0));
                    self.mm.count(Event::TableAlloc, 1);
                    entry::write_table(&self.mm, table, index, child);
                    child
                }
                Entry::Leaf { .. } | Entry::Shared(_) => panic!("{va:?} is mapped already"),
            };
            (table, level) = (child, lower);
        }
        let index = level.index(va);
        assert!(
            entry::read(&self.mm, table, index, level) == Entry::Absent,
            "{va:?} is mapped already"
        );
        let used = attrs
            | Attrs::ACCESSED
            | if attrs.contains(Attrs::WRITE) {
                Attrs::DIRTY
            } else {
                Attrs::empty()
            };
        entry::write_leaf(&self.mm, table, index, level, pa.frame(), used);
        self.mm.count(Event::EntryWrites, 1);
        Ok(())
    }

    fn clear(&self, root: Pfn, range: VirtRange) {
        let mut at = range.start;
        while at < range.end {
            let (mut table, mut level) = (root, Level::Pgd);
            while let (Entry::Table(child), Some(lower)) = (
                entry::read(&self.mm, table, level.index(at), level),
                level.lower(),
            ) {
                (table, level) = (child, lower);
            }
            let start = at.align_down(level.bytes());
            if let Entry::Leaf { .. } = entry::read(&self.mm, table, level.index(at), level) {
                assert!(
                    start >= range.start && range.end - start >= level.bytes(),
                    "{at:?} is part of a larger entry"
                );
                entry::clear(&self.mm, table, level.index(at));
                self.mm.count(Event::EntryWrites, 1);
            }
            match start.checked_add(level.bytes()) {
                Some(next) => at = next,
                None => break,
            }
        }
        if !range.is_empty() {
            self.mm.count(Event::FlushKernel, 1);
            self.mm.machine().tlb().flush_kernel(range);
        }
    }

    /// What `va` is mapped to.
    pub fn lookup(&self, va: VirtAddr) -> Option<(PhysAddr, Attrs, Level)> {
        let root = self.root.lock();
        let (mut table, mut level) = (*root, Level::Pgd);
        loop {
            match (
                entry::read(&self.mm, table, level.index(va), level),
                level.lower(),
            ) {
                (Entry::Table(child), Some(lower)) => (table, level) = (child, lower),
                (Entry::Leaf { pfn, attrs }, _) => {
                    return Some((pfn.start() + (va.0 & (level.bytes() - 1)), attrs, level));
                }
                _ => return None,
            }
        }
    }
}

/// The highest level whose entry fits both addresses and what is left.
fn largest<M: Machine>(machine: &M, va: VirtAddr, pa: PhysAddr, left: u64) -> Level {
    let fits = |level: Level| (va.0 | pa.0) & (level.bytes() - 1) == 0 && left >= level.bytes();
    let mut level = machine.largest_leaf();
    while let (false, Some(lower)) = (fits(level), level.lower()) {
        level = lower;
    }
    level
}
