//! Pages of objects that nobody maps, pins or reads go to swap slots, and come back with who looks
//! at them ([`crate::manager`]).

use super::{Object, ObjectPages};
use crate::addr::{Order, Pfn};
use crate::arch::{Machine, PhysMem};
use crate::frame::Block;
use crate::frame::slots::{UNIT, Which};
use crate::manager::{Mm, OutOfMemory, Result};
use crate::mutant::{self, Mutant};
use crate::thp::shmem::indices;
use alloc::sync::Arc;
use core::ops::Range;

/// What an object has at an index: a frame, with a reference of its folio, or a swap slot, with a
/// name of it. A word, as there is one for each page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Held(u64);

/// This bit says that it is a slot.
const IN_SLOT: u64 = 1 << 63;

impl Held {
    pub fn slot(slot: Pfn) -> Held {
        Held(slot.0 | IN_SLOT)
    }
    /// The frame, unless it is in a slot.
    pub fn frame(self) -> Option<Pfn> {
        (self.0 & IN_SLOT == 0).then_some(Pfn(self.0))
    }
    /// The frame; else the slot.
    pub fn place(self) -> Result<Pfn, Pfn> {
        self.frame().ok_or(Pfn(self.0 & !IN_SLOT))
    }
}

impl From<Pfn> for Held {
    fn from(frame: Pfn) -> Held {
        Held(frame.0)
    }
}

impl ObjectPages {
    /// How many of these indices have `first` and what lies behind it, side by side: those that are
    /// left of a folio or of slots.
    pub(super) fn left_of(&self, range: &Range<u64>, first: Held) -> u64 {
        let is_there = |(at, held): &(&u64, &Held)| held.0 == first.0 + (**at - range.start);
        self.pages.range(range.clone()).filter(is_there).count() as u64
    }
    /// Puts `to` and what lies behind it there instead.
    fn exchange(&mut self, range: &Range<u64>, first: Held, to: Held) {
        for (at, held) in self.pages.range_mut(range.clone()) {
            let n = at - range.start;
            if held.0 == first.0 + n {
                *held = Held(to.0 + n);
            }
        }
    }
}

/// Pages that are looked at in a step, under the object's lock.
pub(super) const LOOKED_AT: usize = 64;

impl<M: Machine> Object<M> {
    /// How many of these pages are in slots.
    pub(crate) fn in_slots(&self, indices: Range<u64>) -> u64 {
        let inner = self.inner.lock();
        let pages = inner.pages.range(indices).map(|(_, held)| held.frame());
        pages.filter(Option::is_none).count() as u64
    }

    /// Reclaim and compaction find it from now on, as it gets its first page.
    pub(super) fn list(&self, inner: &mut ObjectPages) -> Result {
        if inner.number != 0 {
            return Ok(());
        }
        let number = self.mm.objects().take();
        self.mm.objects().list(number, self.me.clone())?;
        inner.number = number;
        Ok(())
    }

    /// Puts pages of a range of indices in swap slots that nobody maps or pins, until `want` are;
    /// of [`Which::Cold`] those that no call has read or written since this was asked last. One
    /// step, which leaves the rest of the range. Returns how many.
    pub(crate) fn shelve_step(&self, range: &mut Range<u64>, which: Which, want: u64) -> u64 {
        let mut inner = self.inner.lock();
        let (mut shelved, mut left) = (0, LOOKED_AT);
        if self.huge.is_some() || self.mm.slots().total() == 0 {
            range.start = range.end;
        }
        while shelved < want && left > 0 {
            // A folio may go on behind its end. Most pages are in slots, in the end.
            let rest = range.start.min(range.end)..range.end;
            let mut pages = inner.pages.range(rest).take(left);
            let next = pages.find_map(|(index, held)| {
                (range.start, left) = (index + 1, left - 1);
                Some((*index, held.frame()?))
            });
            let Some((index, page)) = next else {
                if left > 0 {
                    range.start = range.end;
                }
                break;
            };
            let folio = self.mm.frames().folio(page);
            let whole = indices(index, folio.order);
            let meta = self.mm.frames().get(folio.head);
            if which == Which::Cold && meta.was_used() {
                range.start = whole.end;
            } else if folio.order > UNIT && self.split_to(&inner, whole.clone(), UNIT) {
                range.start = index;
            } else {
                shelved += self
                    .shelve_folio(&mut inner, whole.clone(), &folio)
                    .unwrap_or(0);
                range.start = whole.end;
            }
        }
        shelved
    }
    /// Puts the folio with these indices in slots; `None`: it is in use, or there are none.
    fn shelve_folio(
        &self,
        inner: &mut ObjectPages,
        whole: Range<u64>,
        folio: &Block,
    ) -> Option<u64> {
        let there = inner.left_of(&whole, folio.head.into());
        // Whoever maps or pins one of its pages that is not mapped yet comes through this lock.
        let alone = self.mm.references(folio.head) == there || mutant::on(Mutant::ShelveMapped);
        let first = (alone && folio.order <= UNIT).then(|| self.mm.shelve(folio))??;
        inner.exchange(&whole, folio.head.into(), Held::slot(first));
        Some(there)
    }

