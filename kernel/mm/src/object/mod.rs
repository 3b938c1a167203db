//! Memory objects: pages by index, behind files, shared anonymous memory and memfds (Linux:
//! address_space).

mod pool;

pub use pool::PagePool;

use crate::addr::{PAGE_SHIFT, PAGE_SIZE, Pfn};
use crate::arch::{Machine, PhysMem};
use crate::folio::Folio;
use crate::manager::{Mm, OutOfMemory};
use crate::sync::{Lock, rank};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::ops::Range;

struct ObjectPages {
    /// Bytes.
    len: u64,
    /// Each frame here carries one reference.
    pages: BTreeMap<u64, Pfn>,
}

/// The most pages that one step drops: some 100,000 instructions.
const STEP: usize = 256;

/// Sparse pages by index; a hole reads as zeroes.
pub struct Object<M: Machine> {
    mm: Arc<Mm<M>>,
    pool: Option<Arc<PagePool>>,
    inner: Lock<ObjectPages, { rank::OBJECT }>,
}

/// `offset..offset + len` cut into (page index, offset in page, bytes).
fn pieces(offset: u64, len: u64) -> impl Iterator<Item = (u64, u64, u64)> {
    let end = offset.saturating_add(len);
    let mut at = offset;
    core::iter::from_fn(move || {
        let inside = at & (PAGE_SIZE - 1);
        let n = (PAGE_SIZE - inside).min(end - at);
        let piece = (at >> PAGE_SHIFT, inside, n);
        at += n;
        (n != 0).then_some(piece)
    })
}

impl<M: Machine> Object<M> {
    /// An empty object of length 0.
    pub fn new(mm: &Arc<Mm<M>>) -> Arc<Self> {
        Object::in_pool(mm, None)
    }
    /// An empty object whose pages are limited by a pool.
    pub fn in_pool(mm: &Arc<Mm<M>>, pool: Option<Arc<PagePool>>) -> Arc<Self> {
        Arc::new(Object {
            mm: mm.clone(),
            pool,
            inner: Lock::new(ObjectPages {
                len: 0,
                pages: BTreeMap::new(),
            }),
        })
    }

    /// Size in bytes; a fault at or past the page that holds its end is SIGBUS.
    pub fn len(&self) -> u64 {
        self.inner.lock().len
    }
    /// Whether the size is 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Changes the size; pages past it are dropped (the caller zaps mappings with
    /// `AddressSpace::zap_object`), the tail of the last page is zeroed.
    pub fn set_len(&self, len: u64) {
        while !self.set_len_step(len) {}
    }

    /// One step of [`Self::set_len`], which drops some pages from the end; returns whether it was
    /// the last. Before that the size is what is left.
    pub fn set_len_step(&self, len: u64) -> bool {
        let mut inner = self.inner.lock();
        if len < inner.len {
            let first_gone = len.div_ceil(PAGE_SIZE);
            if !self.drop_some(&mut inner, first_gone..u64::MAX) {
                let last = inner.pages.last_key_value();
                let left = last.map_or(len, |(index, _)| (index + 1) << PAGE_SHIFT);
                inner.len = inner.len.min(left);
                return false;
            }
            self.clear(&inner, len, (first_gone << PAGE_SHIFT) - len);
        }
        inner.len = len;
        true
    }

    /// Copies out what is there from `offset`, up to the end; returns how many bytes.
    pub fn read_at(&self, offset: u64, into: &mut [u8]) -> usize {
        let inner = self.inner.lock();
        let n = (into.len() as u64).min(inner.len.saturating_sub(offset));
        let mut done = 0;
        for (index, inside, len) in pieces(offset, n) {
            let part = &mut into[done..done + len as usize];
            match inner.pages.get(&index) {
                Some(pfn) => self.mm.machine().mem().read(pfn.start() + inside, part),
                None => part.fill(0),
            }
            done += len as usize;
        }
        done
    }

