//! The frame table: metadata by frame number.

use super::meta::{FrameMeta, Kind, MAX_ORDER};
use crate::addr::{Order, Pfn, PfnRange};
use crate::own::{self, Book, PageCount, WIDE_ORDERS};
use crate::sync::{AccountWords, Ordering};
use crate::thp::PMD_ORDER;
use alloc::boxed::Box;
use alloc::vec::Vec;

// Every private folio has an account, and none is larger.
const _: () = assert!(PMD_ORDER.0 <= WIDE_ORDERS.0);

/// The metadata of the frames of memory, and of swap slots behind them.
pub struct FrameTable {
    first: Pfn,
    /// The frames from the first that is described to the last, holes included.
    memory: PfnRange,
    metas: &'static mut [FrameMeta],
    /// Counts of the mappings of single pages, for as many frames, or for none.
    counts: &'static [PageCount],
    /// The frames that are described, sorted; holes of memory lie between.
    parts: Box<[PfnRange]>,
}

/// A block of 2^order frames: a folio, or anything else that was allocated as one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block {
    /// Its first frame.
    pub head: Pfn,
    /// What it is used for.
    pub kind: Kind,
    /// log2 of its frames.
    pub order: Order,
}

impl Block {
    /// A private folio.
    #[inline(always)]
    pub(crate) fn anon(head: Pfn, order: Order) -> Self {
        let kind = Kind::Anon;
        Block { head, kind, order }
    }
    /// Number of its frames from `first`, one of them, on.
    #[inline]
    pub(crate) fn pages_from(&self, first: Pfn) -> usize {
        (self.order.pages() - (first - self.head)) as usize
    }
}

/// The part of `span` that must be described for an allocator of the frames in `free`: the blocks
/// of the largest order that contain any of them, because blocks merge within those. Sorted and
/// joined.
pub fn parts(span: PfnRange, free: &[PfnRange]) -> Vec<PfnRange> {
    let mut free = free.to_vec();
    free.sort_by_key(|range| range.start);
    let block = MAX_ORDER.pages();
    let mut parts = Vec::<PfnRange>::new();
    for range in free.iter().filter(|range| !range.is_empty()) {
        let start = Pfn(range.start.0 / block * block).clamp(span.start, span.end);
        let end = Pfn(range.end.0.next_multiple_of(block)).clamp(span.start, span.end);
        match parts.last_mut() {
            Some(last) if start <= last.end => last.end = last.end.max(end),
            _ => parts.push(PfnRange::new(start, end)),
        }
    }
    parts
}

impl FrameTable {
    /// Takes over the array; costs nothing per frame.
    pub fn new(first: Pfn, metas: &'static mut [FrameMeta]) -> Self {
        let all = PfnRange::new(first, first + metas.len() as u64);
        Self::around(all, metas, &[], &[all])
    }
    /// As `new`, for an allocator of the frames in `free` only, which lie in `memory`: metadata of
    /// it that [`parts`] leaves out is never read and may hold anything. What `metas` has beyond
    /// ([`metas`]) is zero, and for swap slots. `counts` is as long as `metas`, or
    /// empty where mappings of single pages are not counted.
    pub fn around(
        memory: PfnRange,
        metas: &'static mut [FrameMeta],
        counts: &'static [PageCount],
        free: &[PfnRange],
    ) -> Self {
        assert!(counts.is_empty() || counts.len() == metas.len());
        assert!(metas.len() < u32::MAX as usize, "links are 32 bits wide");
        assert!(metas.len() as u64 >= memory.len());
        FrameTable {
            first: memory.start,
            memory,
            metas,
            counts,
            parts: parts(memory, free).into(),
        }
    }
    /// The arrays with their contents, for another table.
    pub(crate) fn into_parts(self) -> (&'static mut [FrameMeta], &'static [PageCount]) {
        (self.metas, self.counts)
    }
    /// The metadata of a frame in the table.
    #[inline]
    pub fn get(&self, pfn: Pfn) -> &FrameMeta {
        &self.metas[pfn.0.wrapping_sub(self.first.0) as usize]
    }
    /// The metadata at a place in the table.
    #[inline]
    pub(super) fn at(&self, index: u32) -> &FrameMeta {
        &self.metas[index as usize]
    }
    /// The metadata of a frame, `None` when the table does not reach there or has a hole.
    pub fn try_get(&self, pfn: Pfn) -> Option<&FrameMeta> {
        let described = self.parts.iter().any(|part| part.contains(pfn));
        if described { self.near(pfn) } else { None }
    }
    /// The metadata of a frame in the same naturally aligned block of the largest order as one in
    /// the table; `None` when the table does not reach there.
    #[inline]
    pub(super) fn near(&self, pfn: Pfn) -> Option<&FrameMeta> {
        self.metas.get(pfn.0.checked_sub(self.first.0)? as usize)
    }
    /// The head of the block that a frame lies in: the frame itself, or the nearest frame below, by
    /// natural alignment, that is not a tail. At most as many steps as the frame number has bits
    /// set below the block's order.
    #[inline]
    pub fn head(&self, pfn: Pfn) -> Pfn {
        self.folio(pfn).head
    }
    /// The block that a frame lies in, which is not the firmware's or the image's.
    #[inline]
    pub fn folio(&self, pfn: Pfn) -> Block {
        let mut head = pfn;
        loop {
            match self.get(head).kind_and_order() {
                (Kind::Reserved, _) => head = Pfn(head.0 & (head.0 - 1)),
                (kind, order) => return Block { head, kind, order },
            }
        }
    }
    /// Turns a block in use of order `from` into 2^(from - to) blocks of order `to` and the same
    /// kind. The caller owns all references of the block; the first part keeps their number and the
    /// others have none until the caller sets them. Parts of a private folio are ended, as it is
    /// ([`FrameMeta::set_ended`]), until the caller sets them once more.
    pub(crate) fn split(&self, pfn: Pfn, from: Order, to: Order) {
        let head = self.get(pfn);
        let kind = head.kind();
        assert!(
            (kind.in_use() || kind == Kind::Swap) && head.order() == from && to <= from,
            "{pfn:?} ({head:?}) cannot be split from order {} to {}",
            from.0,
            to.0
        );
        // The parts may have a narrower account: nothing of the wide one stays behind.
        if matches!(kind, Kind::Anon | Kind::Swap) {
            head.anon_page().words().hi().store(0, Ordering::Relaxed);
        }
        let parts = 1 << (from.0 - to.0);
        for part in (0..parts).map(|i| pfn + i * to.pages()) {
            match kind {
                Kind::Anon => self.get(part).set_ended(to),
                kind => self.get(part).set(kind, to),
            }
        }
    }
    /// A frame's place in the table.
    #[inline]
    pub(crate) fn index(&self, pfn: Pfn) -> u32 {
        (pfn - self.first) as u32
    }
    /// The frame at a place in the table.
    #[inline]
    pub(crate) fn pfn(&self, index: u32) -> Pfn {
        self.first + u64::from(index)
    }
    /// All frames in the table with their metadata.
    pub fn iter(&self) -> impl Iterator<Item = (Pfn, &FrameMeta)> {
        self.parts.iter().flat_map(|part| {
            let start = (part.start - self.first) as usize;
            let metas = &self.metas[start..start + (part.end - part.start) as usize];
            (0..)
                .zip(metas)
                .map(move |(i, meta)| (part.start + i, meta))
        })
    }
    /// All swap slots with their metadata.
    pub fn iter_slots(&self) -> impl Iterator<Item = (Pfn, &FrameMeta)> {
        let slots = self.slots();
        let metas = &self.metas[(slots.start - self.first) as usize..];
        (0..)
            .zip(metas)
            .map(move |(i, meta)| (slots.start + i, meta))
    }
    /// Whether there is room to count the mappings of single pages.
    pub fn counts_pages(&self) -> bool {
        !self.counts.is_empty()
    }
    /// The frames from the first that is described to the last, holes included.
    pub fn span(&self) -> PfnRange {
        self.memory
    }
    /// The name of a swap slot.
    pub(crate) fn swap_slot(&self, slot: Pfn) -> SwapSlot {
        SwapSlot(self.index(slot))
    }
    /// The slot of this name.
    pub(crate) fn slot_of(&self, slot: SwapSlot) -> Pfn {
        self.pfn(slot.0)
    }
    /// The swap slots.
    pub fn slots(&self) -> PfnRange {
        let (first, end) = (
            behind(self.memory.end),
            self.first + self.metas.len() as u64,
        );
        PfnRange::new(first.min(end), end)
    }
}

