//! A space in which several threads run: CPUs that fault have its lock as readers, and add up what
//! they map on lines of their own.

use super::{AddressSpace, Error, Inner, Result};
use crate::addr::VirtAddr;
use crate::arch::{Cpu, Machine};
use crate::sync::{AtomicU64, Ordering, ReadGuard, add_own, rank};
use crate::table::PageTable;
use crate::vma::{Found, Vma};
use alloc::vec::Vec;
use core::ops::Deref;

/// What one CPU has mapped as a reader since the writer before, less what it has unmapped; and
/// where it faulted last.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Counts {
    /// Private pages; it wraps around below 0.
    anon: AtomicU64,
    /// Of these, those that are swapped.
    swapped: AtomicU64,
    /// Page tables.
    tables: AtomicU64,
    /// The VMA that was found last.
    found: Found,
}

impl Counts {
    fn new() -> Self {
        Counts {
            anon: AtomicU64::new(0),
            swapped: AtomicU64::new(0),
            tables: AtomicU64::new(0),
            found: Found::none(),
        }
    }
}

/// Holds the lock of a space as a reader: VMAs and tables stay, and the entries of a table change
/// only under the table's lock.
pub(crate) struct Reading<'a, M: Machine> {
    /// The space.
    pub space: &'a AddressSpace<M>,
    inner: ReadGuard<'a, Inner<M>, { rank::SPACE }>,
    cpu: usize,
}

impl<M: Machine> AddressSpace<M> {
    /// Several CPUs will run threads in the space: from now on their faults run beside each other.
    /// Called before the second thread starts; without it, or with one CPU, one fault waits for the
    /// other. Error: no memory.
    pub fn share(&self) -> Result {
        let cpus = self.mm.readers().len();
        if cpus == 1 || self.inner.is_shared() {
            return Ok(());
        }
        let mut counts = Vec::new();
        fallible::reserve_exact(&mut counts, cpus).map_err(|_| Error::NoMem)?;
        counts.resize_with(cpus, Counts::new);
        let mut locked = self.lock();
        if locked.counts.is_empty() {
            locked.counts = counts.into_boxed_slice();
            locked.inner.share(self.mm.readers());
        }
        Ok(())
    }

    /// Whether [`Self::share`] was called.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.inner.is_shared()
    }

    /// The lock as a reader; `None` if the space is not shared.
    pub(crate) fn read_shared(&self) -> Option<Reading<'_, M>> {
        let cpu = self.mm.machine().cpu().id();
        let inner = self.inner.read(self.mm.readers(), cpu)?;
        Some(Reading {
            space: self,
            inner,
            cpu,
        })
    }
}

impl<M: Machine> Inner<M> {
    /// Adds what readers have mapped and unmapped to the figures.
    #[cold]
    pub(super) fn settle(&mut self) {
        // No CPU reads: a plain load and a plain store do.
        let take = |count: &AtomicU64| {
            let n = count.load(Ordering::Relaxed);
            count.store(0, Ordering::Relaxed);
            n
        };
        let (mut pages, mut parked) = (0_u64, 0_u64);
        for count in &self.counts {
            pages = pages.wrapping_add(take(&count.anon));
            parked = parked.wrapping_add(take(&count.swapped));
            self.table.add_pages(take(&count.tables));
        }
        self.rss.swapped = self.rss.swapped.wrapping_add(parked);
        // One CPU may have unmapped what another one has mapped: only the sum says what is left.
        match pages.cast_signed() {
            0.. => self.rss.add_anon(pages),
            _ => self.rss.anon -= pages.wrapping_neg(),
        }
    }
}

impl<M: Machine> Reading<'_, M> {
    /// The VMA that contains `addr`.
    #[inline]
    pub fn find(&self, addr: VirtAddr) -> Option<&Vma<M>> {
        let own = &self.inner.counts[self.cpu];
        self.inner.vmas.find_as_reader(addr, &own.found)
    }
    /// Counts private pages that this CPU has mapped.
    #[inline]
    pub fn add_anon(&self, pages: u64) {
        add_own(&self.inner.counts[self.cpu].anon, pages);
    }
    /// Counts private pages that this CPU has unmapped.
    #[inline]
    pub fn sub_anon(&self, pages: u64) {
        self.add_anon(pages.wrapping_neg());
    }
    /// Counts swapped pages that this CPU has unmapped, or mapped again.
    pub fn sub_swapped(&self, pages: u64) {
        if pages != 0 {
            add_own(&self.inner.counts[self.cpu].swapped, pages.wrapping_neg());
        }
    }
    /// Private pages that this CPU has mapped since the writer before, less what it has unmapped.
    pub fn anon(&self) -> u64 {
        self.inner.counts[self.cpu].anon.load(Ordering::Relaxed)
    }
    /// Counts page tables that this CPU has made.
    #[inline]
    pub fn add_tables(&self, tables: &PageTable) {
        if tables.pages() != 0 {
            add_own(&self.inner.counts[self.cpu].tables, tables.pages());
        }
    }
}

impl<M: Machine> Deref for Reading<'_, M> {
    type Target = Inner<M>;
    #[inline]
    fn deref(&self) -> &Inner<M> {
        &self.inner
    }
}
