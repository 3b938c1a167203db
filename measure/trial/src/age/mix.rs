//! A machine's life: processes, files, the kernel's objects, the network and pins, as requests for
//! frames and their ends, from a seed.
//!
//! As Contiguitas (ISCA 2023) found in a fleet, some percent of memory cannot be moved, the
//! network's above all, then slabs and page tables. Most objects live shortly and few very long:
//! lifetimes are drawn from two exponential distributions for each use. Sizes of processes are
//! spread evenly over orders of magnitude. Load rises and falls between 50 and 95 %.

use crate::HUGE;
use crate::owners::{Mobility, Object, Owners};
use crate::policy::{Place, Policy, Want};
use fastrand::Rng;
use std::collections::VecDeque;
use std::f64::consts::TAU;

/// How often load rises and falls.
const WAVES: f64 = 12.0;
/// Percent of memory by use: at most so many for slabs, and in bursts for the network.
const SLABS: u64 = 6;
const NETWORK: u64 = 6;
/// Percent of memory that is used: files have what others leave.
const FULL: u64 = 98;
/// Folios of files that are given up at once for who finds nothing.
const GIVEN_UP: usize = 64;

/// A process and its folios.
struct Process {
    number: u32,
    folios: Vec<u32>,
    pages: u32,
    /// Pages that it will have.
    wanted: u32,
    /// The order of its folios where there are such.
    order: u8,
    /// Pages from its first on that it pins: buffers of a ring.
    pins: u32,
}

/// Objects of the kernel: those that live shortly, and long.
#[derive(Default)]
struct Kept {
    short: Vec<u32>,
    long: Vec<u32>,
    frames: u64,
}

/// Requests for blocks of some orders, and those that were fulfilled.
#[derive(Clone, Copy, Default)]
pub struct Tries {
    /// By order.
    pub wanted: [u64; 10],
    pub had: [u64; 10],
}

/// A life.
pub struct Mix<'a> {
    policy: &'a mut dyn Policy,
    /// Who has what.
    pub owners: Owners,
    frames: u64,
    random: Rng,
    processes: Vec<Process>,
    begun: u32,
    private: u64,
    /// Folios of files, the one that was read first in front.
    files: VecDeque<u32>,
    slabs: Kept,
    network: Kept,
    /// Requests so far, by order.
    pub tries: Tries,
    /// Allocations and frees.
    pub events: u64,
}

