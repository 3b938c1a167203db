//! What one thread does, and the children that it forks.
use super::crowd;
use super::slots::{self, Arena, BLOCK, HUGE, SLOT, Slot};
use crate::board::{Op, Seat};
use crate::page::{self, Lineage, Stamp};
use crate::play;
use std::ops::Range;
use std::sync::MutexGuard;
use userland::random::Random;
use userland::sys::Errno;
use userland::sys::proc::{self, Fork, Status};

/// What a child does before it ends.
const CHILD_STEPS: u64 = 4;
/// Turns of a player between two crowds.
const CROWD: u64 = 2000;

pub struct Player<'a> {
    arena: &'a Arena,
    thread: play::Player,
    lineage: Lineage,
    seat: Seat,
    /// Turns until this one crowds memory, where it may. The first number is the first that it
    /// draws: it does not depend on what others do.
    until_crowd: Option<u64>,
}

/// The slots that a step holds: one or two.
type Held<'a> = Vec<MutexGuard<'a, Slot>>;

impl<'a> Player<'a> {
    pub fn new(arena: &'a Arena, mut thread: play::Player) -> Player<'a> {
        let crowds = arena.alone && crowd::allowed();
        Player {
            until_crowd: crowds.then(|| thread.random.below(CROWD)),
            arena,
            seat: thread.seat,
            thread,
            lineage: Lineage::first(),
        }
    }

    /// Plays until the end.
    pub fn play(&mut self) {
        while self.thread.goes_on() {
            match &mut self.until_crowd {
                Some(0) => {
                    self.until_crowd = Some(CROWD);
                    self.crowd();
                }
                Some(turns) => {
                    *turns -= 1;
                    self.work();
                }
                None => self.work(),
            }
        }
    }

    fn stamp(&mut self) -> Stamp {
        self.thread.stamp()
    }

    fn crowd(&mut self) {
        let arena = self.arena;
        let world = arena.world.write();
        let mut random = self.thread.random.clone();
        if let Err(why) = crowd::crowd(arena, &mut random, || self.stamp()) {
            page::wrong(0, &format!("memory cannot be filled: {why:?}"));
        }
        self.thread.random = random;
        self.seat.count(Op::Crowd);
        drop(world);
    }

    /// One step with one or two slots, while all others work.
    fn work(&mut self) {
        let arena = self.arena;
        let world = arena.world.read();
        let slots = arena.len() as u64;
        let (a, b) = (
            self.thread.random.below(slots),
            self.thread.random.below(slots),
        );
        let mut held: Held<'_> = vec![arena.slot(a.min(b) as usize)];
        if a != b {
            held.push(arena.slot(a.max(b) as usize));
        }
        self.step(&mut held);
        drop(world);
    }

    /// A range of a slot: a few pages, blocks, or anything.
    fn range(&mut self) -> Range<usize> {
        let below = |random: &mut Random, n: usize| random.below(n as u64) as usize;
        let random = &mut self.thread.random;
        let (start, len) = match random.below(8) {
            0..3 => (below(random, SLOT), 1 + below(random, BLOCK)),
            3 => {
                let blocks = 1 + below(random, 8);
                (below(random, SLOT / BLOCK) * BLOCK, blocks * BLOCK)
            }
            4 => (below(random, SLOT / HUGE) * HUGE, HUGE),
            // Where a folio begins: another page there is what the kernel meets first when it looks
            // at the folio.
            5..7 => (below(random, SLOT / HUGE) * HUGE, 1),
            _ => (below(random, SLOT), 1 + below(random, SLOT)),
        };
        start..(start + len).min(SLOT)
    }

    fn step(&mut self, held: &mut Held<'_>) {
        let n = self.thread.random.below(held.len() as u64) as usize;
        let range = self.range();
        let op = match self.thread.random.below(32) {
            0..4 => Op::Map,
            4 => Op::Unmap,
            5..13 => Op::Touch,
            13..17 => Op::Check,
            17..19 => Op::Discard,
            19..20 => Op::Protect,
            20..24 => Op::Move,
            24..27 => Op::Collapse,
            27..29 => Op::Fork,
            _ => Op::Wild,
        };
        if self.act(op, held, n, range) {
            self.seat.count(op);
        }
    }

    /// Does it to a range of the n-th slot that is held; whether it was done.
    fn act(&mut self, op: Op, held: &mut Held<'_>, n: usize, range: Range<usize>) -> bool {
        match op {
            Op::Map => {
                let advice = match self.thread.random.below(8) {
                    0 => None,
                    1 => Some(libc::MADV_NOHUGEPAGE),
                    _ => Some(libc::MADV_HUGEPAGE),
                };
                held[n].map(range, advice);
            }
            Op::Unmap => held[n].unmap(range),
            Op::Touch => self.touch(&mut held[n], range),
            Op::Check => held[n].check(range),
            Op::Discard => held[n].discard(range),
            Op::Protect => return held[n].protect(range),
            Op::Move => {
                let to = self.thread.random.below(held.len() as u64) as usize;
                let room = SLOT - range.len() + 1;
                let at = self.thread.random.below(room as u64) as usize;
                return slots::move_pages(held, n, range, to, at);
            }
            Op::Collapse => return held[n].collapse(range.start / HUGE),
            Op::Fork => return self.lineage.may_fork() && self.fork(held),
            Op::Wild => self.wild(),
            _ => {}
        }
        true
    }

    /// Writes all pages of the range, or some.
    fn touch(&mut self, slot: &mut Slot, range: Range<usize>) {
        let some = self.thread.random.below(4);
        for page in slot.mapped(range).collect::<Vec<_>>() {
            if self.thread.random.one_in(1 + 3 * some) {
                let stamp = self.stamp();
                slot.touch(page, stamp);
            }
        }
    }

    /// Reads and writes pages that others may be taking away.
    fn wild(&mut self) {
        for _ in 0..32 {
            let at = self.arena.page(self.thread.random.bits() as u32 as usize);
            let thread = self.thread.random.below(self.arena.threads as u64) as u8;
            let stamp = self.stamp();
            page::wild(at, thread, &self.lineage, stamp);
        }
    }

    /// A child checks what this thread has, plays with it and goes, while this one writes to it,
    /// too.
    fn fork(&mut self, held: &mut Held<'_>) -> bool {
        match proc::fork() {
            Ok(Fork::Child) => {
                self.lineage.enter_child(self.thread.enter_child());
                self.child(held);
                proc::exit_now(0)
            }
            Ok(Fork::Parent(pid)) => {
                self.meanwhile(held);
                match proc::wait_for(pid) {
                    Ok(Status::Exited(0)) => true,
                    how => page::wrong(0, &format!("child {pid} ended with {how:?}")),
                }
            }
            Err(Errno(libc::EAGAIN)) => false,
            Err(why) => page::wrong(0, &format!("fork gives {why:?}")),
        }
    }

    fn child(&mut self, held: &mut Held<'_>) {
        for _ in 0..CHILD_STEPS {
            self.step(held);
        }
        for slot in held {
            slot.check(self.range());
        }
    }

    /// Writes what the child has, too: both copy.
    fn meanwhile(&mut self, held: &mut Held<'_>) {
        for slot in held.iter_mut() {
            let range = self.range();
            self.touch(slot, range);
        }
        self.wild();
    }
}
