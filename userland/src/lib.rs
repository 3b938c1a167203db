//! Library of the user programs: checked system calls ([`sys`]), the kernel's counters
//! ([`counters`]) and how far they move ([`readings`]), its settings of folio sizes ([`controls`])
//! and its switches ([`switch`]), the KTAP harness ([`harness`]), the shell's language ([`sh`]) and
//! the classic cases of copy-on-write ([`replay`]), random numbers ([`random`]), the check of all
//! invariants ([`invariants`]), marks around what is measured ([`marks`]), what measuring programs
//! have in common ([`measuring`]), traces of allocators ([`trace`]). Everything here runs on Linux
//! as well as on Quire.

pub mod controls;
pub mod counters;
pub mod harness;
pub mod heap_fail;
pub mod invariants;
mod listen;
pub mod marks;
pub mod measuring;
#[cfg(all(test, target_os = "linux"))]
mod on_linux;
pub mod random;
pub mod readings;
pub mod replay;
pub mod sh;
pub mod starve;
pub mod stretch;
pub mod switch;
pub mod sys;
pub mod trace;
