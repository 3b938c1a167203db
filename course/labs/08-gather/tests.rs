//! Lab 8: your tests. Each is asked of a right solution, where it must pass, and of broken ones,
//! each of which one of your tests should find.

use super::Test;

/// Your tests. One looks like this, with `use super::Machine;`:
///
/// ```text
/// Test {
///     asks: "another CPU drops a page before its memory is free",
///     points: 0,
///     run: |solution| {
///         // Two CPUs; CPU 0 is the one that changes page tables.
///         let mut machine = Machine::new(2);
///         machine.run(1);
///         machine.map(7..8);
///         // A program on CPU 1 reads page 7: its TLB holds it now.
///         machine.read(1, 7);
///         machine.unmap(solution, 7..8);
///         machine.finish(solution);
///         assert_eq!(machine.flushes(), 1);
///     },
/// },
/// ```
pub const TESTS: &[Test] = &[];
