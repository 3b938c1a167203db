//! Memory objects: pages by index, behind files, shared anonymous memory and memfds (Linux:
//! address_space).

mod collapse;
mod huge;
mod hwpoison;
mod large;
mod mapping;
mod migrate;
mod pool;
mod seek;
mod shelf;
mod unmapped;

pub use mapping::Mapping;
pub(crate) use mapping::Sealed;
pub use pool::PagePool;
pub(crate) use unmapped::Refused;
pub use unmapped::Unmapped;

use crate::addr::{Order, PAGE_SHIFT, PAGE_SIZE, Pfn};
use crate::arch::{Machine, PhysMem};
use crate::folio::Folio;
use crate::manager::{Mm, OutOfMemory, Result};
use crate::mutant::{self, Mutant};
use crate::sync::{Lock, rank};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::{Arc, Weak};
pub(crate) use collapse::Collapsed;
use core::ops::Range;
pub(crate) use huge::Below;
use huge::{Claims, Huge};
pub(crate) use large::Part;
use mapping::Mappers;
use shelf::Held;

struct ObjectPages {
    /// Bytes.
    len: u64,
    /// Each frame here carries one reference, of its folio ([`large`]), and each slot one name. By
    /// index in pages of the object's order.
    pages: BTreeMap<u64, Held>,
    /// Its number among all objects, or 0 before it has had a page.
    number: u64,
    claims: Claims,
    /// Claims of [`Unmapped`] pages, which are made again if those come to nothing.
    taken: Claims,
    /// Single pages whose memory has failed. Those of huge pages are in `pages` nevertheless.
    hwpoison: BTreeSet<u64>,
    /// Whether some of the pages are, or were, of a large folio.
    has_large: bool,
    /// Whether a monitor is, or was, to be asked for what is not there: nothing else fills it but a
    /// fault.
    monitored: bool,
}

/// What there is at an index.
enum Found {
    Page(Pfn),
    /// A page that is in a swap slot.
    Swapped,
    Hole,
    /// Its memory has failed.
    HwPoison,
    /// Nothing: the object has ended.
    End,
}

/// The most pages that one step drops: some 100,000 instructions.
const STEP: usize = 256;

/// Sparse pages by index; a hole reads as zeroes.
pub struct Object<M: Machine> {
    mm: Arc<Mm<M>>,
    me: Weak<Object<M>>,
    pool: Option<Arc<PagePool>>,
    /// What an object of huge pages has besides.
    huge: Option<Huge<M>>,
    /// Of no file system that the user mounts (Linux: shm_mnt).
    internal: bool,
    /// Pages that were promised when it was made; they need not be when they come.
    promised: u64,
    mappers: Mappers,
    inner: Lock<ObjectPages, { rank::OBJECT }>,
}

