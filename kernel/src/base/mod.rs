//! The lowest floor: what stands on the memory manager and the machine alone.

pub mod clock;
pub mod room;
