//! Threads of two processes that wake each other through futexes, without time limits: a lost
//! wake-up stops them, and the watchdog sees it.
//!
//! In each round all meet at a barrier, whose last comer wakes the others in one of three ways;
//! then a token goes round among them, each waking only the next one.
use crate::board::Op;
use crate::page::wrong;
use crate::play::{Part, Player};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use userland::sys::mem::{self, PAGE, RW};
use userland::sys::proc::{self, Fork, Status, futex};
use userland::sys::{Errno, Result};

/// Times that each thread has the token in a round.
const LAPS: u32 = 4;
/// All bits of a futex's waiters.
const ALL: u32 = u32::MAX;

/// Words of a page that both processes share, each in a line of its own.
#[derive(Clone, Copy)]
struct Ring {
    at: usize,
    threads: u32,
}

/// Two processes with half of the threads each.
pub fn play(part: &Part) -> Result<()> {
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    let ring = Ring {
        at: mem::mmap(0, PAGE, RW, flags, -1, 0)?,
        threads: part.threads as u32,
    };
    let half = part.threads.div_ceil(2);
    let run = |first, threads| {
        let side = Part {
            first: part.first + first,
            threads,
            ..*part
        };
        side.run(|player| ring.run(player, part.first));
    };
    match proc::fork()? {
        Fork::Child => {
            run(half, part.threads - half);
            proc::exit_now(0)
        }
        Fork::Parent(pid) => {
            run(0, half);
            match proc::wait_for(pid)? {
                Status::Exited(0) => Ok(()),
                how => wrong(0, &format!("the other half ended with {how:?}")),
            }
        }
    }
}

impl Ring {
    fn word(self, n: usize) -> &'static AtomicU32 {
        mem::word32(self.at + n * 64)
    }
    /// Counts the passes; its remainder is the number of the thread that has the token.
    fn token(self) -> &'static AtomicU32 {
        self.word(0)
    }
    /// Counts the rounds; those that have come to the barrier wait for its change.
    fn gate(self) -> &'static AtomicU32 {
        self.word(1)
    }
    /// Where they are requeued to.
    fn yard(self) -> &'static AtomicU32 {
        self.word(2)
    }
    /// How many have come to the barrier.
    fn come(self) -> &'static AtomicU32 {
        self.word(3)
    }
    /// Whether this round is the last one.
    fn over(self) -> &'static AtomicU32 {
        self.word(4)
    }

    fn run(self, mut player: Player, first: usize) {
        let me = (player.place - first) as u32;
        for round in 1.. {
            if me == 0 && !player.goes_on() {
                self.over().store(1, SeqCst);
            }
            self.meet(&mut player);
            if self.over().load(SeqCst) == 1 {
                return;
            }
            self.pass(&player, me, round * LAPS * self.threads);
        }
    }

    /// The barrier.
    fn meet(self, player: &mut Player) {
        let round = self.gate().load(SeqCst);
        if self.come().fetch_add(1, SeqCst) + 1 == self.threads {
            self.come().store(0, SeqCst);
            let next = round.wrapping_add(1);
            self.gate().store(next, SeqCst);
            self.open(player.random.below(3), next);
            player.seat.count(Op::Herd);
        }
        while self.gate().load(SeqCst) == round {
            wait(self.gate(), round, ALL);
        }
    }

    /// Wakes those that wait at the gate: at once, one by one, or by way of the yard.
    fn open(self, way: u64, round: u32) {
        match way {
            0 => {
                wake(self.gate(), i32::MAX as u32, ALL);
            }
            1 => while wake(self.gate(), 1, ALL) > 0 {},
            _ => {
                let (yard, all) = (self.yard().as_ptr() as usize, i32::MAX as usize);
                let arguments = [1, all, yard, round as usize];
                if let Err(why) = futex(self.gate(), libc::FUTEX_CMP_REQUEUE, arguments) {
                    wrong(yard, &format!("FUTEX_CMP_REQUEUE gives {why:?}"));
                }
                while wake(self.yard(), 2, ALL) > 0 {}
            }
        }
    }

    /// Passes the token whenever this thread has it, until it has gone round often enough.
    fn pass(self, player: &Player, me: u32, end: u32) {
        let bit = |n: u32| 1 << (n % 32);
        loop {
            let token = self.token().load(SeqCst);
            if token == end {
                return;
            }
            if token % self.threads != me {
                wait(self.token(), token, bit(me));
                continue;
            }
            self.token().store(token + 1, SeqCst);
            let next = if token + 1 == end {
                ALL
            } else {
                bit((me + 1) % self.threads)
            };
            wake(self.token(), i32::MAX as u32, next);
            player.seat.count(Op::Pass);
        }
    }
}

/// Sleeps while the word has `value`, at most until somebody wakes one of the bits.
fn wait(word: &AtomicU32, value: u32, bits: u32) {
    let arguments = [value as usize, 0, 0, bits as usize];
    let done = futex(word, libc::FUTEX_WAIT_BITSET, arguments);
    if !matches!(done, Ok(_) | Err(Errno(libc::EAGAIN | libc::EINTR))) {
        wrong(
            word.as_ptr() as usize,
            &format!("futex wait gives {done:?}"),
        );
    }
}

/// Wakes at most `count` waiters for one of the bits; returns how many.
fn wake(word: &AtomicU32, count: u32, bits: u32) -> usize {
    let arguments = [count as usize, 0, 0, bits as usize];
    futex(word, libc::FUTEX_WAKE_BITSET, arguments)
        .unwrap_or_else(|why| wrong(word.as_ptr() as usize, &format!("futex wake gives {why:?}")))
}
