//! Which of the system calls that are not there a process has asked for.

/// The numbers that a process was told about: a bit each; all above the last share it.
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
