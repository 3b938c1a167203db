//! What measures: operations on memory, on Quire and on Linux, in guest instructions, counters,
//! cache lines and time; tables and plots of them.
pub mod age;
pub mod bench;
mod columns;
pub mod compare;
pub mod compat;
pub mod conflicts;
mod counting;
mod kernels;
mod lines;
mod markdown;
pub mod profile;
pub mod reclaim;
pub mod report;
pub mod seeds;
mod store;
pub mod sweep;
#[cfg(test)]
mod testing;
mod trial;