impl<'a> Mix<'a> {
    /// One that begins with all of so many frames free.
    pub fn new(policy: &'a mut dyn Policy, frames: u32, seed: u64) -> Mix<'a> {
        Mix {
            policy,
            owners: Owners::new(frames),
            frames: frames.into(),
            random: Rng::with_seed(seed),
            processes: Vec::new(),
            begun: 0,
            private: 0,
            files: VecDeque::new(),
            slabs: Kept::default(),
            network: Kept::default(),
            tries: Tries::default(),
            events: 0,
        }
    }
    /// Lives until so many events, of `all`, have been.
    pub fn until(&mut self, events: u64, all: u64) {
        while self.events < events {
            let turn = (self.events as f64 / all as f64 * WAVES * TAU).cos();
            let load = ((0.725 - 0.225 * turn) * self.frames as f64) as u64;
            let full = self.frames * FULL / 100;
            let wants_room = self.policy.wants_room();
            self.give_up_files(if wants_room { GIVEN_UP } else { 0 }, full);
            match self.random.u8(..100) {
                0..55 => self.step_process(load - self.frames * (SLABS + NETWORK) / 100),
                55..70 => self.step_files(full),
                70..85 => self.step_slabs(self.frames * SLABS / 100),
                _ => self.step_network(self.frames * NETWORK / 100),
            }
        }
    }

    /// All are gone.
    #[cfg(test)]
    pub fn end_all(&mut self) {
        while !self.processes.is_empty() {
            self.end_process();
        }
        let kept = [&mut self.slabs, &mut self.network];
        let mut all = Vec::from_iter(self.files.drain(..));
        kept.into_iter()
            .for_each(|it| all.extend(it.short.drain(..).chain(it.long.drain(..))));
        all.into_iter().for_each(|id| self.end(id));
    }

    /// Takes a block; large ones of processes need not be had.
    pub fn begin(&mut self, order: u8, mobility: Mobility) -> Option<u32> {
        self.begin_at(order, mobility, None)
    }
    fn begin_at(&mut self, order: u8, mobility: Mobility, place: Option<Place>) -> Option<u32> {
        self.events += 1;
        let want = Want {
            order,
            mobility,
            place,
        };
        let must = order == 0 || mobility != Mobility::Movable;
        self.tries.wanted[order as usize] += 1;
        let mut first = self.policy.take(want, &mut self.owners);
        if first.is_none() && order != 0 && self.policy.compact(order, &mut self.owners) {
            first = self.policy.take(want, &mut self.owners);
        }
        let had = first.is_some();
        self.tries.had[order as usize] += u64::from(had);
        while first.is_none() && must && !self.files.is_empty() {
            self.give_up_files(GIVEN_UP, u64::MAX);
            first = self.policy.take(want, &mut self.owners);
        }
        let first = first?;
        Some(self.owners.begin(Object {
            first,
            order,
            mobility,
        }))
    }
    /// So many files, the oldest first, and more while more than `most` frames are used.
    fn give_up_files(&mut self, least: usize, most: u64) {
        let mut left = least;
        while (self.owners.used > most || left > 0)
            && let Some(id) = self.files.pop_front()
        {
            left = left.saturating_sub(1);
            self.end(id);
        }
    }
    fn end(&mut self, id: u32) {
        self.events += 1;
        let object = self.owners.end(id);
        self.policy.give(object);
    }

    /// A process grows or ends.
    fn step_process(&mut self, most: u64) {
        if self.private >= most {
            return self.end_process();
        }
        let growing = |it: &Process| it.pages < it.wanted;
        let at = match self.processes.len() {
            0 => None,
            // Who began last grows most.
            many => (0..4)
                .map(|n| many - 1 - (self.random.usize(..many) >> n))
                .find(|at| growing(&self.processes[*at])),
        };
        match at {
            Some(at) => self.grow(at),
            None => self.begin_process(),
        }
    }
    fn begin_process(&mut self) {
        let order = [0, 0, 4, HUGE][self.random.usize(..4)];
        let mut folios = Vec::new();
        // Its kernel stack, and its own objects.
        for order in [2, 0, 0, 0] {
            folios.extend(self.begin(order, Mobility::Unmovable));
        }
        let wanted = 32 << self.random.u32(..14);
        let pins = if self.random.u8(..32) == 0 { 256 } else { 0 };
        let pages = 0;
        self.begun += 1;
        self.processes.push(Process {
            number: self.begun,
            folios,
            pages,
            wanted,
            order,
            pins,
        });
    }
    fn grow(&mut self, at: usize) {
        let Process {
            number,
            pages,
            order,
            ..
        } = self.processes[at];
        if pages.is_multiple_of(1 << HUGE) {
            let table = self.begin(0, Mobility::Unmovable);
            self.processes[at].folios.extend(table);
        }
        // Where a large one does not fit, or cannot be had, it is a smaller one.
        for order in [order, order.min(4), 0] {
            let place = Some(Place {
                process: number,
                page: pages,
            });
            if pages.is_multiple_of(1 << order)
                && let Some(id) = self.begin_at(order, Mobility::Movable, place)
            {
                if pages < self.processes[at].pins {
                    self.policy.pin(id, &mut self.owners);
                }
                self.processes[at].folios.push(id);
                self.processes[at].pages += 1 << order;
                self.private += 1 << order;
                return;
            }
        }
    }
    /// Of four, the one that began last ends.
    fn end_process(&mut self) {
        let many = self.processes.len();
        let Some(at) = (0..4).map(|_| self.random.usize(..many)).max() else {
            return;
        };
        let process = self.processes.remove(at);
        self.private -= u64::from(process.pages);
        for id in process.folios {
            self.end(id);
        }
    }

    /// Files are read as long as there is room; then the oldest go, and some that are deleted.
    fn step_files(&mut self, most: u64) {
        if self.owners.used < most {
            let order = [0, 0, 0, 0, 0, 2, 2, 4][self.random.usize(..8)];
            let id = self
                .begin(order, Mobility::Movable)
                .or_else(|| self.begin(0, Mobility::Movable));
            return self.files.extend(id);
        }
        let id = match self.random.u8(..5) {
            0 if !self.files.is_empty() => self
                .files
                .swap_remove_back(self.random.usize(..self.files.len())),
            _ => self.files.pop_front(),
        };
        if let Some(id) = id {
            self.end(id);
        }
    }
    fn step_slabs(&mut self, most: u64) {
        let order = [0, 0, 0, 1, 3][self.random.usize(..5)];
        let mobility = [
            Mobility::Unmovable,
            Mobility::Unmovable,
            Mobility::Reclaimable,
        ][self.random.usize(..3)];
        let lives_long = self.random.u8(..10) < 2;
        let mut kept = std::mem::take(&mut self.slabs);
        self.step_kept(&mut kept, most, order, mobility, lives_long);
        self.slabs = kept;
    }
    /// Bursts: a quarter of the time five times as much.
    fn step_network(&mut self, most: u64) {
        let bursts = self.events >> 20 & 3 == 0;
        let most = if bursts { most } else { most / 5 };
        let order = [0, 3][self.random.usize(..2)];
        let lives_long = self.random.u8(..50) == 0;
        let mut kept = std::mem::take(&mut self.network);
        self.step_kept(&mut kept, most, order, Mobility::Unmovable, lives_long);
        self.network = kept;
    }
    fn step_kept(&mut self, kept: &mut Kept, most: u64, order: u8, mobility: Mobility, long: bool) {
        // About as many come as go, when there are enough.
        if kept.frames < most && (kept.frames < most / 2 || self.random.bool()) {
            let of = if long {
                &mut kept.long
            } else {
                &mut kept.short
            };
            if let Some(id) = self.begin(order, mobility) {
                of.push(id);
                kept.frames += 1 << order;
            }
            return;
        }
        let of = match self.random.u8(..50) == 0 || kept.short.is_empty() {
            true => &mut kept.long,
            false => &mut kept.short,
        };
        if !of.is_empty() {
            let id = of.swap_remove(self.random.usize(..of.len()));
            kept.frames -= 1 << self.owners.get(id).order;
            self.end(id);
        }
    }
}
