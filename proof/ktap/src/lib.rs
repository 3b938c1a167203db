//! KTAP 1, the Kernel Test Anything Protocol (<https://docs.kernel.org/dev-tools/ktap.html>), as
//! lines: [`Line`] prints one, [`Line::read`] parses one.
//!
//! ```text
//! KTAP version 1
//! 1..2
//! # start mm.one
//! ok 1 mm.one # 12 us
//! # start mm.two
//! # two.rs:7: x is 1, but y is 2
//! not ok 2 mm.two # 3 us
//! # Totals: pass:1 fail:1 skip:0 error:0
//! ```
//!
//! Nested results are not used and not read. [`Line::Start`] and [`Line::Listed`] are diagnostics
//! to other readers of KTAP; a diagnostic that begins with their word reads as one of them.
//!
//! A crate of our own: `testanything` prints TAP from the heap and reads nothing, `tap_parser`
//! reads it and needs std; the kernel prints before it has a heap.
#![no_std]

mod line;
mod read;
mod write;

pub use line::{Line, Note, TestResult, Totals};
pub use write::diagnostics;
