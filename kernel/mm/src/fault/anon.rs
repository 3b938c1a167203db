//! The first touch of anonymous memory.

use super::resolve::Fault;
use super::{Access, Resolution};
use crate::addr::Pfn;
use crate::arch::Machine;
use crate::folio::Folio;
use crate::stat::Event;
use crate::table::Cursor;

impl<M: Machine> Fault<'_, M> {
    /// A read maps the shared page of zeros, a write a page of its own.
    pub(super) fn anon_page(self, cursor: &mut Cursor<'_, M>) -> Result<Pfn, Resolution> {
        let attrs = self.attrs();
        // Zero pages too are something that fork must copy, or a later write in the child would be the only one to know.
        self.vma.has_anon = true;
        if self.access != Access::Write {
            cursor.prepare()?;
            cursor.install_zero_page(attrs);
            self.mm.count(Event::ZeroPage, 1);
            return Ok(self.mm.zero_page());
        }
        let folio = Folio::anon(self.mm)?;
        if let Err(error) = cursor.prepare() {
            folio.free(self.mm);
            return Err(error.into());
        }
        let pfn = folio.pfn();
        cursor.install(folio, attrs);
        self.rss.add(self.vma, 1, 0);
        Ok(pfn)
    }
}
