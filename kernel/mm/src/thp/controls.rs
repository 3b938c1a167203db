//! The model behind `/sys/kernel/mm/transparent_hugepage`: words and numbers that programs write,
//! and the two sets of sizes that follow from them, which a fault reads with one load. Names,
//! meanings and defaults are Linux's (transhuge.rst); of the two top-level defaults in use it is
//! `madvise`, so that 2 MiB does not take the place of a smaller size that a user enables.

use super::policy::Orders;
use super::shmem::ShmemOrders;
pub use super::shmem::{ShmemEnabled, ShmemSize};
use super::words::{Choice, words};
use super::{ORDERS, PMD_ORDER, SIZES};
use crate::addr::Order;
use crate::sync::{AtomicU32, AtomicU64, Lock, Ordering, rank};

words! {
    /// `enabled`: which areas may have what a size inherits.
    Enabled {
        /// Every area.
        Always = "always",
        /// Areas with MADV_HUGEPAGE.
        Madvise = "madvise",
        /// None.
        Never = "never",
    }
}
words! {
    /// `hugepages-<size>kB/enabled`: which areas may have folios of this size.
    SizeEnabled {
        /// Every area.
        Always = "always",
        /// Those that the top-level `enabled` allows.
        Inherit = "inherit",
        /// Areas with MADV_HUGEPAGE.
        Madvise = "madvise",
        /// None.
        Never = "never",
    }
}
words! {
    /// `defrag`: when memory is compacted for a fault that finds no folio.
    Defrag {
        /// At once, in every area.
        Always = "always",
        /// Later.
        Defer = "defer",
        /// Later, at once in areas with MADV_HUGEPAGE.
        DeferMadvise = "defer+madvise",
        /// At once in areas with MADV_HUGEPAGE.
        Madvise = "madvise",
        /// Not at all.
        Never = "never",
    }
}

impl Defrag {
    /// Whether a fault in an area, with or without MADV_HUGEPAGE, waits for that; `None`: it does
    /// not, and it is done later, for others.
    pub fn waits(self, advised: bool) -> Option<bool> {
        match self {
            Defrag::Always => Some(true),
            Defrag::Defer => None,
            Defrag::DeferMadvise if advised => Some(true),
            Defrag::DeferMadvise => None,
            Defrag::Madvise => Some(advised),
            Defrag::Never => Some(false),
        }
    }
}

/// The settings as they were written.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The top-level `enabled`.
    pub enabled: Enabled,
    /// `hugepages-<size>kB/enabled` by order; only those of [`ORDERS`] mean anything.
    pub sizes: [SizeEnabled; SIZES],
    /// `defrag`.
    pub defrag: Defrag,
    /// `shmem_enabled`.
    pub shmem: ShmemEnabled,
    /// `hugepages-<size>kB/shmem_enabled` by order; only those of [`ORDERS`] mean anything.
    pub shmem_sizes: [ShmemSize; SIZES],
    /// `use_zero_page`: a read fault may map 2 MiB of zeros at once.
    pub use_zero_page: bool,
    /// `shrink_underused`: folios that are mostly zeros may be split. Stored, without effect yet.
    pub shrink_underused: bool,
}

impl Settings {
    /// Linux's defaults.
    pub const DEFAULT: Settings = {
        let mut sizes = [SizeEnabled::Never; SIZES];
        sizes[PMD_ORDER.0 as usize] = SizeEnabled::Inherit;
        let mut shmem_sizes = [ShmemSize::Never; SIZES];
        shmem_sizes[PMD_ORDER.0 as usize] = ShmemSize::Inherit;
        Settings {
            enabled: Enabled::Madvise,
            sizes,
            defrag: Defrag::Madvise,
            shmem: ShmemEnabled::Never,
            shmem_sizes,
            use_zero_page: true,
            shrink_underused: true,
        }
    };

    /// The sizes that an area may have, with or without MADV_HUGEPAGE.
    pub fn orders(&self, advised: bool) -> Orders {
        let inherited =
            self.enabled == Enabled::Always || advised && self.enabled == Enabled::Madvise;
        let allows = |size| match size {
            SizeEnabled::Always => true,
            SizeEnabled::Inherit => inherited,
            SizeEnabled::Madvise => advised,
            SizeEnabled::Never => false,
        };
        let allowed = ORDERS.filter(|order| allows(self.sizes[*order as usize]));
        Orders(allowed.fold(0, |set, order| set | 1 << order))
    }
}

/// The settings, with copies for faults, each read by one load.
pub struct Controls {
    settings: Lock<Settings, { rank::THP }>,
    /// Sizes for every area.
    always: AtomicU32,
    /// Sizes for areas with MADV_HUGEPAGE.
    advised: AtomicU32,
    /// Whether read faults may map the huge page of zeros.
    zero_page: AtomicU32,
    /// Sizes of shared memory.
    shmem: AtomicU64,
}

impl Default for Controls {
    fn default() -> Self {
        let controls = Controls {
            settings: Lock::new(Settings::DEFAULT),
            always: AtomicU32::new(0),
            advised: AtomicU32::new(0),
            zero_page: AtomicU32::new(0),
            shmem: AtomicU64::new(0),
        };
        controls.change(|_| {});
        controls
    }
}

impl Controls {
    /// The sizes allowed in an area, with or without MADV_HUGEPAGE.
    #[inline]
    pub fn orders(&self, advised: bool) -> Orders {
        let set = if advised { &self.advised } else { &self.always };
        Orders(set.load(Ordering::Relaxed))
    }

    /// The sizes of shared memory.
    #[inline]
    pub fn shmem(&self) -> ShmemOrders {
        ShmemOrders(self.shmem.load(Ordering::Relaxed))
    }

    /// Whether a read fault may map 2 MiB of zeros.
    #[inline]
    pub fn use_zero_page(&self) -> bool {
        self.zero_page.load(Ordering::Relaxed) != 0
    }

    /// The current settings.
    pub fn settings(&self) -> Settings {
        *self.settings.lock()
    }

    /// Changes the settings, for faults from now on.
    pub fn change(&self, change: impl FnOnce(&mut Settings)) {
        let mut settings = self.settings.lock();
        change(&mut settings);
        // Relaxed: a fault that runs at the same time may go by the old set.
        self.always
            .store(settings.orders(false).0, Ordering::Relaxed);
        self.advised
            .store(settings.orders(true).0, Ordering::Relaxed);
        self.zero_page
            .store(settings.use_zero_page.into(), Ordering::Relaxed);
        self.shmem.store(
            ShmemOrders::of(settings.shmem, &settings.shmem_sizes).0,
            Ordering::Relaxed,
        );
    }

    /// Sets one size. Panics for an order that anonymous memory cannot have.
    pub fn set_size(&self, order: Order, to: SizeEnabled) {
        assert!(ORDERS.contains(&order.0), "no folios of order {}", order.0);
        self.change(|settings| settings.sizes[order.0 as usize] = to);
    }

    /// Sets one size of shared memory.
    pub fn set_shmem_size(&self, order: Order, to: ShmemSize) {
        self.change(|settings| settings.shmem_sizes[order.0 as usize] = to);
    }
}
