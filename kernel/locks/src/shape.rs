//! A lock that one writer has, or any number of readers. A reader writes to its own CPU's line
//! only, so readers on several CPUs do not disturb each other; a writer looks at every CPU's line.
//!
//! While it is not shared it has no readers, and costs a writer what a [`Lock`] costs.
//!
//! ```text
//!   reader                                writer
//!   own line = this lock                  takes the lock
//!   fence                                 fence
//!   the lock is open: reads               each line == this lock: wait
//!   it is held:
//!     own line = none
//!     takes the lock, like a writer
//!     own line = this lock
//!     opens the lock, reads
//! ```
//! Of two that come at once, at least one sees the other; the reader gives way, and waits among the
//! writers: neither is passed for ever.

use crate::atomic::{AtomicUsize, Ordering, fence};
use crate::mutant::{self, Mutant};
use crate::ranks::{self, ranks};
use crate::{Guard, Lock, contention};
use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};

/// In place of the address of a lock.
const NONE: usize = 0;

/// The lock that a CPU reads, on a cache line of its own.
#[derive(Debug, Default)]
#[cfg_attr(not(loom), repr(align(64)))]
pub struct Reader {
    /// The address of its line, or [`NONE`]. Only the CPU itself writes it.
    lock: AtomicUsize,
}

/// A value that one writer or several readers have.
#[derive(Debug)]
pub struct Shape<T, const RANK: u8> {
    lock: Lock<T, RANK>,
    /// The address of the [`Reader`]s of all CPUs; [`NONE`] while it is not shared. Changes once,
    /// under the lock.
    readers: AtomicUsize,
}

// SAFETY: readers have a shared reference at the same time, and a writer the only one.
unsafe impl<T: Send + Sync, const RANK: u8> Sync for Shape<T, RANK> {}

/// Holds a [`Shape`] as the writer; unlocks on drop.
#[must_use]
#[derive(Debug)]
pub struct WriteGuard<'a, T, const RANK: u8>(&'a Shape<T, RANK>);

/// Holds a [`Shape`] as a reader; unlocks on drop.
#[must_use]
#[derive(Debug)]
pub struct ReadGuard<'a, T, const RANK: u8> {
    shape: &'a Shape<T, RANK>,
    own: &'a Reader,
}

impl<T, const RANK: u8> Shape<T, RANK> {
    /// An open lock that is not shared.
    pub fn new(value: T) -> Self {
        Self {
            lock: Lock::new(value),
            readers: AtomicUsize::new(NONE),
        }
    }

