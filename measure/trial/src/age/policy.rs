//! A policy of page blocks: where frames are taken from, and what is moved for large blocks.

use crate::owners::{Mobility, Object, Owners};

/// Where in a process private memory is.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place {
    /// The process.
    pub process: u32,
    /// The index of the first page.
    pub page: u32,
}

/// What is wanted.
#[derive(Clone, Copy)]
pub struct Want {
    /// log2 of the frames.
    pub order: u8,
    /// What can be done with them.
    pub mobility: Mobility,
    /// Where it will be, if it is a process's.
    pub place: Option<Place>,
}

/// A page allocator.
pub trait Policy {
    /// The first of the frames, if there is such a block or one is made at once.
    fn take(&mut self, want: Want, owners: &mut Owners) -> Option<u32>;
    /// They are not used any more.
    fn give(&mut self, object: Object);
    /// Moves others until there is a block of this order, of 2 MiB at most, if that is worth a try.
    fn compact(&mut self, order: u8, owners: &mut Owners) -> bool;
    /// Whether files are to be given up, so that there is room to compact; asked once.
    fn wants_room(&mut self) -> bool {
        false
    }
    /// An object was pinned; it may be moved before.
    fn pin(&mut self, id: u32, owners: &mut Owners) {
        owners.pin(id);
    }
}
