//! A checksum of words in their order.

/// FNV-1a, by words instead of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sum(pub u64);

impl Default for Sum {
    fn default() -> Self {
        Sum(0xcbf2_9ce4_8422_2325)
    }
}

impl Sum {
    /// One word more.
    pub fn add(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(0x0000_0100_0000_01b3);
        self.0 = mixed.rotate_left(23);
    }

    /// The words that these bytes are; a rest that is none counts as one.
    pub fn add_bytes(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.add(u64::from_le_bytes(word));
        }
    }
}
