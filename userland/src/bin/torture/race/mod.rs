//! Threads that access memory while others change its mapping, without any lock between the two.
mod common;
mod moved;
mod pairs;
mod wiped;

use crate::board::Op;
use crate::page::{Stamp, wrong};
use crate::play::{Part, Player};
use common::Common;
pub use common::{MOST, Memory};
use moved::Moved;
use pairs::Pairs;
use std::sync::Barrier;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering::SeqCst};
use userland::random::Random;
use userland::sys::mem::PAGE;
use userland::sys::{Result, call, proc, sig};
use wiped::Wiped;

/// A signal that queues: none may be lost.
const SIGNAL: i32 = 40;
/// Words of a page in front of those of the threads.
const WORDS: usize = 64;

/// Where the thread of this stamp has its word in the page at `page`.
fn word(page: usize, stamp: Stamp) -> usize {
    page + (WORDS + usize::from(stamp.thread())) * 8
}

/// What the threads of one process share.
struct Race {
    moved: Moved,
    wiped: Wiped,
    common: Common,
    pairs: Pairs,
    /// Thread numbers, 0 before a thread runs.
    threads: Vec<AtomicI32>,
    sent: AtomicU64,
    together: Barrier,
}

/// Plays with the threads of this process; `memory` is shared with other processes.
pub fn play(part: &Part, memory: Memory) -> Result<()> {
    sig::count(SIGNAL, libc::SA_RESTART | libc::SA_ONSTACK, &[])?;
    let race = Race {
        moved: Moved::new()?,
        wiped: Wiped::new()?,
        common: Common::new(memory)?,
        pairs: Pairs::new(part.threads)?,
        threads: (0..part.threads).map(|_| AtomicI32::new(0)).collect(),
        sent: AtomicU64::new(0),
        together: Barrier::new(part.threads),
    };
    part.run(|player| race.run(player));
    Ok(())
}

impl Race {
    fn run(&self, mut player: Player) {
        let tid = call(libc::SYS_gettid, [0; 6]).unwrap_or(0);
        self.threads[player.number].store(tid as i32, SeqCst);
        let (mut moved, mut wiped) = (self.moved.mine(), self.wiped.mine());
        let mut common = self.common.mine(player.place);
        let mut pairs = self.pairs.mine(player.number);
        while player.goes_on() {
            let (stamp, seat) = (player.stamp(), player.seat);
            let random = &mut player.random;
            match random.below(1000) {
                0..330 => self.moved.step(&mut moved, random, stamp, seat),
                330..660 => self.wiped.step(&mut wiped, random, stamp, seat),
                660..890 => self.common.step(&mut common, random, stamp, seat),
                890..990 => self.pairs.step(&mut pairs, random, seat),
                _ => self.signal(random, seat),
            }
        }
        self.settle(&mut player);
    }

    /// Signals a thread, which may be this one.
    fn signal(&self, random: &mut Random, seat: crate::board::Seat) {
        let to = &self.threads[random.below(self.threads.len() as u64) as usize];
        let tid = to.load(SeqCst);
        let send = [
            proc::getpid() as usize,
            tid as usize,
            SIGNAL as usize,
            0,
            0,
            0,
        ];
        // A full queue refuses.
        if tid != 0 && call(libc::SYS_tgkill, send).is_ok() {
            self.sent.fetch_add(1, SeqCst);
            seat.count(Op::Signal);
        }
    }

    /// Every signal that was sent was handled, once all threads have left the kernel again.
    fn settle(&self, player: &mut Player) {
        self.together.wait();
        std::thread::yield_now();
        self.together.wait();
        let (sent, seen) = (self.sent.load(SeqCst), sig::seen(SIGNAL));
        if player.number == 0 && sent != seen {
            wrong(PAGE, &format!("{sent} signals were sent, {seen} handled"));
        }
    }
}
