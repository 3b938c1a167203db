//! Lab 6: your tests. Each is asked of a right solution, where it must pass, and of broken ones,
//! each of which one of your tests should find.

use super::Test;

/// Your tests. One looks like this, with `use super::Folio;`:
///
/// ```text
/// Test {
///     asks: "the parent writes in place after its child is gone",
///     points: 0,
///     run: |solution| {
///         // 16 pages. Address space 1 maps them all, then so does 2.
///         let folio = Folio::new(solution, 16);
///         folio.add(1, 16);
///         folio.add(2, 16);
///         assert!(!folio.reuse(1));
///         folio.remove(2, 16);
///         assert!(folio.reuse(1));
///     },
/// },
/// ```
pub const TESTS: &[Test] = &[];
