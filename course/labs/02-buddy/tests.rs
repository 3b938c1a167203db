//! Lab 2: your tests. Each is asked of a right solution, where it must pass, and of broken ones,
//! each of which one of your tests should find.

use super::Test;

/// Your tests. One looks like this, with `use super::Machine;`:
///
/// ```text
/// Test {
///     asks: "half of a block is taken, the other half stays",
///     points: 0,
///     run: |solution| {
///         // Free are the frames 64 to 95.
///         let mut machine = Machine::new(&[(64, 5)]);
///         let frame = machine.take(solution, 4).expect("there is memory");
///         assert_eq!(machine.free(), [(144 - frame, 4)]);
///     },
/// },
/// ```
pub const TESTS: &[Test] = &[];
