//! The pools of huge pages and the allocator: frames that a pool takes and gives back, and pages
//! that are used.

use super::{Mm, OutOfMemory, Result};
use crate::addr::{Order, Pfn};
use crate::arch::Machine;
use crate::frame::Kind;
use crate::frame::zone::Reserve;
use crate::hugetlb::pool::Account;
use crate::hugetlb::{Figures, Pool};
use alloc::vec::Vec;

impl<M: Machine> Mm<M> {
    fn pool(&self, order: Order) -> &Pool {
        self.hugetlb.of::<M::Pte>(order)
    }
    /// The figures of the pool of this size.
    pub fn hugetlb(&self, order: Order) -> Figures {
        self.pool(order).lock().figures()
    }
    /// Sets the most surplus pages (nr_overcommit_hugepages).
    pub fn set_hugetlb_overcommit(&self, order: Order, most: u64) {
        self.pool(order).lock().set_overcommit(most);
    }
    /// Sets the size of a pool (nr_hugepages), as far as memory, and what is used of it, allow.
    /// Pages in use above the size become surplus. The caller holds no lock.
    pub(crate) fn resize_pool(&self, order: Order, pages: u64) {
        let pool = self.pool(order);
        while !pool.lock().adopt_surplus(pages) {
            if self.add_huge(order, false).is_err() || self.machine().breathe() {
                break;
            }
        }
        loop {
            let page = pool.lock().shrink(pages);
            let Some(page) = page else {
                break;
            };
            self.free(&[page]);
            self.machine().breathe();
        }
        pool.lock().disown(pages);
    }

    /// Reserves pages, with surplus ones if need be; or none.
    pub(crate) fn reserve_huge(&self, order: Order, pages: u64) -> Result {
        let pool = self.pool(order);
        loop {
            let missing = match pool.lock().reserve(pages) {
                Ok(()) => return Ok(()),
                Err(missing) => missing,
            };
            for _ in 0..missing {
                if let Err(why) = self.add_huge(order, true) {
                    self.drop_surplus(order);
                    return Err(why);
                }
            }
        }
    }
    /// Takes back a promise of pages.
    pub(crate) fn unreserve_huge(&self, order: Order, pages: u64) {
        if pages != 0 {
            self.pool(order).lock().unreserve(pages);
            self.drop_surplus(order);
        }
    }
    /// Gives surplus pages that nobody asks for to the allocator.
    fn drop_surplus(&self, order: Order) {
        let drop_one = || self.pool(order).lock().drop_surplus();
        core::iter::from_fn(drop_one).for_each(|page| self.free(&[page]));
    }

    /// A page for use as `kind`, with one reference; not zeroed. `reserved`: one was reserved.
    pub(crate) fn take_huge(&self, order: Order, kind: Kind, reserved: bool) -> Result<Pfn> {
        let pool = self.pool(order);
        let page = loop {
            if let Some(page) = pool.lock().take(reserved) {
                break page;
            }
            // Others may take it: once more then.
            self.add_huge(order, true)?;
        };
        let meta = self.frames().get(page);
        meta.set_hugetlb(kind, order);
        meta.set_refs(1);
        Ok(page)
    }
    /// Takes back a page whose last reference is gone.
    #[cold]
    pub(super) fn give_huge(&self, page: Pfn) {
        self.take_back_huge(page, Account::give);
    }
    /// Drops a plain reference to a private page, and with the last one reserves the page again,
    /// unless it is a surplus one. Returns whether it is reserved.
    pub(crate) fn give_huge_reserved(&self, page: Pfn, order: Order) -> bool {
        self.sub_plain(page, order) && self.take_back_huge(page, Account::give_reserved)
    }
    /// Takes a page back as `give` says; returns whether it stays in the pool.
    fn take_back_huge(&self, page: Pfn, give: fn(&mut Account, Pfn) -> Option<Pfn>) -> bool {
        let meta = self.frames().get(page);
        let order = meta.order();
        assert!(meta.refs() == 0, "{page:?} has references: {meta:?}");
        if meta.has_hwpoison() {
            self.pool(order).lock().lose();
            self.dissolve_huge(page, order);
            return false;
        }
        meta.set(Kind::Hugetlb, order);
        let surplus = give(&mut self.pool(order).lock(), page);
        surplus.map(|page| self.free(&[page])).is_none()
    }

    /// Allocates a page for a pool.
    fn add_huge(&self, order: Order, surplus: bool) -> Result {
        let pool = self.pool(order);
        if surplus && !pool.lock().may_add_surplus() {
            return Err(OutOfMemory);
        }
        let alloc = || self.alloc(order, Kind::Hugetlb, Reserve::User);
        // Pages in the lists of CPUs may be what is missing of a block.
        let page = alloc().or_else(|why| match self.drain_pcp() {
            0 => Err(why),
            _ => alloc(),
        })?;
        self.frames().get(page).set_refs(0);
        let mut account = pool.lock();
        let added = match surplus && !account.may_add_surplus() {
            true => Err(OutOfMemory),
            false => account.add(page, surplus),
        };
        drop(account);
        added.inspect_err(|_| self.free(&[page]))
    }
    /// The free pages of a pool, for [`crate::check`].
    pub(crate) fn free_huge_pages(&self, order: Order) -> Vec<Pfn> {
        self.pool(order).lock().free().to_vec()
    }
}
