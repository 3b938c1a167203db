//! The lowest floor: what stands on the memory manager and the machine alone.

pub mod above;
pub mod clock;
pub mod room;
pub mod signo;

/// A process or thread number, from 1.
pub type Pid = i32;
