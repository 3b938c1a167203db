//! Marks around what is measured: plain stores to one page at a fixed address, which the plugin
//! `measure/plugin` sees in QEMU. No kernel knows of them; without the plugin they cost a store.
//!
//! Words 1 to 7 of the page hold the name, UTF-8, padded with zeros; they are stored first. A store
//! to word 0 then says what happens: a measurement begins, ends, or the open one is forgotten.
use crate::sys::{Result, mem};

/// Where the page is. Below 2^47, and where neither kernel puts anything by itself.
pub const ADDRESS: usize = 0x1eaf_0000_0000;

/// The longest name, in bytes.
pub const NAME_LEN: usize = 7 * 8;

const BEGIN: u64 = 1;
const END: u64 = 2;
const FORGET: u64 = 3;

/// The page, mapped until the program ends. Children made by fork mark with a page of their own,
/// which comes with their first name: a copy would have to be made by the parent, when it marks the
/// end of a fork.
pub struct Marks(());

impl Marks {
    /// Maps the page and writes to all of it, so that no mark faults.
    ///
    /// # Errors
    ///
    /// What mmap(2) says; EEXIST when something is mapped there, which an earlier `Marks` also is.
    pub fn map() -> Result<Marks> {
        let flags = mem::ANON | libc::MAP_FIXED_NOREPLACE;
        mem::mmap(ADDRESS, mem::PAGE, mem::RW, flags, -1, 0)?;
        for word in 0..mem::PAGE / 8 {
            mem::store(ADDRESS + word * 8, 0);
        }
        mem::madvise(ADDRESS, mem::PAGE, libc::MADV_WIPEONFORK)?;
        Ok(Marks(()))
    }

    /// Begins a measurement.
    ///
    /// # Panics
    ///
    /// When the name is longer than [`NAME_LEN`] bytes.
    pub fn begin(&self, name: &str) {
        for (word, value) in name_words(name).into_iter().enumerate() {
            mem::store(ADDRESS + (word + 1) * 8, value);
        }
        mem::store(ADDRESS, BEGIN);
    }

    /// Ends the measurement.
    #[inline]
    pub fn end(&self) {
        mem::store(ADDRESS, END);
    }

    /// Drops the open measurement: what it was for did not happen.
    #[inline]
    pub fn forget(&self) {
        mem::store(ADDRESS, FORGET);
    }
}

/// Does the work between two marks, if there are marks; what fails is forgotten.
#[inline]
pub fn around<T, E>(
    marks: Option<&Marks>,
    name: &str,
    work: impl FnOnce() -> std::result::Result<T, E>,
) -> std::result::Result<T, E> {
    let Some(marks) = marks else {
        return work();
    };
    marks.begin(name);
    let done = work();
    match &done {
        Ok(_) => marks.end(),
        Err(_) => marks.forget(),
    }
    done
}

/// The name as the seven words that are stored.
fn name_words(name: &str) -> [u64; 7] {
    assert!(name.len() <= NAME_LEN, "a mark's name is too long: {name}");
    let mut bytes = [0; NAME_LEN];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    let (words, _) = bytes.as_chunks::<8>();
    std::array::from_fn(|i| u64::from_le_bytes(words[i]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the page holds: word 0, and the name.
    fn page() -> (u64, String) {
        let bytes: Vec<u8> = (1..8)
            .flat_map(|word| mem::load(ADDRESS + word * 8).to_le_bytes())
            .take_while(|byte| *byte != 0)
            .collect();
        (mem::load(ADDRESS), String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn marks_are_stores_to_the_page() {
        let marks = Marks::map().unwrap();
        assert_eq!(page(), (0, String::new()));
        marks.begin("a longer name, with é in it");
        assert_eq!(page(), (BEGIN, "a longer name, with é in it".into()));
        marks.end();
        assert_eq!(page().0, END);
        marks.begin("short");
        assert_eq!(page(), (BEGIN, "short".into()));
        marks.forget();
        assert_eq!(page().0, FORGET);
        // A second map must not take away what others marked in the first.
        assert_eq!(Marks::map().err().and_then(|e| e.name()), Some("EEXIST"));
    }

    #[test]
    fn the_longest_name_fits_and_no_longer_one() {
        assert_eq!(name_words(&"x".repeat(NAME_LEN)), [0x7878787878787878; 7]);
        assert!(std::panic::catch_unwind(|| name_words(&"x".repeat(NAME_LEN + 1))).is_err());
    }
}
