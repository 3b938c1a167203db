//! MADV_HWPOISON and MADV_SOFT_OFFLINE: pages go out of use for good, as if their memory had
//! failed, or were about to (hwpoison.rst).
//!
//! There is no reverse map: a private page is looked for in each space of the family, that of an
//! object in each that maps the object, as when a file is truncated. A private page that is lost
//! leaves poison in the place of its entries, a lost page of an object is remembered there
//! ([`crate::object`]). A private page that is moved stays that of all who have it
//! ([`crate::reshape`], `migrate`); a private huge page has a copy in each space.

use crate::addr::{Order, PAGE_SIZE, Pfn, VirtAddr, VirtRange};
use crate::arch::{Machine, PhysMem};
use crate::fault::Resolution;
use crate::folio::Folio;
use crate::frame::zone::Reserve;
use crate::frame::{Block, Kind};
use crate::manager::{Mm, Result};
use crate::object::Object;
use crate::reshape::{Folios, Move};
use crate::space::{AddressSpace, Error, Inner, Locked, Offline, Pages, gathered};
use crate::stat::Event;
use crate::table::{Cursor, Zap};
use crate::vma::VmaFlags;
use alloc::sync::Arc;

/// How often all spaces are asked: a fork may have copied an entry to a space that was asked
/// before.
const ROUNDS: usize = 3;

/// A page that is to go out of use.
struct Victim<M: Machine> {
    page: Pfn,
    head: Pfn,
    order: Order,
    /// Where an object has it, by single pages; `None` for a private one, to which there is a plain
    /// reference unless it is a single page that is moved.
    place: Option<(Arc<Object<M>>, u64)>,
}

impl<M: Machine> AddressSpace<M> {
    /// Takes the page at `at` out of use; returns the size of the folio that it was of. EFAULT: no
    /// page is there; EHWPOISON: its memory has failed already; EBUSY: it is the page of zeros, or
    /// others have it, too, so that its folio cannot be split or its contents not be moved; ENOMEM.
    pub fn offline(&self, at: VirtAddr, how: Offline) -> Result<u64, Error> {
        let (mut victim, size) = self.victim(at, how)?;
        victim.split()?;
        match (&victim.place, how) {
            (None, Offline::Hard) => victim.lose(self),
            (None, Offline::Soft) if victim.order == Order(0) => self.mm.retire_moved(victim.page),
            (None, Offline::Soft) => victim.leave(self),
            (Some((object, index)), Offline::Hard) => self.lose_page(&victim, object, *index),
            (Some((object, index)), Offline::Soft) => self.move_page(&victim, object, *index),
        }
        .map(|()| size.bytes())
    }

    /// The page at `at`, faulted in as for a user's read, and the order of its folio, which is
    /// split to single pages.
    fn victim(&self, at: VirtAddr, how: Offline) -> Result<(Victim<M>, Order), Error> {
        let found = self.with_page(at, |inner, page| {
            let mm = inner.mm();
            let Block { head, kind, order } = mm.frames().folio(page);
            let huge = mm.frames().get(head).is_hugetlb();
            let place = match kind {
                Kind::Object => inner.vmas.find(at).and_then(|slot| {
                    let (object, index) = inner.vmas.get(slot).object_page(at)?;
                    Some((object.owner_of_pages(), index))
                }),
                _ => None,
            };
            let victim = |head, order| Victim {
                page,
                head,
                order,
                place,
            };
            match kind {
                Kind::Object => Ok((victim(head, order), order)),
                Kind::Anon if huge => {
                    mm.add_plain(head, order);
                    Ok((victim(head, order), order))
                }
                Kind::Anon => {
                    let leaf = inner.root().lookup(at.align_down(PAGE_SIZE));
                    if !leaf.is_some_and(|leaf| inner.split_around(&leaf)) {
                        return Err(Error::Busy);
                    }
                    if how == Offline::Hard {
                        mm.add_plain(page, Order(0));
                    }
                    Ok((victim(page, Order(0)), order))
                }
                _ => Err(Error::Busy),
            }
        });
        found.map_err(refused)?
    }

    /// A page of an object that is lost.
    fn lose_page(
        &self,
        victim: &Victim<M>,
        object: &Arc<Object<M>>,
        index: u64,
    ) -> Result<(), Error> {
        let page = object.fail(index, victim.page)?;
        let page = page.map_err(|()| Error::Busy)?;
        let gone = Pages {
            moves: false,
            ..Pages::around(object, index)
        };
        object.for_each_mapper(&mut |space| space.zap(&gone));
        match page.map(Folio::into_pfn) {
            Some(page) if !self.mm.retire(page) => Err(Error::Busy),
            _ => Ok(()),
        }
    }

    /// A page of an object that is moved.
    fn move_page(
        &self,
        victim: &Victim<M>,
        object: &Arc<Object<M>>,
        index: u64,
    ) -> Result<(), Error> {
        for _ in 0..ROUNDS {
            let moves = Pages::around(object, index);
            object.for_each_mapper(&mut |space| space.zap(&moves));
            let Some(old) = object.migrate(index, victim.page)? else {
                continue;
            };
            self.mm.mark_hwpoison(victim.page);
            if victim.order == Order(0) {
                self.mm.retire(old.into_pfn());
            } else {
                old.free(&self.mm);
            }
            return Ok(());
        }
        Err(Error::Busy)
    }

    /// Takes a private folio, to which there is another reference, from this space.
    fn give_up(&self, head: Pfn, how: Offline) -> Result {
        // With the claim: a child whose VMAs are copied already would have a marker in one that
        // says that there is none. Its fork ends first, and it is asked, too.
        let mut inner = self.areas_at_last();
        let Some(at) = inner.find_folio(head) else {
            return Ok(());
        };
        inner.edit(|edit| edit.unshare(at, Reserve::User))?;
        let order = inner.mm().frames().get(head).order();
        match how {
            Offline::Hard => inner.poison(VirtRange::new(at, at + order.bytes())),
            Offline::Soft => inner.copy_huge_page(at, head, order),
        }
    }
}

