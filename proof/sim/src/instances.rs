//! The memory manager on this machine, compiled here for both formats of page tables: what tests
//! call is then in this crate, and each of their programs need not compile it again.

use crate::{Process, Sim, World};
use core::ptr::drop_in_place;
use mm::arch::PteFormat;
use mm::object::Object;
use mm::{AddressSpace, Handle};

type Space<F> = AddressSpace<Sim<F>>;

/// The functions that most tests call. One that is missing here is only compiled more often.
pub fn instances() -> [Vec<*const ()>; 2] {
    [
        of::<arch_x86_64::pte::Format>(),
        of::<arch_aarch64::pte::Format>(),
    ]
}

fn of<F: PteFormat>() -> Vec<*const ()> {
    vec![
        World::<F>::new as *const (),
        World::<F>::process as *const (),
        World::<F>::adopt as *const (),
        World::<F>::load as *const (),
        World::<F>::store as *const (),
        World::<F>::fetch as *const (),
        World::<F>::check as *const (),
        World::<F>::check_tlbs as *const (),
        Process::<F>::end as *const (),
        drop_in_place::<World<F>> as *const (),
        drop_in_place::<Process<F>> as *const (),
        Handle::<Sim<F>>::new as *const (),
        Space::<F>::share as *const (),
        Space::<F>::fault as *const (),
        Space::<F>::pin as *const (),
        Space::<F>::pin_long_term as *const (),
        Space::<F>::read as *const (),
        Space::<F>::write as *const (),
        Space::<F>::map as *const (),
        Space::<F>::unmap as *const (),
        Space::<F>::remap as *const (),
        Space::<F>::protect as *const (),
        Space::<F>::advise as *const (),
        Space::<F>::dont_need as *const (),
        Space::<F>::mlock as *const (),
        Space::<F>::lock_all as *const (),
        Space::<F>::brk as *const (),
        Space::<F>::fork as *const (),
        Object::<Sim<F>>::truncate as *const (),
        Object::<Sim<F>>::punch as *const (),
        Space::<F>::clear_soft_dirty as *const (),
        Space::<F>::clear_referenced as *const (),
        Space::<F>::split_deferred as *const (),
        Space::<F>::split_range as *const (),
        Space::<F>::collapse as *const (),
        Space::<F>::first_used as *const (),
        Space::<F>::address_of as *const (),
        Space::<F>::may_share as *const (),
        Space::<F>::usage as *const (),
        Space::<F>::page_info as *const (),
        Space::<F>::smaps as *const (),
        Space::<F>::mincore as *const (),
        Space::<F>::entries_from as *const (),
    ]
}
