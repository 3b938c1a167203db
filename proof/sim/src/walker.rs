//! The hardware walker: from a virtual address through a CPU's TLB and the tables in RAM to a
//! physical one.

use crate::machine::Sim;
use crate::tlb::{Cached, CpuCaches};
use mm::addr::{PAGE_SHIFT, Pfn, PhysAddr, VirtAddr};
use mm::arch::{Attrs, Entry, Level, PteFormat};
use mm::fault::Access;
use std::sync::atomic::Ordering;

/// A page fault.
#[derive(Debug)]
pub struct PageFault {
    /// There is an entry, and the CPU's register refuses its key.
    pub by_key: bool,
}

/// A page fault for another reason than a key.
const PLAIN: PageFault = PageFault { by_key: false };

impl<F: PteFormat> Sim<F> {
    /// Translates as `cpu` would for an instruction in user mode, setting bits in the entry as
    /// hardware does.
    pub fn translate(
        &self,
        cpu: usize,
        va: VirtAddr,
        access: Access,
    ) -> Result<PhysAddr, PageFault> {
        self.instruction(cpu, va, access, |at| at)
    }

    /// One access of user mode: `f` gets the physical address. A flush by another CPU comes before
    /// or after it.
    pub(crate) fn instruction<R>(
        &self,
        cpu: usize,
        va: VirtAddr,
        access: Access,
        f: impl FnOnce(PhysAddr) -> R,
    ) -> Result<R, PageFault> {
        self.note(va);
        let several = self.0.threads.are_several();
        let mut caches = self.caches(cpu);
        let (cached, hit) = self.look_up(cpu, &mut caches, va, access)?;
        let (root, _) = caches.loaded();
        if hit && several {
            self.may_hit(cpu, root, &cached, va, access);
        }
        let at = cached.pfn.start() + (va - cached.va);
        // With the bits that the entry must have from now on.
        self.note_used(root, va, at.frame(), access, hit);
        Ok(f(at))
    }

    /// The translation of an address that allows the access, and whether it was in the TLB.
    fn look_up(
        &self,
        cpu: usize,
        caches: &mut CpuCaches,
        va: VirtAddr,
        access: Access,
    ) -> Result<(Cached, bool), PageFault> {
        let (_, asid) = caches.loaded();
        if let Some(cached) = caches.find(asid, va) {
            if permits(cached.attrs, access) && !self.refuses(cpu, cached.attrs, access) {
                return Ok((cached, true));
            }
            let only_clean =
                access == Access::Write && cached.attrs.contains(Attrs::WRITE) && self.sets_bits();
            if F::BREAK_BEFORE_MAKE && !only_clean {
                // arm64: a permission fault from a stale entry is a fault.
                return Err(PLAIN);
            }
            // x86_64: the entry that faults is dropped and the tables are walked once more (SDM Vol
            // 3A, 4.10.4.1).
            caches.remove(asid, va);
        }
        let cached = self.walk(caches, va, access).ok_or(PLAIN)?;
        // Whatever else there is to say against it (SDM Vol 3A, 4.7, "PK flag").
        if self.refuses(cpu, cached.attrs, access) {
            return Err(PageFault { by_key: true });
        }
        if !permits(cached.attrs, access) {
            return Err(PLAIN);
        }
        caches.insert(cached);
        Ok((cached, false))
    }

    /// Whether the CPU's register refuses the access by the key of a translation. Keys are about
    /// data (SDM Vol 3A, 4.6.2).
    fn refuses(&self, cpu: usize, attrs: Attrs, access: Access) -> bool {
        F::KEYS > 1
            && access != Access::Exec
            && self.key_refuses(cpu, attrs.key(), access == Access::Write)
    }

    /// Caches the translation of `va` in `cpu`, if there is one, as a speculative access would.
    pub(crate) fn prefetch(&self, cpu: usize, va: VirtAddr) {
        let caches = &mut self.caches(cpu);
        let Some((_, asid)) = caches.root else {
            return;
        };
        if caches.find(asid, va).is_some() {
            return;
        }
        if let Some(cached) = self.walk(caches, va, Access::Read) {
            caches.insert(cached);
        }
    }

    /// Whether the walker sets accessed and dirty bits.
    pub(crate) fn sets_bits(&self) -> bool {
        self.0.options.hardware_ad || !F::BREAK_BEFORE_MAKE
    }

