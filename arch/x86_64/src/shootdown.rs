//! TLB shootdown: what other CPUs ask a CPU to drop. This machine has no broadcast.
//!
//! ```text
//! initiator                          CPU with a stale entry
//!   changes the entry                  user mode, or waits for a lock
//!   ask: adds to its request, n    ->  IPI, or a look at the request
//!   waits until n is done              serve: takes the request,
//!                                  <-  drops the entries, n is done
//!   frees the frame
//! ```
//!
//! Which CPUs are asked: those that say that they have the space loaded ([`Loaded`]).
//!
//! Several initiators may ask at a time: their requests become one, which covers both. An initiator
//! serves its own requests while it waits, so that two never wait for each other.

use mm::addr::{PAGE_SIZE, VirtRange};
use mm::sync::{AtomicU32, AtomicU64, Lock, Ordering, fence};

/// Rank of the lock in a request: a flush may be asked for under any of the memory manager's.
const RANK: u8 = 252;

/// What a CPU is to drop from its TLB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flush {
    /// The entries of a range, of which each covers at least `stride` bytes, and all pointers to
    /// tables.
    Range {
        /// The addresses.
        range: VirtRange,
        /// Bytes from one address that is invalidated to the next.
        stride: u64,
    },
    /// All entries that are not global.
    User,
    /// All entries.
    All,
}

impl Flush {
    /// Above this many entries one reload of CR3 is cheaper than an INVLPG for each.
    pub const MOST_SINGLE: u64 = 32;

    /// A flush that does what both do.
    fn and(self, other: Flush) -> Flush {
        match (self, other) {
            (Flush::All, _) | (_, Flush::All) => Flush::All,
            (a, b) if a == b => a,
            // Two ranges seldom meet, and what lies between them may be half the address space.
            _ => Flush::User,
        }
    }

    /// Calls `page` with each address to invalidate; `false`: too many, drop everything that is not
    /// global instead.
    pub fn pages(range: VirtRange, stride: u64, mut page: impl FnMut(u64)) -> bool {
        debug_assert!(stride >= PAGE_SIZE);
        if range.len() / stride > Self::MOST_SINGLE {
            return false;
        }
        let mut at = range.start.0;
        while at < range.end.0 {
            page(at);
            at += stride;
        }
        true
    }
}

/// Which address space a CPU has loaded, by its tag: for those who change entries of the space.
///
/// ```text
/// initiator                    CPU that loads the space
///   clears the entry             says so
///   full barrier                 writes CR3: serializing (SDM Vol 3, 9.3)
///   looks who has it loaded      walks
/// ```
/// Of two that come at once at least one sees the other: the initiator asks the CPU, or the CPU
/// walks to the new entry.
#[derive(Debug, Default)]
pub struct Loaded(AtomicU32);

impl Loaded {
    /// In the place of a tag: any space.
    const ANY: u32 = u32::MAX;

    /// The space of tag 0.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// This CPU loads the space of `tag`, by `write`, which is serializing.
    #[inline]
    pub fn load(&self, tag: u16, write: impl FnOnce()) {
        // Until it is written entries of the space before may be in use, after it those of this
        // one.
        self.0.store(Self::ANY, Ordering::Relaxed);
        write();
        self.0.store(tag.into(), Ordering::Relaxed);
    }

    /// What has been written to entries is seen by CPUs that are not found by
    /// [`Self::may_have`] from now on.
    pub fn entries_are_written() {
        fence(Ordering::SeqCst);
    }
    /// Whether the CPU may have entries of the space of `tag` in its TLB; of any space, if it is
    /// `None`.
    #[inline]
    pub fn may_have(&self, tag: Option<u16>) -> bool {
        let loaded = self.0.load(Ordering::Relaxed);
        tag.is_none_or(|tag| loaded == u32::from(tag) || loaded == Self::ANY)
    }
}

