//! Two slots for the address spaces that map a folio, in the manner of Linux 6.15, from its
//! published description: exact while at most two of them do. A third one is only part of the total
//! mapcount, so while it maps the folio, the folio may be shared.
//!
//! ```text
//!     head, first word: references          second word: slot A, and the bits LOCK and SHARED
//!     part 1, first word: total mapcount    second word: slot B          a slot: the id above the count of its mappings
//! ```
//! Order 0 has only a plain count.
//!
//! An update takes the bit lock and finds the MM's slot, or a free one; when both belong to others,
//! only the total changes. SHARED ("maybe mapped shared") is set when a mapping comes whose MM does
//! not have all of them, and stays until one slot has all of them when a mapping goes. An MM
//! without a slot never gets the folio for itself, even when it is the last one: no slot has its
//! mappings.
//!
//! References are counted before a mapping comes and dropped after it is gone, as in
//! [`crate::Digits`].

use crate::count::references;
use crate::counted::Counted;
use crate::sync::{self, AtomicU64, Ordering};
use crate::{Book, MmId, Owner, Part, sums};

/// The scheme.
#[derive(Clone, Copy, Default, Debug)]
pub struct TwoSlot;

/// The bit lock: the slots are being updated.
const LOCK: u64 = 1 << 63;
/// The folio may be mapped by more than one.
const SHARED: u64 = 1 << 62;
/// The id in a slot begins here.
const ID_AT: u32 = 46;
const COUNT: u64 = (1 << ID_AT) - 1;

/// Slot A, with the two bits.
fn head(book: &impl Book) -> &AtomicU64 {
    book.words(0).hi()
}

/// One slot: an MM and how many mappings it has.
#[derive(Clone, Copy, Default)]
struct Slot {
    id: u16,
    count: u64,
}

impl Slot {
    #[inline]
    fn from_bits(bits: u64) -> Slot {
        Slot {
            id: (bits >> ID_AT) as u16 & MmId::COMMON.0,
            count: bits & COUNT,
        }
    }
    /// A slot without mappings is free and all zero.
    #[inline]
    fn bits(self) -> u64 {
        match self.count {
            0 => 0,
            count => u64::from(self.id) << ID_AT | count,
        }
    }
}

/// What the lock covers. Unlocks, with what was changed, on [`Slots::unlock`].
struct Slots<'a, B: Book> {
    book: &'a B,
    slots: [Slot; 2],
    total: u64,
    shared: bool,
}

impl<'a, B: Book> Slots<'a, B> {
    fn lock(book: &'a B) -> Self {
        let mut a = head(book).load(Ordering::Relaxed);
        loop {
            // Acquire pairs with the release in `unlock`.
            let open = a & !LOCK;
            match head(book).compare_exchange(
                open,
                open | LOCK,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => break a = open,
                Err(now) => a = now,
            }
            sync::pause();
        }
        let part = book.words(1);
        let b = part.hi().load(Ordering::Relaxed);
        Slots {
            book,
            slots: [a, b].map(Slot::from_bits),
            total: part.lo().load(Ordering::Relaxed),
            shared: a & SHARED != 0,
        }
    }

    fn unlock(self) {
        let part = self.book.words(1);
        part.lo().store(self.total, Ordering::Relaxed);
        part.hi().store(self.slots[1].bits(), Ordering::Relaxed);
        let shared = if self.shared { SHARED } else { 0 };
        // Release pairs with the acquire in `lock`.
        head(self.book).store(self.slots[0].bits() | shared, Ordering::Release);
    }

    /// The slot of an MM, if it has one.
    fn of(&mut self, who: &Owner) -> Option<&mut Slot> {
        self.slots
            .iter_mut()
            .find(|s| s.count != 0 && s.id == who.id)
    }

    fn add(&mut self, who: &Owner, n: u64) {
        self.total += n;
        let total = self.total;
        let slot = match self.of(who) {
            Some(slot) => Some(slot),
            None => self.slots.iter_mut().find(|s| s.count == 0),
        };
        let has = slot.map(|slot| {
            *slot = Slot {
                id: who.id,
                count: slot.count + n,
            };
            slot.count
        });
        self.shared |= has != Some(total);
    }

    fn sub(&mut self, who: &Owner, n: u64) {
        self.total -= n;
        let total = self.total;
        if let Some(slot) = self.of(who) {
            // It may have been without a slot when some of its mappings came.
            slot.count = slot.count.saturating_sub(n);
        }
        if self.slots.iter().any(|s| s.count == total) {
            self.shared = false;
        }
    }
}

impl TwoSlot {
    /// `n` mappings of `from` become `to`'s; where one of them is plain, they come or go. Returns
    /// the read-modify-writes.
    fn change(&self, book: &impl Book, from: &Owner, to: &Owner, n: u32) -> u32 {
        if from.id == to.id {
            return 0;
        }
        let mut slots = Slots::lock(book);
        if from.id != 0 {
            slots.sub(from, n.into());
        }
        if to.id != 0 {
            slots.add(to, n.into());
        }
        slots.unlock();
        1
    }
}

impl Counted for TwoSlot {
    #[inline]
    fn begin(&self, book: &impl Book, who: &Owner, part: Part) {
        let slot = Slot {
            id: who.id,
            count: u64::from(part.n) * who.mapped(),
        };
        head(book).store(slot.bits(), Ordering::Relaxed);
        book.words(1).lo().store(slot.count, Ordering::Relaxed);
        book.words(1).hi().store(0, Ordering::Relaxed);
    }

    #[inline(always)]
    fn enter(&self, book: &impl Book, who: &Owner, part: Part) -> u32 {
        self.change(book, &Owner::PLAIN, who, part.n)
    }

    #[inline(always)]
    fn leave(&self, book: &impl Book, who: &Owner, part: Part) -> u32 {
        self.change(book, who, &Owner::PLAIN, part.n)
    }

    #[inline]
    fn pass(&self, book: &impl Book, from: &Owner, to: &Owner, n: u32) -> u32 {
        self.change(book, from, to, n)
    }

    fn all_are(&self, book: &impl Book, who: &Owner, plain: u64) -> bool {
        let rest = || references(book).get().wrapping_sub(plain);
        let all = rest();
        if all > book.order().pages() || head(book).load(Ordering::Relaxed) & SHARED != 0 {
            return false;
        }
        let mut slots = Slots::lock(book);
        let total = slots.total;
        let its = slots.of(who).is_some_and(|slot| slot.count == total);
        let exclusive = its && rest() == total;
        slots.unlock();
        exclusive
    }

    fn agrees(&self, book: &impl Book, held: &[(Owner, u64)]) -> bool {
        let slots = Slots::lock(book);
        let total = slots.total;
        let known = |slot: &Slot| {
            let its = held.iter().find(|(who, _)| who.id == slot.id);
            slot.count == 0 || its.is_some_and(|(_, n)| slot.count <= *n)
        };
        let agrees = slots.slots.iter().all(known);
        slots.unlock();
        agrees && total == sums(held).1
    }
}
