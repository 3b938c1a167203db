//! Threads and processes: their beginning and end, signals, futexes, and what the floors below ask
//! of them.

mod caller;
pub mod check;
pub mod core_dump;
pub mod futex;
pub mod pidfd;
pub mod posix_timers;
pub mod robust;
pub mod shm;
pub mod signal;
pub mod signalfd;
pub mod task;
mod threads;
pub mod trace;
pub mod userfault;
