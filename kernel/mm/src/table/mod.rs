//! Page tables: the only room that writes entries. Raw bits stay inside; the interface is `Entry`.
//!
//! `FrameMeta::live` counts a table's entries that are not absent: a range walk stops at the last
//! one, and an empty table is known by its count.

mod budget;
mod change;
mod collapse;
mod contpte;
mod cow;
mod cursor;
mod detach;
mod edit;
mod fork;
mod guard;
mod huge;
pub mod kernel;
mod leaf;
mod marker;
mod moving;
mod node;
mod note;
mod owner;
mod protect;
mod read_locked;
mod run;
mod share;
mod split;
mod swap;
mod track;
mod userfault;
mod walk;
mod write;
mod zap;

pub use budget::Budget;
pub use change::Change;
pub(crate) use contpte::validate as validate_contpte;
pub use cursor::{Cursor, Spot};
pub use detach::Detached;
pub use edit::Edit;
pub use fork::ForkCopy;
pub use leaf::Leaf;
pub(crate) use marker::is_swapped;
pub(crate) use marker::{MARKED, Marker};
pub(crate) use node::Node;
pub use protect::Rights;
pub(crate) use read_locked::ReadLocked;
pub use swap::Parked;
pub(crate) use walk::step;
pub use zap::{Zap, zap_page};

use crate::addr::Pfn;
use crate::arch::Machine;
use crate::frame::Kind;
use crate::frame::zone::Reserve;
use crate::manager::{Mm, Result};
use crate::stat::Event;
use crate::sync;

/// The page tables of one user address space. A mutable borrow implies the lock of the space.
pub struct PageTable {
    root: Pfn,
    /// Number of tables, including the root.
    pages: u64,
}

impl PageTable {
    /// Allocates a root with an empty user half.
    pub fn new<M: Machine>(mm: &Mm<M>) -> Result<PageTable> {
        let root = mm.alloc_table(Reserve::User)?;
        mm.machine().prepare_root(root);
        Ok(PageTable { root, pages: 1 })
    }
    /// Frame of the root.
    pub fn root(&self) -> Pfn {
        self.root
    }
    /// The same tables, for a CPU that has the space's lock as a reader: it frees none, and those
    /// that it makes are counted here.
    #[inline]
    pub fn as_reader(&self) -> PageTable {
        PageTable {
            root: self.root,
            pages: 0,
        }
    }
    /// Adds what a reader has made.
    pub fn add_pages(&mut self, pages: u64) {
        self.pages += pages;
    }
    /// Number of tables, including the root.
    #[inline]
    pub fn pages(&self) -> u64 {
        self.pages
    }
    /// Frees the root. Precondition: everything below is zapped, and no CPU has it loaded.
    pub(crate) fn free_root<M: Machine>(&mut self, mm: &Mm<M>) {
        assert!(
            self.pages == 1 || sync::panicking(),
            "{} page tables left under a freed root",
            self.pages.saturating_sub(1)
        );
        mm.free_table(self.root);
    }
}

impl<M: Machine> Mm<M> {
    /// Allocates a zeroed frame for a user page table.
    fn alloc_table(&self, reserve: Reserve) -> Result<Pfn> {
        let pfn = self.alloc_zeroed(Kind::Table, reserve)?;
        let meta = self.frames().get(pfn).page_table();
        meta.set_live(0);
        meta.set_note(0);
        self.count(Event::TableAlloc, 1);
        Ok(pfn)
    }

    /// Frees a page table without entries that no entry points to.
    fn free_table(&self, pfn: Pfn) {
        let meta = self.frames().get(pfn).page_table();
        let last = meta.live() == 0 && meta.put_ref();
        assert!(last, "a page table is freed with entries in it");
        self.count(Event::TableFree, 1);
        self.free(&[pfn]);
    }
}
