//! The unimplemented system calls that a process has made.

/// A set of numbers that were logged: a bit each; all numbers above the last bit share it.
pub struct CallSet([u64; 8]);

impl CallSet {
    /// None.
    pub const fn new() -> Self {
        Self([0; 8])
    }

    /// `true`: it was not in the set before.
    pub fn insert(&mut self, number: u64) -> bool {
        let bit = number.min(511);
        let word = &mut self.0[(bit / 64) as usize];
        let new = *word & 1 << (bit % 64) == 0;
        *word |= 1 << (bit % 64);
        new
    }
}
