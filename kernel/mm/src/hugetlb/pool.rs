//! The account of one pool: which pages are free, and how many are reserved or surplus.
//!
//! A reservation is a promise that a page will be there, made at mmap(2) and kept by a fault; free
//! pages beyond those reserved are for whoever comes. Surplus pages are allocated when others are
//! asked for than the pool's size allows (nr_overcommit_hugepages), and leave it as soon as one is
//! given back.

use crate::addr::Pfn;
use alloc::vec::Vec;
use fallible::OutOfMemory;

/// Figures of a pool, in pages of its size (/proc/meminfo, sysfs).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Pages that it has, surplus and used ones included (HugePages_Total).
    pub total: u64,
    /// Of them, those not in use (HugePages_Free).
    pub free: u64,
    /// Free pages that are promised (HugePages_Rsvd).
    pub reserved: u64,
    /// Pages above its size (HugePages_Surp).
    pub surplus: u64,
    /// The most surplus pages (nr_overcommit_hugepages).
    pub overcommit: u64,
}

impl Figures {
    /// Pages that are there whether or not they are used (nr_hugepages).
    pub fn persistent(&self) -> u64 {
        self.total - self.surplus
    }
}

/// One pool.
#[derive(Default)]
pub(crate) struct Account {
    total: u64,
    reserved: u64,
    surplus: u64,
    overcommit: u64,
    /// With room for all pages, so that giving one back needs no memory.
    free: Vec<Pfn>,
}

impl Account {
    /// The figures.
    pub fn figures(&self) -> Figures {
        Figures {
            total: self.total,
            free: self.free.len() as u64,
            reserved: self.reserved,
            surplus: self.surplus,
            overcommit: self.overcommit,
        }
    }
    /// Sets the limit of surplus pages; those that are there stay.
    pub fn set_overcommit(&mut self, most: u64) {
        self.overcommit = most;
    }
    /// Free pages that are not reserved.
    fn available(&self) -> u64 {
        self.free.len() as u64 - self.reserved
    }

    /// Reserves pages; or returns how many are missing, and reserves none.
    pub fn reserve(&mut self, pages: u64) -> Result<(), u64> {
        match pages.checked_sub(self.available()) {
            None | Some(0) => {
                self.reserved += pages;
                Ok(())
            }
            Some(missing) => Err(missing),
        }
    }
    /// Takes back a promise of pages.
    pub fn unreserve(&mut self, pages: u64) {
        assert!(
            pages <= self.reserved,
            "{pages} huge pages less reserved, of {}",
            self.reserved
        );
        self.reserved -= pages;
    }
    /// A free page: a reserved one, or any beyond those. `None`: there is no other.
    pub fn take(&mut self, reserved: bool) -> Option<Pfn> {
        match reserved {
            true => self.unreserve(1),
            false if self.available() == 0 => return None,
            false => {}
        }
        self.free.pop()
    }
    /// Gives a page back; returns it if it was a surplus one, for the allocator.
    pub fn give(&mut self, page: Pfn) -> Option<Pfn> {
        if self.surplus > 0 {
            self.surplus -= 1;
            self.total -= 1;
            return Some(page);
        }
        debug_assert!(self.free.len() < self.free.capacity());
        self.free.push(page);
        None
    }

    /// Gives a page back and reserves it again; returns it if it was a surplus one, as
    /// [`Self::give`].
    pub fn give_reserved(&mut self, page: Pfn) -> Option<Pfn> {
        let surplus = self.give(page);
        self.reserved += u64::from(surplus.is_none());
        surplus
    }
    /// Takes note that a page in use is gone for good.
    pub fn lose(&mut self) {
        self.surplus = self.surplus.saturating_sub(1);
        self.total -= 1;
    }

