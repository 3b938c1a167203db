//! swapoff(2): all that is in swap slots comes back.

use crate::addr::{PAGE_SIZE, VirtAddr, VirtRange};
use crate::arch::{Machine, PteFormat};
use crate::manager::Mm;
use crate::space::{AREA, AddressSpace, Error, Result};

impl<M: Machine> Mm<M> {
    /// Turns swap off, which is on: no page gets a slot any more, and what is in some is mapped
    /// again, or goes back to its object, in steps. The caller, one at a time, holds no lock. With
    /// an error swap is on as before. ENOMEM: memory cannot take all, or others lack it;
    /// [`Error::Interrupted`]: `stops` has said so, or the thread is to end.
    pub fn swap_off(&self, mut stops: impl FnMut() -> bool) -> Result {
        self.begin_leaving();
        let mut stops = || stops() || self.slots().total() != 0;
        let mut result = Ok(());
        // Until none is used: a child may not have been found, which has what its parent had.
        while result.is_ok() && self.slots().used() != 0 {
            self.for_each_space(&mut |space| {
                if result.is_ok() {
                    result = space.unswap(&mut stops);
                }
            });
            self.for_each_object(&mut |object, rest| {
                if result.is_ok() {
                    result = object.bring_step(rest).or(Err(Error::NoMem));
                    if result.is_ok() && stops() {
                        result = Err(Error::Interrupted);
                    }
                }
                result.is_ok()
            });
            if stops() || self.machine().breathe() {
                result = result.and(Err(Error::Interrupted));
            }
        }
        match self.end_leaving(result.is_err()) {
            true => result,
            // Reclaim has put an end to it.
            false => Err(Error::NoMem),
        }
    }
}

impl<M: Machine> AddressSpace<M> {
    /// Maps again all that is swapped, as [`Mm::swap_off`].
    fn unswap(&self, stops: &mut dyn FnMut() -> bool) -> Result {
        let mut rest = VirtRange::new(VirtAddr(0), M::Pte::USER_END);
        loop {
            let mut missing = None;
            let walked = self.area_by_area(rest, |inner, slot, mut area, budget| {
                let vma = inner.vmas.get(slot);
                let may_be_swapped = vma.has_anon && !vma.shared();
                while may_be_swapped
                    && !area.is_empty()
                    && let Some(at) = inner.edit(|edit| edit.first_swapped(area, budget))?
                {
                    if budget.is_spent() {
                        return Ok(Some(at));
                    }
                    if let Err(why) = inner.bring_back(at, false) {
                        missing = Some((at, why));
                        return Err(Error::Again);
                    }
                    budget.take(AREA);
                    area.start = at + PAGE_SIZE;
                }
                Ok(None)
            });
            let Some((at, why)) = missing else {
                return walked.map(drop);
            };
            if stops() {
                return Err(Error::Interrupted);
            }
            self.wait_for(why).or(Err(Error::NoMem))?;
            rest.start = at;
        }
    }
}