    /// Copies in, growing the object as needed. When memory runs out, what was written before stays
    /// and the length covers it.
    pub fn write_at(&self, offset: u64, from: &[u8]) -> Result<(), OutOfMemory> {
        let mut inner = self.inner.lock();
        let mut done = 0;
        for (index, inside, len) in pieces(offset, from.len() as u64) {
            // A page that is written whole need not be zeroed first.
            let pfn = self.page_in(&mut inner, index, len == PAGE_SIZE)?;
            let pfn = pfn.ok_or(OutOfMemory)?;
            self.mm
                .machine()
                .mem()
                .write(pfn.start() + inside, &from[done..done + len as usize]);
            done += len as usize;
            inner.len = inner.len.max(offset + done as u64);
        }
        Ok(())
    }

    /// Frames that it holds (st_blocks, RSS of tmpfs).
    pub fn pages(&self) -> u64 {
        self.inner.lock().pages.len() as u64
    }

    /// One step that drops some pages wholly inside the byte range and, at last, zeroes the partial
    /// ones (FALLOC_FL_PUNCH_HOLE); returns whether it was the last.
    pub fn punch_step(&self, offset: u64, len: u64) -> bool {
        let mut inner = self.inner.lock();
        let end = offset.saturating_add(len);
        let whole = offset.div_ceil(PAGE_SIZE)..end >> PAGE_SHIFT;
        if whole.start >= whole.end {
            for (index, inside, n) in pieces(offset, len.min(2 * PAGE_SIZE)) {
                self.clear(&inner, (index << PAGE_SHIFT) + inside, n);
            }
            return true;
        }
        if !self.drop_some(&mut inner, whole.clone()) {
            return false;
        }
        self.clear(&inner, offset, (whole.start << PAGE_SHIFT) - offset);
        let last = whole.end << PAGE_SHIFT;
        self.clear(&inner, last, end - last);
        true
    }

    /// Drops at most [`STEP`] pages of a range of indices, from its end on; returns whether none is
    /// left.
    fn drop_some(&self, inner: &mut ObjectPages, range: Range<u64>) -> bool {
        for _ in 0..STEP {
            let Some((&index, _)) = inner.pages.range(range.clone()).next_back() else {
                return true;
            };
            self.drop_pages(inner.pages.remove(&index));
        }
        false
    }

    /// Allocates the pages of the byte range (fallocate). When memory runs out, what was allocated
    /// is dropped again.
    pub fn reserve(&self, offset: u64, len: u64) -> Result<(), OutOfMemory> {
        if len == 0 {
            return Ok(());
        }
        let mut inner = self.inner.lock();
        let (first, end) = (
            offset >> PAGE_SHIFT,
            offset.saturating_add(len).div_ceil(PAGE_SIZE),
        );
        let mut fresh = alloc::vec::Vec::new();
        for index in first..end {
            if inner.pages.contains_key(&index) {
                continue;
            }
            let pushed = fallible::push(&mut fresh, index).is_ok();
            if !pushed || !matches!(self.page_in(&mut inner, index, false), Ok(Some(_))) {
                self.drop_pages(fresh.iter().filter_map(|index| inner.pages.remove(index)));
                return Err(OutOfMemory);
            }
        }
        Ok(())
    }

    /// A reference to the page at `index`, allocated if it is a hole; `Ok(None)` at or past the end
    /// of the object, and for a hole when the pool is used up.
    pub(crate) fn page(&self, index: u64) -> Result<Option<Folio>, OutOfMemory> {
        let mut inner = self.inner.lock();
        if index >= inner.len.div_ceil(PAGE_SIZE) {
            return Ok(None);
        }
        let pfn = self.page_in(&mut inner, index, false)?;
        Ok(pfn.map(|pfn| Folio::share(&self.mm, pfn)))
    }

