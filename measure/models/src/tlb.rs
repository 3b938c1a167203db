//! One level of a TLB: arrays of entries of several sizes.
//!
//! LRU in each set, as in [`crate::cache`]. An array with several sizes and more than one set is
//! looked up once per size, with the set that the size gives.

use crate::config::{BadPreset, TlbArray, TlbShape, sets};
use crate::entry::{Entry, Kind, TABLE_SIZE};
use crate::flush::Flush;
use crate::strays::Strays;

impl Entry {
    /// Becomes empty, if a flush names it; returns how many entries that are.
    fn flush(&mut self, flush: &Flush) -> u64 {
        let drops = flush.drops(self);
        if drops {
            *self = Entry::default();
        }
        u64::from(drops)
    }
}

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

    /// Drops what a flush names of the set for an address; returns how many entries.
    fn flush_set(&mut self, address: u64, size: u8, flush: &Flush) -> u64 {
        let first = self.first(address, size);
        let set = &mut self.entries[first..first + self.ways];
        set.iter_mut().map(|entry| entry.flush(flush)).sum()
    }

    /// Whether the set for an address has an entry that points to its table, under any tag.
    fn has_table(&self, base: u64) -> bool {
        let first = self.first(base, TABLE_SIZE);
        let mut set = self.entries[first..first + self.ways].iter();
        set.any(|entry| entry.kind == Kind::Table && entry.base == base)
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
    strays: Strays,
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
            strays: Strays::default(),
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
            self.strays.note(&entry);
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
        match flush.few_pages().filter(|_| self.strays.leave(flush)) {
            Some(pages) => {
                let of_pages = pages.map(|page| self.flush_page(page, flush)).sum::<u64>();
                of_pages + self.flush_tables(flush)
            }
            None => self.flush_all(flush),
        }
    }

    /// Looks at each entry.
    fn flush_all(&mut self, flush: &Flush) -> u64 {
        self.strays = Strays::default();
        let mut dropped = 0;
        for entry in self.arrays.iter_mut().flat_map(|array| &mut array.entries) {
            dropped += entry.flush(flush);
            self.strays.note(entry);
        }
        dropped
    }

    /// Looks at the sets for a page.
    fn flush_page(&mut self, page: u64, flush: &Flush) -> u64 {
        let of_array = |array: &mut Array| {
            let sizes = array.choices().iter();
            sizes
                .map(|&size| array.flush_set(page, size, flush))
                .sum::<u64>()
        };
        self.arrays.iter_mut().map(of_array).sum()
    }

    /// Looks at the entries that point to tables, wherever, if a flush of pages names them.
    fn flush_tables(&mut self, flush: &Flush) -> u64 {
        if !flush.names_all_tables() {
            return 0;
        }
        let mut dropped = 0;
        for base in self.strays.take_tables() {
            let sets = self.arrays.iter_mut();
            dropped += sets
                .map(|array| array.flush_set(base, TABLE_SIZE, flush))
                .sum::<u64>();
            if self.arrays.iter().any(|array| array.has_table(base)) {
                self.strays.keep_table(base);
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