    /// Walks the tables; `None` without a translation that may be cached.
    fn walk(&self, caches: &mut CpuCaches, va: VirtAddr, access: Access) -> Option<Cached> {
        let (root, asid) = caches.loaded();
        let (mut table, mut level, mut read_only) = (root, Level::Pgd, false);
        let pointer = caches.pointer(asid, va);
        if let Some(pointer) = pointer.filter(|_| self.0.rng.one_in(2)) {
            ((table, read_only), level) = (pointer, Level::Pte);
        }
        loop {
            let word = self.0.ram.word(table, level.index(va));
            let raw = word.load(Ordering::Acquire);
            match F::decode(raw, level) {
                Entry::Absent => return None,
                entry @ (Entry::Table(next) | Entry::Shared(next)) => {
                    assert!(
                        self.0.ram.contains(next),
                        "the walker meets a table at {next:?}, which is no RAM: a freed table?"
                    );
                    level = level.lower().expect("a PTE is never a table");
                    // Rights are the AND over the levels.
                    read_only |= matches!(entry, Entry::Shared(_));
                    if level == Level::Pte {
                        caches.insert_pointer(asid, va, (next, read_only));
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
                    let index = level.index(va);
                    let (from, pfn, attrs) = self.any_of_block(table, index, level, (pfn, attrs));
                    let above = if read_only {
                        Attrs::WRITE
                    } else {
                        Attrs::empty()
                    };
                    let wanted = attrs | self.bits(attrs - above, access);
                    if !wanted.contains(Attrs::ACCESSED) {
                        return None;
                    }
                    if !self.set_bits(table, from, level, pfn, wanted) {
                        continue;
                    }
                    let bytes = if from != index || wide(attrs, level) && self.0.rng.one_in(2) {
                        level.bytes() * Self::span() as u64
                    } else {
                        level.bytes()
                    };
                    let pages = bytes >> PAGE_SHIFT;
                    return Some(Cached {
                        asid,
                        va: va.align_down(bytes),
                        level,
                        bytes,
                        // The hardware takes the low bits of the frame from the address.
                        pfn: Pfn(pfn.0 & !(pages - 1)),
                        attrs: wanted - above,
                        source: (table, from),
                    });
                }
            }
        }
    }

    /// The entry used for a page: its own, or, in a contiguous block, any of the block's.
    fn any_of_block(
        &self,
        table: Pfn,
        index: usize,
        level: Level,
        own: (Pfn, Attrs),
    ) -> (usize, Pfn, Attrs) {
        if wide(own.1, level) && self.0.rng.one_in(2) {
            let span = Self::span();
            let other = (index & !(span - 1)) + self.0.rng.below(span);
            let raw = self.0.ram.word(table, other).load(Ordering::Acquire);
            if let Entry::Leaf { pfn, attrs } = F::decode(raw, level)
                && wide(attrs, level)
                && !attrs.contains(Attrs::NO_ACCESS)
                && (self.sets_bits() || attrs.contains(Attrs::ACCESSED))
            {
                return (other, pfn, attrs);
            }
        }
        (index, own.0, own.1)
    }

    /// Sets bits in an entry; `false` when the entry has changed.
    fn set_bits(&self, table: Pfn, index: usize, level: Level, pfn: Pfn, wanted: Attrs) -> bool {
        let word = self.0.ram.word(table, index);
        let raw = word.load(Ordering::Acquire);
        let new = F::leaf(pfn, wanted, level);
        let same = matches!(F::decode(raw, level), Entry::Leaf { pfn: p, attrs } if p == pfn && wanted.contains(attrs));
        same && (new == raw
            || word
                .compare_exchange(raw, new, Ordering::AcqRel, Ordering::Acquire)
                .is_ok())
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

/// Whether a translation allows the access without another walk.
fn permits(attrs: Attrs, access: Access) -> bool {
    attrs.contains(Attrs::USER)
        && match access {
            Access::Read => true,
            Access::Write => attrs.contains(Attrs::WRITE | Attrs::DIRTY),
            Access::Exec => attrs.contains(Attrs::EXEC),
        }
}

/// Whether the entry may be held together with the others of its block.
fn wide(attrs: Attrs, level: Level) -> bool {
    level == Level::Pte && attrs.contains(Attrs::CONTIG)
}
