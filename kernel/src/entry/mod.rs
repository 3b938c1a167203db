//! The highest floor: from the boot protocol to the first program, from a trap to what it asks for,
//! and the end of the machine.

pub mod boot;
pub mod bring_up;
pub mod panic;
pub mod payload;
mod symbols;
mod trap;
