//! Lab 7: an answer.

use super::{ENTRIES, Entry, Level, NoMemory, Tables};
use core::ops::Range;

/// What can fail comes first. Then everything is hidden, one flush is for all of it, and the
/// entries go where they belong.
pub fn move_range(tables: &mut dyn Tables, from: Range<u64>, to: u64) -> Result<(), NoMemory> {
    let plan = Plan {
        from: from.start,
        to,
        most: tables.most(),
    };
    if let Err(NoMemory) = plan.prepare(tables, Level::Pgd, from.clone()) {
        tables.free_empty(&(to..plan.target(from.end)));
        return Err(NoMemory);
    }
    hide(tables, Level::Pgd, from.clone());
    tables.flush();
    plan.carry(tables, Level::Pgd, from.clone());
    tables.free_empty(&from);
    Ok(())
}

/// The first part of a range: entries of one table that it covers whole, or what it has of one.
fn first_piece(level: Level, range: &Range<u64>, whole: bool) -> (Range<u64>, bool) {
    let (start, bytes) = (range.start, level.bytes());
    let end = range.end & !(bytes - 1);
    if whole && start & (bytes - 1) == 0 && start < end {
        let table = (start | (bytes * ENTRIES - 1)) + 1;
        return (start..end.min(table), true);
    }
    let next = (start | (bytes - 1)) + 1;
    (start..next.min(range.end), false)
}

fn hide(tables: &mut dyn Tables, level: Level, mut left: Range<u64>) {
    while !left.is_empty() {
        let (piece, whole) = first_piece(level, &left, true);
        left.start = piece.end;
        if whole {
            tables.hide(level, &piece);
        } else if let Some(below) = below(tables, level, piece.start) {
            hide(tables, below, piece);
        }
    }
}

/// The level of the table for an address, if there is one.
fn below(tables: &dyn Tables, level: Level, at: u64) -> Option<Level> {
    level
        .below()
        .filter(|_| tables.entry(level, at) == Entry::Table)
}

struct Plan {
    from: u64,
    to: u64,
    most: Level,
}

impl Plan {
    fn target(&self, at: u64) -> u64 {
        self.to + (at - self.from)
    }

    /// The first part of a range that goes to one table, or is of one entry.
    fn first_piece(&self, level: Level, range: &Range<u64>) -> (Range<u64>, bool) {
        let alike = (self.from ^ self.to) & (level.bytes() - 1) == 0;
        let (mut piece, whole) = first_piece(level, range, alike && level <= self.most);
        if whole {
            let to = self.target(piece.start);
            let room = level.bytes() * ENTRIES - (to & (level.bytes() * ENTRIES - 1));
            piece.end = piece.end.min(piece.start + room);
        }
        (piece, whole)
    }

    fn prepare(
        &self,
        tables: &mut dyn Tables,
        level: Level,
        mut left: Range<u64>,
    ) -> Result<(), NoMemory> {
        while !left.is_empty() {
            let (piece, whole) = self.first_piece(level, &left);
            left.start = piece.end;
            if whole {
                if !tables.is_absent(level, &piece) {
                    tables.make(level, self.target(piece.start))?;
                }
                continue;
            }
            if tables.entry(level, piece.start) == Entry::Leaf {
                tables.split(piece.start)?;
            }
            if let Some(below) = below(tables, level, piece.start) {
                self.prepare(tables, below, piece)?;
            }
        }
        Ok(())
    }

    fn carry(&self, tables: &mut dyn Tables, level: Level, mut left: Range<u64>) {
        while !left.is_empty() {
            let (piece, whole) = self.first_piece(level, &left);
            left.start = piece.end;
            if whole {
                tables.carry(level, &piece, self.target(piece.start));
            } else if let Some(below) = below(tables, level, piece.start) {
                self.carry(tables, below, piece);
            }
        }
    }
}
