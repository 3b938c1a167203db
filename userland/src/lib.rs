//! What the user programs share: checked system calls ([`sys`]), the kernel's counters ([`counters`]), the KTAP
//! harness ([`ktap`]) and the shell's language ([`sh`]). Everything here runs on Linux as well as on Quire.

pub mod counters;
pub mod ktap;
pub mod sh;
pub mod sys;
