//! Copy on write.

use super::Resolution;
use super::resolve::Fault;
use crate::addr::{Order, Pfn};
use crate::arch::{Level, Machine, PteFormat};
use crate::folio::Folio;
use crate::mutant::{self, Mutant};
use crate::stat::Event;
use crate::table::{Cursor, Leaf, Zap};
use crate::thp::PMD_ORDER;
use crate::tlb::Gather;

impl<M: Machine> Fault<'_, M> {
    /// Replaces the page by a private copy of it. The old one is freed (by this space) after the flush.
    pub(super) fn copy(mut self, cursor: &mut Cursor<'_, M>, old: Leaf) -> Result<Pfn, Resolution> {
        if old.level == Level::Pmd {
            if self.is_huge_zero(&old)
                && let Some(pfn) = self.replace_huge_zero(cursor)
            {
                return Ok(pfn);
            }
            let mut gather = Gather::new(self.mm, self.id);
            let split = cursor.split(&mut gather);
            gather.finish();
            split?;
        }
        self.copy_page(cursor)
    }

    fn copy_page(self, cursor: &mut Cursor<'_, M>) -> Result<Pfn, Resolution> {
        let Some(old) = cursor.leaf() else {
            unreachable!("the page was mapped, and the space is locked");
        };
        let (_, kind, _) = self.mm.frames().folio(old.pfn);
        let folio = if old.pfn == self.mm.zero_page() {
            Folio::anon(self.mm)?
        } else {
            Folio::copy_of(self.mm, old.pfn)?
        };
        let (pfn, attrs) = (folio.pfn(), self.attrs());
        let mut gather = Gather::new(self.mm, self.id);
        cursor.take(&mut gather);
        if M::Pte::BREAK_BEFORE_MAKE && !mutant::on(Mutant::CopyWithoutFlush) {
            // arm64: a live entry gets another frame only through an absent one and a flush.
            gather.flush();
        }
        cursor.install_folio(folio, Order(0), attrs, &self.id.owner);
        gather.finish();
        self.mm.count(Event::CowCopied, 1);
        self.vma.has_anon = true;
        let mut gone = Zap::default();
        gone.add(kind, 1);
        self.rss.sub(self.vma, &gone);
        self.rss.add(self.vma, 1, 0);
        Ok(pfn)
    }

    fn is_huge_zero(&self, leaf: &Leaf) -> bool {
        self.mm.frames().head(leaf.pfn) == self.mm.huge_zero_page()
    }

    /// Puts a folio of its own in the place of the huge zero page, if that size is still allowed and can be had.
    fn replace_huge_zero(&mut self, cursor: &mut Cursor<'_, M>) -> Option<Pfn> {
        if !self.orders().contains(PMD_ORDER) {
            return None;
        }
        let folio = Folio::large(self.mm, PMD_ORDER).ok()?;
        let mut gather = Gather::new(self.mm, self.id);
        cursor.take_huge(&mut gather);
        gather.finish();
        self.vma.has_anon = true;
        Some(self.install_large(cursor, folio, PMD_ORDER))
    }
}
