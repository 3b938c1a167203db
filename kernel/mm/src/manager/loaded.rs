//! The root that a CPU has loaded, and the request of another one to leave it.

use crate::addr::Pfn;
use crate::sync::{AtomicU64, Ordering};

/// In place of the frame of a root.
const NONE: u64 = 0;

/// The root that a CPU has loaded, on a cache line of its own.
#[derive(Debug, Default)]
#[cfg_attr(not(loom), repr(align(64)))]
pub struct Loaded {
    /// 0 before the first. Only the CPU itself writes it.
    root: AtomicU64,
    /// The root that it is to leave, if it has it loaded; 0 for none.
    leaves: AtomicU64,
}

impl Loaded {
    /// Whether this CPU, which calls it, has `root` loaded.
    #[inline]
    pub fn has(&self, root: Pfn) -> bool {
        // Relaxed: a CPU's own word.
        self.root.load(Ordering::Relaxed) == root.0
    }
    /// Loads `root` on this CPU, by `load`.
    #[inline]
    pub fn load(&self, root: Pfn, load: impl FnOnce()) {
        load();
        // After it. Release pairs with `has_left`: the tables of the root before are walked no
        // more.
        self.root.store(root.0, Ordering::Release);
    }
    /// The root that another CPU asks this one to leave.
    #[inline]
    pub fn asked(&self) -> Option<Pfn> {
        // Relaxed: seen sooner or later.
        if self.leaves.load(Ordering::Relaxed) == NONE {
            return None;
        }
        match self.leaves.swap(NONE, Ordering::Acquire) {
            NONE => None,
            root => Some(Pfn(root)),
        }
    }

    /// Asks a CPU to leave `root`, if it is not asked already; returns whether it was not. Called
    /// until it has left: one that waits for another root may take this one's place, of which
    /// the CPU can have only one loaded.
    pub fn ask_to_leave(&self, root: Pfn) -> bool {
        self.leaves.load(Ordering::Relaxed) != root.0
            && self.leaves.swap(root.0, Ordering::Release) != root.0
    }
    /// Takes that back, once the CPU has left: it may have done so by itself, and the frame may
    /// soon be the root of another space, which it must not leave.
    pub fn take_back(&self, root: Pfn) {
        let (done, kept) = (Ordering::Relaxed, Ordering::Relaxed);
        // Fails if it was served, or another CPU asks.
        let _ = self.leaves.compare_exchange(root.0, NONE, done, kept);
    }
    /// Whether a CPU does not have `root` loaded, which no CPU loads any more.
    pub fn has_left(&self, root: Pfn) -> bool {
        // Acquire pairs with `load`.
        self.root.load(Ordering::Acquire) != root.0
    }
}
