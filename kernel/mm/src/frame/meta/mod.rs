//! Metadata of a frame: 32 bytes for each 4 KiB, in an array that the caller hands in
//! ([`super::FrameTable`]).
//!
//! The head of a block has its kind, its order and its references. The other frames of the block,
//! its tails, are `Reserved`, and since blocks are naturally aligned,
//! [`super::FrameTable::head`] finds the head of any of them.
//!
//! ```text
//!                                  List::refill,
//!                 add_range        Buddy::alloc            Allocator::alloc
//!  Reserved (0) ------------> Free ----------------> Cached ------------------> Kernel/Table/Anon/Object
//!       ^                     | ^                    | ^                             |            |
//!       |                     | +------- drain ------+ +------- Allocator::free -----+            |
//!       |                     | +------------ Buddy::free, for orders without a list -------------+
//!       +---------------------+  Buddy::free, when the block becomes the tail of a larger one
//!
//!  in use ------> Kernel, marked: Allocator::retire, for good
//! ```

mod views;

pub(crate) use views::{Links, Slot, TableFrame};

use crate::addr::{Order, Pfn, Vpn};
use crate::sync::{AccountWords, AtomicU32, AtomicU64, Ordering};
use core::fmt;

/// The largest block: 2^18 frames, 1 GiB, what one entry of a PUD table maps.
pub const MAX_ORDER: Order = Order(18);
/// How many orders there are.
pub const ORDERS: usize = MAX_ORDER.0 as usize + 1;

/// What a frame is used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// Not the allocator's (firmware, image), or a tail of a block.
    Reserved = 0,
    /// Head of a free block, of a zone or in a CPU's list.
    Free = 1,
    /// The kernel's heap, stacks and tables of its own.
    Kernel = 2,
    /// A page table.
    Table = 3,
    /// Private memory of one or, after fork, several address spaces.
    Anon = 4,
    /// A page of an object.
    Object = 5,
    /// Free, and of a pool of huge pages ([`crate::hugetlb`]). Beside the others that the allocator
    /// handed out: [`Kind::in_use`] is one comparison.
    Hugetlb = 6,
    /// Swap slots, for a private folio or a part of one ([`crate::frame::slots`]). No memory.
    Swap = 7,
}

impl Kind {
    /// How many kinds there are.
    pub const COUNT: usize = 8;

    /// Whether the frame is allocated.
    #[inline]
    pub const fn in_use(self) -> bool {
        matches!(
            self,
            Kind::Kernel | Kind::Table | Kind::Anon | Kind::Object | Kind::Hugetlb
        )
    }

    #[inline]
    fn from_bits(bits: u32) -> Kind {
        // As many as three bits say: no comparison.
        match bits & 7 {
            0 => Kind::Reserved,
            1 => Kind::Free,
            2 => Kind::Kernel,
            3 => Kind::Table,
            4 => Kind::Anon,
            5 => Kind::Object,
            6 => Kind::Hugetlb,
            _ => Kind::Swap,
        }
    }
}

/// `state` has this bit while the frame is free and holds the poison pattern (debug builds).
const POISONED: u32 = 1 << 31;
/// `state` has this bit while the folio is on the queue of deferred splits.
const DEFERRED: u32 = 1 << 30;

/// `state` has this bit while the folio holds copies of which only one page was asked for.
const COPIED_AROUND: u32 = 1 << 29;

/// `state` has this bit from the end of a large private folio until its frames get another use: it
/// does not join the queue of deferred splits any more.
const ENDED: u32 = 1 << 28;

/// `state` has this bit while the block is a huge page in use: its frames go back to their pool.
const HUGETLB: u32 = 1 << 27;

/// `state` has this bit while the frame, which may be a tail, is in use and is to be retired by its
/// last reference; and from then on for good, as a frame of the kernel.
const HWPOISON: u32 = 1 << 26;

/// `state` has this bit while the block is a huge page with such a frame.
const HAS_HWPOISON: u32 = 1 << 25;

/// `state` of a free block has this bit while it is in a CPU's list. Unlike the flags it makes the
/// block another one for [`FrameMeta::is`].
const CACHED: u32 = 1 << 24;

/// `state` of an object's folio has the same bit if a call has read or written it since this was
/// asked last.
const USED: u32 = ENDED;

