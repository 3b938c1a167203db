//! One level of a TLB: arrays of entries of several sizes.
//!
//! LRU in each set, as in [`crate::cache`]. An array with several sizes and more than one set is
//! looked up once per size, with the set that the size gives.

use crate::config::{BadPreset, TlbArray, TlbShape, sets};
use crate::entry::{Entry, Kind, TABLE_SIZE};
use crate::flush::Flush;

#[derive(Clone, Debug)]
struct Array {
    entries: Vec<Entry>,
    ways: usize,
    sets: u64,
    sizes: &'static [u8],
}

impl Array {
    fn new(what: &str, shape: &TlbArray) -> Result<Self, BadPreset> {
        let sets = sets(what, u64::from(shape.entries), shape.ways)?;
        Ok(Self {
            entries: vec![Entry::default(); shape.entries as usize],
            ways: shape.ways as usize,
            sets: sets as u64,
            sizes: shape.sizes,
        })
    }

    /// The sizes that choose different sets; of one set, one of them.
    fn choices(&self) -> &'static [u8] {
        match self.sets {
            1 => &[12],
            _ => self.sizes,
        }
    }

    /// The index of the first entry of the set for an address.
    fn first(&self, address: u64, size: u8) -> usize {
        ((address >> size) % self.sets) as usize * self.ways
    }

    /// Where the entry for an address is: the index of its set, and its way.
    fn locate(&self, address: u64, tag: u16, kind: Kind) -> Option<(usize, usize)> {
        let sizes = match kind {
            Kind::Table => &[TABLE_SIZE],
            _ => self.choices(),
        };
        sizes.iter().find_map(|&size| {
            let first = self.first(address, size);
            let mut set = self.entries[first..first + self.ways].iter();
            let way = set.position(|entry| entry.is_for(address, tag, kind))?;
            Some((first, way))
        })
    }

    /// Uses an entry: a copy of it.
    fn find(&mut self, address: u64, tag: u16, kind: Kind) -> Option<Entry> {
        let (first, way) = self.locate(address, tag, kind)?;
        self.entries[first..=first + way].rotate_right(1);
        Some(self.entries[first])
    }

    fn insert(&mut self, entry: Entry) {
        let first = self.first(entry.base, entry.size);
        let set = &mut self.entries[first..first + self.ways];
        let way = set
            .iter()
            .position(|entry| entry.kind == Kind::Empty)
            .unwrap_or(set.len() - 1);
        set[..=way].rotate_right(1);
        set[0] = entry;
    }
}

/// One level.
#[derive(Clone, Debug)]
pub struct Tlb {
    arrays: Vec<Array>,
    /// A copy of the entry that was used last: it is the first of its set, so that its use changes
    /// nothing.
    last: Entry,
}

impl Tlb {
    /// An empty level; `what` names it in the error.
    pub fn new(what: &str, shape: TlbShape) -> Result<Self, BadPreset> {
        let arrays = shape.iter().map(|array| Array::new(what, array));
        let arrays: Vec<Array> = arrays.collect::<Result<_, _>>()?;
        if !arrays.iter().any(|array| array.sizes.contains(&12)) {
            return Err(BadPreset(format!("{what}: no entries of 4 KiB")));
        }
        Ok(Self {
            arrays,
            last: Entry::default(),
        })
    }

    /// The entry that was used last, if it is the one.
    #[inline]
    pub fn last(&self, address: u64, tag: u16) -> Option<&Entry> {
        self.last.translates(address, tag).then_some(&self.last)
    }

    /// Uses the entry for an address under a tag.
    pub fn find(&mut self, address: u64, tag: u16) -> Option<Entry> {
        if self.last.translates(address, tag) {
            return Some(self.last);
        }
        let mut arrays = self.arrays.iter_mut();
        let found = arrays.find_map(|array| array.find(address, tag, Kind::Page))?;
        self.last = found;
        Some(found)
    }

    /// Caches a translation that is not there: all of it, or the piece around `address` of the
    /// largest size that the level has. Returns the size.
    pub fn fill(&mut self, address: u64, entry: Entry) -> u8 {
        let sizes = self.arrays.iter().flat_map(|array| array.sizes);
        let fits = sizes.copied().filter(|&size| size <= entry.size).max();
        let size = fits.expect("each level has entries of 4 KiB, the smallest page");
        let piece = entry.piece(address, size);
        self.insert(piece);
        self.last = piece;
        size
    }

    /// Uses the entry that points to the table for an address, if the level holds it.
    pub fn find_table(&mut self, address: u64, tag: u16) -> Option<Entry> {
        self.last = Entry::default();
        let mut arrays = self.arrays.iter_mut();
        arrays.find_map(|array| array.find(address, tag, Kind::Table))
    }

    /// Caches an entry that points to a table and is not there.
    pub fn fill_table(&mut self, entry: Entry) {
        self.last = Entry::default();
        self.insert(entry);
    }

    /// Puts an entry into the array with its size. Where several have it, the address chooses, by
    /// the bits above those that choose the set: neighbours fill all of them.
    fn insert(&mut self, entry: Entry) {
        let has_size = |array: &Array| array.sizes.contains(&entry.size);
        let mut sets = 1;
        let several = self.arrays.iter().filter(|array| has_size(array));
        let several = several.inspect(|array| sets = array.sets).count() as u64;
        let choice = (entry.base >> entry.size) / sets % several.max(1);
        let mut arrays = self.arrays.iter_mut().filter(|array| has_size(array));
        if let Some(array) = arrays.nth(choice as usize) {
            array.insert(entry);
        }
    }

    /// Drops the entries for an address under a tag.
    pub fn remove(&mut self, address: u64, tag: u16) {
        self.last = Entry::default();
        for array in &mut self.arrays {
            while let Some((first, way)) = array.locate(address, tag, Kind::Page) {
                array.entries[first + way] = Entry::default();
            }
        }
    }

    /// Drops what a flush names; returns how many entries.
    pub fn flush(&mut self, flush: &Flush) -> u64 {
        self.last = Entry::default();
        let mut dropped = 0;
        for entry in self.arrays.iter_mut().flat_map(|array| &mut array.entries) {
            if flush.drops(entry) {
                *entry = Entry::default();
                dropped += 1;
            }
        }
        dropped
    }

    /// The entries that it holds, in no order.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        let entries = self.arrays.iter().flat_map(|array| &array.entries);
        entries.filter(|entry| entry.kind != Kind::Empty)
    }
}
