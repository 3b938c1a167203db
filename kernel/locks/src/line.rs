//! The state of a lock, and the line of the CPUs that have waited for it for long.
//!
//! A CPU takes the lock if it is open and nobody stands in the line. One that has looked at it
//! [`PATIENCE`] times draws a ticket: from then on who comes later waits, and those in the line
//! have the lock in the order of their tickets.
//!
//! Not at once: where CPUs share those of a host, the one whose turn it is may not run, while
//! others that run would have had the lock and given it back.

use crate::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use crate::contention;
use crate::mutant::{self, Mutant};
use crate::ranks;

/// Looks at a lock before a CPU draws a ticket: more than the time for which a host takes a CPU
/// from its guest, milliseconds, since from some number on a CPU sleeps between two. A thread of
/// the host lets others run after each look, which can take milliseconds, too. In the models none.
const PATIENCE: u64 = match (cfg!(loom), cfg!(target_os = "none")) {
    (true, _) => 0,
    (_, true) => 1 << 11,
    _ => 1 << 6,
};

/// The state of a lock that may be taken.
const OPEN: usize = 0;
/// The state of a lock that is held.
const HELD: usize = 1;
/// The line without anybody in it.
const EMPTY: u64 = 0;

/// The lock without its value.
#[derive(Debug, Default)]
pub(crate) struct Line {
    /// [`OPEN`], [`HELD`], or the mark of the guard that has it open for a while.
    state: AtomicUsize,
    /// The next ticket in the upper half, the one that is served in the lower; [`EMPTY`] when
    /// nobody has one.
    tickets: AtomicU64,
}

fn next(tickets: u64) -> u32 {
    (tickets >> 32) as u32
}

fn served(tickets: u64) -> u32 {
    tickets as u32
}

impl Line {
    /// An open lock.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self {
            state: AtomicUsize::new(OPEN),
            tickets: AtomicU64::new(EMPTY),
        }
    }
    /// An open lock (loom's atomics have no constant constructor).
    #[cfg(loom)]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether nobody has the lock; then what the last holder wrote is seen.
    #[inline]
    pub fn is_open(&self) -> bool {
        // Acquire pairs with the release in `open`.
        self.state.load(Ordering::Acquire) != HELD
    }

    /// Takes the lock, whose state is `open`.
    #[inline]
    pub fn take_from(&self, open: usize) -> bool {
        // Acquire pairs with the release in `open`: what the last holder wrote is seen by this one.
        let was = (self.state).compare_exchange(open, HELD, Ordering::Acquire, Ordering::Relaxed);
        was.is_ok()
    }

    /// Takes the lock, waiting until nobody has it and those in the line have had it.
    #[inline]
    pub fn take(&self, rank: u8) {
        if !self.is_empty() || !self.take_from(OPEN) {
            self.wait(rank);
        }
    }

    /// Takes the lock if it is open, also if a guard has it open for a while, and nobody stands in
    /// the line.
    #[inline]
    pub fn try_take(&self) -> bool {
        self.is_empty() && self.take_open()
    }

    /// Lets others have the lock; it is [`OPEN`], or has the `mark` of a guard.
    #[inline]
    pub fn open(&self, mark: Option<usize>) {
        let order = match mutant::on(Mutant::OpenUnordered) {
            true => Ordering::Relaxed,
            false => Ordering::Release,
        };
        self.state.store(mark.unwrap_or(OPEN), order);
    }

    /// Relaxed: a CPU that has just drawn its ticket may be passed by those that do not see it yet.
    #[inline]
    fn is_empty(&self) -> bool {
        self.tickets.load(Ordering::Relaxed) == EMPTY || mutant::on(Mutant::PassTheLine)
    }

    fn take_open(&self) -> bool {
        match self.state.load(Ordering::Relaxed) {
            HELD => false,
            open => self.take_from(open),
        }
    }

    #[cold]
    fn wait(&self, rank: u8) {
        let (mut looks, mut got) = (0, false);
        ranks::wait(rank, &mut || {
            let is_patient = looks < PATIENCE;
            got = is_patient && self.try_take();
            looks += u64::from(is_patient && !got);
            got || !is_patient
        });
        if got {
            contention::begin(rank);
            return contention::end(rank, looks);
        }
        let ticket = self.draw();
        contention::begin(rank);
        let more = ranks::wait(rank, &mut || self.is_served(ticket) && self.take_open());
        self.leave();
        contention::end(rank, looks + more);
    }

    /// Draws a ticket.
    fn draw(&self) -> u32 {
        let tickets = self.tickets.fetch_add(1 << 32, Ordering::Relaxed);
        // Who has seen that this CPU waits, and fences, sees the ticket.
        fence(Ordering::SeqCst);
        next(tickets)
    }

    fn is_served(&self, ticket: u32) -> bool {
        let tickets = self.tickets.load(Ordering::Relaxed);
        served(tickets) == ticket || mutant::on(Mutant::ServeAnyTicket)
    }

    /// Lets the next one in the line be served: this CPU was, and has the lock.
    fn leave(&self) {
        let mut tickets = self.tickets.load(Ordering::Relaxed);
        loop {
            let after = served(tickets).wrapping_add(1);
            let left = match next(tickets) == after {
                true => EMPTY,
                false => u64::from(next(tickets)) << 32 | u64::from(after),
            };
            match (self.tickets).compare_exchange_weak(
                tickets,
                left,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => tickets = now,
            }
        }
    }
}
