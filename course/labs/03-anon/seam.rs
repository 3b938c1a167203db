//! Lab 3: first touches of private memory by the student's code. Each step is checked before it is
//! done; a wrong one panics, in words that a student can go on with.

use super::fresh::fill;
use super::request::{Fault, Request, allowed, attrs};
use super::{Access, Resolution};
use crate::addr::{Order, PAGE_SIZE, Pfn, VirtAddr};
use crate::arch::{Attrs, Level, Machine, PteFormat};
use crate::folio::Folio;
use crate::frame::Kind;
use crate::frame::zone::Reserve;
use crate::manager::{Mm, OutOfMemory};
use crate::space::{AddressSpace, Inner, Locked, Rss, gathered};
use crate::stat::Event;
use crate::switch::Lab;
use crate::table::Cursor;
use crate::thp::policy::block;
use crate::thp::{ORDERS, PMD_ORDER, Stat};
use crate::tlb::Gather;
use crate::vma::Slot;
use labs::anon::referee::{self, Owner};
use labs::anon::{Entry, Folio as Frames, Memory, NoMemory, Page, Solution};

pub(super) const LAB: Lab = Lab::named("anon");

/// [`AddressSpace::fault`] by the student; `None`: the kernel resolves it.
#[inline(never)]
pub(super) fn fault<M: Machine>(space: &AddressSpace<M>, request: Request) -> Option<Resolution> {
    let result = by_student(&mut space.lock(), request)?;
    Some(result.err().unwrap_or(Resolution::Done))
}

/// Has the student do their part of [`Locked::resolve`], if there is one.
#[inline(never)]
pub(super) fn resolve<M: Machine>(
    locked: &mut Locked<'_, M>,
    request: Request,
) -> Result<(), Resolution> {
    by_student(locked, request).unwrap_or(Ok(()))
}

/// `None`: there is something else at the page than nothing, or the page of zeros that is to be
/// written.
fn by_student<M: Machine>(
    locked: &mut Locked<'_, M>,
    request: Request,
) -> Option<Result<(), Resolution>> {
    let write = request.access == Access::Write;
    let mut page = Given {
        va: request.addr.align_down(PAGE_SIZE),
        locked,
        request,
        gather: None,
    };
    let ours = match page.entry() {
        Entry::Absent => true,
        Entry::Zeros => write,
        Entry::Own | Entry::Gone => false,
    };
    let result = ours.then(|| referee::fault(&Solution, &mut page, write));
    Some(result?.map_err(|NoMemory| Resolution::NoMem))
}

/// The page that the student is given.
struct Given<'l, 'a, M: Machine> {
    locked: &'l mut Locked<'a, M>,
    request: Request,
    va: VirtAddr,
    /// What is to be flushed.
    gather: Option<Gather<'a, M>>,
}

impl<'a, M: Machine> Given<'_, 'a, M> {
    /// The area, if it is of private memory and allows the access.
    fn area(&self) -> Option<Slot> {
        let Request {
            addr,
            access,
            force,
            ..
        } = self.request;
        let slot = (addr < M::Pte::USER_END).then(|| self.locked.vmas.find(addr))??;
        let vma = self.locked.vmas.get(slot);
        (vma.changes_only_entries() && allowed(vma, access, force)).then_some(slot)
    }
    /// Calls `f` with the page's place in the tables, and its area.
    fn at<R>(&self, f: impl FnOnce(Cursor<'_, M>, Slot) -> R) -> Option<R> {
        let slot = self.area()?;
        // A copy of the root: nothing is changed by it.
        let mut table = self.locked.table.as_reader();
        Some(f(Cursor::new(self.locked.mm(), &mut table, self.va), slot))
    }
    /// The largest order of a folio here, up to `most`.
    fn largest(&self, cursor: &Cursor<'_, M>, slot: Slot, most: Order) -> Order {
        let (space, vma) = (self.locked.space, self.locked.vmas.get(slot));
        Fault::new(space, self.request, most, vma, &mut Rss::default()).order(cursor)
    }
    /// The tables for a page of this order.
    fn prepared(&mut self, order: Order) -> Result<(Cursor<'_, M>, Attrs), NoMemory> {
        let slot = self.area().ok_or(NoMemory)?;
        let space = self.locked.space;
        let Inner { vmas, table, .. } = &mut **self.locked;
        if self.request.access == Access::Write && !vmas.get(slot).has_anon {
            vmas.prepare_write(slot);
        }
        let attrs = attrs(vmas.get(slot), self.request.access);
        let mut cursor = Cursor::new(&space.mm, table, self.va);
        let level = match order {
            PMD_ORDER => Level::Pmd,
            _ => Level::Pte,
        };
        cursor.prepare(level).map_err(|OutOfMemory| NoMemory)?;
        Ok((cursor, attrs))
    }
}

