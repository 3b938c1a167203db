//! Huge pages that are filled before they are mapped, without a lock meanwhile (UFFDIO_COPY).

use super::Object;
use crate::addr::Pfn;
use crate::arch::{Machine, PhysMem};
use crate::folio::Folio;
use crate::frame::Kind;
use crate::manager::{OutOfMemory, Result};
use alloc::sync::Arc;

/// A huge page for one place in an object, or in a private mapping. Dropped, it goes back to its
/// pool, and its reservation is made again if it had one that would still be there: it goes with
/// the end of the file, or with the mapping.
pub struct Unmapped<M: Machine> {
    object: Arc<Object<M>>,
    /// The single page that it is for.
    index: u64,
    page: Option<Folio>,
    /// Charged to the limit of a file.
    shared: bool,
    claimed: bool,
}

/// Why a page does not become one of an object.
pub(crate) enum Refused {
    /// There is one.
    Exists,
    /// The object ends before.
    End,
}

impl<M: Machine> Object<M> {
    /// A huge page for the single page `index` of a shared mapping, or of a private one by the
    /// space with the root table `who`. Its bytes are those of whoever had it before.
    pub(crate) fn unmapped_page(
        self: &Arc<Self>,
        index: u64,
        who: Option<Pfn>,
    ) -> Result<Unmapped<M>> {
        let huge = self.huge.as_ref().ok_or(OutOfMemory)?;
        let at = index >> huge.order.0;
        let mut inner = self.inner.lock();
        let owned = who.is_none_or(|who| self.is_owned_by(who));
        let claimed = owned && inner.claims.contains(&at);
        if claimed {
            // For the node of the set, which cannot fail.
            fallible::check()?;
        }
        let page = match who {
            Some(who) => self.huge_copy_in(huge, &mut inner, at, who)?,
            None => Folio::from_pfn(self.huge_take(huge, &mut inner, at, true, Kind::Object)?),
        };
        if claimed {
            inner.taken.insert(at);
        }
        drop(inner);
        Ok(Unmapped {
            object: self.clone(),
            index,
            page: Some(page),
            shared: who.is_none(),
            claimed,
        })
    }
}

impl<M: Machine> Unmapped<M> {
    /// Whether it is for this place.
    pub(crate) fn is_for(&self, object: &Arc<Object<M>>, index: u64) -> bool {
        Arc::ptr_eq(&self.object, object) && self.index == index
    }

    /// Copies bytes to an offset in it.
    pub fn write(&self, offset: u64, bytes: &[u8]) {
        if let Some(page) = &self.page {
            let mem = self.object.mm.machine().mem();
            mem.write(page.pfn().start() + offset, bytes);
        }
    }

    /// Enters it in the object of a shared mapping, unless there is a page by now, or the object
    /// ends before. Returns a reference for the mapping: of a private one the only reference.
    pub(crate) fn enter(mut self) -> Result<Result<Folio, Refused>> {
        fallible::check()?;
        if !self.shared {
            if self.claimed {
                self.object.take_back_claim(self.index);
            }
            return Ok(self.page.take().ok_or(Refused::Exists));
        }
        let object = self.object.clone();
        let index = self.index >> object.order().0;
        let mut inner = object.inner.lock();
        let why = match inner.pages.contains_key(&index) {
            true => Some(Refused::Exists),
            false => (index >= inner.len.div_ceil(1 << object.shift())).then_some(Refused::End),
        };
        if let Some(why) = why {
            // Before this page goes back, which needs the lock.
            drop(inner);
            return Ok(Err(why));
        }
        let page = self.page.take().ok_or(Refused::Exists);
        Ok(page.map(|page| {
            let pfn = page.into_pfn();
            inner.pages.insert(index, pfn.into());
            if self.claimed {
                inner.taken.remove(&index);
            }
            Folio::share(&object.mm, pfn)
        }))
    }
}

impl<M: Machine> Drop for Unmapped<M> {
    fn drop(&mut self) {
        let Some(page) = self.page.take() else {
            return;
        };
        page.free(&self.object.mm);
        if self.shared {
            self.object.left_pool(self.object.order().pages());
        }
        if self.claimed && self.object.take_back_claim(self.index) {
            // Another one may have reserved the last page meanwhile: then this one has no promise.
            let _ = self.object.claim(self.index, 1);
        }
    }
}
