//! The hardware walker: from a virtual address through a CPU's TLB and the tables in RAM to a physical one.

use crate::machine::Sim;
use crate::tlb::Cached;
use mm::addr::{Pfn, PhysAddr, VirtAddr};
use mm::arch::{Asid, Attrs, Entry, Level, PteFormat};
use mm::fault::Access;
use std::sync::atomic::Ordering;

/// The hardware refuses: a page fault.
#[derive(Debug)]
pub struct PageFault;

impl<F: PteFormat> Sim<F> {
    /// Translates as `cpu` would for an instruction in user mode, setting bits in the entry as hardware does.
    pub fn translate(
        &self,
        cpu: usize,
        va: VirtAddr,
        access: Access,
    ) -> Result<PhysAddr, PageFault> {
        self.note(va);
        let (root, asid) = self.root(cpu).expect("a CPU runs in an address space");
        let hit = self.caches(cpu).find(asid, va);
        if let Some(cached) = hit {
            if permits(cached.attrs, access) {
                return Ok(physical(cached, va));
            }
            let only_clean =
                access == Access::Write && cached.attrs.contains(Attrs::WRITE) && self.sets_bits();
            if F::BREAK_BEFORE_MAKE && !only_clean {
                // arm64: a permission fault from a stale entry is a fault.
                return Err(PageFault);
            }
            // x86_64: the entry that faults is dropped and the tables are walked once more (SDM Vol 3A, 4.10.4.1).
            self.caches(cpu).remove(asid, va);
        }
        let cached = self.walk(cpu, root, asid, va, access).ok_or(PageFault)?;
        if !permits(cached.attrs, access) {
            return Err(PageFault);
        }
        self.caches(cpu).insert(cached);
        Ok(physical(cached, va))
    }

    /// Caches what the tables say of `va` in `cpu`, if they say anything, as a speculative access would.
    pub(crate) fn prefetch(&self, cpu: usize, va: VirtAddr) {
        let Some((root, asid)) = self.root(cpu) else {
            return;
        };
        if self.caches(cpu).find(asid, va).is_some() {
            return;
        }
        if let Some(cached) = self.walk(cpu, root, asid, va, Access::Read) {
            self.caches(cpu).insert(cached);
        }
    }

    fn sets_bits(&self) -> bool {
        self.0.options.hardware_ad || !F::BREAK_BEFORE_MAKE
    }

    /// Walks; `None` where the hardware finds nothing that it may cache.
    fn walk(
        &self,
        cpu: usize,
        root: Pfn,
        asid: Asid,
        va: VirtAddr,
        access: Access,
    ) -> Option<Cached> {
        let (mut table, mut level) = (root, Level::Pgd);
        let pointer = self.caches(cpu).pointer(asid, va);
        if let Some(pte_table) = pointer.filter(|_| self.0.rng.one_in(2)) {
            (table, level) = (pte_table, Level::Pte);
        }
        loop {
            let word = self.0.ram.word(table, level.index(va));
            let raw = word.load(Ordering::Acquire);
            match F::decode(raw, level) {
                Entry::Absent => return None,
                Entry::Table(next) => {
                    assert!(
                        self.0.ram.contains(next),
                        "the walker meets a table at {next:?}, which is no RAM: a freed table?"
                    );
                    level = level.lower().expect("a PTE is never a table");
                    if level == Level::Pte {
                        self.caches(cpu).insert_pointer(asid, va, next);
                    }
                    table = next;
                }
                Entry::Leaf { pfn, attrs } => {
                    if attrs.contains(Attrs::NO_ACCESS) {
                        return None;
                    }
                    assert!(
                        self.0.ram.contains(pfn),
                        "the walker meets a page at {pfn:?}, which is no RAM: a freed table?"
                    );
                    let wanted = attrs | self.bits(attrs, access);
                    if !wanted.contains(Attrs::ACCESSED) {
                        return None;
                    }
                    let new = F::leaf(pfn, wanted, level);
                    if new != raw
                        && word
                            .compare_exchange(raw, new, Ordering::AcqRel, Ordering::Acquire)
                            .is_err()
                    {
                        continue;
                    }
                    return Some(Cached {
                        asid,
                        va: va.align_down(level.bytes()),
                        level,
                        pfn,
                        attrs: wanted,
                        source: (table, level.index(va)),
                    });
                }
            }
        }
    }

    /// The bits that the walker sets for an access.
    fn bits(&self, attrs: Attrs, access: Access) -> Attrs {
        match access {
            _ if !self.sets_bits() => Attrs::empty(),
            Access::Write if attrs.contains(Attrs::WRITE) => Attrs::ACCESSED | Attrs::DIRTY,
            _ => Attrs::ACCESSED,
        }
    }
}

/// Whether a translation serves the access without going back to the tables.
fn permits(attrs: Attrs, access: Access) -> bool {
    attrs.contains(Attrs::USER)
        && match access {
            Access::Read => true,
            Access::Write => attrs.contains(Attrs::WRITE | Attrs::DIRTY),
            Access::Exec => attrs.contains(Attrs::EXEC),
        }
}

fn physical(cached: Cached, va: VirtAddr) -> PhysAddr {
    cached.pfn.start() + (va - cached.va)
}
