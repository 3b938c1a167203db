//! Heap memory that may be refused.
//!
//! The kernel's heap holds back a reserve for allocations that cannot fail: those of a fixed size
//! and number in each system call, which need no error path. Allocations whose size depends on a
//! user's input are made here: while memory is short they are refused, and the reserve stays whole.
//! The rule in full: `docs/decisions/0008-memory-the-kernel-needs.md`.
//!
//! | allocation | by |
//! |---|---|
//! | room in a collection | [`reserve`], [`reserve_exact`], [`push`] |
//! | a new vector | [`collect`], [`copied`], [`filled`] |
//! | one more element of a small map | [`SortedMap`] |
//! | one more node of a large map, which has no fallible insertion | [`check`] before each |

#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod grow;
mod sorted;
mod state;

pub use grow::{Growable, collect, copied, filled, push, reserve, reserve_exact};
pub use sorted::{SortedMap, give_back};
pub use state::{check, checks, count_checks, is_refusable, is_short, set_short};

/// There is no memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfMemory;
