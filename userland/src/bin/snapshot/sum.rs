//! A checksum of words in their order.

/// FNV-1a, by words instead of bytes, and how many there were.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sum {
    hash: u64,
    words: u64,
}

impl Default for Sum {
    fn default() -> Self {
        Sum {
            hash: 0xcbf2_9ce4_8422_2325,
            words: 0,
        }
    }
}

impl Sum {
    /// One word more.
    pub fn add(&mut self, word: u64) {
        self.hash = (self.hash ^ word)
            .wrapping_mul(0x0000_0100_0000_01b3)
            .rotate_left(23);
        self.words += 1;
    }

    /// The words that these bytes are; a rest that is none counts as one.
    pub fn add_bytes(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.add(u64::from_le_bytes(word));
        }
    }

    /// As it goes through a pipe.
    pub fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.hash.to_le_bytes());
        bytes[8..].copy_from_slice(&self.words.to_le_bytes());
        bytes
    }

    /// As it came through one.
    pub fn from_bytes(bytes: [u8; 16]) -> Sum {
        let words = u128::from_le_bytes(bytes);
        Sum {
            hash: words as u64,
            words: (words >> 64) as u64,
        }
    }
}