/// The storage of a private folio's account: words in the metadata of its frames.
#[derive(Clone, Copy)]
pub struct FolioBook<'a> {
    frames: &'a FrameTable,
    head: Pfn,
    /// Of the head.
    pub meta: &'a FrameMeta,
    order: Order,
}

impl FrameTable {
    /// The account of a private page, `None` when the frame is anything else, a part of a larger
    /// folio for one.
    #[inline]
    pub(crate) fn single(&self, page: Pfn) -> Option<FolioBook<'_>> {
        let meta = self.get(page);
        meta.is(Kind::Anon, Order(0)).then_some(FolioBook {
            frames: self,
            head: page,
            meta,
            order: Order(0),
        })
    }
    /// The account of the private folio with this head, of this order.
    #[inline]
    pub(crate) fn book(&self, head: Pfn, order: Order) -> FolioBook<'_> {
        FolioBook {
            frames: self,
            head,
            meta: self.get(head),
            order,
        }
    }
}

/// What may have been the storage of a private folio's account: its frames may have another use by
/// now, so that what is read is to be believed only if it is found to be one afterwards.
pub(crate) struct FormerBook<'a>(FolioBook<'a>);

impl FrameTable {
    /// The storage for a caller without a reference.
    #[inline]
    pub(crate) fn former_book(&self, head: Pfn, order: Order) -> FormerBook<'_> {
        FormerBook(self.book(head, order))
    }
}

impl Book for FormerBook<'_> {
    #[inline]
    fn order(&self) -> own::Order {
        self.0.order()
    }
    #[inline]
    fn words(&self, part: usize) -> &AccountWords {
        self.0.frames.get(self.0.head + part as u64).former_words()
    }
}

impl Book for FolioBook<'_> {
    #[inline]
    fn order(&self) -> own::Order {
        own::Order(self.order.0)
    }
    #[inline]
    fn words(&self, part: usize) -> &AccountWords {
        let meta = match part {
            0 => self.meta,
            part => self.frames.get(self.head + part as u64),
        };
        meta.anon_page().words()
    }
    #[inline]
    fn page(&self, i: usize) -> &PageCount {
        &self.frames.counts[self.frames.index(self.head) as usize + i]
    }
}

/// The place of a slot in the frame table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SwapSlot(u32);

/// The first slot behind memory that ends at `end`: aligned for the largest folio, and behind a
/// frame that is never free, so that no block of memory merges with one of slots.
fn behind(end: Pfn) -> Pfn {
    Pfn((end.0 + 1).next_multiple_of(PMD_ORDER.pages()))
}

/// How many frames are to be described for this memory and `n` slots.
pub fn metas(memory: PfnRange, n: u64) -> u64 {
    match n {
        0 => memory.len(),
        _ => behind(memory.end) + n - memory.start,
    }
}
