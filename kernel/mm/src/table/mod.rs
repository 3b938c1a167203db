//! Page tables: the only room that writes entries. Raw bits stay inside; the interface is `Entry`.
//!
//! `FrameMeta::live` counts a table's entries that are not absent: a range walk stops at the last
//! one, and an empty table is known by its count.

mod budget;
mod collapse;
mod contpte;
mod cow;
mod cursor;
mod edit;
mod fork;
pub mod kernel;
mod moving;
mod node;
mod owner;
mod protect;
mod run;
mod share;
mod split;
mod step;
mod track;
mod walk;
mod zap;
mod zap_page;

pub use budget::Budget;
pub(crate) use budget::first_used;
pub use collapse::census;
pub(crate) use contpte::validate as validate_contpte;
pub use cursor::{Cursor, Spot};
pub use edit::Edit;
pub use fork::ForkCopy;
pub(crate) use owner::{begin, owns, owns_block};
pub use protect::Rights;
pub(crate) use share::shared_table;
pub(crate) use step::step;
pub use walk::{Leaf, clear_accessed_some, for_each_leaf, lookup};
pub(crate) use walk::{for_each_table, is_empty};
pub use zap::Zap;
pub use zap_page::zap_page;

use crate::addr::{Order, Pfn};
use crate::arch::{Level, Machine, PteFormat};
use crate::frame::Kind;
use crate::frame::zone::Reserve;
use crate::manager::{Mm, OutOfMemory};
use crate::stat::Event;

/// The page tables of one user address space. A mutable borrow implies the lock of the space.
pub struct PageTable {
    root: Pfn,
    /// Number of tables, including the root.
    pages: u64,
}

impl PageTable {
    /// Allocates a root with an empty user half.
    pub fn new<M: Machine>(mm: &Mm<M>) -> Result<PageTable, OutOfMemory> {
        let root = alloc_table(mm, Reserve::User)?;
        mm.machine().prepare_root(root);
        Ok(PageTable { root, pages: 1 })
    }
    /// Frame of the root.
    pub fn root(&self) -> Pfn {
        self.root
    }
    /// Number of tables, including the root.
    pub fn pages(&self) -> u64 {
        self.pages
    }
    /// Frees the root. Precondition: everything below is zapped, and no CPU has it loaded.
    pub(crate) fn free_root<M: Machine>(&mut self, mm: &Mm<M>) {
        assert_eq!(self.pages, 1, "page tables left under a freed root");
        let meta = mm.frames().get(self.root).page_table();
        let last = meta.live() == 0 && meta.put_ref();
        assert!(last, "a root is freed with entries in it");
        mm.count(Event::TableFree, 1);
        mm.free(&[self.root]);
    }
}

/// Allocates a zeroed frame for a user page table.
fn alloc_table<M: Machine>(mm: &Mm<M>, reserve: Reserve) -> Result<Pfn, OutOfMemory> {
    let pfn = mm.alloc_zeroed(Kind::Table, reserve)?;
    let meta = mm.frames().get(pfn).page_table();
    meta.set_live(0);
    meta.set_note(0);
    mm.count(Event::TableAlloc, 1);
    Ok(pfn)
}

/// Frees a table that was never linked.
fn free_unused_table<M: Machine>(mm: &Mm<M>, pfn: Pfn) {
    debug_assert!(mm.frames().get(pfn).order() == Order(0));
    let meta = mm.frames().get(pfn).page_table();
    meta.put_ref();
    meta.set_live(0);
    mm.count(Event::TableFree, 1);
    mm.free(&[pfn]);
}

/// One past the last root index of the user half; the kernel half is the machine's.
fn user_root_end<M: Machine>() -> usize {
    Level::Pgd.index(crate::addr::VirtAddr(M::Pte::USER_END.0 - 1)) + 1
}
