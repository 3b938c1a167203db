//! Lab 6: who has this folio. A solution keeps the account of a folio's references in one word, and
//! says when a write may go to the page itself.

include!(concat!(env!("OUT_DIR"), "/owner.rs"));
#[cfg(feature = "answer")]
#[path = "answer/solution.rs"]
mod answer_key;
#[path = "mutants.rs"]
mod broken_solutions;
#[cfg(feature = "answer")]
#[path = "answer/held_back.rs"]
mod held_back;
mod machine;
mod public;
pub mod referee;

pub use machine::Folio;

/// Whose a plain reference is: nobody's. Of a pin, or of a walk that wants the folio to stay.
pub const PLAIN: u8 = 0;

/// The 64 bits that a folio has for its account. 0 when it gets its first references. Any CPU may
/// be in any of these at the same time; each is one step.
pub trait Word {
    /// What the word is.
    fn load(&self) -> u64;
    /// Adds, modulo 2^64. Returns what the word was before.
    fn add(&self, n: u64) -> u64;
    /// Makes the word `new` if it is `old`; otherwise says what it is, and does nothing.
    fn exchange(&self, old: u64, new: u64) -> Result<(), u64>;
}

lab! {
    /// A solution.
    pub trait Account {
        /// `n` references by address space `mm` more: pages that it is about to map.
        fn add(&self, word: &dyn Word, mm: u8, n: u64);
        /// `n` of them less: pages that it has unmapped. Whether none are left, by anyone.
        fn remove(&self, word: &dyn Word, mm: u8, n: u64) -> bool;
        /// Whether a write of `mm`, which maps the folio of so many pages, may go to the page
        /// itself: all references but `pins` plain ones are mappings by `mm`.
        fn reuse(&self, word: &dyn Word, pages: u64, mm: u8, pins: u64) -> bool;
    }
}