const FLAGS: u32 = POISONED | DEFERRED | COPIED_AROUND | ENDED | HUGETLB | HWPOISON | HAS_HWPOISON;

/// Metadata of one 4 KiB frame. All bytes zero is a valid value: a reserved frame, so the caller
/// may hand in zeroed memory. Aligned, so that none lies in two cache lines.
#[derive(Default)]
#[repr(C)]
#[cfg_attr(not(loom), repr(align(32)))]
pub struct FrameMeta {
    /// The references to the block. A private folio that is mapped: its account ([`crate::own`]),
    /// which may use the words of the tails, too. Anything else: a plain count in the first word, 0
    /// when free.
    words: AccountWords,
    /// Bits 0..8 the kind, 8..16 the order, then the flags.
    state: AtomicU32,
    /// Page table: [`TableFrame::live`]. Page of private memory, head or tail:
    /// [`views::AnonPage::pins`]. 0 otherwise.
    count: AtomicU32,
    /// Free block, or first tail of a folio on the queue of deferred splits: [`Links`]. Private
    /// folio: [`views::AnonFolio::index`] and its slots. Page table: [`TableFrame::note`]. Slots:
    /// [`views::Slot::word`].
    place: AtomicU64,
}

impl FrameMeta {
    /// What the frame is used for.
    #[inline]
    pub fn kind(&self) -> Kind {
        Kind::from_bits(self.state.load(Ordering::Relaxed))
    }
    /// log2 of the frames in the block that this frame is the head of.
    #[inline]
    pub fn order(&self) -> Order {
        Order((self.state.load(Ordering::Relaxed) >> 8) as u8)
    }
    /// The words of a private folio's account, of a frame that may have another use by now.
    #[inline]
    pub(crate) fn former_words(&self) -> &AccountWords {
        &self.words
    }
    /// Where a private folio was mapped, of a frame that may have another use by now.
    #[inline]
    pub(crate) fn former_index(&self) -> Vpn {
        views::index_of(self.place.load(Ordering::Relaxed))
    }
    /// The place of a private folio's slots in the frame table, if it has any, of a frame that may
    /// have another use by now.
    pub(crate) fn former_slots(&self) -> Option<u32> {
        views::slots_of(self.place.load(Ordering::Relaxed))
    }
    /// The order of a block of this kind; `None`: it is another.
    #[inline]
    pub(crate) fn order_of(&self, kind: Kind) -> Option<Order> {
        let state = self.state.load(Ordering::Relaxed);
        (state as u8 == kind as u8).then_some(Order((state >> 8) as u8))
    }
    /// Kind and order by one load.
    #[inline]
    pub(crate) fn kind_and_order(&self) -> (Kind, Order) {
        let state = self.state.load(Ordering::Relaxed);
        (Kind::from_bits(state), Order((state >> 8) as u8))
    }
    /// The same, and whether it is a huge page in use.
    #[inline(always)]
    pub(crate) fn kind_order_hugetlb(&self) -> (Kind, Order, bool) {
        let state = self.state.load(Ordering::Relaxed);
        let (kind, order) = (Kind::from_bits(state), Order((state >> 8) as u8));
        (kind, order, state & HUGETLB != 0)
    }
    /// Whether it is the head of a block of this kind and order.
    #[inline]
    pub(crate) fn is(&self, kind: Kind, order: Order) -> bool {
        self.state.load(Ordering::Relaxed) & !FLAGS == kind as u32 | u32::from(order.0) << 8
    }
    /// Writes kind and order and clears the flags. For the owner of the frame only, for free frames
    /// the holder of the lock of its list.
    #[inline]
    pub fn set(&self, kind: Kind, order: Order) {
        self.write(kind, order, 0);
    }
    /// As [`Self::set`], for a free block in a CPU's list, or on its way there or out of it.
    #[inline]
    pub fn set_cached(&self, order: Order) {
        self.write(Kind::Free, order, CACHED);
    }
    /// Whether it is the head of such a block of this order.
    pub fn is_cached(&self, order: Order) -> bool {
        let state = self.state.load(Ordering::Relaxed) & !FLAGS;
        state == Kind::Free as u32 | u32::from(order.0) << 8 | CACHED
    }
    /// Whether it is the head of a free block in a zone.
    #[inline]
    pub fn is_free(&self) -> bool {
        self.is(Kind::Free, self.order())
    }
    /// Makes a block that a pool has a huge page in use, private memory or an object's; for the
    /// owner of the frame only.
    pub(crate) fn set_hugetlb(&self, kind: Kind, order: Order) {
        self.write(kind, order, HUGETLB);
    }
    /// Whether it is the head of a huge page in use. It is never split, nor on the queue of
    /// deferred splits.
    #[inline]
    pub fn is_hugetlb(&self) -> bool {
        self.flag(HUGETLB)
    }
    /// Marks a frame in use as one that is to be retired.
    pub(crate) fn set_hwpoison(&self) {
        self.set_flag(HWPOISON, true);
    }
    /// Whether it is so marked.
    pub fn is_hwpoison(&self) -> bool {
        self.flag(HWPOISON)
    }
    /// Whether it is out of use for good (`manager::hwpoison`).
    pub fn is_retired(&self) -> bool {
        self.kind() == Kind::Kernel && self.is_hwpoison()
    }
    /// Takes the mark away; returns whether it was there: of several callers one finds it.
    pub(crate) fn take_hwpoison(&self) -> bool {
        let old = self.state.fetch_and(!HWPOISON, Ordering::Relaxed);
        old & HWPOISON != 0
    }
    /// Marks a huge page in use as one with such a frame.
    pub(crate) fn set_has_hwpoison(&self) {
        self.set_flag(HAS_HWPOISON, true);
    }
    /// Whether it is a huge page with such a frame.
    pub(crate) fn has_hwpoison(&self) -> bool {
        self.flag(HAS_HWPOISON)
    }
    /// Notes that a call reads or writes the object's folio.
    pub(crate) fn set_used(&self) {
        if !self.flag(USED) {
            self.set_flag(USED, true);
        }
    }
    /// Whether one did since this was asked last.
    pub(crate) fn was_used(&self) -> bool {
        let used = self.flag(USED);
        self.set_flag(USED, false);
        used
    }
    /// Sets the word of state. In line: what is constant becomes one store.
    #[inline(always)]
    fn write(&self, kind: Kind, order: Order, flags: u32) {
        // Without the poison of debug builds there is nothing to keep.
        let poisoned = if cfg!(debug_assertions) {
            self.state.load(Ordering::Relaxed) & POISONED
        } else {
            0
        };
        self.state.store(
            kind as u32 | u32::from(order.0) << 8 | flags | poisoned,
            Ordering::Relaxed,
        );
    }
    /// Whether the frame holds the poison pattern.
    pub(crate) fn poisoned(&self) -> bool {
        self.flag(POISONED)
    }
    /// Notes whether the frame holds the poison pattern.
    pub(crate) fn set_poisoned(&self, on: bool) {
        self.set_flag(POISONED, on);
    }

