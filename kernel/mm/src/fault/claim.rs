//! Accesses that wait for something and are tried again: the VMAs of a pause do not allow them, for
//! the end of the claim (`space/areas.rs`); or the page is stored, for its way back.

use super::Resolution;
use crate::addr::Order;
use crate::arch::Machine;
use crate::mutant::{self, Mutant};
use crate::space::{AddressSpace, Locked};
use crate::stat::Event;
use crate::sync;

impl<M: Machine> AddressSpace<M> {
    /// Waits for what an access is impossible without, if it is for that: it is to be tried again.
    /// Else, why it has failed: [`Resolution::Claimed`] only if the thread is to end. The caller
    /// holds no lock.
    #[cold]
    pub fn wait_for(&self, why: Resolution) -> Result<(), Resolution> {
        self.wait_patiently(why, false)
    }
    /// [`Self::wait_for`]. Who is `patient` can wait for memory, too ([`Resolution::Short`]).
    #[cold]
    pub fn wait_patiently(&self, why: Resolution, patient: bool) -> Result<(), Resolution> {
        // Also where it need not wait in the end. In the kernel its own lock may be held.
        debug_assert!(cfg!(target_os = "none") || sync::held() == 0, "{why:?}");
        match why {
            Resolution::Claimed if self.wait_for_claim() => Ok(()),
            Resolution::Stored(slot) => self.mm.load(slot, patient).map_err(|order| match order {
                Order(0) => Resolution::NoMem,
                order => Resolution::Short(order),
            }),
            why => Err(why),
        }
    }

    /// A fault is resolved that has waited for what was stored.
    pub fn count_major_fault(&self) {
        self.mm.count(Event::MajorFault, 1);
    }

    /// Calls `f` until it need not wait any more ([`Self::wait_for`]).
    pub(super) fn after_claim<R>(
        &self,
        mut f: impl FnMut() -> Result<R, Resolution>,
    ) -> Result<R, Resolution> {
        loop {
            match f() {
                Err(why) => self.wait_for(why)?,
                result => return result,
            }
        }
    }
}

impl<M: Machine> Locked<'_, M> {
    /// Why an access is impossible: `why`, if the VMAs are not those of a pause.
    #[cold]
    #[inline(never)]
    pub(super) fn refused(&self, why: Resolution) -> Resolution {
        match self.is_claimed() && !mutant::on(Mutant::RefuseInPause) {
            true => Resolution::Claimed,
            false => why,
        }
    }
}