impl<M: Machine> Page for Given<'_, '_, M> {
    fn entry(&self) -> Entry {
        let zeros = self.locked.mm().zero_page();
        let entry = self.at(|cursor, _| match cursor.leaf() {
            None if cursor.is_shared() => Entry::Gone,
            None => Entry::Absent,
            // Markers map the page of zeros, too, and nothing may be put in their place.
            Some(leaf) if leaf.attrs.contains(Attrs::MARKER) => Entry::Gone,
            Some(leaf) if leaf.pfn == zeros => Entry::Zeros,
            Some(_) => Entry::Own,
        });
        entry.unwrap_or(Entry::Gone)
    }
    fn order(&self, most: u8) -> u8 {
        let most = Order(most.min(PMD_ORDER.0));
        let absent = self.entry() == Entry::Absent;
        let order = || self.at(|cursor, slot| self.largest(&cursor, slot, most).0);
        absent.then(order).flatten().unwrap_or(0)
    }
    fn open(&mut self, work: &mut dyn FnMut(&mut dyn Memory)) {
        let ((), undisturbed) = self.locked.open(|mm| work(&mut Open(mm)));
        if !undisturbed {
            self.locked.mm().count(Event::FaultRetry, 1);
        }
    }
    fn map_zeros(&mut self) -> Result<(), NoMemory> {
        let (mut cursor, attrs) = self.prepared(Order(0))?;
        cursor.install_zero_page(attrs);
        self.locked.mm().count(Event::ZeroPage, 1);
        Ok(())
    }
    fn map(&mut self, folio: Frames) -> Result<(), NoMemory> {
        let (mm, id, order) = (self.locked.mm(), self.locked.id(), Order(folio.order));
        let (mut cursor, attrs) = self.prepared(order)?;
        if order == PMD_ORDER {
            // What blocks a PMD leaf: an empty table.
            gathered(mm, id, |gather| cursor.edit(gather).remove_empty_table());
        }
        let folio = Folio::from_pfn(Pfn(folio.frame));
        fill(&mut cursor, folio, order, attrs, id);
        Ok(())
    }
    fn unmap(&mut self) {
        let mm = self.locked.mm();
        let mut gather = self.locked.gather();
        let mut cursor = Cursor::new(mm, &mut self.locked.table, self.va);
        cursor.edit(&mut gather).take();
        self.gather = Some(gather);
        mm.count(Event::CowCopied, 1);
    }
    fn flush(&mut self) {
        if let Some(mut gather) = self.gather.take() {
            gather.finish();
        }
    }
    fn free(&mut self, folio: Frames) {
        Folio::from_pfn(Pfn(folio.frame)).free(self.locked.mm());
    }
    fn count(&mut self, pages: u64) {
        self.locked.rss.add_anon(pages);
    }
}

impl<M: Machine> Owner for Given<'_, '_, M> {
    fn address(&self) -> u64 {
        self.va.0
    }
    fn fits(&self, order: u8) -> bool {
        let place = block(self.va, Order(order));
        let fits = |cursor: Cursor<'_, M>, slot| {
            let range = self.locked.vmas.get(slot).range;
            let empty = order < PMD_ORDER.0 || cursor.pmd_is_empty();
            empty && range.covers(&place) && cursor.hole(place) == place
        };
        self.entry() == Entry::Absent && self.at(fits).unwrap_or(false)
    }
}

/// What the student does while the space is not locked.
struct Open<'a, M: Machine>(&'a Mm<M>);

impl<M: Machine> Memory for Open<'_, M> {
    fn allocate(&mut self, order: u8) -> Option<Frames> {
        let mm = self.0;
        let folio = match Order(order) {
            Order(0) => mm.alloc(Order(0), Kind::Anon, Reserve::User),
            large if ORDERS.contains(&order) => {
                let folio = Folio::large_unfilled(mm, large).map(Folio::into_pfn);
                folio.inspect_err(|_| mm.count_folios(large, Stat::AnonFaultFallback, 1))
            }
            _ => return None,
        };
        let frame = folio.ok()?.0;
        Some(Frames { frame, order })
    }
    fn clear(&mut self, folio: Frames) {
        self.0.zero(Pfn(folio.frame), Order(folio.order));
    }
}
