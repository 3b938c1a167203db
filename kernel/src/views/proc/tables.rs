//! /proc/PID/page_tables: the entries of a process's page tables, this kernel's own.

use super::observed::Observed;
use super::subject::Subject;
use crate::base::errno::Result;
use crate::fs::kinds::records::{RecordFile, Records};
use crate::fs::open::ops::FileOps;
use alloc::sync::Arc;
use alloc::vec::Vec;
use mm::addr::Pfn;
use mm::arch::{Attrs, Level};
use mm::frame::{Block, Kind};
use mm::{EntryRun, EntryTo};
use parts::text::Text;

/// More than a line has.
const LINE: usize = 128;
/// Runs that are read at once: some 2 kB of text.
const RUNS: usize = 32;

struct Tables(Observed);

/// Opens it.
pub fn open(subject: &Subject) -> Result<Arc<dyn FileOps>> {
    RecordFile::open(Tables(Observed::new(subject)))
}

impl Records for Tables {
    fn records(&self, from: u64, out: &mut Text) -> Result<Option<u64>> {
        self.0.check_process()?;
        let Some(space) = self.0.space() else {
            return Ok(None);
        };
        let mut runs = Vec::new();
        fallible::reserve_exact(&mut runs, RUNS)?;
        let rest = space.entries_from(from, &mut runs);
        drop(space);
        for run in &runs {
            line(run, out)?;
        }
        // A position behind the last one, where there is nothing.
        Ok((!runs.is_empty()).then(|| rest.unwrap_or(u64::MAX)))
    }
}

/// `START-END LEVEL FIRST-LAST` and what is there.
fn line(run: &EntryRun, out: &mut Text) -> Result {
    out.make_room(LINE)?;
    out.hex(run.va.0, 12);
    out.byte(b'-');
    out.hex(run.end().0, 12);
    out.bytes(match run.level {
        Level::Pgd => b" pgd ",
        Level::Pud => b" pud ",
        Level::Pmd => b" pmd ",
        Level::Pte => b" pte ",
    });
    let first = run.level.index(run.va) as u64;
    out.decimal(first);
    out.byte(b'-');
    out.decimal(first + run.entries - 1);
    match run.to {
        EntryTo::Table => {
            out.bytes(b" table ");
            out.hex(run.pfn.0, 1);
        }
        EntryTo::Shared(sharers) => {
            out.bytes(b" shared ");
            out.hex(run.pfn.0, 1);
            out.byte(b' ');
            out.decimal(sharers);
        }
        EntryTo::Memory { attrs, folio } => {
            out.bytes(match folio.kind {
                Kind::Anon => b" anon ",
                Kind::Object => b" file ",
                _ if attrs == Attrs::MARKER => b" guard ",
                _ if attrs.contains(Attrs::MARKER) => b" marker ",
                _ => b" zero ",
            });
            place(run.pfn, folio, out);
            out.byte(b' ');
            out.bytes(&flags(attrs));
        }
        EntryTo::Slots { block, parked } => {
            out.bytes(b" swap ");
            place(run.pfn, block, out);
            match parked {
                Some((pfn, folio)) => {
                    out.bytes(b" parked ");
                    place(pfn, folio, out);
                }
                None => out.bytes(b" stored"),
            }
        }
    }
    out.byte(b'\n');
    Ok(())
}

/// A frame or slot, the first one of its block, and the block's size.
fn place(pfn: Pfn, block: Block, out: &mut Text) {
    out.hex(pfn.0, 1);
    out.byte(b' ');
    out.hex(block.head.0, 1);
    out.byte(b' ');
    out.decimal(block.order.bytes() >> 10);
    out.bytes(b"kB");
}

/// A letter for each attribute that is set.
fn flags(attrs: Attrs) -> [u8; 7] {
    let flag = |attr, letter| match attrs.contains(attr) {
        true => letter,
        false => b'-',
    };
    let readable = !attrs.contains(Attrs::NO_ACCESS);
    [
        if readable { b'r' } else { b'-' },
        flag(Attrs::WRITE, b'w'),
        flag(Attrs::EXEC, b'x'),
        flag(Attrs::ACCESSED, b'a'),
        flag(Attrs::DIRTY, b'd'),
        flag(Attrs::CONTIG, b'c'),
        flag(Attrs::TRACKED, b't'),
    ]
}