    /// How many references there are, where they are counted plainly: not of private folios that
    /// are mapped. Acquire pairs with the release in `put_refs`: a reader of 1 also sees what the
    /// other owners wrote to the page before they dropped theirs.
    #[inline]
    pub fn refs(&self) -> u64 {
        self.words.lo().load(Ordering::Acquire)
    }
    /// One more reference; the caller has one already or holds the lock of one that does.
    #[inline]
    pub(crate) fn get_ref(&self) {
        let old = self.words.lo().fetch_add(1, Ordering::Relaxed);
        debug_assert!(old != 0, "a reference to a frame that had none: {self:?}");
    }
    /// `n` more; as [`Self::get_ref`].
    pub(crate) fn get_refs(&self, n: u64) {
        let old = self.words.lo().fetch_add(n, Ordering::Relaxed);
        debug_assert!(old != 0, "references to a frame that had none: {self:?}");
    }
    /// `n` references less; returns whether they were the last. Release pairs with the acquire in
    /// `refs` and with the acquire here of the last drop, which frees the page.
    #[inline]
    pub(crate) fn put_refs(&self, n: u64) -> bool {
        let old = self.words.lo().fetch_sub(n, Ordering::AcqRel);
        assert!(
            old >= n,
            "{n} references are dropped and there were {old}: {self:?}"
        );
        old == n
    }
    /// One reference less; returns whether it was the last.
    #[inline]
    pub(crate) fn put_ref(&self) -> bool {
        self.put_refs(1)
    }
    /// Writes the number of references; only the one owner of a new or just split block may.
    #[inline]
    pub(crate) fn set_refs(&self, n: u64) {
        self.words.lo().store(n, Ordering::Relaxed);
    }

