//! Places of a program in its address space, random unless that is switched off.

use super::randomised;
use crate::arch::pte::Format;
use crate::base::random;
use crate::process::task::{Process, Resource, ResourceLimits};
use mm::arch::PteFormat;
use parts::aslr::Offsets;

/// Places for a program that `process` is about to become.
pub fn offsets(limits: &ResourceLimits, process: &Process) -> Offsets {
    let random = randomised(process).then_some(random::u64);
    Offsets::new(Format::USER_END.0, limits.soft(Resource::Stack), random)
}
