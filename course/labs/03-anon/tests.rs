//! Lab 3: your tests. Each is asked of a right solution, where it must pass, and of broken ones,
//! each of which one of your tests should find.

use super::Test;

/// Your tests. One looks like this, with `use super::{Entry, Machine, Meanwhile};`:
///
/// ```text
/// Test {
///     asks: "another thread reads the page while memory for it is cleared",
///     points: 0,
///     run: |solution| {
///         let mut machine = Machine::new(16).meanwhile(&[Meanwhile::Read(3)]);
///         machine.write(solution, 3).expect("there is memory");
///         assert_eq!(machine.entry(3), Entry::Own);
///     },
/// },
/// ```
pub const TESTS: &[Test] = &[];
