//! Places of a program in its address space, random unless that is switched off.

use super::{layout, randomised};
use crate::base::random;
use crate::process::task::{Process, Resource, ResourceLimits};
use parts::aslr::{Offsets, Spread};

/// Places for a program that `process` is about to become.
pub fn offsets(limits: &ResourceLimits, process: &Process) -> Offsets {
    let random = randomised(process).then_some(random::u64);
    let spread = match cfg!(target_arch = "x86_64") {
        true => Spread::X86_64,
        false => Spread::AARCH64,
    };
    Offsets::new(
        layout::STACK_END,
        limits.soft(Resource::Stack),
        spread,
        random,
    )
}
