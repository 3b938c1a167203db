//! Lab 5: the entries of private memory by the student's code. Each step is checked before it is
//! done; a wrong one panics, in words that a student can go on with.

use super::super::node::PteTable;
use super::entries::Pair;
use super::{Done, ForkCopy};
use crate::addr::{Order, PAGE_SIZE, Pfn, VirtAddr, VirtRange};
use crate::arch::{Machine, PhysMem, PteFormat};
use crate::folio::Folio;
use crate::frame::{Block, Kind};
use crate::manager::OutOfMemory;
use crate::own::{Account, By, Part};
use crate::switch::Lab;
use core::ops::Range;
use labs::fork::{self, Entry, NoMemory, Solution, Tables, referee};

pub(super) const LAB: Lab = Lab::named("fork");

impl<'a, M: Machine> ForkCopy<'_, 'a, M> {
    /// [`Self::entries`].
    #[inline(never)]
    pub(super) fn entries_in_lab<A: Account>(
        &mut self,
        account: &A,
        tables: &Pair<'a, M>,
        part: VirtRange,
        done: &mut Done,
    ) -> Result<(), OutOfMemory> {
        let range = PteTable::new(self.mm, tables.from).indices(part);
        let start = VirtAddr(part.start.0 - range.start as u64 * PAGE_SIZE);
        let mut given = Given {
            copy: self,
            account,
            tables,
            start,
            done,
        };
        given.others(range.clone());
        let result = referee::fork(&Solution, &mut given, range, start.0);
        result.map_err(|NoMemory| OutOfMemory)
    }
}

/// What the student is given.
struct Given<'g, 's, 'a, M: Machine, A> {
    copy: &'g mut ForkCopy<'s, 'a, M>,
    account: &'g A,
    tables: &'g Pair<'a, M>,
    /// Address of the tables' first entry.
    start: VirtAddr,
    done: &'g mut Done,
}

impl<M: Machine, A: Account> Given<'_, '_, '_, M, A> {
    fn raw(&self, index: usize) -> u64 {
        self.tables.mem().load(self.tables.from, index)
    }
    fn kind(&self, raw: u64) -> Kind {
        self.copy.mm.frames().folio(M::Pte::frame(raw)).kind
    }
    /// The pages that are not the student's: of files, of zeros, and those in swap slots.
    fn others(&mut self, range: Range<usize>) {
        for index in range {
            let raw = self.raw(index);
            if raw == 0 || self.kind(raw) == Kind::Anon {
                continue;
            }
            let folio = self.copy.mm.frames().folio(M::Pte::frame(raw));
            if folio.kind == Kind::Swap {
                let (account, tables) = (self.account, self.tables);
                self.copy.swap_entry(account, tables, index, raw, self.done);
                continue;
            }
            if folio.kind == Kind::Object {
                self.copy.mm.frames().get(folio.head).get_ref();
                self.copy.object += 1;
            }
            self.tables.copy_others(index, raw, 1, self.done);
        }
    }
    /// Takes WRITE from an entry; returns whether it had it.
    fn take_write(&self, index: usize) -> bool {
        let (mem, table) = (self.tables.mem(), self.tables.from);
        let mut raw = mem.load(table, index);
        // The walker may set a bit at any moment: until it is read-only.
        while raw != M::Pte::read_only(raw) {
            match mem.compare_exchange(table, index, raw, M::Pte::read_only(raw)) {
                Ok(()) => return true,
                Err(now) => raw = now,
            }
        }
        false
    }
}

impl<M: Machine, A: Account> Tables for Given<'_, '_, '_, M, A> {
    fn read(&self, index: usize) -> Option<Entry> {
        let raw = self.raw(index);
        let own = raw != 0 && self.kind(raw) == Kind::Anon;
        own.then(|| Entry {
            frame: M::Pte::frame(raw).0,
            writable: M::Pte::read_only(raw) != raw,
        })
    }
    fn folio(&self, frame: u64) -> fork::Folio {
        let folio = self.copy.mm.frames().folio(Pfn(frame));
        fork::Folio {
            frames: folio.head.0..folio.head.0 + folio.order.pages(),
            pinned: self.copy.keeps(&folio),
        }
    }
    fn refer(&mut self, index: usize, n: usize) {
        let page = M::Pte::frame(self.raw(index));
        let folio = self.copy.mm.frames().folio(page);
        let book = self.copy.mm.frames().book(folio.head, folio.order);
        let part = Part::ptes((page - folio.head) as u32, n as u32);
        let meter = &mut self.done.meter;
        self.account.map(&book, self.copy.child, part, meter);
    }
    fn protect(&mut self, index: usize, n: usize) {
        let written = (index..index + n).filter(|index| self.take_write(*index));
        self.done.protected += written.count();
    }
    fn copy(&mut self, index: usize, n: usize) {
        for index in index..index + n {
            let raw = self.raw(index);
            self.tables.mem().store_again(self.tables.to, index, raw);
        }
        self.done.copied += n;
    }
    fn duplicate(&mut self, index: usize) -> Result<(), NoMemory> {
        let mm = self.copy.mm;
        let [from, to] = [self.tables.from, self.tables.to].map(|table| PteTable::new(mm, table));
        let Some(leaf) = from.present(index) else {
            return Ok(());
        };
        let folio = Folio::copy_of(mm, leaf.pfn).map_err(|OutOfMemory| NoMemory)?;
        let (copy, va) = (folio.into_pfn(), self.start + index as u64 * PAGE_SIZE);
        mm.begin(Block::anon(copy, Order(0)), self.copy.child, va, By::Ptes);
        to.write_leaf(index, copy, from.seen(index, leaf.attrs));
        self.done.copied += 1;
        Ok(())
    }
}
