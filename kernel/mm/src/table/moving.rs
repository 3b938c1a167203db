//! Moving entries to another address (mremap): the pages stay where they are, and so do the tables where both places are
//! aligned alike. Seed 003: a table that moves costs as much as a page that moves.
//!
//! The range is cut into *stretches*: entries of one table that go, at the same distance, to one other table of the same level.
//! A stretch is at the highest level that the alignment of both places, what is left, and the switch `move=` allow. Its entries
//! are made absent, then flushed, and then written at the new place: nobody can use both places at once. The account of no
//! folio changes.

use super::walk::table_at;
use super::{Cursor, PageTable, Zap, contpte, entry, split_leaf, zap_range};
use crate::addr::{Pfn, VirtAddr, VirtRange};
use crate::arch::{Entry, Level, Machine, TABLE_ENTRIES};
use crate::frame::{Mm, OutOfMemory};
use crate::stat::Event;
use crate::tlb::Gather;

/// Moves everything that is mapped in `from` to `to ..`, where nothing is. All tables that are needed are made first, so it
/// either fails with nothing changed or does everything. Tables of `from` that became empty go too. No PMD leaf crosses an
/// end of the range; one that cannot stay one is split.
pub fn move_range<M: Machine>(
    mm: &Mm<M>,
    space: &mut PageTable,
    from: VirtRange,
    to: VirtAddr,
    gather: &mut Gather<'_, M>,
) -> Result<(), OutOfMemory> {
    let plan = Plan {
        from,
        to,
        largest: mm.switches().move_level(),
    };
    let prepared = plan.prepare(mm, space, gather);
    // After a failure nothing is mapped in the target: this takes back the tables.
    let emptied = match prepared {
        Ok(()) => {
            plan.carry(mm, space, gather);
            from
        }
        Err(OutOfMemory) => plan.target_of(from),
    };
    zap_range(mm, space, emptied, gather, &mut Zap::default());
    prepared
}

/// One move.
struct Plan {
    from: VirtRange,
    to: VirtAddr,
    /// The level of the largest entries that are moved whole.
    largest: Level,
}

/// Entries of one table.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    at: VirtAddr,
    level: Level,
    table: Pfn,
    n: usize,
}

impl Stretch {
    fn end(&self) -> VirtAddr {
        self.at + self.n as u64 * self.level.bytes()
    }
}

impl Plan {
    fn target(&self, va: VirtAddr) -> VirtAddr {
        self.to + (va - self.from.start)
    }
    fn target_of(&self, range: VirtRange) -> VirtRange {
        VirtRange {
            start: self.target(range.start),
            end: self.target(range.end),
        }
    }

    /// Whether an entry of `level` for `at` may be moved whole.
    fn fits(&self, at: VirtAddr, level: Level) -> bool {
        level <= self.largest
            && (at.0 | self.target(at).0) & (level.bytes() - 1) == 0
            && self.from.end - at >= level.bytes()
    }

    /// The next stretch from `at` on; `Err` says from where to look again, when nothing is mapped there.
    fn stretch<M: Machine>(
        &self,
        mm: &Mm<M>,
        space: &PageTable,
        at: VirtAddr,
    ) -> Result<Stretch, VirtAddr> {
        let (mut table, mut level) = (space.root, Level::Pgd);
        loop {
            let found = entry::read(mm, table, level.index(at), level);
            if found == Entry::Absent {
                let next = at.align_down(level.bytes()).0.saturating_add(level.bytes());
                return Err(VirtAddr(next).min(self.from.end));
            }
            let whole = self.fits(at, level) && self.is_free(mm, space, at, level);
            match (found, level.lower()) {
                (Entry::Table(next), Some(lower)) if !whole => (table, level) = (next, lower),
                _ => return Ok(self.widest(at, level, table)),
            }
        }
    }

    /// Whether nothing stands at the target's entry: a table there, though empty, is used as it is.
    fn is_free<M: Machine>(
        &self,
        mm: &Mm<M>,
        space: &PageTable,
        at: VirtAddr,
        level: Level,
    ) -> bool {
        let to = self.target(at);
        let absent = |table| entry::is_absent(mm, table, level.index(to));
        level == Level::Pte || table_at(mm, space, to, level).is_none_or(absent)
    }

