//! Sixteen bytes that are two atomic words or one.

#[cfg(not(loom))]
pub use portable_atomic::AtomicU128;
#[cfg(not(loom))]
pub use real::AccountWords;
#[cfg(loom)]
pub use stand_in::{AccountWords, AtomicU128};

#[cfg(not(loom))]
mod real {
    use super::AtomicU128;
    use crate::sync::{AtomicU64, Ordering};

    /// 16 bytes of storage in a frame's metadata, for the account of a folio: two words, or one of
    /// 128 bits over both. Which, is fixed while a folio lives; it may change only while nothing
    /// else can reach the folio. All bytes zero is a valid value.
    #[derive(Debug, Default)]
    #[repr(transparent)]
    pub struct AccountWords(AtomicU128);

    // The low half comes first in memory.
    const _: () = assert!(cfg!(target_endian = "little"));
    const _: () = assert!(size_of::<AccountWords>() == 16 && align_of::<AccountWords>() == 16);
    // With a lock of its own behind it, it would not be the same word as `lo` and `hi` for anything
    // else.
    #[cfg(target_os = "none")]
    const _: () = assert!(AtomicU128::is_always_lock_free());

    impl AccountWords {
        /// The first eight bytes, bits 0..64 of [`AccountWords::wide`].
        #[inline]
        pub fn lo(&self) -> &AtomicU64 {
            self.half(0)
        }
        /// The last eight bytes, bits 64..128 of [`AccountWords::wide`].
        #[inline]
        pub fn hi(&self) -> &AtomicU64 {
            self.half(1)
        }
        /// All sixteen bytes as one word.
        #[inline]
        pub fn wide(&self) -> &AtomicU128 {
            &self.0
        }
        /// Writes all sixteen bytes by two plain stores, while nothing else can reach the folio.
        #[inline]
        pub fn set_wide(&self, value: u128) {
            self.lo().store(value as u64, Ordering::Relaxed);
            self.hi().store((value >> 64) as u64, Ordering::Relaxed);
        }
        /// The value for a careless reader: the two halves, each at its own moment. For a mutant.
        pub(crate) fn torn(&self) -> u128 {
            let lo = self.lo().load(Ordering::Acquire);
            let hi = self.hi().load(Ordering::Acquire);
            u128::from(hi) << 64 | u128::from(lo)
        }

        #[inline]
        #[allow(unsafe_code)]
        fn half(&self, which: usize) -> &AtomicU64 {
            // SAFETY: half 0 or 1 of 16 bytes that are valid, aligned and shared for as long as
            // `self`; all accesses are atomic. Accesses of both widths do not race: the format is
            // fixed while others can reach the folio (the type's contract).
            unsafe { AtomicU64::from_ptr(self.0.as_ptr().cast::<u64>().add(which)) }
        }
    }
}

/// What loom can follow: it has no 128-bit atomic, so the wide word is apart from its halves.
#[cfg(loom)]
mod stand_in {
    use crate::sync::{AtomicU64, Ordering};
    use std::sync::Mutex;
    use std::vec::Vec;

    /// A 128-bit word: an atomic that loom knows says which of its values it has. Every change is
    /// one step of that atomic, with the ordering that was asked for, and loom switches threads
    /// only at such steps: list and atomic fit together.
    #[derive(Debug)]
    pub struct AtomicU128 {
        now: AtomicU64,
        values: Mutex<Vec<u128>>,
    }

    impl Default for AtomicU128 {
        fn default() -> Self {
            AtomicU128 {
                now: AtomicU64::new(0),
                values: Mutex::new(Vec::from([0])),
            }
        }
    }

    impl AtomicU128 {
        fn change(&self, order: Ordering, f: impl FnOnce(u128) -> u128) -> u128 {
            let at = self.now.fetch_add(1, order) as usize;
            let mut values = self.values.lock().unwrap();
            let old = values[at];
            values.push(f(old));
            old
        }
        /// The value, or an older one where the ordering allows it.
        pub fn load(&self, order: Ordering) -> u128 {
            let at = self.now.load(order) as usize;
            self.values.lock().unwrap()[at]
        }
        /// Replaces the value.
        pub fn store(&self, value: u128, order: Ordering) {
            self.change(order, |_| value);
        }
        /// Adds; returns what was there.
        pub fn fetch_add(&self, value: u128, order: Ordering) -> u128 {
            self.change(order, |old| old.wrapping_add(value))
        }
        /// Subtracts; returns what was there.
        pub fn fetch_sub(&self, value: u128, order: Ordering) -> u128 {
            self.change(order, |old| old.wrapping_sub(value))
        }
    }

    /// The stand-in for the sixteen bytes.
    #[derive(Debug, Default)]
    pub struct AccountWords {
        lo: AtomicU64,
        hi: AtomicU64,
        wide: AtomicU128,
    }

    impl AccountWords {
        /// The first half.
        pub fn lo(&self) -> &AtomicU64 {
            &self.lo
        }
        /// The second half.
        pub fn hi(&self) -> &AtomicU64 {
            &self.hi
        }
        /// The whole.
        pub fn wide(&self) -> &AtomicU128 {
            &self.wide
        }
        /// Replaces the whole; the halves are as good as gone.
        pub fn set_wide(&self, value: u128) {
            self.lo.store(0, Ordering::Relaxed);
            self.hi.store(0, Ordering::Relaxed);
            self.wide.store(value, Ordering::Relaxed);
        }
        /// The two halves of the wide word, each at its own moment.
        pub(crate) fn torn(&self) -> u128 {
            let lo = self.wide.load(Ordering::Acquire) as u64;
            let hi = self.wide.load(Ordering::Acquire) >> 64;
            hi << 64 | u128::from(lo)
        }
    }
}
