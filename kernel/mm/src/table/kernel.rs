//! The kernel half: direct map, image, device windows, stacks.

use super::node::Node;
use crate::addr::{Order, PAGE_SIZE, Pfn, PhysAddr, VirtAddr, VirtRange};
use crate::arch::{Attrs, Entry, Level, Machine, PhysMem, TABLE_ENTRIES, Tlb};
use crate::frame::Kind;
use crate::frame::zone::Reserve;
use crate::manager::{Mm, Result};
use crate::stat::Event;
use crate::sync::{Lock, rank};
use alloc::sync::Arc;

/// The kernel half, mapped by the largest entries that fit. Tables below the root are never freed:
/// user roots that copy the kernel half (`Machine::prepare_root`) stay valid if every 512 GiB slot
/// was mapped before the first of them.
pub struct KernelSpace<M: Machine> {
    mm: Arc<Mm<M>>,
    root: Lock<Pfn, { rank::KERNEL_SPACE }>,
}

impl<M: Machine> KernelSpace<M> {
    /// Takes over `root`, whose tables come from `mm`.
    pub fn new(mm: Arc<Mm<M>>, root: Pfn) -> Self {
        KernelSpace {
            mm,
            root: Lock::new(root),
        }
    }

    /// The memory manager of its tables.
    pub fn mm(&self) -> &Arc<Mm<M>> {
        &self.mm
    }

    /// Maps `va`, which is absent, to `pa ..` by the largest entries that fit. On failure nothing
    /// is mapped.
    pub fn map(&self, va: VirtRange, pa: PhysAddr, attrs: Attrs) -> Result {
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
                self.clear(*root, VirtRange::new(va.start, at));
                return Err(error);
            }
            at += level.bytes();
        }
        Ok(())
    }

    /// Unmaps and flushes; an entry that crosses an end of the range is a bug.
    pub fn unmap(&self, va: VirtRange) {
        let root = self.root.lock();
        self.clear(*root, va);
    }

    fn map_one(&self, root: Pfn, va: VirtAddr, pa: PhysAddr, leaf: Level, attrs: Attrs) -> Result {
        let mut node = self.root(root).down_to(va, leaf);
        while node.level > leaf {
            assert_absent(node, va);
            let child = self.mm.alloc(Order(0), Kind::Table, Reserve::Kernel)?;
            self.mm.machine().mem().zero(child, Order(0));
            self.mm.count(Event::TableAlloc, 1);
            node.write_table(node.index(va), child);
            node = node.down_to(va, leaf);
        }
        assert_absent(node, va);
        let mut used = attrs | Attrs::ACCESSED;
        used.set(Attrs::DIRTY, attrs.intersects(Attrs::WRITE | Attrs::DIRTY));
        node.write_leaf(node.index(va), pa.frame(), used);
        self.mm.count(Event::EntryWrites, 1);
        Ok(())
    }

    fn clear(&self, root: Pfn, range: VirtRange) {
        let mut at = range.start;
        while at < range.end {
            let node = self.root(root).down_to(at, Level::Pte);
            let (index, bytes) = (node.index(at), node.level.bytes());
            let start = at.align_down(bytes);
            if let Entry::Leaf { .. } = node.entry(index) {
                assert!(
                    start >= range.start && range.end - start >= bytes,
                    "{at:?} is part of a larger entry"
                );
                node.clear(index);
                self.mm.count(Event::EntryWrites, 1);
            }
            match start.checked_add(bytes) {
                Some(next) => at = next,
                None => break,
            }
        }
        if !range.is_empty() {
            self.mm.count(Event::FlushKernel, 1);
            self.mm.machine().tlb().flush_kernel(range);
        }
    }

    /// The translation of `va`.
    pub fn lookup(&self, va: VirtAddr) -> Option<(PhysAddr, Attrs, Level)> {
        let root = self.root.lock();
        let leaf = self.root(*root).lookup(va)?;
        let pa = leaf.pfn.start() + va.page_offset();
        Some((pa, leaf.attrs, leaf.level))
    }

    /// Number of tables below the root.
    pub fn tables(&self) -> u64 {
        fn below<M: Machine>(node: Node<'_, M>) -> u64 {
            let children = (0..TABLE_ENTRIES).filter_map(|index| node.child(node.entry(index)));
            children.map(|child| 1 + below(child)).sum()
        }
        let root = self.root.lock();
        below(self.root(*root))
    }

    fn root(&self, frame: Pfn) -> Node<'_, M> {
        Node {
            mm: &self.mm,
            frame,
            level: Level::Pgd,
        }
    }
}

fn assert_absent<M: Machine>(node: Node<'_, M>, va: VirtAddr) {
    let entry = node.entry(node.index(va));
    assert!(entry == Entry::Absent, "{va:?} is mapped already");
}

/// The highest level whose entry fits both addresses and the remaining size.
fn largest<M: Machine>(machine: &M, va: VirtAddr, pa: PhysAddr, left: u64) -> Level {
    let fits = |level: Level| (va.0 | pa.0) & (level.bytes() - 1) == 0 && left >= level.bytes();
    let mut level = machine.largest_leaf();
    while let (false, Some(lower)) = (fits(level), level.lower()) {
        level = lower;
    }
    level
}
