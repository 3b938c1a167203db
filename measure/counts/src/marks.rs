//! The stores by which a program says what is measured: words of one page at a fixed address of its
//! own (`userland/src/marks.rs` is the other side).

/// Where the page is.
pub const ADDRESS: u64 = 0x1eaf_0000_0000;

/// Words of the name.
const NAME_WORDS: usize = 7;

/// What a store said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A measurement of this name begins.
    Begin(String),
    /// It ends.
    End,
    /// It is forgotten.
    Forget,
}

/// Whether `address` is in the page.
#[inline]
pub fn is_in_page(address: u64) -> bool {
    address & !0xfff == ADDRESS
}

/// The name that is being stored.
#[derive(Debug, Default)]
pub struct Marks {
    name: [u64; NAME_WORDS],
}

impl Marks {
    /// Takes one store of 8 bytes to the page, at an offset in it. What is no mark means nothing:
    /// the program fills the page with zeros before the first one.
    pub fn store(&mut self, offset: u64, value: u64) -> Option<Mark> {
        match (offset, value) {
            (0, 1) => Some(Mark::Begin(self.name())),
            (0, 2) => Some(Mark::End),
            (0, 3) => Some(Mark::Forget),
            (8..64, _) if offset.is_multiple_of(8) => {
                self.name[offset as usize / 8 - 1] = value;
                None
            }
            _ => None,
        }
    }

    fn name(&self) -> String {
        let bytes = self.name.map(u64::to_le_bytes).concat();
        let length = bytes.iter().position(|byte| *byte == 0);
        String::from_utf8_lossy(&bytes[..length.unwrap_or(bytes.len())]).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of a name as the user's side stores them.
    fn name(marks: &mut Marks, name: &str) {
        let mut bytes = name.as_bytes().to_vec();
        bytes.resize(56, 0);
        for (word, bytes) in bytes.chunks_exact(8).enumerate() {
            let value = u64::from_le_bytes(bytes.try_into().unwrap());
            assert_eq!(marks.store(8 + word as u64 * 8, value), None);
        }
    }

    #[test]
    fn a_measurement_has_the_last_name_stored() {
        let mut marks = Marks::default();
        name(&mut marks, "a long name that takes more words");
        name(&mut marks, "fork é");
        assert_eq!(marks.store(0, 1), Some(Mark::Begin("fork é".into())));
        assert_eq!(marks.store(0, 2), Some(Mark::End));
        name(&mut marks, &"x".repeat(56));
        assert_eq!(marks.store(0, 1), Some(Mark::Begin("x".repeat(56))));
        assert_eq!(marks.store(0, 3), Some(Mark::Forget));
    }

    #[test]
    fn other_stores_mean_nothing() {
        let mut marks = Marks::default();
        for (offset, value) in [(0, 0), (0, 4), (64, 1), (4, 1), (12, 1)] {
            assert_eq!(marks.store(offset, value), None);
        }
        assert_eq!(marks.store(0, 1), Some(Mark::Begin(String::new())));
    }

    #[test]
    fn both_sides_mean_the_same_page() {
        assert_eq!(ADDRESS, userland::marks::ADDRESS as u64);
        assert_eq!(NAME_WORDS * 8, userland::marks::NAME_LEN);
        assert!(is_in_page(ADDRESS + 4095) && !is_in_page(ADDRESS + 4096));
    }
}
