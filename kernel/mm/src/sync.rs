//! The only room that names atomics, and the ranked spin lock.
//!
//! The kernel runs with interrupts off and is never preempted, so a holder always makes progress
//! and the lock needs neither to disable interrupts nor to be fair.

#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
#[cfg(loom)]
pub use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

pub use own::AccountWords;
pub(crate) use own::sync::pause;

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};

/// Ranks of the locks from 200 on; the kernel's own lie in 100..200. See the crate's first page for
/// what each covers.
#[expect(
    missing_docs,
    reason = "a table on the crate's first page says what each covers"
)]
pub mod rank {
    pub const SPACE: u8 = 200;
    pub const OBJECT: u8 = 210;
    pub const ASID: u8 = 220;
    pub const MM_ID: u8 = 221;
    pub const HEAP: u8 = 230;
    pub const KERNEL_SPACE: u8 = 235;
    pub const HUGE_ZERO: u8 = 236;
    pub const DEFERRED: u8 = 237;
    pub const LONG_TERM: u8 = 238;
    pub const ZONE: u8 = 240;
    pub const THP: u8 = 245;
    pub const CONSOLE: u8 = 250;
}

/// The state of a lock that may be taken.
const OPEN: usize = 0;
/// The state of a lock that a guard holds.
const HELD: usize = 1;

/// A spin lock; `RANK` orders nesting: it may be taken only while every held lock has a lower rank
/// (debug builds panic).
#[derive(Debug, Default)]
pub struct Lock<T, const RANK: u8> {
    /// [`OPEN`], [`HELD`], or the mark of the guard that has it open for a while.
    state: AtomicUsize,
    value: UnsafeCell<T>,
}

/// Holds a [`Lock`]; unlocks on drop.
#[must_use]
#[derive(Debug)]
pub struct Guard<'a, T, const RANK: u8>(&'a Lock<T, RANK>);

// SAFETY: the lock hands out one guard at a time, so sharing the lock only ever moves the value
// between threads.
#[allow(unsafe_code)]
unsafe impl<T: Send, const RANK: u8> Sync for Lock<T, RANK> {}

/// Takes a lock whose state is `open`, [`OPEN`] or a mark.
#[inline]
fn take(state: &AtomicUsize, open: usize) -> bool {
    // Acquire pairs with the release in `Guard::drop` and `Guard::reopen`: what the last holder
    // wrote is seen by this one.
    let was = state.compare_exchange(open, HELD, Ordering::Acquire, Ordering::Relaxed);
    was.is_ok()
}

/// Takes a lock if it is open, also if a guard has it open for a while.
fn try_take(state: &AtomicUsize) -> bool {
    match state.load(Ordering::Relaxed) {
        HELD => false,
        open => take(state, open),
    }
}

/// Takes a lock, spinning until it is open.
#[cold]
fn wait(state: &AtomicUsize) {
    while !try_take(state) {
        pause();
    }
}

impl<T, const RANK: u8> Lock<T, RANK> {
    /// An open lock.
    #[cfg(not(loom))]
    pub const fn new(value: T) -> Self {
        Self {
            state: AtomicUsize::new(OPEN),
            value: UnsafeCell::new(value),
        }
    }
    /// An open lock (loom's atomics have no constant constructor).
    #[cfg(loom)]
    pub fn new(value: T) -> Self {
        Self {
            state: AtomicUsize::new(OPEN),
            value: UnsafeCell::new(value),
        }
    }

    /// Takes the lock, spinning until it is open.
    #[inline]
    pub fn lock(&self) -> Guard<'_, T, RANK> {
        ranks(|held| held.take(RANK));
        if !take(&self.state, OPEN) {
            wait(&self.state);
        }
        Guard(self)
    }

    /// Takes the lock if it is open. The rank does not matter: a caller that does not wait cannot
    /// deadlock.
    #[inline]
    pub fn try_lock(&self) -> Option<Guard<'_, T, RANK>> {
        if !try_take(&self.state) {
            return None;
        }
        ranks(|held| held.note(RANK));
        Some(Guard(self))
    }

    /// The value, without locking: a mutable borrow of the lock excludes guards.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

impl<T, const RANK: u8> Guard<'_, T, RANK> {
    /// Opens the lock while `f` runs, and takes it again, also when `f` panics. Returns what `f`
    /// returned, and whether nobody had the lock meanwhile.
    #[inline(always)]
    pub fn reopen<R>(&mut self, f: impl FnOnce() -> R) -> (R, bool) {
        // Of all guards that have a lock open at a time, each has a place of its own.
        let mark = &raw const *self as usize;
        ranks(|held| held.leave(RANK));
        self.0.state.store(mark, Ordering::Release);
        let mut retake = Retake::<RANK> {
            state: &self.0.state,
            mark,
            undisturbed: false,
        };
        let result = f();
        retake.take();
        let undisturbed = retake.undisturbed;
        core::mem::forget(retake);
        (result, undisturbed)
    }
}

/// Takes a lock again that [`Guard::reopen`] has opened.
struct Retake<'a, const RANK: u8> {
    state: &'a AtomicUsize,
    mark: usize,
    undisturbed: bool,
}