    /// Whether the private folio is on the queue of deferred splits; `false` for any other block.
    #[inline]
    pub fn deferred(&self) -> bool {
        self.flag(DEFERRED)
    }
    /// Whether the private folio holds copies of which only one page was asked for; `false` for any
    /// other block.
    #[inline]
    pub(crate) fn copied_around(&self) -> bool {
        self.flag(COPIED_AROUND)
    }
    /// Marks a private folio as on the queue of deferred splits, under the queue's lock; `false`:
    /// it is there already, or its frames are no private folio of this order, or will not be one
    /// for long. The caller need not have a reference: whether it is one, and the mark, are one
    /// step.
    pub fn defer(&self, order: Order) -> bool {
        let folio = Kind::Anon as u32 | u32::from(order.0) << 8;
        let mark = |state: u32| {
            let waits = state & !COPIED_AROUND == folio;
            waits.then_some(state | DEFERRED)
        };
        // Relaxed: all else that belongs to the queue is under its lock.
        let (order, failed) = (Ordering::Relaxed, Ordering::Relaxed);
        self.state.fetch_update(order, failed, mark).is_ok()
    }
    /// Ends a private folio, which its last owner is about to free or to split; returns whether it
    /// is on the queue of deferred splits. From now on it does not join.
    #[inline]
    pub fn end(&self, order: Order) -> bool {
        let ended = Kind::Anon as u32 | u32::from(order.0) << 8 | ENDED;
        // Relaxed, as in `defer`: one word decides which of the two comes first.
        self.state.swap(ended, Ordering::Relaxed) & DEFERRED != 0
    }
    /// Makes the frame the head of a part of a private folio that has ended, and the part ended,
    /// too: it does not join the queue, although a CPU without a reference may still try, by the
    /// head that folio and part have in common. The part may be split once more, or become a folio
    /// by [`FrameMeta::set`]: plain stores, which would lose the mark.
    pub fn set_ended(&self, order: Order) {
        self.write(Kind::Anon, order, ENDED);
    }
    /// Panics with what is wrong with a free of the block at `pfn`, and with the frame's state.
    #[cold]
    #[inline(never)]
    pub(super) fn bad_free(&self, pfn: Pfn, kind: Kind, order: Order) -> ! {
        let what = match self.kind() {
            Kind::Free => "is free already",
            Kind::Reserved => "is not the first frame of a block",
            _ if self.is_retired() => "is out of use",
            found if found != kind => "is used otherwise",
            _ if self.order() != order => "has another order",
            _ => "has other references than the one that is dropped",
        };
        panic!(
            "{pfn:?}, freed as {kind:?} of order {}, {what}: {self:?}",
            order.0
        )
    }
    #[inline]
    fn flag(&self, flag: u32) -> bool {
        self.state.load(Ordering::Relaxed) & flag != 0
    }
    fn set_flag(&self, flag: u32, on: bool) {
        // Other flags may change at the same time.
        match on {
            true => self.state.fetch_or(flag, Ordering::Relaxed),
            false => self.state.fetch_and(!flag, Ordering::Relaxed),
        };
    }
}

impl fmt::Debug for FrameMeta {
    /// The state in the words of a panic message.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // In shuttle's models others run at each atomic; while a panic is reported none may.
        if cfg!(shuttle) && crate::sync::panicking() {
            return f.write_str("a frame");
        }
        match self.is_cached(self.order()) {
            true => f.write_str("Cached")?,
            false => write!(f, "{:?}", self.kind())?,
        }
        write!(f, ", order {}", self.order().0)?;
        let word = self.words.lo().load(Ordering::Relaxed);
        match self.kind() {
            Kind::Anon | Kind::Swap => write!(f, ", account {word:#x}")?,
            _ => write!(f, ", {word} references")?,
        }
        f.write_str(if self.deferred() { ", deferred" } else { "" })
    }
}

#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(
    size_of::<FrameMeta>() <= 32,
    "the frame table's budget is 32 bytes a frame"
);
