//! Lab 1: your tests. Each is asked of a right solution, where it must pass, and of broken ones,
//! each of which one of your tests should find.

use super::Test;

/// Your tests. One looks like this:
///
/// ```text
/// Test {
///     asks: "no large order where none is allowed",
///     points: 0,
///     run: |policy| {
///         let facts = Facts { page: 0, area: 0..512, hole: 0..512, pmd_absent: true, orders: 0 };
///         assert_eq!(policy.order(&facts), 0);
///     },
/// },
/// ```
pub const TESTS: &[Test] = &[];
