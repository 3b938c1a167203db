//! Where an actor does its operation, and what is there before.
use crate::op::{Before, Op};
use crate::plan::Place;
use userland::sys::Result;
use userland::sys::mem::{self, PAGE, RW};
use userland::sys::proc;

/// What pages hold before, in their first words.
pub const VALUE: u64 = 0x5175_6972_6521_6f6b;

/// What one page table covers on both machines.
const TABLE: usize = 2 << 20;
/// The page of each table that is there from the beginning.
const SETTLED: usize = 256;
/// A page of each table that is not there, and no operation's.
const ABSENT: usize = 384;
/// Pages of each table that are made after an operation's page: what frames it and the next one
/// have is no neighbour, whose metadata a cache line may have, too.
const SPARE: core::ops::Range<usize> = 448..456;
/// Pages of the folio that two operations share.
const FOLIO: usize = 16;

/// Where one actor does one operation.
#[derive(Clone, Copy, Debug)]
pub struct Site {
    /// Its page.
    pub page: usize,
    /// Where mremap moves the page.
    pub to: usize,
    /// Whether the page is one of a folio of 64 kB.
    large: bool,
}

impl Site {
    /// The sites of two actors of one space.
    pub fn two(place: Place) -> Result<[Site; 2]> {
        let from = match place {
            Place::OtherTable => {
                let area = area(4 * TABLE, false)?;
                [area + TABLE, area + 2 * TABLE].map(|table| table + 3 * PAGE)
            }
            Place::OtherArea | Place::OtherSpace => [
                area(TABLE, false)? + 3 * PAGE,
                area(TABLE, false)? + 3 * PAGE,
            ],
            Place::Folio => {
                let folio = area(TABLE, true)? + 2 * FOLIO * PAGE;
                [folio, folio + FOLIO / 2 * PAGE]
            }
            Place::Page => [area(TABLE, false)? + 3 * PAGE; 2],
        };
        let site = |page| Site::new(page, place == Place::Folio);
        Ok([site(from[0])?, site(from[1])?])
    }

    /// One of an area of its own.
    pub fn one() -> Result<Site> {
        Site::new(area(TABLE, false)? + 3 * PAGE, false)
    }

    fn new(page: usize, large: bool) -> Result<Site> {
        let to = area(TABLE, false)? + 5 * PAGE;
        mem::munmap(to, PAGE)?;
        Ok(Site { page, to, large })
    }

    /// What is made when a page table is used for the first time after a fork, is made: its copy,
    /// where tables are shared, and the space's record that its areas have pages of their own.
    /// Beside a page that is to be reused nothing is written: a kernel may reuse several at once.
    fn settle(&self, op: Op) {
        mem::load(table(self.page) + ABSENT * PAGE);
        if op.before() != Some(Before::Alone) {
            mem::store(table(self.page) + SETTLED * PAGE, VALUE);
        }
        mem::store(table(self.to) + SETTLED * PAGE, VALUE);
    }

    /// Puts a page there.
    fn fill(&self) {
        let pages = match self.large {
            // All of the folio, which the two sites share.
            true => self.page / (FOLIO * PAGE) * (FOLIO * PAGE)..self.page + 1,
            false => self.page..self.page + 1,
        };
        for page in pages.step_by(PAGE) {
            mem::store(page, VALUE);
            mem::store(page + 8, VALUE);
        }
        for spare in SPARE {
            mem::store(table(self.page) + spare * PAGE, VALUE);
        }
    }
}

/// Where the memory of the page's table begins.
const fn table(page: usize) -> usize {
    page / TABLE * TABLE
}

/// Private memory that begins where a page table does, with nothing beside it; each of its page
/// tables is there already, with one page.
fn area(len: usize, large: bool) -> Result<usize> {
    let room = mem::mmap(0, len + 3 * TABLE, libc::PROT_NONE, mem::ANON, -1, 0)?;
    mem::munmap(room, len + 3 * TABLE)?;
    let at = room.next_multiple_of(TABLE) + TABLE;
    let flags = mem::ANON | libc::MAP_FIXED_NOREPLACE;
    mem::mmap(at, len, RW, flags, -1, 0)?;
    if !large {
        // As `mem::anon`.
        let _ = mem::madvise(at, len, libc::MADV_NOHUGEPAGE);
    }
    for table in (at..at + len).step_by(TABLE) {
        mem::store(table + SETTLED * PAGE, VALUE);
    }
    Ok(at)
}

/// The child that has pages, too, if there is one; it ends with this value.
pub struct Holder(pub Option<i32>);

impl Drop for Holder {
    fn drop(&mut self) {
        if let Some(pid) = self.0 {
            // It does nothing but wait for this.
            let _ = proc::kill(pid, libc::SIGKILL);
            let _ = proc::wait_for(pid);
        }
    }
}

/// Makes what the operations find at their sites.
pub fn prepare(all: &[(Op, Site)]) -> Result<Holder> {
    let fill = |wanted: Before| {
        let is = |one: &&(Op, Site)| one.0.before() == Some(wanted);
        all.iter().filter(is).map(|(_, site)| site.fill()).count() > 0
    };
    fill(Before::Present);
    let mut holder = Holder(None);
    if fill(Before::Shared) {
        holder.0 = Some(proc::child(|| {
            loop {
                let _ = userland::sys::call(libc::SYS_ppoll, [0; 6]);
            }
        })?);
    }
    if fill(Before::Alone) {
        // It has page tables of its own, where a fork shares them: what is reused is a page.
        let own_tables = || {
            all.iter().for_each(|(_, site)| site.settle(Op::Write));
            Ok(())
        };
        proc::wait_for(proc::child(own_tables)?)?;
    }
    all.iter().for_each(|(op, site)| site.settle(*op));
    Ok(holder)
}
