//! Lab 5: your tests. Each is asked of a right solution, where it must pass, and of broken ones,
//! each of which one of your tests should find.

use super::Test;

/// Your tests. One looks like this, with `use super::Machine;`:
///
/// ```text
/// Test {
///     asks: "a folio of 16 pages is shared, by one update",
///     points: 0,
///     run: |solution| {
///         let mut machine = Machine::new();
///         // Frames 32 to 47 are a folio; entries 100 to 115 map it.
///         machine.folio(32, 16);
///         machine.map(100, 32, 16);
///         assert_eq!(machine.fork(solution, 0..512), Ok(()));
///         assert_eq!(machine.child(100).map(|entry| entry.frame), Some(32));
///         assert_eq!(machine.updates(), 1);
///     },
/// },
/// ```
pub const TESTS: &[Test] = &[];