impl<const RANK: u8> Retake<'_, RANK> {
    #[inline(always)]
    fn take(&mut self) {
        ranks(|held| held.take(RANK));
        self.undisturbed = take(self.state, self.mark);
        if !self.undisturbed {
            wait(self.state);
        }
    }
}

impl<const RANK: u8> Drop for Retake<'_, RANK> {
    fn drop(&mut self) {
        self.take();
    }
}

impl<T, const RANK: u8> Deref for Guard<'_, T, RANK> {
    type Target = T;
    #[inline]
    #[allow(unsafe_code)]
    fn deref(&self) -> &T {
        // SAFETY: this guard is the only one, so no one else has a reference to the value.
        unsafe { &*self.0.value.get() }
    }
}

impl<T, const RANK: u8> DerefMut for Guard<'_, T, RANK> {
    #[inline]
    #[allow(unsafe_code)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard is the only one and is borrowed mutably.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T, const RANK: u8> Drop for Guard<'_, T, RANK> {
    #[inline]
    fn drop(&mut self) {
        ranks(|held| held.leave(RANK));
        // Release pairs with the acquire in `take`.
        self.0.state.store(OPEN, Ordering::Release);
    }
}

/// Whether a panic is under way: then destructors do not panic again, so that its message is kept.
pub fn panicking() -> bool {
    #[cfg(not(target_os = "none"))]
    return std::thread::panicking();
    #[cfg(target_os = "none")]
    false
}

/// Whether ranks are checked. Under loom all threads are one thread of the host: the ranks that it
/// holds mean nothing.
const CHECKED: bool = cfg!(all(debug_assertions, not(loom)));

/// The number of ranked locks that this CPU (on the host: this thread) holds, in debug builds; 0
/// otherwise. The scheduler asserts 0.
pub fn held() -> usize {
    let mut n = 0;
    ranks(|held| n = held.count());
    n
}

/// Calls `f` with the ranks that this CPU (on the host: this thread) holds, if they are checked.
#[inline(always)]
fn ranks(f: impl FnOnce(&mut Ranks)) {
    if CHECKED {
        cpu::ranks(f);
    }
}

/// A set of ranks, one bit each.
#[derive(Clone, Copy)]
struct Ranks([u64; 4]);

impl Ranks {
    fn highest(&self) -> Option<u8> {
        (0..4)
            .rev()
            .find(|&i| self.0[i] != 0)
            .map(|i| (i as u32 * 64 + 63 - self.0[i].leading_zeros()) as u8)
    }
    fn take(&mut self, rank: u8) {
        if let Some(top) = self.highest() {
            assert!(
                top < rank,
                "lock order: taking rank {rank} while holding rank {top}"
            );
        }
        self.note(rank);
    }
    fn note(&mut self, rank: u8) {
        self.0[rank as usize / 64] |= 1 << (rank % 64);
    }
    fn leave(&mut self, rank: u8) {
        self.0[rank as usize / 64] &= !(1 << (rank % 64));
    }
    fn count(&self) -> usize {
        self.0.iter().map(|w| w.count_ones() as usize).sum()
    }
}

#[cfg(not(target_os = "none"))]
mod cpu {
    use super::Ranks;
    std::thread_local! {
        static HELD: core::cell::RefCell<Ranks> = const { core::cell::RefCell::new(Ranks([0; 4])) };
    }
    pub fn ranks(f: impl FnOnce(&mut Ranks)) {
        HELD.with_borrow_mut(f);
    }
}

#[cfg(target_os = "none")]
mod cpu {
    use super::{AtomicU64, AtomicUsize, Ordering, Ranks};

    /// CPUs whose held ranks are recorded; a CPU past that checks nothing.
    const CPUS: usize = 64;
    static HELD: [[AtomicU64; 4]; CPUS] = [const { [const { AtomicU64::new(0) }; 4] }; CPUS];
    static ID: AtomicUsize = AtomicUsize::new(0);

    /// Sets the function that returns the id of the CPU that runs, for the checks of ranks; without
    /// it the id is 0. Bare metal only.
    pub fn set_cpu_id(id: fn() -> usize) {
        ID.store(id as usize, Ordering::Relaxed);
    }
    fn id() -> usize {
        match ID.load(Ordering::Relaxed) {
            0 => 0,
            // SAFETY: the word is 0 or was stored from a function of this type by `set_cpu_id`.
            #[allow(unsafe_code)]
            id => unsafe { core::mem::transmute::<usize, fn() -> usize>(id)() },
        }
    }
    pub fn ranks(f: impl FnOnce(&mut Ranks)) {
        // Only this CPU reads and writes its own words, and nothing interrupts the kernel: plain
        // loads and stores do.
        let Some(words) = HELD.get(id()) else { return };
        let mut ranks = Ranks(core::array::from_fn(|i| words[i].load(Ordering::Relaxed)));
        f(&mut ranks);
        for (word, value) in words.iter().zip(ranks.0) {
            word.store(value, Ordering::Relaxed);
        }
    }
}
#[cfg(target_os = "none")]
pub use cpu::set_cpu_id;
