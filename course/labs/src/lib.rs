//! The labs of a course on memory management: of each, what a solution is asked, the tests that
//! come with it, and broken solutions for tests to find.
//!
//! A solution is safe code without a library under it but `core` and `alloc`: it can compute, loop
//! and panic, and nothing else. It runs on the host, in the simulated machine and in the kernel,
//! where `lab=on` has it do what the kernel's own code does otherwise.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

#[macro_use]
mod lab;

#[cfg(feature = "order")]
#[path = "../01-order/lab.rs"]
pub mod order;

#[cfg(feature = "buddy")]
#[path = "../02-buddy/lab.rs"]
pub mod buddy;

#[cfg(feature = "anon")]
#[path = "../03-anon/lab.rs"]
pub mod anon;

#[cfg(feature = "contpte")]
#[path = "../04-contpte/lab.rs"]
pub mod contpte;

#[cfg(feature = "fork")]
#[path = "../05-fork/lab.rs"]
pub mod fork;

#[cfg(feature = "owner")]
#[path = "../06-owner/lab.rs"]
pub mod owner;

#[cfg(feature = "mremap")]
#[path = "../07-mremap/lab.rs"]
pub mod mremap;

#[cfg(feature = "gather")]
#[path = "../08-gather/lab.rs"]
pub mod gather;

/// The one that this was built with, for the program that runs its tests.
#[cfg(all(feature = "host", feature = "order"))]
pub use order as chosen;

#[cfg(all(feature = "host", feature = "buddy"))]
pub use buddy as chosen;

#[cfg(all(feature = "host", feature = "anon"))]
pub use anon as chosen;

#[cfg(all(feature = "host", feature = "contpte"))]
pub use contpte as chosen;

#[cfg(all(feature = "host", feature = "fork"))]
pub use fork as chosen;

#[cfg(all(feature = "host", feature = "owner"))]
pub use owner as chosen;

#[cfg(all(feature = "host", feature = "mremap"))]
pub use mremap as chosen;

#[cfg(all(feature = "host", feature = "gather"))]
pub use gather as chosen;

/// A question to a solution, or to something that claims to be one.
pub struct Test<S: ?Sized> {
    /// What it asks, in a line.
    pub asks: &'static str,
    /// Points for the right answer; 0 where not doing anything is right, too.
    pub points: u32,
    /// Panics where the answer is wrong.
    pub run: fn(&S),
}

/// A broken solution: its name, and which rule it breaks.
pub type Mutant = (&'static str, &'static str);

/// A linear congruential generator (Knuth, TAOCP 3.3.4).
pub struct Random(pub u64);

impl Random {
    /// The next number below a limit.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005);
        self.0 = self.0.wrapping_add(1442695040888963407);
        (self.0 >> 33) % limit
    }
}
