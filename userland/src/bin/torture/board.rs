//! Memory that all processes of the run share: one line for each thread, which only that thread
//! writes, with the number of its steps and of what it did.
use std::fmt;
use userland::sys::Result;
use userland::sys::mem::{self, PAGE, RW};

/// What a thread does.
#[derive(Clone, Copy)]
pub enum Op {
    Map,
    Unmap,
    Touch,
    Check,
    Discard,
    Protect,
    Move,
    Collapse,
    Split,
    Populate,
    Fork,
    Wild,
    Crowd,
    Signal,
    Pass,
    Herd,
    End,
}

const NAMES: [&str; 17] = [
    "maps",
    "unmaps",
    "touches",
    "checks",
    "discards",
    "protects",
    "moves",
    "collapses",
    "splits",
    "populates",
    "forks",
    "wild accesses",
    "crowds",
    "signals",
    "tokens passed",
    "herds woken",
    "processes ended",
];

/// Bytes of a seat: the steps, then a word for each [`Op`], and the last one: whether it has made
/// all of its turns.
const SEAT: usize = 256;
const FINISHED: usize = SEAT - 8;
const _: () = assert!((1 + NAMES.len()) * 8 <= FINISHED);

/// The seats of all threads.
#[derive(Clone, Copy)]
pub struct Board {
    at: usize,
    seats: usize,
}

/// The line of one thread.
#[derive(Clone, Copy)]
pub struct Seat(usize);

impl Board {
    /// A board for so many threads, all zero, shared with the processes that are forked later.
    pub fn new(seats: usize) -> Result<Board> {
        let len = (seats * SEAT).next_multiple_of(PAGE);
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        let at = mem::mmap(0, len, RW, flags, -1, 0)?;
        Ok(Board { at, seats })
    }
    pub fn seat(&self, n: usize) -> Seat {
        assert!(n < self.seats);
        Seat(self.at + n * SEAT)
    }
}

impl Seat {
    /// One step, which tells the watchdog that the thread lives.
    pub fn step(self) {
        mem::store(self.0, self.steps() + 1);
    }
    pub fn steps(self) -> u64 {
        mem::load(self.0)
    }
    /// The thread has made its last turn of this round.
    pub fn finish(self) {
        mem::store(self.0 + FINISHED, 1);
    }
    pub fn is_finished(self) -> bool {
        mem::load(self.0 + FINISHED) != 0
    }
    /// Before the next round.
    pub fn begin(self) {
        mem::store(self.0 + FINISHED, 0);
    }
    /// One step in which `op` was done.
    pub fn count(self, op: Op) {
        let at = self.0 + 8 * (1 + op as usize);
        mem::store(at, mem::load(at) + 1);
        self.step();
    }
}

/// What was done, over all threads; what was not done is left out.
impl fmt::Display for Board {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut comma = "";
        for (n, name) in NAMES.iter().enumerate() {
            let words = (0..self.seats).map(|seat| mem::load(self.seat(seat).0 + 8 * (1 + n)));
            let sum: u64 = words.sum();
            if sum > 0 {
                write!(f, "{comma}{sum} {name}")?;
                comma = ", ";
            }
        }
        Ok(())
    }
}
