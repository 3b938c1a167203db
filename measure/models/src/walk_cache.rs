//! Walk caches: upper entries of page tables, so that a walk begins further down.
//!
//! Source: Intel SDM volume 3A, 5.10.3 "Paging-Structure Caches". Fully associative, LRU, tagged.

use crate::config::WalkCacheShape;
use crate::flush::Flush;
use crate::walk::{Start, Step};

#[derive(Clone, Copy, Debug)]
struct Held {
    base: u64,
    tag: u16,
    table: u64,
    writable: bool,
}

/// The entries of one level, the last used first.
#[derive(Clone, Debug)]
struct Level {
    span: u8,
    room: usize,
    held: Vec<Held>,
}

/// The walk caches of one CPU, the lowest level first.
#[derive(Clone, Debug)]
pub(crate) struct WalkCache {
    levels: [Level; 3],
}

impl WalkCache {
    pub(crate) fn new(shape: WalkCacheShape) -> Self {
        let level = |span, room: u32| Level {
            span,
            room: room as usize,
            held: Vec::with_capacity(room as usize),
        };
        Self {
            levels: [
                level(21, shape.mib2.unwrap_or(0)),
                level(30, shape.gib1),
                level(39, shape.gib512),
            ],
        }
    }

    /// The lowest table that is known for an address below entries of the level `highest`, the
    /// first of the walk.
    pub(crate) fn find(&mut self, address: u64, tag: u16, highest: u8) -> Option<Start> {
        let mut levels = self.levels.iter_mut().filter(|level| level.span <= highest);
        levels.find_map(|level| {
            let base = address & (u64::MAX << level.span);
            let mut held = level.held.iter();
            let at = held.position(|held| held.base == base && held.tag == tag)?;
            level.held[..=at].rotate_right(1);
            let Held {
                table, writable, ..
            } = level.held[0];
            Some(Start {
                table,
                level: level.span - 9,
                index_bits: 9,
                writable,
            })
        })
    }

    /// Remembers an entry, if it points to a table; it was read because it was not here.
    pub(crate) fn insert(&mut self, address: u64, tag: u16, step: &Step) {
        let Some((table, writable)) = step.table() else {
            return;
        };
        let mut levels = self.levels.iter_mut();
        let Some(level) = levels.find(|level| level.span == step.level && level.room > 0) else {
            return;
        };
        level.held.truncate(level.room - 1);
        let held = Held {
            base: address & (u64::MAX << level.span),
            tag,
            table,
            writable,
        };
        level.held.insert(0, held);
    }

    pub(crate) fn flush(&mut self, flush: &Flush) {
        for level in &mut self.levels {
            let span = level.span;
            level
                .held
                .retain(|held| !flush.drops_table(held.base, span, held.tag));
        }
    }
}