/// `offset..offset + len` cut into (page index, offset in page, bytes), with pages of 2^`shift`
/// bytes.
fn pieces(offset: u64, len: u64, shift: u32) -> impl Iterator<Item = (u64, u64, u64)> {
    let end = offset.saturating_add(len);
    let mut at = offset;
    core::iter::from_fn(move || {
        let inside = at & ((1 << shift) - 1);
        let n = ((1 << shift) - inside).min(end - at);
        let piece = (at >> shift, inside, n);
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
        Object::with(mm, pool, None, true, 0)
    }
    /// Zeros of this length, all of which are promised: a shared anonymous mapping, a segment of
    /// shared memory.
    pub fn promised(mm: &Arc<Mm<M>>, len: u64) -> Result<Arc<Self>> {
        let pages = len.div_ceil(PAGE_SIZE);
        if !mm.may_promise(pages, 0) {
            return Err(OutOfMemory);
        }
        mm.charge(pages);
        let object = Object::with(mm, None, None, true, pages);
        object.grow_to(len);
        Ok(object)
    }
    /// An empty object of a file in a file system, whose pages a pool limits.
    pub fn of_file(mm: &Arc<Mm<M>>, pool: Arc<PagePool>) -> Arc<Self> {
        Object::with(mm, Some(pool), None, false, 0)
    }
    fn with(
        mm: &Arc<Mm<M>>,
        pool: Option<Arc<PagePool>>,
        huge: Option<Huge<M>>,
        internal: bool,
        promised: u64,
    ) -> Arc<Self> {
        Arc::new_cyclic(|me| Object {
            mm: mm.clone(),
            me: me.clone(),
            pool,
            huge,
            internal,
            promised,
            mappers: Mappers::new(),
            inner: Lock::new(ObjectPages {
                len: 0,
                pages: BTreeMap::new(),
                number: 0,
                claims: Claims::new(),
                taken: Claims::new(),
                hwpoison: BTreeSet::new(),
                has_large: false,
                monitored: false,
            }),
        })
    }
    /// The order of its pages.
    #[inline]
    fn order(&self) -> Order {
        self.huge.as_ref().map_or(Order(0), |huge| huge.order)
    }
    /// log2 of the bytes of its pages.
    #[inline]
    fn shift(&self) -> u32 {
        PAGE_SHIFT + u32::from(self.order().0)
    }

    /// Size in bytes; a fault at or past the page that holds its end is SIGBUS.
    pub fn len(&self) -> u64 {
        self.inner.lock().len
    }
    /// Whether the size is 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Changes the size; pages past it are dropped (mappings stay: [`Self::truncate`]
    /// unmaps them, too), the tail of the last page is zeroed.
    pub fn set_len(&self, len: u64) {
        while !self.set_len_step(len) {}
    }

    /// Makes it at least so long, and keeps what is there.
    pub fn grow_to(&self, len: u64) {
        let mut inner = self.inner.lock();
        inner.len = inner.len.max(len);
    }

    /// One step of [`Self::set_len`], which drops some pages from the end; returns whether it was
    /// the last. Before that the size is what is left. It is not the last, either, while there is
    /// no memory for a page that is to be zeroed in part.
    pub fn set_len_step(&self, len: u64) -> bool {
        let mut inner = self.inner.lock();
        if len < inner.len {
            let shift = self.shift();
            let first_gone = len.div_ceil(1 << shift);
            if !self.drop_some(&mut inner, first_gone..u64::MAX) {
                let last = inner.pages.last_key_value();
                let left = last.map_or(len, |(index, _)| (index + 1) << shift);
                inner.len = inner.len.min(left.max(len));
                return false;
            }
            // A hole that is punched keeps its reservation; what is past the end has none.
            self.unclaim(&mut inner, first_gone..u64::MAX);
            if !self.clear(&mut inner, len, (first_gone << shift) - len) {
                return false;
            }
        }
        inner.len = len;
        true
    }

    /// Copies out what is there from `offset`, up to the end or a page whose memory has failed;
    /// returns how many bytes.
    pub fn read_at(&self, offset: u64, into: &mut [u8]) -> usize {
        let mut inner = self.inner.lock();
        let n = (into.len() as u64).min(inner.len.saturating_sub(offset));
        let n = inner.intact(offset, n);
        let mut done = 0;
        for (index, inside, len) in pieces(offset, n, self.shift()) {
            let part = &mut into[done..done + len as usize];
            self.read_page(&mut inner, index, inside, part);
            done += len as usize;
        }
        done
    }

    /// Copies in, growing the object as needed. When memory runs out, what was written before stays
    /// and the length covers it. Not for objects of huge pages.
    pub fn write_at(&self, offset: u64, from: &[u8]) -> Result {
        let mut inner = self.inner.lock();
        let mut done = 0;
        for (index, inside, len) in pieces(offset, from.len() as u64, PAGE_SHIFT) {
            // A page that is written whole need not be zeroed first.
            let pfn = self.page_in(&mut inner, index, len == PAGE_SIZE)?;
            let pfn = pfn.ok_or(OutOfMemory)?;
            self.note_use(pfn);
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
        let inner = self.inner.lock();
        let lost = match self.huge {
            None => inner.hwpoison.len(),
            Some(_) => 0,
        };
        ((inner.pages.len() + lost) as u64) << self.order().0
    }

    /// One step that drops some pages wholly inside the byte range and, at last, zeroes the partial
    /// ones (FALLOC_FL_PUNCH_HOLE); returns whether it was the last, as [`Self::set_len_step`].
    pub fn punch_step(&self, offset: u64, len: u64) -> bool {
        let mut inner = self.inner.lock();
        let (end, shift) = (offset.saturating_add(len), self.shift());
        let whole = offset.div_ceil(1 << shift)..end >> shift;
        if whole.start >= whole.end {
            let mut pieces = pieces(offset, len.min(2 << shift), shift);
            return pieces
                .all(|(index, inside, n)| self.clear(&mut inner, (index << shift) + inside, n));
        }
        if !self.drop_some(&mut inner, whole.clone()) {
            return false;
        }
        let last = whole.end << shift;
        self.clear(&mut inner, offset, (whole.start << shift) - offset)
            && self.clear(&mut inner, last, end - last)
    }

    /// Drops at most [`STEP`] pages of a range of indices, from its end on; returns whether none is
    /// left.
    fn drop_some(&self, inner: &mut ObjectPages, range: Range<u64>) -> bool {
        for _ in 0..STEP {
            let Some((&index, _)) = inner.pages.range(range.clone()).next_back() else {
                break;
            };
            self.drop_pages(inner.pages.remove(&index));
        }
        let is_last = inner.pages.range(range.clone()).next().is_none();
        if is_last {
            self.forget_hwpoison(inner, range);
        }
        is_last
    }

    /// Allocates the pages of the byte range (fallocate). When memory runs out, what was allocated
    /// is dropped again.
    pub fn reserve(&self, offset: u64, len: u64) -> Result {
        if len == 0 {
            return Ok(());
        }
        let mut inner = self.inner.lock();
        let (first, end) = (
            offset >> self.shift(),
            offset.saturating_add(len).div_ceil(1 << self.shift()),
        );
        let mut fresh = alloc::vec::Vec::new();
        for index in first..end {
            if inner.pages.contains_key(&index) || inner.hwpoison.contains(&index) {
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
    /// of the object, for a hole when the pool is used up, and for a page whose memory has failed.
    pub(crate) fn page(&self, index: u64) -> Result<Option<Folio>> {
        let mut inner = self.inner.lock();
        if index >= inner.len.div_ceil(PAGE_SIZE) {
            return Ok(None);
        }
        let pfn = self.page_in(&mut inner, index, false)?;
        Ok(pfn.map(|pfn| Folio::share(&self.mm, pfn)))
    }

    /// A monitor is asked for what is not there, by some mapping (userfaultfd).
    pub(crate) fn note_monitor(&self) {
        self.inner.lock().monitored = true;
    }

    /// Whether the page at `index` lies before the end.
    pub(crate) fn covers(&self, index: u64) -> bool {
        self.look(index, |found| !matches!(found, Found::End))
    }
    /// Whether the page at `index` lies before the end and is not there.
    pub(crate) fn is_hole(&self, index: u64) -> bool {
        self.look(index, |found| matches!(found, Found::Hole))
    }
    /// Whether the page at `index` is there.
    pub(crate) fn has_page(&self, index: u64) -> bool {
        self.look(index, |found| {
            matches!(found, Found::Page(_) | Found::Swapped)
        })
    }
    /// A reference to the page at `index`, if it is there.
    pub(crate) fn page_if_there(&self, index: u64) -> Result<Option<Folio>> {
        let is_swapped = |found| match found {
            Found::Page(pfn) => Err(Folio::share(&self.mm, pfn)),
            found => Ok(matches!(found, Found::Swapped)),
        };
        match self.look(index, is_swapped) {
            Err(folio) => Ok(Some(folio)),
            Ok(true) => self.page(index),
            Ok(false) => Ok(None),
        }
    }
    /// Calls `f`, under the lock, with what there is at the single page `index`: of a private
    /// mapping of huge pages what there is in the file.
    fn look<R>(&self, index: u64, f: impl FnOnce(Found) -> R) -> R {
        let (file, index) = (self.file_object(), index >> self.order().0);
        let inner = file.inner.lock();
        // A large folio may reach past the end.
        let before_end = self.is_endless() || index < inner.len.div_ceil(1 << self.shift());
        let found = match inner.pages.get(&index) {
            _ if file.has_hwpoison(&inner, index) => Found::HwPoison,
            _ if !before_end => Found::End,
            Some(held) => held.frame().map_or(Found::Swapped, Found::Page),
            None => Found::Hole,
        };
        f(found)
    }
    /// A reference to a new page at `index`, with these contents or zeros. `Ok(Err(true))`: there
    /// is one; `Ok(Err(false))`: it lies past the end, or the pool is used up.
    pub(crate) fn fill_hole(
        &self,
        index: u64,
        bytes: Option<&[u8]>,
    ) -> Result<Result<Folio, bool>> {
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

    /// Calls `f` with each page that is in memory in `first..end` (and before the object's end), in
    /// order, until `f` returns `false`; with the parts of a huge page one by one. `f` may take
    /// references: the object holds the page meanwhile.
    pub(crate) fn for_each_page(&self, first: u64, end: u64, f: &mut dyn FnMut(u64, Pfn) -> bool) {
        let inner = self.inner.lock();
        let end = end.min(inner.len.div_ceil(PAGE_SIZE));
        if self.huge.is_some() {
            return self.for_each_part(&inner, first..end, f);
        }
        if first < end {
            for (index, held) in inner.pages.range(first..end) {
                if !held.frame().is_none_or(|pfn| f(*index, pfn)) {
                    break;
                }
            }
        }
    }

    /// Every page of its order with its frame, or as an error its slot, for [`crate::check`].
    pub fn for_each(&self, f: &mut dyn FnMut(u64, Result<Pfn, Pfn>)) {
        for (index, held) in &self.inner.lock().pages {
            f(*index, held.place());
        }
    }

    /// The page at `index`, allocated if it is a hole; `None` when the pool is used up, or its
    /// memory has failed.
    fn page_in(&self, inner: &mut ObjectPages, index: u64, unfilled: bool) -> Result<Option<Pfn>> {
        if let Some(held) = inner.pages.get(&index).copied() {
            return self.frame_of(inner, index, held).map(Some);
        }
        if let Some(huge) = &self.huge {
            return self.huge_page_in(huge, inner, index);
        }
        if inner.hwpoison.contains(&index) {
            return Ok(None);
        }
        // For the nodes of the map, which cannot fail: one page needs few, a call may bring in very
        // many pages.
        fallible::check()?;
        self.list(inner)?;
        if !self.enter_pool(1) {
            return Ok(None);
        }
        let folio = Folio::object(&self.mm, unfilled).inspect_err(|_| self.left_pool(1))?;
        let pfn = folio.into_pfn();
        inner.pages.insert(index, pfn.into());
        Ok(Some(pfn))
    }

    /// Counts pages that come; `false`: its pool is used up, or they may not be promised.
    fn enter_pool(&self, pages: u64) -> bool {
        if self.promised != 0 {
            // The pages of objects count for themselves.
            self.mm.charge(pages.wrapping_neg());
            return true;
        }
        let is_huge = self.huge.is_some();
        (is_huge || self.mm.may_promise(pages, 0))
            && self.pool.as_ref().is_none_or(|pool| pool.take(pages))
    }
    /// Counts pages that have gone.
    fn left_pool(&self, pages: u64) {
        if self.promised != 0 {
            self.mm.charge(pages);
        }
        if let Some(pool) = &self.pool {
            pool.give(pages);
        }
    }
    /// Pages that are promised and not there, for [`crate::check`].
    pub fn unfilled(&self) -> u64 {
        match self.promised {
            0 => 0,
            promised => promised - self.pages(),
        }
    }

    /// Drops the references to pages that were removed from the object.
    fn drop_pages(&self, pages: impl IntoIterator<Item = Held>) {
        let mut n = 0;
        for held in pages {
            match held.place() {
                Ok(frame) => self.drop_page(frame),
                Err(slot) => self.mm.drop_names(slot, 1),
            }
            n += 1;
        }
        self.left_pool(n << self.order().0);
    }

    /// Drops the reference to a page. One after the other, and there may be very many.
    #[inline]
    fn drop_page(&self, page: Pfn) {
        let head = self.mm.frames().head(page);
        if self.mm.frames().get(head).put_ref() {
            self.mm.free_one(head);
        }
    }

    /// Zeroes bytes that lie in one page; a hole is zero already. `false`: it is in a slot, and
    /// there is no memory at all.
    fn clear(&self, inner: &mut ObjectPages, offset: u64, len: u64) -> bool {
        static ZEROS: [u8; PAGE_SIZE as usize] = [0; PAGE_SIZE as usize];
        let shift = self.shift();
        if len == 0 {
            return true;
        }
        let Ok(page) = self.frame_at(inner, offset >> shift) else {
            return false;
        };
        if let Some(pfn) = page {
            let start = pfn.start() + (offset & ((1 << shift) - 1));
            for (index, _, n) in pieces(0, len, PAGE_SHIFT) {
                let at = start + (index << PAGE_SHIFT);
                self.mm.machine().mem().write(at, &ZEROS[..n as usize]);
            }
        }
        true
    }
}

impl<M: Machine> Drop for Object<M> {
    fn drop(&mut self) {
        let inner = self.inner.get_mut();
        if inner.number != 0 {
            self.mm.objects().unlist(inner.number);
        }
        let pages = core::mem::take(&mut inner.pages);
        let claims = core::mem::take(&mut inner.claims);
        let lost = inner.hwpoison.len() as u64;
        self.drop_pages(pages.into_values());
        if self.huge.is_none() {
            self.left_pool(lost);
        }
        if self.promised != 0 {
            self.mm.charge(self.promised.wrapping_neg());
        }
        if !mutant::on(Mutant::KeepReservations) {
            self.drop_claims(claims.len() as u64);
        }
    }
}
