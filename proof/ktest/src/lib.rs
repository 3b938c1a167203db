//! Tests that run inside the kernel and, from the same source, on the host.
//!
//! A test registers itself in a linker section, gets a [`Context`] and returns `Ok(())` or a
//! [`Failure`]:
//!
//! ```
//! ktest::ktest! {
//!     /// Doubling is adding.
//!     fn doubles(ctx) {
//!         let n = 21;
//!         ktest::diag!(ctx, "n is {n}");
//!         ktest::check_eq!(ctx, 2 * n, n + n);
//!     }
//! }
//! # fn main() {}
//! ```
//!
//! The kernel runs them when its command line says `quire.test[=GLOB]` (see [`Plan`]) and prints
//! KTAP 1 (the crate `ktap`) on the console; on the host `run_on_host`
//! does the same under `cargo test`. A panic in the kernel ends the machine: the tool behind
//! `run.sh` then marks the test that had started as failed and boots again for the rest
//! (`quire.test.after=NAME`).
#![no_std]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

mod context;
pub mod glob;
pub mod pairwise;
mod plan;
mod registry;
mod run;
pub mod settings;

pub use context::{Context, Failure, Outcome};
pub use plan::Plan;
pub use registry::{TESTS, Test};
#[cfg(feature = "std")]
pub use run::run_on_host;
pub use run::{Hooks, run};

pub use ktap::Totals;
#[doc(hidden)]
pub use linkme;
