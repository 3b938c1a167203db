//! The rule at each use of a TLB entry, checked where several CPUs run at once: what it says is so,
//! or was so when the last flush began.

use super::complain;
use crate::machine::Sim;
use crate::shadow::Slot;
use crate::tlb::Cached;
use mm::addr::{PAGE_SIZE, Pfn, VirtAddr};
use mm::arch::{Attrs, Entry, Level, PteFormat};
use mm::fault::Access;

impl<F: PteFormat> Sim<F> {
    /// Checks that `cpu` may still use a translation that it holds: the tables agree, or the entry
    /// has been changed and the flush is not complete.
    pub(crate) fn may_hit(
        &self,
        cpu: usize,
        root: Pfn,
        held: &Cached,
        va: VirtAddr,
        access: Access,
    ) {
        let shadow = self.shadow();
        // A contiguous block is held by any of its entries; while they change, some are ahead.
        let pages = match held.level {
            Level::Pte => held.bytes,
            _ => PAGE_SIZE,
        };
        let mut places = (0..pages)
            .step_by(PAGE_SIZE as usize)
            .map(|at| held.va + at);
        let allowed = |va| self.agrees_with(root, held, va, access);
        if allowed(va) || pages != PAGE_SIZE && places.any(allowed) {
            return;
        }
        let first = |level: Level| Slot::new(root, level, va);
        let block = first(Level::Pte).number & !(Self::span() as u64 - 1);
        let ptes = (block..block + Self::span() as u64).map(|number| Slot {
            number,
            ..first(Level::Pte)
        });
        let above = [Level::Pmd, Level::Pud].map(first);
        let covered = ptes
            .chain(above)
            .any(|slot| shadow.stale.holders(slot) & 1 << cpu != 0);
        drop(shadow);
        complain(match covered {
            true => Ok(()),
            false => Err(format!(
                "stale entry: CPU {cpu} has {access:?} access to {va:?} by {held:?} after the flush"
            )),
        });
    }

    /// Whether the tables allow what the translation does, to the same frame.
    fn agrees_with(&self, root: Pfn, held: &Cached, va: VirtAddr, access: Access) -> bool {
        let (mut table, mut level, mut denied) = (root, Level::Pgd, Attrs::empty());
        loop {
            let entry = self.entry(table, level.index(va), level);
            match (entry, level.lower()) {
                (Entry::Table(next), Some(lower)) => (table, level) = (next, lower),
                (Entry::Shared(next), Some(lower)) => {
                    denied |= Attrs::WRITE;
                    (table, level) = (next, lower);
                }
                (Entry::Leaf { pfn, attrs }, _) if !attrs.contains(Attrs::NO_ACCESS) => {
                    let now = pfn.start() + (va - va.align_down(level.bytes()));
                    let attrs = attrs - denied;
                    return now == held.pfn.start() + (va - held.va)
                        && attrs.key() == held.attrs.key()
                        && match access {
                            Access::Read => true,
                            Access::Write => attrs.contains(Attrs::WRITE),
                            Access::Exec => attrs.contains(Attrs::EXEC),
                        };
                }
                _ => return false,
            }
        }
    }
}
