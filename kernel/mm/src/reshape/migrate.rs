//! Private folios get other frames, whoever maps them ([`crate::manager`], `migrate`).
//!
//! ```text
//!  space A: 16 PTEs ----> folio F        16 swap entries -> slots S -> F        16 PTEs ----> F'
//!  space B: 16 PTEs ----> folio F        16 swap entries -> slots S -> F        16 PTEs ----> F'
//!                                 park                     copied to F'  map again
//! ```
//! There is no reverse map: each space is asked, the one that the account names alone if it names
//! one. Spaces never wait for each other: who uses a folio meanwhile has it at once, where it was,
//! and it is not moved.

use crate::addr::{Order, PAGE_SIZE, Pfn, VirtAddr, VirtRange};
use crate::arch::{Attrs, Machine};
use crate::fault::Resolution;
use crate::frame::slots::{UNIT, Which};
use crate::frame::zone::Reserve;
use crate::manager::Mm;
use crate::own::MmId;
use crate::space::{AddressSpace, Locked, user_pages};
use crate::stat::Event;
use crate::table::{Budget, Parked, is_swapped};
use arrayvec::ArrayVec;

/// How many folios are moved at once.
const BATCH: usize = UNIT.pages() as usize;

/// A table that more spaces share is not copied for each of them, which parks its entries there.
const SHARERS: u64 = 2;

/// Folios that are moved at once.
pub(crate) type Folios = ArrayVec<Folio, BATCH>;

/// A private folio that is to be moved. Nobody has a reference to it for that: it may go.
pub(crate) struct Folio {
    head: Pfn,
    pub order: Order,
    /// Where its first page is mapped, or was.
    at: VirtAddr,
    /// The only space that maps it, if the account names one.
    owner: Option<MmId>,
    /// Some space has parked it, and might write to it before.
    parked: bool,
    writable: bool,
    /// More than [`SHARERS`] spaces map it by one table.
    stays: bool,
    moved: bool,
}

/// The folios that become of it, and where what they had goes.
pub(crate) trait Move {
    /// Frames for one of this order, with one reference, as of a fresh private folio.
    fn frames(&mut self, order: Order) -> Option<Pfn>;
    /// The frames of the folio that was moved are nobody's.
    fn left(&mut self, head: Pfn, order: Order);
}

impl<M: Machine> Mm<M> {
    /// The private folio of this order at `head`, to be moved.
    pub(crate) fn folio_to_move(&self, head: Pfn, order: Order) -> Folio {
        Folio {
            head,
            order,
            at: self.frames().get(head).former_index().start(),
            owner: self.owner(head),
            parked: false,
            writable: false,
            stays: false,
            moved: false,
        }
    }

    /// Moves folios; returns whether all were. Not those that are pinned or used meanwhile, nor
    /// those that are mapped elsewhere than they were. In steps: the caller holds no lock.
    pub(crate) fn move_folios(&self, folios: &mut Folios, how: &mut dyn Move) -> bool {
        // First as the account says. It names one space for all that share a table.
        for known in [true, false] {
            if folios.iter().all(|folio| folio.moved) {
                break;
            }
            self.for_each_living(&mut |space| space.park_folios(folios, known));
            for folio in folios.iter_mut().filter(|folio| !folio.moved) {
                self.move_folio(folio, how);
            }
        }
        self.for_each_living(&mut |space| {
            for folio in folios.iter() {
                space.map_again(folio);
            }
        });
        let pages = |moved| {
            let folios = folios.iter().filter(|folio| folio.moved == moved);
            folios.map(|folio| folio.order.pages()).sum()
        };
        let (moved, left) = (pages(true), pages(false));
        self.count_all([(Event::Migrated, moved), (Event::MigrateFailed, left)]);
        left == 0
    }

    /// Moves a folio if it is alone in its slots.
    fn move_folio(&self, folio: &mut Folio, how: &mut dyn Move) {
        let Folio { head, order, .. } = *folio;
        let Some(moving) = self.begin_to_move(head, order) else {
            return;
        };
        match how.frames(order) {
            Some(to) if self.move_to(&moving, to) => {
                how.left(head, order);
                (folio.head, folio.moved) = (to, true);
            }
            Some(to) => self.unused_frames(&[to]),
            None => self.stay(&moving),
        }
    }
}