    /// Takes the lock as the writer. `readers` are those of all CPUs. If it is shared, `after` the
    /// readers has the value first.
    #[inline]
    pub fn write<'r>(
        &self,
        readers: impl FnOnce() -> &'r [Reader],
        after: impl FnOnce(&mut T),
    ) -> WriteGuard<'_, T, RANK> {
        core::mem::forget(self.lock.lock());
        let mut guard = WriteGuard(self);
        if self.is_shared() {
            self.wait_for_readers(readers());
            after(&mut guard);
        }
        guard
    }

    /// Whether it may have readers.
    #[inline]
    pub fn is_shared(&self) -> bool {
        // Relaxed: the lock orders it for a writer; for others it says which way to try.
        self.readers.load(Ordering::Relaxed) != NONE
    }

    /// Takes the lock as a reader, if it is shared. `readers` are those of all CPUs, and `cpu` is
    /// the one that runs; it reads one lock at a time.
    pub fn read<'a>(&'a self, readers: &'a [Reader], cpu: usize) -> Option<ReadGuard<'a, T, RANK>> {
        // Relaxed, with the fence in `try_read` behind it: see `share`.
        if self.readers.load(Ordering::Relaxed) == NONE {
            return None;
        }
        self.check(readers);
        ranks(|held| held.take(RANK));
        let own = &readers[cpu];
        assert!(own.lock.load(Ordering::Relaxed) == NONE, "one at a time");
        if !self.try_read(own) {
            self.wait_to_read(own);
        }
        Some(ReadGuard { shape: self, own })
    }

    /// The value, without locking: a mutable borrow excludes guards.
    pub fn get_mut(&mut self) -> &mut T {
        self.lock.get_mut()
    }

    /// With two sets of readers a writer would look at the wrong ones.
    fn check(&self, readers: &[Reader]) {
        let known = self.readers.load(Ordering::Relaxed);
        assert!(known == readers.as_ptr() as usize, "other readers");
    }
    fn key(&self) -> usize {
        &raw const self.lock.line as usize
    }

    /// Marks the lock as read on a CPU; `false`: a writer has it.
    #[inline]
    fn try_read(&self, own: &Reader) -> bool {
        own.lock.store(self.key(), Ordering::Relaxed);
        // Pairs with the one in `wait_for_readers`.
        if !mutant::on(Mutant::ReadWithoutFence) {
            fence(Ordering::SeqCst);
        }
        if self.lock.line.is_open() {
            return true;
        }
        own.lock.store(NONE, Ordering::Release);
        false
    }

    /// Marks the lock as read on a CPU when it is its turn.
    #[cold]
    fn wait_to_read(&self, own: &Reader) {
        let line = &self.lock.line;
        line.take(RANK);
        if mutant::on(Mutant::MarkTooLate) {
            line.open(None);
            return own.lock.store(self.key(), Ordering::Relaxed);
        }
        // Relaxed: the next writer sees it, since it takes the lock after this CPU.
        own.lock.store(self.key(), Ordering::Relaxed);
        line.open(None);
    }

    /// The lock is held: waits until no CPU reads it.
    #[cold]
    fn wait_for_readers(&self, readers: &[Reader]) {
        self.check(readers);
        // Pairs with the one in `try_read`: either this sees the reader, or that sees the writer.
        fence(Ordering::SeqCst);
        let readers = match mutant::on(Mutant::WriteBesideReaders) {
            true => &[],
            false => readers,
        };
        // Acquire pairs with the release of the reader: what it did is seen.
        let reads = |reader: &&Reader| reader.lock.load(Ordering::Acquire) == self.key();
        // One wait, however many it is for.
        let mut looks = None;
        for reader in readers.iter().filter(reads) {
            let so_far = looks.unwrap_or_else(|| {
                contention::begin(RANK);
                0
            });
            looks = Some(so_far + ranks::wait(RANK, &mut || !reads(&reader)));
        }
        if let Some(looks) = looks {
            contention::end(RANK, looks);
        }
    }
}

impl<T, const RANK: u8> WriteGuard<'_, T, RANK> {
    /// From now on there may be readers.
    pub fn share(&mut self, readers: &[Reader]) {
        let readers = readers.as_ptr() as usize;
        // Release pairs with the fence of a reader that comes at once: who sees that it is shared
        // sees that the lock was taken for that, or what has become of it since.
        let order = match mutant::on(Mutant::ShareUnordered) {
            true => Ordering::Relaxed,
            false => Ordering::Release,
        };
        self.0.readers.store(readers, order);
    }

    /// Opens the lock while `f` runs, and takes it again as [`Shape::write`], also when `f` panics.
    /// Returns what `f` returned, and whether nobody had the lock meanwhile; of a shared one that
    /// is not known, and `false`.
    #[inline(always)]
    pub fn reopen<'r, R>(
        &mut self,
        readers: impl FnOnce() -> &'r [Reader],
        after: impl FnOnce(&mut T),
        f: impl FnOnce() -> R,
    ) -> (R, bool) {
        let mut guard = ManuallyDrop::new(Guard(&self.0.lock));
        let (result, undisturbed) = guard.reopen(f);
        if !self.0.is_shared() {
            return (result, undisturbed);
        }
        self.0.wait_for_readers(readers());
        after(self);
        (result, false)
    }
}

impl<T, const RANK: u8> Deref for WriteGuard<'_, T, RANK> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this guard is the only one, and no CPU reads.
        unsafe { &*self.0.lock.value.get() }
    }
}

impl<T, const RANK: u8> DerefMut for WriteGuard<'_, T, RANK> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard is the only one and is borrowed mutably, and no CPU reads.
        unsafe { &mut *self.0.lock.value.get() }
    }
}

impl<T, const RANK: u8> Drop for WriteGuard<'_, T, RANK> {
    #[inline]
    fn drop(&mut self) {
        drop(Guard(&self.0.lock));
    }
}

impl<T, const RANK: u8> Deref for ReadGuard<'_, T, RANK> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: a writer waits until this CPU's line says that it does not read the lock, so
        // nobody has a mutable reference.
        unsafe { &*self.shape.lock.value.get() }
    }
}

impl<T, const RANK: u8> Drop for ReadGuard<'_, T, RANK> {
    #[inline]
    fn drop(&mut self) {
        ranks(|held| held.leave(RANK));
        // Release pairs with the acquire of the writer that waits.
        self.own.lock.store(NONE, Ordering::Release);
    }
}