/// The error for a page that no read reaches.
fn refused(why: Resolution) -> Error {
    match why {
        Resolution::Poisoned(_) => Error::HwPoison,
        Resolution::NoMem => Error::NoMem,
        Resolution::Claimed => Error::Interrupted,
        _ => Error::Fault,
    }
}

impl<M: Machine> Victim<M> {
    /// Makes a page of an object's large folio a single one.
    fn split(&mut self) -> Result<(), Error> {
        for _ in 0..ROUNDS {
            let Some((object, index)) = &self.place else {
                return Ok(());
            };
            if object.huge_order().is_some() || self.order == Order(0) {
                return Ok(());
            }
            let Some(folio) = object.folio_at(*index) else {
                (self.head, self.order) = (self.page, Order(0));
                return Ok(());
            };
            let folio = Pages {
                splits: true,
                ..Pages::new(object, folio)
            };
            object.for_each_mapper(&mut |space| space.zap(&folio));
        }
        Err(Error::Busy)
    }

    /// A private page that is lost.
    fn lose(&self, space: &AddressSpace<M>) -> Result<(), Error> {
        let mm = &space.mm;
        mm.mark_hwpoison(self.page);
        let left = self.unmap(space, Offline::Hard);
        match self.order {
            Order(0) if !mm.retire(self.page) => left.and(Err(Error::Busy)),
            Order(0) => left,
            _ => {
                self.put(space);
                left
            }
        }
    }

    /// A private huge page that is moved. Pins would keep the old one.
    fn leave(&self, space: &AddressSpace<M>) -> Result<(), Error> {
        let mm = &space.mm;
        let left = match space.id.family.pins() {
            0 => self.unmap(space, Offline::Soft),
            _ => Err(Error::Busy),
        };
        let is_left = left.is_ok() && mm.references(self.head) == 1;
        if is_left {
            mm.mark_hwpoison(self.page);
        }
        self.put(space);
        left.and(is_left.then_some(()).ok_or(Error::Busy))
    }

    /// Takes the page from this space and, if others have it, too, from every one.
    fn unmap(&self, space: &AddressSpace<M>, how: Offline) -> Result<(), Error> {
        let mut result = space.give_up(self.head, how);
        let ends = |result: &Result<_, _>| result.is_err() || space.mm.references(self.head) == 1;
        for _ in 0..ROUNDS {
            if ends(&result) {
                break;
            }
            space.for_each_relative(&mut |space| {
                if !ends(&result) {
                    result = space.give_up(self.head, how);
                }
            });
        }
        Ok(result?)
    }

    /// Drops the reference.
    fn put(&self, space: &AddressSpace<M>) {
        if space.mm.sub_plain(self.head, self.order) {
            space.mm.free(&[self.head]);
        }
    }
}

impl<M: Machine> Locked<'_, M> {
    /// Puts poison in the place of a private page.
    fn poison(&mut self, range: VirtRange) -> Result {
        let Some(slot) = self.vmas.find(range.start) else {
            return Ok(());
        };
        let (mm, mut zap) = (self.mm(), Zap::default());
        let edited = mm.urgently(|| {
            self.edit(|edit| {
                edit.zap_for_markers(range, true, &mut zap)?;
                edit.poison(range)
            })
        });
        let Inner { vmas, rss, .. } = &mut **self;
        rss.sub(vmas.get(slot), &zap);
        edited?;
        vmas.get_mut(slot).flags |= VmaFlags::POISONED;
        Ok(())
    }

    /// Copies a private huge page that is mapped at `at` to another one, which takes its place.
    fn copy_huge_page(&mut self, at: VirtAddr, head: Pfn, order: Order) -> Result {
        let (mm, id) = (self.mm(), self.id());
        let Inner { table, .. } = &mut **self;
        let mut cursor = Cursor::new(mm, table, at);
        let Some(leaf) = cursor.leaf() else {
            return Ok(());
        };
        let new = Folio::from_pfn(mm.take_huge(order, Kind::Anon, false)?);
        gathered(mm, id, |gather| {
            cursor.edit(gather).take_huge_page();
            // What was written before the flush is copied, and nothing is written after it.
            gather.flush();
            mm.count(Event::Copied, order.pages());
            mm.machine().mem().copy(head, new.pfn(), order);
            cursor.install_huge(new, leaf.attrs, &id.owner);
        });
        Ok(())
    }
}

/// Frames for a page that goes out of use.
struct Retired<'a, M: Machine> {
    mm: &'a Mm<M>,
    /// There are none.
    short: bool,
}

impl<M: Machine> Move for Retired<'_, M> {
    fn frames(&mut self, order: Order) -> Option<Pfn> {
        let frames = self.mm.alloc(order, Kind::Anon, Reserve::User).ok();
        self.short |= frames.is_none();
        frames
    }
    fn left(&mut self, head: Pfn, _: Order) {
        self.mm.retire_unused(head);
    }
}

impl<M: Machine> Mm<M> {
    /// Moves a single private page, whose frame goes out of use.
    fn retire_moved(&self, page: Pfn) -> Result<(), Error> {
        let mut retired = Retired {
            mm: self,
            short: false,
        };
        let mut folios = Folios::new();
        folios.push(self.folio_to_move(page, Order(0)));
        match self.move_folios(&mut folios, &mut retired) {
            true => Ok(()),
            false if retired.short => Err(Error::NoMem),
            false => Err(Error::Busy),
        }
    }
}