    /// Whether a surplus page may come.
    pub fn may_add_surplus(&self) -> bool {
        self.surplus < self.overcommit
    }
    /// Adds a free page to the pool, or a surplus one.
    pub fn add(&mut self, page: Pfn, surplus: bool) -> Result<(), OutOfMemory> {
        let room = self.total + 1 - self.free.len() as u64;
        fallible::reserve(&mut self.free, room as usize)?;
        self.free.push(page);
        self.total += 1;
        self.surplus += u64::from(surplus);
        Ok(())
    }
    /// Removes a surplus page that is free and not reserved.
    pub fn drop_surplus(&mut self) -> Option<Pfn> {
        if self.surplus == 0 || self.available() == 0 {
            return None;
        }
        self.surplus -= 1;
        self.total -= 1;
        self.free.pop()
    }
    /// Makes surplus pages its own, up to a size of `pages`; returns whether it has that.
    pub fn adopt_surplus(&mut self, pages: u64) -> bool {
        let more = pages.saturating_sub(self.total - self.surplus);
        let adopted = more.min(self.surplus);
        self.surplus -= adopted;
        adopted == more
    }
    /// Removes a page while it has more than `pages` of its own, if one is free and not reserved.
    pub fn shrink(&mut self, pages: u64) -> Option<Pfn> {
        if self.total - self.surplus <= pages || self.available() == 0 {
            return None;
        }
        self.total -= 1;
        self.free.pop()
    }
    /// Makes pages above a size of `pages` surplus ones: they leave when they are given back.
    pub fn disown(&mut self, pages: u64) {
        self.surplus = self.surplus.max(self.total.saturating_sub(pages));
    }
    /// The free pages, for [`crate::check`].
    pub fn free(&self) -> &[Pfn] {
        &self.free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(pages: u64) -> Account {
        let mut pool = Account::default();
        (0..pages).for_each(|n| pool.add(Pfn(n * 512), false).unwrap());
        pool
    }

    #[test]
    fn promises_are_kept() {
        let mut pool = pool(3);
        assert_eq!(pool.reserve(2), Ok(()));
        assert_eq!(pool.reserve(2), Err(1));
        assert!(pool.take(false).is_some());
        assert_eq!(pool.take(false), None, "the others are reserved");
        assert!(pool.take(true).is_some() && pool.take(true).is_some());
        let figures = pool.figures();
        assert_eq!((figures.total, figures.free, figures.reserved), (3, 0, 0));
    }

    #[test]
    fn surplus_pages_leave_first() {
        let mut pool = pool(1);
        pool.set_overcommit(1);
        let own = pool.take(false).unwrap();
        assert!(pool.may_add_surplus());
        pool.add(Pfn(0x1000), true).unwrap();
        assert!(!pool.may_add_surplus());
        let extra = pool.take(false).unwrap();
        assert_eq!(pool.give(own), Some(own));
        assert_eq!(pool.give(extra), None);
        assert_eq!(pool.figures().total, 1);
    }

    #[test]
    fn what_is_given_back_reserved_is_for_nobody_else() {
        let mut pool = pool(1);
        let page = pool.take(false).unwrap();
        assert_eq!(pool.give_reserved(page), None);
        assert_eq!(pool.take(false), None);
        let page = pool.take(true).unwrap();
        pool.disown(0);
        assert_eq!(pool.give_reserved(page), Some(page));
        assert_eq!(pool.figures(), Figures::default());
    }

    #[test]
    fn a_pool_shrinks_to_what_is_used_and_reserved() {
        let mut pool = pool(4);
        pool.reserve(1).unwrap();
        let used = pool.take(false).unwrap();
        let gone = core::iter::from_fn(|| pool.shrink(0)).count();
        assert_eq!(gone, 2);
        pool.disown(0);
        assert_eq!(pool.figures().surplus, 2);
        assert_eq!(pool.figures().persistent(), 0);
        assert!(pool.give(used).is_some());
        // It grows again by what is there.
        assert!(pool.adopt_surplus(1));
        assert!(!pool.adopt_surplus(2));
        assert_eq!(pool.figures().surplus, 0);
    }

    #[test]
    fn a_page_in_use_is_lost() {
        let mut pool = pool(2);
        assert!(pool.take(false).is_some());
        pool.lose();
        let figures = pool.figures();
        assert_eq!((figures.total, figures.free, figures.surplus), (1, 1, 0));
        pool.disown(0);
        assert!(pool.take(false).is_some());
        pool.lose();
        assert_eq!(pool.figures(), Figures::default());
    }

    #[test]
    fn unused_surplus_pages_go() {
        let mut pool = pool(0);
        pool.set_overcommit(2);
        pool.add(Pfn(0), true).unwrap();
        pool.add(Pfn(512), true).unwrap();
        pool.reserve(1).unwrap();
        assert!(pool.drop_surplus().is_some());
        assert_eq!(pool.drop_surplus(), None, "the other one is reserved");
        pool.unreserve(1);
        assert!(pool.drop_surplus().is_some());
    }
}
