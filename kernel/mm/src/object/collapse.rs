//! Collapse: the pages of 2 MiB of an object become one folio (MADV_COLLAPSE).

use super::shelf::Held;
use super::{Object, ObjectPages};
use crate::addr::{Order, PAGE_SIZE, Pfn};
use crate::arch::{Machine, PhysMem};
use crate::folio::Folio;
use crate::frame::zone::Reserve;
use crate::frame::{Block, Kind};
use crate::manager::{OutOfMemory, Result};
use crate::stat::Event;
use crate::thp::shmem::indices;
use crate::thp::{Huge, PMD_ORDER, Stat};
use core::ops::Range;

/// Result of a collapse of an object's pages.
pub(crate) enum Collapsed {
    /// They are one folio.
    Done,
    /// Something maps or pins one of them.
    Busy,
    /// One is not there, which a monitor is to be asked for.
    Monitored,
    /// None is there, the object ends before, or memory of one has failed.
    No,
}

impl<M: Machine> Object<M> {
    /// Makes the 512 pages from the aligned index `first` on one folio, with zeros for what is not
    /// there, unless they are. Nothing maps them, or some stay as they are.
    pub(crate) fn collapse(&self, first: u64) -> Result<Collapsed> {
        let range = indices(first, PMD_ORDER);
        let head = match self.mm.alloc(PMD_ORDER, Kind::Object, Reserve::User) {
            Ok(head) => head,
            Err(why) => {
                let (order, stat) = (PMD_ORDER, Stat::CollapseAllocFailed);
                self.mm.count_folios(order, stat, 1);
                return Err(why);
            }
        };
        self.mm.count_huge(Huge::Shmem, 1);
        let mut inner = self.inner.lock();
        let result = self.collapse_to(&mut inner, range, head);
        if !matches!(result, Ok(None)) {
            Folio::from_pfn(head).free(&self.mm);
        }
        result.map(|why| why.unwrap_or(Collapsed::Done))
    }

    /// [`Object::collapse`] to a folio with this head; `None`: it is in use.
    fn collapse_to(
        &self,
        inner: &mut ObjectPages,
        range: Range<u64>,
        head: Pfn,
    ) -> Result<Option<Collapsed>> {
        self.bring_all(inner, range.clone())?;
        let there = inner.pages.range(range.clone()).count() as u64;
        let ends = range.end > inner.len.div_ceil(PAGE_SIZE);
        if inner.monitored && there < PMD_ORDER.pages() {
            return Ok(Some(Collapsed::Monitored));
        }
        if there == 0 || ends || inner.hwpoison.range(range.clone()).next().is_some() {
            return Ok(Some(Collapsed::No));
        }
        for (index, held) in inner.pages.range(range.clone()) {
            let Some(page) = held.frame() else {
                return Ok(Some(Collapsed::Busy));
            };
            let Block { head, order, .. } = self.mm.frames().folio(page);
            if order == PMD_ORDER && there == PMD_ORDER.pages() {
                return Ok(Some(Collapsed::Done));
            }
            // Whoever maps or pins one comes through this lock.
            if self.mm.frames().get(head).refs()
                != inner.left_of(&indices(*index, order), head.into())
            {
                return Ok(Some(Collapsed::Busy));
            }
        }
        // For the nodes of the map, which cannot fail: of the pages that are there there are some.
        fallible::check()?;
        let more = range.end - range.start - there;
        if !self.enter_pool(more) {
            return Err(OutOfMemory);
        }
        self.mm.frames().get(head).set_refs(PMD_ORDER.pages());
        for index in range.clone() {
            let new = head + (index - range.start);
            match inner.pages.insert(index, new.into()).and_then(Held::frame) {
                Some(old) => {
                    self.mm.count(Event::Copied, 1);
                    self.mm.machine().mem().copy(old, new, Order(0));
                    self.drop_references(old, 1);
                }
                None => self.mm.zero(new, Order(0)),
            }
        }
        inner.has_large = true;
        self.mm.count_folios(PMD_ORDER, Stat::CollapseAlloc, 1);
        Ok(None)
    }
}
