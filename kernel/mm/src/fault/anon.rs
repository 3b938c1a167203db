//! The first touch of anonymous memory: the largest folio that is allowed, fits and can be had.

use super::resolve::Fault;
use super::{Access, Resolution};
use crate::addr::{Order, PAGE_SIZE, Pfn};
use crate::arch::{Level, Machine};
use crate::folio::Folio;
use crate::stat::Event;
use crate::table::Cursor;
use crate::thp::policy::{self, block};
use crate::thp::{Facts, Orders, PMD_ORDER, Stat};
use crate::tlb::Gather;
use crate::vma::VmaFlags;

impl<M: Machine> Fault<'_, M> {
    /// A read maps zeros that everybody shares, a write a folio of its own.
    pub(super) fn anon_page(mut self, cursor: &mut Cursor<'_, M>) -> Result<Pfn, Resolution> {
        let orders = self.orders();
        if self.access != Access::Write {
            return self.zeros(cursor, orders);
        }
        self.vma.has_anon = true;
        if !orders.is_empty()
            && let Some(pfn) = self.large_folio(cursor, orders)
        {
            return Ok(pfn);
        }
        let folio = Folio::anon(self.mm)?;
        if let Err(error) = cursor.prepare(Level::Pte) {
            folio.free(self.mm);
            return Err(error.into());
        }
        let pfn = folio.pfn();
        cursor.install_folio(folio, Order(0), self.attrs(), &self.id.owner);
        self.rss.add(self.vma, 1, 0);
        Ok(pfn)
    }

    /// The sizes that folios may have here.
    pub(super) fn orders(&self) -> Orders {
        let has = |flag| self.vma.flags.contains(flag);
        policy::allowed(
            &self.mm.thp().controls,
            has(VmaFlags::HUGEPAGE),
            has(VmaFlags::NOHUGEPAGE),
            self.permit,
        )
    }

    /// What the choice of an order depends on. Only as much of the table is looked at as the
    /// largest order that the area has room for.
    fn facts(&self, cursor: &Cursor<'_, M>, orders: Orders) -> Facts {
        let mut facts = Facts {
            va: self.va,
            vma: self.vma.range,
            hole: block(self.va, PMD_ORDER),
            pmd_absent: cursor.pmd_is_empty(),
            orders,
        };
        if !facts.pmd_absent {
            facts.hole = cursor.hole(block(self.va, policy::order(&facts)));
        }
        facts
    }

    /// Maps the largest folio that can be had; `None` when none larger than a page can.
    fn large_folio(&mut self, cursor: &mut Cursor<'_, M>, orders: Orders) -> Option<Pfn> {
        let mut facts = self.facts(cursor, orders);
        loop {
            let order = policy::order(&facts);
            if order == Order(0) {
                return None;
            }
            if let Some(pfn) = self.try_order(cursor, order) {
                return Some(pfn);
            }
            self.mm.thp().stats.add(order, Stat::AnonFaultFallback, 1);
            facts.orders = facts.orders.below(order);
        }
    }

    /// Maps a zeroed folio of this order around the page, where nothing is; returns the page's
    /// frame.
    fn try_order(&mut self, cursor: &mut Cursor<'_, M>, order: Order) -> Option<Pfn> {
        let folio = Folio::large(self.mm, order).ok()?;
        let level = if order == PMD_ORDER {
            Level::Pmd
        } else {
            Level::Pte
        };
        if cursor.prepare(level).is_err() {
            folio.free(self.mm);
            return None;
        }
        if level == Level::Pmd {
            // An empty table may be in the way.
            let mut gather = Gather::new(self.mm, self.id);
            cursor.remove_empty_table(&mut gather);
            gather.finish();
        }
        Some(self.install_large(cursor, folio, order))
    }

    /// Maps the folio, for which there is room; returns the page's frame.
    pub(super) fn install_large(
        &mut self,
        cursor: &mut Cursor<'_, M>,
        folio: Folio,
        order: Order,
    ) -> Pfn {
        let page = (self.va - self.va.align_down(order.bytes())) / PAGE_SIZE;
        let pfn = folio.pfn() + page;
        cursor.install_folio(folio, order, self.attrs(), &self.id.owner);
        self.rss.add(self.vma, order.pages(), 0);
        self.mm.thp().stats.add(order, Stat::AnonFaultAlloc, 1);
        pfn
    }

    /// Maps the huge zero page where a folio of that size would be allowed and fits, else the small
    /// one.
    fn zeros(&mut self, cursor: &mut Cursor<'_, M>, orders: Orders) -> Result<Pfn, Resolution> {
        let attrs = self.attrs();
        let whole = block(self.va, PMD_ORDER);
        let fits = orders.contains(PMD_ORDER)
            && self.vma.range.covers(&whole)
            && cursor.pmd_is_empty()
            && self.mm.thp().controls.use_zero_page();
        if fits
            && cursor.prepare(Level::Pmd).is_ok()
            && let Ok(pfn) = self.mm.get_huge_zero_page()
        {
            let mut gather = Gather::new(self.mm, self.id);
            cursor.remove_empty_table(&mut gather);
            gather.finish();
            cursor.install_huge_zero_page(pfn, attrs);
            self.mm.count(Event::ZeroPage, 1);
            return Ok(pfn + (self.va - whole.start) / PAGE_SIZE);
        }
        cursor.prepare(Level::Pte)?;
        cursor.install_zero_page(attrs);
        self.mm.count(Event::ZeroPage, 1);
        Ok(self.mm.zero_page())
    }
}