    /// The frame of what is at an index.
    pub(super) fn frame_of(&self, inner: &mut ObjectPages, index: u64, held: Held) -> Result<Pfn> {
        match held.place() {
            Ok(frame) => Ok(frame),
            Err(slot) => self.bring(inner, index, slot),
        }
    }
    /// Brings the page at an index back from its slot, with those of its unit.
    #[cold]
    fn bring(&self, inner: &mut ObjectPages, index: u64, slot: Pfn) -> Result<Pfn> {
        let unit = self.mm.bring(slot)?;
        let first = index - (slot - unit.first);
        let range = first..first + unit.order.pages();
        let slots = Held::slot(unit.first);
        let head = self.mm.take_out(unit, inner.left_of(&range, slots));
        inner.exchange(&range, slots, head.into());
        inner.has_large |= unit.order != Order(0);
        Ok(head + (index - first))
    }
    /// Brings all pages of a range of indices back.
    pub(super) fn bring_all(&self, inner: &mut ObjectPages, range: Range<u64>) -> Result {
        let is_swapped = |(_, held): &(&u64, &Held)| held.frame().is_none();
        while let Some((&index, &held)) = inner.pages.range(range.clone()).find(is_swapped) {
            self.frame_of(inner, index, held)?;
        }
        Ok(())
    }
    /// The frame at an index, if it is no hole. Its page comes back alone, and may use all of the
    /// reserve: the rest of its unit stays stored as it is. `Err`: that is used up.
    pub(super) fn frame_at(&self, inner: &mut ObjectPages, index: u64) -> Result<Option<Pfn>> {
        let slot = match inner.pages.get(&index).map(|held| held.place()) {
            Some(Err(slot)) => slot,
            found => return Ok(found.and_then(Result::ok)),
        };
        let page = self.mm.copy_out(slot)?;
        inner.pages.insert(index, page.into());
        self.mm.drop_names(slot, 1);
        Ok(Some(page))
    }
    /// Reads bytes of the page at an index from an offset on.
    pub(super) fn read_page(
        &self,
        inner: &mut ObjectPages,
        index: u64,
        offset: u64,
        into: &mut [u8],
    ) {
        let Some(held) = inner.pages.get(&index).copied() else {
            return into.fill(0);
        };
        let frame = held.place().or_else(|slot| {
            let frame = self.bring(inner, index, slot);
            frame.map_err(|OutOfMemory| slot)
        });
        match frame {
            Ok(frame) => {
                self.note_use(frame);
                self.mm.machine().mem().read(frame.start() + offset, into)
            }
            // There is no memory for it.
            Err(slot) => self.mm.read_slot(slot, offset, into),
        }
    }
    /// A call reads or writes a page.
    pub(super) fn note_use(&self, frame: Pfn) {
        let head = self.mm.frames().head(frame);
        self.mm.frames().get(head).set_used();
    }

    /// Brings pages of a range of indices back. One step, which leaves the rest of the range.
    pub(crate) fn bring_step(&self, range: &mut Range<u64>) -> Result {
        let mut inner = self.inner.lock();
        for _ in 0..LOOKED_AT {
            let Some((&index, &held)) = inner.pages.range(range.clone()).next() else {
                range.start = range.end;
                break;
            };
            range.start = index + 1;
            if held.frame().is_none() {
                return self.frame_of(&mut inner, index, held).map(drop);
            }
        }
        Ok(())
    }
}

impl<M: Machine> Mm<M> {
    /// Calls `step` with each object that has, or had, a page, and with the indices that are left
    /// of it, until none is or it returns `false`: the next time it goes on there. Between steps
    /// nothing keeps the object: the caller holds no lock.
    pub(crate) fn for_each_object(
        &self,
        step: &mut dyn FnMut(&Object<M>, &mut Range<u64>) -> bool,
    ) {
        let (first, index) = self.hands(|hands| hands.object);
        for (mut at, is_rest) in [(first.saturating_sub(1), true), (0, false)] {
            let in_part = |number: &u64| is_rest || *number <= first;
            while let Some(number) = self.objects().after(at).filter(in_part) {
                let mut rest = match (number == first, is_rest) {
                    (true, true) => index..u64::MAX,
                    (true, false) => 0..index,
                    (false, _) => 0..u64::MAX,
                };
                while !rest.is_empty()
                    && let Some(Ok(object)) =
                        self.objects().get(number).flatten().map(Arc::downcast)
                {
                    let goes_on = step(&object, &mut rest);
                    drop(object);
                    if !goes_on {
                        return self.hands(|hands| hands.object = (number, rest.start));
                    }
                    self.machine().breathe();
                }
                at = number;
            }
        }
    }
}
