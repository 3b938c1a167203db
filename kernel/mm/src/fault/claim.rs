//! Accesses that the VMAs of a pause do not allow: they wait for the end of the claim
//! (`space/areas.rs`) and are tried again.

use super::Resolution;
use crate::arch::Machine;
use crate::mutant::{self, Mutant};
use crate::space::{AddressSpace, Locked};

impl<M: Machine> AddressSpace<M> {
    /// Calls `f` until its result is another one than [`Resolution::Claimed`], which is left only
    /// if the thread is to end. The caller holds no lock.
    pub(super) fn after_claim<R>(
        &self,
        mut f: impl FnMut() -> Result<R, Resolution>,
    ) -> Result<R, Resolution> {
        loop {
            match f() {
                Err(Resolution::Claimed) if self.wait_for_claim() => {}
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
