//! mprotect(2).

use crate::addr::{PAGE_SIZE, VirtAddr, VirtRange};
use crate::arch::Machine;
use crate::frame::Mm;
use crate::frame::zone::For;
use crate::state::{AddressSpace, Error, Inner, may_commit, user_pages};
use crate::table::{Rights, protect_range, split_ends, unshare_range};
use crate::tlb::Gather;
use crate::vma::{Prot, VmaFlags};

impl<M: Machine> AddressSpace<M> {
    /// mprotect(2): EINVAL unless aligned; ENOMEM where something is not mapped (what lies before the hole is changed, as in
    /// Linux) or there would be too many VMAs; EACCES to make a read-only file's shared mapping writable.
    pub fn protect(&self, start: VirtAddr, len: u64, prot: Prot) -> Result<(), Error> {
        if !start.is_aligned(PAGE_SIZE) {
            return Err(Error::Inval);
        }
        if len == 0 {
            return Ok(());
        }
        let range = user_pages::<M>(start, len).ok_or(Error::NoMem)?;
        let mut inner = self.inner.lock();
        let mut gather = Gather::new(&self.mm, &self.id);
        let mut locked = None;
        let result = inner.protect(&self.mm, range, prot, &mut gather, &mut locked);
        gather.finish();
        drop(inner);
        if let Some(locked) = locked {
            self.populate_again(locked);
        }
        result
    }
}

impl<M: Machine> Inner<M> {
    fn protect(
        &mut self,
        mm: &Mm<M>,
        range: VirtRange,
        prot: Prot,
        gather: &mut Gather<'_, M>,
        locked: &mut Option<VirtRange>,
    ) -> Result<(), Error> {
        let mut at = range.start;
        while at < range.end {
            let index = self.vmas.find(at).ok_or(Error::NoMem)?;
            let vma = self.vmas.get(index);
            let part = VirtRange {
                start: at,
                end: range.end.min(vma.range.end),
            };
            at = part.end;
            if vma.prot == prot {
                continue;
            }
            if prot.contains(Prot::WRITE) {
                if vma.shared() && vma.flags.contains(VmaFlags::NO_MAYWRITE) {
                    return Err(Error::Acces);
                }
                if !vma.prot.contains(Prot::WRITE) && !vma.shared() {
                    if vma.flags.contains(VmaFlags::LOCKED) {
                        // Locked private pages are there, writable ones as the process's own. What lies between two
                        // of these is not populated for it.
                        let start = locked.map_or(part.start, |l| l.start);
                        *locked = Some(VirtRange { start, ..part });
                    }
                    // What was only readable may need memory of its own from now on.
                    self.may_add_data(part.pages(), prot, vma.flags)?;
                    may_commit(mm, part.pages(), prot, vma.flags, &vma.backing)?;
                }
            }
            let shared = vma.shared();
            self.vmas.reserve_update(part)?;
            split_ends(mm, &mut self.table, part, For::User, gather)?;
            unshare_range(mm, &self.table, part, gather)?;
            self.vmas.update(part, |v| v.set_prot(prot));
            let rights = Rights {
                base: prot.attrs(),
                writable: prot.contains(Prot::WRITE),
                shared,
            };
            protect_range(mm, &mut self.table, part, rights, gather);
        }
        Ok(())
    }
}
