//! Lab 7: your tests. Each is asked of a right solution, where it must pass, and of broken ones,
//! each of which one of your tests should find.

use super::Test;

/// Your tests. One looks like this, with `use super::Machine;`:
///
/// ```text
/// Test {
///     asks: "four pages move to a table of their own",
///     points: 0,
///     run: |solution| {
///         let mut machine = Machine::new().pages(0x1000..0x5000);
///         assert_eq!(machine.mremap(solution, 0x1000..0x5000, 0x20_0000), Ok(()));
///         // A page is mapped to the frame with the number that it had at first.
///         assert_eq!(machine.frame(0x20_3000), Some(4));
///         assert_eq!(machine.frame(0x4000), None);
///     },
/// },
/// ```
pub const TESTS: &[Test] = &[];
