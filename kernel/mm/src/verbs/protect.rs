//! mprotect(2) and pkey_mprotect(2).

use crate::addr::{PAGE_SIZE, VirtAddr, VirtRange};
use crate::arch::{Key, Level, Machine, PteFormat};
use crate::fault::natural_access;
use crate::frame::zone::Reserve;
use crate::manager::Result;
use crate::space::{AddressSpace, Areas, Error, user_pages};
use crate::table::{Budget, Edit, Rights};
use crate::vma::{Prot, VmaFlags};

impl<M: Machine> AddressSpace<M> {
    /// mprotect(2). EINVAL: misaligned, also to huge pages; ENOMEM: a hole (what precedes it is
    /// changed, as in Linux) or too many VMAs; EACCES: a read-only file's shared mapping made
    /// writable, or memory made executable that the process refuses itself; EPERM: a sealed VMA.
    #[inline]
    pub fn protect(&self, start: VirtAddr, len: u64, prot: Prot) -> Result<(), Error> {
        self.protect_with_key(start, len, prot, None)
    }

    /// pkey_mprotect(2): [`Self::protect`] with a key; `None`: each VMA keeps its own. EINVAL: the
    /// program does not have it.
    pub fn protect_with_key(
        &self,
        start: VirtAddr,
        len: u64,
        rights: Prot,
        key: Option<Key>,
    ) -> Result<(), Error> {
        if !start.is_aligned(PAGE_SIZE) {
            return Err(Error::Inval);
        }
        if len == 0 {
            return Ok(());
        }
        let range = user_pages::<M>(start, len).ok_or(Error::NoMem)?;
        let mut areas = self.areas()?;
        areas.check_cut(range)?;
        let mut locked = None;
        // Fast path: each VMA keeps its key.
        let (prot, keep) = match key.is_none() && rights != Prot::EXEC {
            true => (rights, Prot::KEY),
            false => (areas.with_key(rights, key)?, Prot::empty()),
        };
        let result = areas.protect(range, prot, keep, &mut locked);
        drop(areas);
        if let Some(locked) = locked {
            let _ = self.populate_as(locked, |vma| {
                let access = natural_access(vma);
                Ok(access.filter(|_| vma.flags.is_locked()))
            });
        }
        result
    }
}

/// Whether `range` covers all of some PTE table.
fn holds_table(range: VirtRange) -> bool {
    let first = range.start.align_up(Level::Pmd.bytes());
    first.is_some_and(|first| first < range.end.align_down(Level::Pmd.bytes()))
}

/// Cost of a VMA change in a step ([`Budget`]): up to 8000 instructions, if it merges.
const AREA: u32 = 64;

impl<M: Machine> Areas<'_, M> {
    /// The protection of all of a range that gets `rights` with this key, or may only be executed.
    #[cold]
    #[inline(never)]
    fn with_key(&mut self, rights: Prot, key: Option<Key>) -> Result<Prot, Error> {
        match key {
            Some(key) if self.keys.has(key) => Ok(rights.with_key(key)),
            Some(_) => Err(Error::Inval),
            None => Ok(self.execute_only()),
        }
    }

    /// `keep`: what each VMA keeps of its protection, its key or nothing.
    fn protect(
        &mut self,
        range: VirtRange,
        wanted: Prot,
        keep: Prot,
        locked: &mut Option<VirtRange>,
    ) -> Result<(), Error> {
        let mm = &*self.space.mm;
        let mut budget = Budget::step(mm);
        let mut at = range.start;
        while at < range.end {
            if !budget.take(AREA) {
                self.pause();
                budget = Budget::step(mm);
            }
            let index = self.vmas.find(at).ok_or(Error::NoMem)?;
            let vma = self.vmas.get(index);
            let prot = match M::Pte::KEYS > 1 && vma.prot.intersects(keep) {
                true => self.keys.keep(vma.prot, wanted),
                false => wanted,
            };
            let part = VirtRange::new(at, range.end.min(vma.range.end));
            at = part.end;
            if prot.contains(Prot::WRITE) && vma.shared() && !vma.flags.may_write_object() {
                return Err(Error::Acces);
            }
            self.check_exec_gain(vma.prot, prot)?;
            if vma.is_sealed() {
                return Err(Error::Perm);
            }
            if vma.prot == prot {
                continue;
            }
            if prot.contains(Prot::WRITE) && !vma.prot.contains(Prot::WRITE) && !vma.shared() {
                if vma.flags.populates() {
                    // Locked private pages must be populated as exclusive once writable; gaps
                    // between such VMAs are not.
                    let start = locked.map_or(part.start, |l| l.start);
                    *locked = Some(VirtRange::new(start, part.end));
                }
                // Read-only memory may need private pages from now on.
                let mut writable = vma.clone();
                writable.prot = prot;
                self.may_add_data(part.pages(), &writable)?;
                if !vma.flags.contains(VmaFlags::ACCOUNT) {
                    self.may_commit(part.pages(), &writable)?;
                }
            }
            let populates = locked.is_some_and(|locked| locked.end == part.end);
            let (shared, old) = (vma.shared(), vma.prot);
            self.vmas.reserve_update(part)?;
            self.in_steps(part, &mut budget, |edit, part, budget| {
                edit.split_ends(part, Reserve::User)?;
                // Its end tables are private now.
                match holds_table(part) {
                    true => edit.unshare_some(part, budget),
                    false => Ok(None),
                }
            })?;
            self.vmas.update(part, |v| v.set_prot(prot));
            // Linux populates it before it looks at the next VMA, which its history may keep apart.
            if populates {
                self.begin_history(part.start);
            }
            let rights = Rights {
                base: prot.attrs::<M::Pte>(),
                writable: prot.contains(Prot::WRITE),
                shared,
                only_more: prot.has_all_of(old),
            };
            self.in_steps(part, &mut budget, |edit, part, budget| {
                Ok(edit.protect_some(part, rights, budget))
            })?;
        }
        Ok(())
    }

    /// The VMA at `at` has private pages from now on.
    #[cold]
    #[inline(never)]
    fn begin_history(&mut self, at: VirtAddr) {
        if let Some(slot) = self.vmas.find(at) {
            self.vmas.prepare_write(slot);
        }
    }

    /// Calls `f` with the rest of `part` until none is left, with a pause between calls. Always
    /// completes.
    pub(super) fn in_steps(
        &mut self,
        mut part: VirtRange,
        budget: &mut Budget,
        mut f: impl FnMut(&mut Edit<'_, '_, M>, VirtRange, &mut Budget) -> Result<Option<VirtAddr>>,
    ) -> Result {
        while let Some(next) = self.edit(|edit| f(edit, part, budget))? {
            part.start = next;
            self.begin_step(next, budget);
        }
        Ok(())
    }
    /// Pauses before a step that begins at `at`.
    #[cold]
    #[inline(never)]
    fn begin_step(&mut self, at: VirtAddr, budget: &mut Budget) {
        if !self.in_huge_page(at) {
            self.pause();
        }
        *budget = Budget::step(self.mm());
    }
}
