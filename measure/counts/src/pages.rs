//! Streams of accesses to pages, by which policies of replacement are judged.
//!
//! A file of one is a DEFLATE stream (RFC 1951) of little-endian numbers: in 64 bits how many pages
//! there are, and for each the word of an access that reads it ([`Access::word`]), in order; then
//! in 32 bits for each access a number that is twice the place of its page, and 1 more if it wrote,
//! less that of the access before (modulo 2^32).
use miniz_oxide::{deflate::compress_to_vec, inflate::decompress_to_vec};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::mem::{replace, take};

/// An access to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The address space, by a number from 0 to 65535.
    pub space: u64,
    /// The virtual address by 4096, less than 2^47.
    pub page: u64,
    /// Whether it wrote.
    pub write: bool,
}

impl Access {
    /// The space in bits 48 to 63, whether it wrote in bit 47, the page below.
    pub fn word(self) -> u64 {
        self.space << 48 | u64::from(self.write) << 47 | self.page
    }
    /// What such a word says.
    pub fn of(word: u64) -> Access {
        Access {
            space: word >> 48,
            page: word & ((1 << 47) - 1),
            write: word >> 47 & 1 != 0,
        }
    }
}

/// A stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stream {
    /// All pages by space and number, in order.
    pub pages: Vec<(u64, u64)>,
    /// Accesses: the place of the page in `pages`, and whether it wrote.
    pub accesses: Vec<(usize, bool)>,
}

impl Stream {
    /// Of these accesses.
    pub fn new(accesses: &[Access]) -> Stream {
        let key = |access: &Access| (access.space, access.page);
        let pages = Vec::from_iter(BTreeSet::from_iter(accesses.iter().map(key)));
        let place = |it: &Access| (pages.partition_point(|page| *page < key(it)), it.write);
        let accesses = accesses.iter().map(place).collect();
        Stream { pages, accesses }
    }
    /// The file.
    pub fn pack(&self) -> Vec<u8> {
        let mut bytes = Vec::from((self.pages.len() as u64).to_le_bytes());
        let words = self.pages.iter().map(|(space, page)| space << 48 | page);
        bytes.extend(words.flat_map(u64::to_le_bytes));
        let mut last = 0u32;
        for &(at, write) in &self.accesses {
            let word = 2 * at as u32 + u32::from(write);
            bytes.extend(word.wrapping_sub(replace(&mut last, word)).to_le_bytes());
        }
        compress_to_vec(&bytes, 10)
    }
    /// What is in a file; `None` if it is none of these.
    pub fn unpack(file: &[u8]) -> Option<Stream> {
        let bytes = decompress_to_vec(file).ok()?;
        let (count, rest) = bytes.split_first_chunk()?;
        let count = usize::try_from(u64::from_le_bytes(*count)).ok()?;
        let (table, rest) = rest.split_at_checked(count.checked_mul(8)?)?;
        let mut stream = Stream::default();
        for word in table.as_chunks().0 {
            let Access { space, page, .. } = Access::of(u64::from_le_bytes(*word));
            stream.pages.push((space, page));
        }
        let mut word = 0u32;
        for more in rest.as_chunks().0 {
            word = word.wrapping_add(u32::from_le_bytes(*more));
            let at = Some(word as usize / 2).filter(|at| *at < count)?;
            stream.accesses.push((at, word & 1 != 0));
        }
        Some(stream)
    }
}

/// Records programs. Of each window of so many accesses the first use of each page is kept, and its
/// first write: what a memory manager can see that looks at accessed bits once a window.
#[derive(Debug, Default)]
pub struct Recorder {
    window: u64,
    left: u64,
    last: (u64, bool),
    /// In this window: whether they were written.
    seen: FxHashMap<(u64, u64), bool>,
    /// Each space by what tells it from the others.
    spaces: FxHashMap<u64, u64>,
    bytes: Vec<u8>,
}

impl Recorder {
    /// With windows of so many accesses.
    pub fn new(window: u64) -> Recorder {
        Recorder {
            window,
            ..Recorder::default()
        }
    }
    /// Notes an access to the space that `space` names. Returns, at the end of each window, the
    /// words of its accesses, little-endian.
    #[inline]
    pub fn touch(
        &mut self,
        page: u64,
        write: bool,
        space: impl FnOnce() -> u64,
    ) -> Option<Vec<u8>> {
        let begins = self.left == 0;
        if begins {
            self.left = self.window;
            self.seen.clear();
        }
        self.left -= 1;
        if begins || (page, write) != self.last {
            self.last = (page, write);
            let spaces = self.spaces.len() as u64;
            let space = *self.spaces.entry(space()).or_insert(spaces);
            let is_new = match self.seen.get_mut(&(space, page)) {
                Some(written) => write && !replace(written, true),
                None => self.seen.insert((space, page), write).is_none(),
            };
            if is_new {
                let access = Access { space, page, write };
                self.bytes.extend(access.word().to_le_bytes());
            }
        }
        (self.left == 0).then(|| take(&mut self.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let words = [
            (1, 2, false),
            (0, (1 << 47) - 1, true),
            (1, 2, true),
            (0, 7, false),
        ];
        let accesses = words.map(|(space, page, write)| Access { space, page, write });
        assert_eq!(accesses.map(|access| Access::of(access.word())), accesses);
        let stream = Stream::new(&accesses);
        assert_eq!(stream.pages, [(0, 7), (0, (1 << 47) - 1), (1, 2)]);
        assert_eq!(
            stream.accesses,
            [(2, false), (1, true), (2, true), (0, false)]
        );
        assert_eq!(Stream::unpack(&stream.pack()), Some(stream));
        assert_eq!(Stream::unpack(&compress_to_vec(&[9; 20], 1)), None);
    }

    #[test]
    fn a_page_stands_once_in_each_window() {
        let mut recorder = Recorder::new(5);
        let mut bytes = Vec::new();
        for word in [1u64, 1, 2 | 1 << 47, 1 | 1 << 47, 1, 1, 1, 2, 1, 2] {
            let Access { page, write, .. } = Access::of(word);
            bytes.extend(recorder.touch(page, write, || 7).unwrap_or_default());
        }
        let words = bytes
            .as_chunks()
            .0
            .iter()
            .map(|word| u64::from_le_bytes(*word));
        assert_eq!(Vec::from_iter(words), [1, 2 | 1 << 47, 1 | 1 << 47, 1, 2]);
    }
}
