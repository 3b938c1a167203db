//! mmap(2).

use crate::addr::{PAGE_SIZE, VirtAddr, VirtRange};
use crate::arch::{Machine, PteFormat};
use crate::space::{AddressSpace, Error, Locked, MapRequest, Place, Result, user_pages};
use crate::vma::{Backing, Prot, Vma, VmaFlags};

impl<M: Machine> AddressSpace<M> {
    /// mmap(2): returns the address. EINVAL: no length or a misaligned fixed address; ENOMEM: no
    /// room, over a limit, or more than all memory; EEXIST: MAP_FIXED_NOREPLACE over a mapping;
    /// EAGAIN: over the lock limit; EPERM: it would replace a sealed VMA; EACCES: writable
    /// and executable, which the process refuses itself.
    pub fn map(&self, request: MapRequest<M>) -> Result<VirtAddr> {
        if request.len == 0 {
            return Err(Error::Inval);
        }
        let size = request.backing.huge_order().unwrap_or_default().bytes();
        let len = VirtAddr(request.len).align_up(size).ok_or(Error::NoMem)?.0;
        // It and what it replaces are dropped after the lock: a file's release takes kernel locks.
        let MapRequest { prot, backing, .. } = request;
        let mut vma = Vma::new(VirtRange::default(), prot, request.flags, backing);
        let mut inner = self.areas()?;
        let range = inner.choose(request.place, len, &vma.backing)?;
        if !range.start.is_aligned(size) {
            return Err(Error::Inval);
        }
        inner.check_exec_gain(prot, prot)?;
        if prot == Prot::EXEC {
            vma.prot = inner.execute_only();
        }
        inner.check_seals(range)?;
        let future = match request.flags.may_be_locked() {
            true => inner.future,
            false => VmaFlags::empty(),
        };
        let flags = Vma::<M>::accounted(prot, request.flags | future);
        (vma.range, vma.flags) = (range, flags);
        vma.enter(self.key)?;
        if flags.may_write_object() {
            vma.allow_writes()?;
        }
        inner.may_map(&vma, inner.vmas.pages_in(range))?;
        inner.vmas.reserve_take(range, 1)?;
        let replaced = inner.remove(range)?;
        let huge = flags.is_hugetlb();
        if huge && let Err(why) = vma.claim_huge() {
            // As in Linux, what was there is gone.
            drop(inner);
            drop(replaced);
            return Err(why.into());
        }
        if huge {
            vma.grow_huge_file();
        }
        inner.vmas.insert(vma);
        if huge {
            inner.begin_huge(range.start);
        }
        inner.note_total();
        drop(inner);
        drop(replaced);
        if request.populate || flags.populates() {
            // mmap(2) does not report a failure to populate.
            let _ = self.populate(range);
        }
        Ok(range.start)
    }
}

impl<M: Machine> Locked<'_, M> {
    fn choose(&self, place: Place, len: u64, backing: &Backing<M>) -> Result<VirtRange> {
        let start = match place {
            Place::Hint(_) if len > M::Pte::USER_END.0 => return Err(Error::NoMem),
            Place::Hint(hint) => self.find_place(hint, len, backing).ok_or(Error::NoMem)?,
            Place::Fixed(at) | Place::FixedNoReplace(at) if !at.is_aligned(PAGE_SIZE) => {
                return Err(Error::Inval);
            }
            Place::Fixed(at) | Place::FixedNoReplace(at) => at,
        };
        let range = user_pages::<M>(start, len).ok_or(Error::NoMem)?;
        if matches!(place, Place::FixedNoReplace(_)) && !self.vmas.is_clear(range) {
            return Err(Error::Exist);
        }
        Ok(range)
    }
}
