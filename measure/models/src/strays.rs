//! Entries of a TLB that a flush of a page drops though the sets for the page do not have them, so
//! that other flushes of pages need not look at all entries.

use crate::entry::{Entry, Kind};
use crate::flush::Flush;

/// How many of a kind are known one by one.
const MANY: usize = 16;

/// Each such entry that is held is noted here; what is noted may be gone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Strays {
    /// The first addresses of entries that point to tables.
    tables: Vec<u64>,
    /// The pages and blocks of which pieces are held.
    wholes: Vec<Entry>,
}

impl Strays {
    /// An entry is held from now on.
    pub fn note(&mut self, entry: &Entry) {
        match entry.kind {
            Kind::Table => note(&mut self.tables, entry.base),
            Kind::Page if entry.leaf > entry.size => note(&mut self.wholes, entry.whole()),
            Kind::Page | Kind::Empty => {}
        }
    }

    /// Whether a flush of pages finds all of its entries in the sets for these pages, and in those
    /// for [`Strays::take_tables`].
    pub fn leave(&self, flush: &Flush) -> bool {
        let tables = self.tables.len() <= MANY || !flush.names_all_tables();
        let wholes = self.wholes.len() <= MANY;
        tables && wholes && !self.wholes.iter().any(|whole| flush.drops(whole))
    }

    /// Those that point to tables, to be noted again if they stay.
    pub fn take_tables(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.tables)
    }

    /// An entry that points to a table has stayed.
    pub fn keep_table(&mut self, base: u64) {
        note(&mut self.tables, base);
    }
}

fn note<T: PartialEq>(noted: &mut Vec<T>, one: T) {
    if noted.len() <= MANY && !noted.contains(&one) {
        noted.push(one);
    }
}