    /// Whether the page at `index` lies before the end.
    pub(crate) fn covers(&self, index: u64) -> bool {
        index < self.len().div_ceil(PAGE_SIZE)
    }
    /// Whether the page at `index` lies before the end and is not there.
    pub(crate) fn is_hole(&self, index: u64) -> bool {
        let inner = self.inner.lock();
        index < inner.len.div_ceil(PAGE_SIZE) && !inner.pages.contains_key(&index)
    }
    /// Whether the page at `index` is there.
    pub(crate) fn has_page(&self, index: u64) -> bool {
        self.inner.lock().pages.contains_key(&index)
    }
    /// A reference to the page at `index`, if it is there.
    pub(crate) fn page_if_there(&self, index: u64) -> Option<Folio> {
        let inner = self.inner.lock();
        let pfn = inner.pages.get(&index)?;
        Some(Folio::share(&self.mm, *pfn))
    }
    /// A reference to a new page at `index`, with these contents or zeros. `Ok(Err(true))`: there
    /// is one; `Ok(Err(false))`: it lies past the end, or the pool is used up.
    pub(crate) fn fill_hole(
        &self,
        index: u64,
        bytes: Option<&[u8]>,
    ) -> Result<Result<Folio, bool>, OutOfMemory> {
        let mut inner = self.inner.lock();
        if index >= inner.len.div_ceil(PAGE_SIZE) {
            return Ok(Err(false));
        }
        if inner.pages.contains_key(&index) {
            return Ok(Err(true));
        }
        let Some(pfn) = self.page_in(&mut inner, index, bytes.is_some())? else {
            return Ok(Err(false));
        };
        if let Some(bytes) = bytes {
            self.mm.machine().mem().write(pfn.start(), bytes);
        }
        Ok(Ok(Folio::share(&self.mm, pfn)))
    }

    /// Calls `f` with each page that is there in `first..end` (and before the object's end), in
    /// order, until `f` returns `false`. `f` may take references: the object holds the page
    /// meanwhile.
    pub(crate) fn for_each_page(&self, first: u64, end: u64, f: &mut dyn FnMut(u64, Pfn) -> bool) {
        let inner = self.inner.lock();
        let end = end.min(inner.len.div_ceil(PAGE_SIZE));
        if first < end {
            for (index, pfn) in inner.pages.range(first..end) {
                if !f(*index, *pfn) {
                    break;
                }
            }
        }
    }

    /// Every page with its frame, for [`crate::check`].
    pub fn for_each(&self, f: &mut dyn FnMut(u64, Pfn)) {
        for (index, pfn) in &self.inner.lock().pages {
            f(*index, *pfn);
        }
    }

    /// The page at `index`, allocated if it is a hole; `None` when the pool is used up.
    fn page_in(
        &self,
        inner: &mut ObjectPages,
        index: u64,
        unfilled: bool,
    ) -> Result<Option<Pfn>, OutOfMemory> {
        if let Some(pfn) = inner.pages.get(&index) {
            return Ok(Some(*pfn));
        }
        // For the nodes of the map, which cannot fail: one page needs few, a call may bring in very
        // many pages.
        fallible::check()?;
        if self.pool.as_ref().is_some_and(|pool| !pool.take()) {
            return Ok(None);
        }
        let folio = Folio::object(&self.mm, unfilled).inspect_err(|_| self.left_pool(1))?;
        let pfn = folio.into_pfn();
        inner.pages.insert(index, pfn);
        Ok(Some(pfn))
    }

    fn left_pool(&self, pages: u64) {
        if let Some(pool) = &self.pool {
            pool.give(pages);
        }
    }

    /// Drops the references to pages that were removed from the object.
    fn drop_pages(&self, pages: impl IntoIterator<Item = Pfn>) {
        let mut n = 0;
        for pfn in pages {
            Folio::from_pfn(pfn).free(&self.mm);
            n += 1;
        }
        self.left_pool(n);
    }

    /// Zeroes bytes that lie in one page; a hole is zero already.
    fn clear(&self, inner: &ObjectPages, offset: u64, len: u64) {
        static ZEROS: [u8; PAGE_SIZE as usize] = [0; PAGE_SIZE as usize];
        if let (true, Some(pfn)) = (len != 0, inner.pages.get(&(offset >> PAGE_SHIFT))) {
            self.mm.machine().mem().write(
                pfn.start() + (offset & (PAGE_SIZE - 1)),
                &ZEROS[..len as usize],
            );
        }
    }
}

impl<M: Machine> Drop for Object<M> {
    fn drop(&mut self) {
        let pages = core::mem::take(&mut self.inner.get_mut().pages);
        self.drop_pages(pages.into_values());
    }
}
