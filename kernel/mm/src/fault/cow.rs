//! Copy on write.

use super::Resolution;
use super::resolve::Fault;
use crate::addr::Pfn;
use crate::arch::{Machine, PteFormat};
use crate::folio::Folio;
use crate::frame::Kind;
use crate::stat::Event;
use crate::table::{Cursor, Zap};
use crate::tlb::Gather;

impl<M: Machine> Fault<'_, M> {
    /// Replaces the page by a private copy of it. The old one is freed (by this space) after the flush.
    pub(super) fn copy(self, cursor: &mut Cursor<'_, M>, old: Pfn) -> Result<Pfn, Resolution> {
        let kind = self.mm.frames().get(old).kind();
        let folio = if old == self.mm.zero_page() {
            Folio::anon(self.mm)?
        } else {
            Folio::copy_of(self.mm, old)?
        };
        let (pfn, attrs) = (folio.pfn(), self.attrs());
        let mut gather = Gather::new(self.mm, self.asid);
        if let Some(removed) = cursor.take() {
            gather.removed(self.va, removed);
        }
        if M::Pte::BREAK_BEFORE_MAKE {
            // arm64: a live entry gets another frame only through an absent one and a flush.
            gather.flush();
        }
        cursor.install(folio, attrs);
        gather.finish();
        self.mm.count(Event::CowCopied, 1);
        self.vma.has_anon = true;
        self.rss.sub(
            self.vma,
            &Zap {
                anon: u64::from(kind == Kind::Anon),
                object: u64::from(kind == Kind::Object),
                ..Zap::default()
            },
        );
        self.rss.add(self.vma, 1, 0);
        Ok(pfn)
    }
}