/// The requests to one CPU.
#[derive(Debug, Default)]
pub struct Requests {
    wanted: Lock<Option<Flush>, RANK>,
    /// The number of the last request; written with the lock held.
    asked: AtomicU64,
    /// All requests up to this number are done.
    done: AtomicU64,
}

impl Requests {
    /// No request.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self {
            wanted: Lock::new(None),
            asked: AtomicU64::new(0),
            done: AtomicU64::new(0),
        }
    }

    /// Asks for a flush. Returns the number of the request. The entries have been changed before;
    /// the CPU is interrupted afterwards.
    pub fn ask(&self, flush: Flush) -> u64 {
        let mut wanted = self.wanted.lock();
        *wanted = Some(wanted.map_or(flush, |other| other.and(flush)));
        let number = self.asked.load(Ordering::Relaxed) + 1;
        // Release pairs with the acquire in `is_open`: who sees the number sees the entries.
        self.asked.store(number, Ordering::Release);
        number
    }

    /// Whether there are requests to serve.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.asked.load(Ordering::Acquire) != self.done.load(Ordering::Relaxed)
    }

    /// Does what is asked for, by `flush`. Only on the CPU that they are for. False: another CPU is
    /// about to ask, and interrupts this one afterwards.
    pub fn serve(&self, flush: impl FnOnce(Flush)) -> bool {
        // Whoever waits for a lock serves meanwhile: waiting here would call this again, deeper and
        // deeper while the host runs other CPUs than the one that has this lock.
        let Some(mut wanted) = self.wanted.try_lock() else {
            return false;
        };
        let (what, number) = (wanted.take(), self.asked.load(Ordering::Relaxed));
        drop(wanted);
        if let Some(what) = what {
            flush(what);
        }
        // Release pairs with the acquire in `is_done`: the flush comes before it.
        self.done.store(number, Ordering::Release);
        true
    }

    /// Whether the request of this number is done.
    #[inline]
    pub fn is_done(&self, number: u64) -> bool {
        self.done.load(Ordering::Acquire) >= number
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use mm::addr::VirtAddr;

    fn range(start: u64, end: u64) -> VirtRange {
        VirtRange::new(VirtAddr(start), VirtAddr(end))
    }

    #[test]
    fn two_requests_become_one_that_covers_both() {
        let requests = Requests::new();
        let one = Flush::Range {
            range: range(0x1000, 0x3000),
            stride: PAGE_SIZE,
        };
        let first = requests.ask(one);
        assert!(requests.is_open() && !requests.is_done(first));
        let second = requests.ask(Flush::Range {
            range: range(0x7000, 0x8000),
            stride: PAGE_SIZE,
        });
        let mut did = None;
        requests.serve(|flush| did = Some(flush));
        assert_eq!(did, Some(Flush::User));
        assert!(requests.is_done(first) && requests.is_done(second) && !requests.is_open());

        requests.ask(one);
        requests.ask(one);
        requests.serve(|flush| did = Some(flush));
        assert_eq!(did, Some(one));
        requests.ask(one);
        requests.ask(Flush::All);
        requests.serve(|flush| did = Some(flush));
        assert_eq!(did, Some(Flush::All));
    }

    #[test]
    fn serving_waits_for_no_lock() {
        let requests = Requests::new();
        let first = requests.ask(Flush::User);
        // Another CPU asks, and the host has stopped it.
        let asking = requests.wanted.lock();
        assert!(!requests.serve(|_| panic!("served beside the one that asks")));
        assert!(requests.is_open() && !requests.is_done(first));
        drop(asking);
        assert!(requests.serve(|_| ()) && requests.is_done(first));
    }

    #[test]
    fn a_range_names_each_entry_once() {
        let mut pages = std::vec::Vec::new();
        assert!(Flush::pages(range(0x20_0000, 0x80_0000), 0x20_0000, |at| {
            pages.push(at)
        }));
        assert_eq!(pages, [0x20_0000, 0x40_0000, 0x60_0000]);
        assert!(!Flush::pages(range(0, 0x10_0000), PAGE_SIZE, |_| {
            panic!("too many")
        }));
    }
}