impl<M: Machine> AddressSpace<M> {
    /// Parks the entries of folios that have not moved yet; only of those that this space alone
    /// maps, or nobody knows who, if that is `known`.
    fn park_folios(&self, folios: &mut Folios, known: bool) {
        let owner = self.id.owner.id();
        let is_lost = self.lock().park_folios(folios, known);
        if is_lost && known {
            // One that only this space maps has moved with its table.
            self.note_places();
            for folio in folios.iter_mut().filter(|folio| folio.owner == owner) {
                let meta = self.mm.frames().get(folio.head);
                folio.at = meta.former_index().start();
            }
            self.lock().park_folios(folios, known);
        }
    }

    /// Maps a folio again that was parked, wherever it is.
    fn map_again(&self, folio: &Folio) {
        let frames = self.mm.frames();
        let mut rest = match user_pages::<M>(folio.at, folio.order.bytes()) {
            Some(range) if folio.parked => range,
            _ => return,
        };
        while frames.get(folio.head).former_slots().is_some() && !rest.is_empty() {
            // The lock is not held any more when it is waited.
            let result = self.lock().map_again(folio, &mut rest);
            match result {
                Ok(()) => {}
                Err(why) if self.wait_for(why).is_ok() => {}
                Err(_) => return,
            }
        }
    }
}

impl<M: Machine> Locked<'_, M> {
    /// [`AddressSpace::park_folios`]; returns whether there are some of the space's own of which it
    /// found nothing.
    fn park_folios(&mut self, folios: &mut Folios, known: bool) -> bool {
        let (mut parts, mut is_lost) = (ArrayVec::<VirtRange, BATCH>::new(), false);
        let owner = self.id().owner.id();
        for folio in folios
            .iter_mut()
            .filter(|folio| !folio.moved && !folio.stays)
        {
            let is_own = folio.owner == owner;
            let range = user_pages::<M>(folio.at, folio.order.bytes());
            let Some(range) = range.filter(|_| !known || is_own || folio.owner.is_none()) else {
                continue;
            };
            let pages = self.mappings_in(range, folio.head, &mut |leaf| {
                folio.writable |= leaf.attrs.contains(Attrs::WRITE);
                folio.stays |= leaf.sharers > SHARERS;
            });
            if pages != 0 && !folio.stays {
                folio.parked = true;
                parts.push(range);
            }
            is_lost |= is_own && !folio.parked && !folio.stays;
        }
        let mut parked = Parked::default();
        // Out of memory for a table: the rest stays, and is not moved.
        let _ = self.edit(|edit| {
            parts.iter().try_for_each(|part| {
                let mut all = Budget::UNLIMITED;
                let rest = edit.park_some(*part, &mut all, Which::Moved, &mut parked);
                rest.map(drop)
            })
        });
        self.rss.swapped += parked.pages;
        is_lost
    }

    /// Maps the first page in `rest` again whose entry is one of the folio's, and what comes with
    /// it; leaves in `rest` what is behind it.
    fn map_again(&mut self, folio: &Folio, rest: &mut VirtRange) -> Result<(), Resolution> {
        let (mm, mut all) = (self.mm(), Budget::UNLIMITED);
        let found = match folio.order {
            Order(0) => Some(rest.start),
            _ => self.edit(|edit| edit.first_swapped(*rest, &mut all))?,
        };
        let Some(at) = found else {
            rest.start = rest.end;
            return Ok(());
        };
        let entry = self.root().lookup(at).filter(|leaf| is_swapped(leaf.attrs));
        let page = entry.and_then(|leaf| mm.parked(leaf.pfn));
        let end = folio.head + folio.order.pages();
        if page.is_some_and(|page| folio.head <= page && page < end) {
            if folio.order == Order(0) {
                self.edit(|edit| edit.unshare(at, Reserve::User))?;
            }
            self.bring_back(at, folio.writable)?;
        }
        rest.start = at + PAGE_SIZE;
        Ok(())
    }
}
