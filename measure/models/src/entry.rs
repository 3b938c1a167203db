//! What a TLB caches: translations, and entries that point to tables.

/// A translation that may be cached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Virtual address of its first byte.
    pub base: u64,
    /// Physical address of its first byte.
    pub physical: u64,
    /// Its size as a power of two.
    pub size: u8,
    /// The size of the page or block that it was made from: a smaller one for a contiguous run, a
    /// larger one for a piece.
    pub leaf: u8,
    /// The tag (PCID, ASID) that it was made under.
    pub tag: u16,
    /// Whether it holds under each tag.
    pub global: bool,
    /// Whether a write needs nothing more from the walker.
    pub writable: bool,
    /// What it is.
    pub kind: Kind,
}

/// The size of an entry that points to a table.
pub(crate) const TABLE_SIZE: u8 = 21;

/// What an entry is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// None.
    #[default]
    Empty,
    /// A translation.
    Page,
    /// An entry of 2 MiB that points to a table, at `physical`: part of a walk cache.
    Table,
}

impl Entry {
    /// Whether it translates an address under a tag.
    #[inline]
    pub fn translates(&self, address: u64, tag: u16) -> bool {
        self.is_for(address, tag, Kind::Page)
    }

    /// Whether it is what a look-up of a kind finds.
    #[inline]
    pub(crate) fn is_for(&self, address: u64, tag: u16, kind: Kind) -> bool {
        let is_near = (address ^ self.base) >> self.size == 0;
        is_near && self.kind == kind && (self.global || self.tag == tag)
    }

    /// The physical address for a virtual one that it translates.
    #[inline]
    pub fn physical(&self, address: u64) -> u64 {
        self.physical + (address - self.base)
    }

    /// The part of it, with a size of at most its own, that translates an address.
    pub(crate) fn piece(&self, address: u64, size: u8) -> Entry {
        let base = address & (u64::MAX << size);
        Entry {
            base,
            physical: self.physical(base),
            size,
            ..*self
        }
    }

    /// Itself, or the page or block that it is a piece of.
    pub(crate) fn whole(&self) -> Entry {
        let size = self.size.max(self.leaf);
        let base = self.base & (u64::MAX << size);
        Entry {
            base,
            physical: self.physical - (self.base - base),
            size,
            ..*self
        }
    }
}
