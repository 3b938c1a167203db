//! The lowest floor: what stands on the memory manager and the machine alone.

pub mod above;
pub mod clock;
pub mod cmdline;
pub mod console;
pub mod cpus;
pub mod errno;
pub mod heap;
pub mod hostname;
pub mod klog;
pub mod kstack;
pub mod machine;
pub mod random;
pub mod ranks;
pub mod requests;
pub mod room;
pub mod stretch;
pub mod uaccess;
pub mod user_ptr;
pub mod watchdog;

/// A process or thread number, from 1.
pub type Pid = i32;
