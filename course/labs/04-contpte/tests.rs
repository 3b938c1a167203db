//! Lab 4: your tests. Each is asked of a right solution, where it must pass, and of broken ones,
//! each of which one of your tests should find.

use super::Test;

/// Your tests. One looks like this, with `use super::{Machine, entries};`:
///
/// ```text
/// Test {
///     asks: "a block folds, and is still read and written",
///     points: 0,
///     run: |solution| {
///         // The frames from 32 on, in folios of 16 pages.
///         let mut machine = Machine::new(entries(32), 16);
///         assert!(solution.may_fold(&machine));
///         solution.fold(&mut machine);
///         assert!(machine.write(3));
///     },
/// },
/// ```
pub const TESTS: &[Test] = &[];