    /// As many entries as one source table, one target table and the range have.
    fn widest(&self, at: VirtAddr, level: Level, table: Pfn) -> Stretch {
        let room = |va: VirtAddr| TABLE_ENTRIES - level.index(va);
        let left = (self.from.end - at) >> level.shift();
        let n = room(at)
            .min(room(self.target(at)))
            .min(left.max(1) as usize);
        Stretch {
            at,
            level,
            table,
            n,
        }
    }

    /// Makes the target's tables and splits the PMD leaves that do not stay whole.
    fn prepare<M: Machine>(
        &self,
        mm: &Mm<M>,
        space: &mut PageTable,
        gather: &mut Gather<'_, M>,
    ) -> Result<(), OutOfMemory> {
        let mut at = self.from.start;
        while at < self.from.end {
            match self.stretch(mm, space, at) {
                Err(next) => at = next,
                Ok(stretch) if stretch.level > Level::Pte && !self.fits(at, stretch.level) => {
                    split_leaf(mm, space, at, gather)?;
                }
                Ok(stretch) => {
                    Cursor::new(mm, space, self.target(at)).prepare(stretch.level)?;
                    let target = self.target_table(mm, space, stretch);
                    at = self.cut(mm, stretch, target).end();
                }
            }
        }
        Ok(())
    }

    /// The table that a stretch goes to, which was made before.
    fn target_table<M: Machine>(&self, mm: &Mm<M>, space: &PageTable, stretch: Stretch) -> Pfn {
        table_at(mm, space, self.target(stretch.at), stretch.level)
            .expect("the target's tables are made before anything moves")
    }

    /// The stretch up to the first entry that does not fit: above the PTEs, one whose target is a table goes down a level.
    fn cut<M: Machine>(&self, mm: &Mm<M>, mut stretch: Stretch, target: Pfn) -> Stretch {
        if stretch.level > Level::Pte {
            let first = stretch.level.index(self.target(stretch.at));
            let free = |i: &usize| entry::is_absent(mm, target, first + i);
            stretch.n = 1 + (1..stretch.n).take_while(free).count();
        }
        stretch
    }

    /// Moves all stretches.
    fn carry<M: Machine>(&self, mm: &Mm<M>, space: &mut PageTable, gather: &mut Gather<'_, M>) {
        let mut at = self.from.start;
        while at < self.from.end {
            match self.stretch(mm, space, at) {
                Err(next) => at = next,
                Ok(stretch) => {
                    let target = self.target_table(mm, space, stretch);
                    let stretch = self.cut(mm, stretch, target);
                    self.carry_stretch(mm, stretch, target, gather);
                    at = stretch.end();
                }
            }
        }
    }

    fn carry_stretch<M: Machine>(
        &self,
        mm: &Mm<M>,
        stretch: Stretch,
        target: Pfn,
        gather: &mut Gather<'_, M>,
    ) {
        let Stretch {
            at,
            level,
            table,
            n,
        } = stretch;
        let (from, to) = (
            VirtRange {
                start: at,
                end: stretch.end(),
            },
            self.target(at),
        );
        if level == Level::Pte {
            contpte::unfold_ends(mm, table, from, gather);
        }
        let mut taken = [0; TABLE_ENTRIES];
        let taken = &mut taken[..n];
        let moved = entry::take_run(mm, table, level.index(at), taken);
        if moved == 0 {
            return;
        }
        gather.moved(from, level);
        gather.flush();
        if level == Level::Pte {
            contpte::carry::<M>(taken, at, to);
        }
        entry::put_run(mm, target, level.index(to), taken);
        let live = |table: Pfn, n: u32| {
            let meta = mm.frames().get(table);
            meta.set_live(meta.live().wrapping_add(n));
        };
        live(table, moved.wrapping_neg());
        live(target, moved);
        mm.count(Event::Moved, u64::from(moved));
        mm.count(Event::EntryWrites, 2 * u64::from(moved));
        if level == Level::Pte {
            let there = VirtRange {
                start: to,
                end: to + from.len(),
            };
            contpte::fold_range(mm, target, there, gather);
        }
    }
}
