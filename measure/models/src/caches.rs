//! The caches of all CPUs, and what moves between them.
//!
//! Each CPU has an instruction cache, a data cache and, if the core has one, a private second level
//! that holds all that the data cache holds. The last level is shared, and neither holds all lines
//! of the others nor excludes them, but for [`Fill::Victims`]. All are write-back and
//! write-allocate. At most one CPU has a line modified; then no other has it (MESI, with E counted
//! as a clean line: it becomes modified without a message). What another CPU modified is handed
//! over, and counted as `remote`; what others hold clean is taken from the last level or memory.
//!
//! Left out: prefetching, write streaming, instruction caches that see stores.

use crate::cache::{Cache, Line};
use crate::config::{BadPreset, Fill, Preset};
use crate::figures::{Events, Served};

/// The caches of a machine.
#[derive(Clone, Debug)]
pub struct Caches {
    cpus: Vec<Private>,
    last: Cache,
    fill: Fill,
}

#[derive(Clone, Debug)]
struct Private {
    l1i: Cache,
    l1d: Cache,
    l2: Option<Cache>,
}

/// What other CPUs had of a line.
#[derive(Clone, Copy, Default)]
struct Elsewhere {
    held: bool,
    modified: bool,
}

/// What the accesses of a CPU count.
#[derive(Debug)]
pub struct Counts<'a> {
    /// What served them.
    pub served: &'a mut Served,
    /// What else happened.
    pub events: &'a mut Events,
}

impl Private {
    /// The level that holds each line of data that the CPU has.
    fn outer(&mut self) -> &mut Cache {
        self.l2.as_mut().unwrap_or(&mut self.l1d)
    }
}

impl Caches {
    /// Empty caches.
    pub fn new(preset: &Preset, cpus: usize) -> Result<Self, BadPreset> {
        if preset.fill == Fill::Victims && preset.l2.is_none() {
            let text = "a last level of victims, without a private second level";
            return Err(BadPreset(text.to_owned()));
        }
        let private = Private {
            l1i: Cache::new("l1i", preset.l1i)?,
            l1d: Cache::new("l1d", preset.l1d)?,
            l2: preset.l2.map(|shape| Cache::new("l2", shape)).transpose()?,
        };
        Ok(Self {
            cpus: vec![private; cpus],
            last: Cache::new("last level", preset.last)?,
            fill: preset.fill,
        })
    }

    /// One read or write of a line by `cpu`, through its data cache.
    #[inline]
    pub fn data(&mut self, cpu: usize, number: u64, write: bool, counts: &mut Counts<'_>) {
        if self.cpus[cpu].l1d.is_first(number, write) {
            counts.served.l1 += 1;
        } else {
            self.data_slow(cpu, number, write, counts);
        }
    }

    fn data_slow(&mut self, cpu: usize, number: u64, write: bool, counts: &mut Counts<'_>) {
        if let Some(modified) = self.cpus[cpu].l1d.find(number) {
            counts.served.l1 += 1;
            if write && !modified {
                self.own(cpu, number, counts.events);
                self.cpus[cpu].l1d.mark(number, true);
            }
            return;
        }
        let modified = self.below(cpu, number, write, counts);
        let line = Line { number, modified };
        let Some(victim) = self.cpus[cpu].l1d.insert(line) else {
            return;
        };
        // The second level knows already that the line is modified.
        if self.cpus[cpu].l2.is_none() {
            self.evict(victim, counts.events);
        }
    }

    /// One fetch of a line by `cpu`, through its instruction cache.
    #[inline]
    pub fn fetch(&mut self, cpu: usize, number: u64, counts: &mut Counts<'_>) {
        let l1i = &mut self.cpus[cpu].l1i;
        if l1i.is_first(number, false) || l1i.find(number).is_some() {
            counts.served.l1 += 1;
            return;
        }
        self.below(cpu, number, false, counts);
        let line = Line {
            number,
            modified: false,
        };
        self.cpus[cpu].l1i.insert(line);
    }

    /// Brings a line to `cpu` that its first level has not got; returns whether the CPU now has it
    /// modified.
    fn below(&mut self, cpu: usize, number: u64, write: bool, counts: &mut Counts<'_>) -> bool {
        if let Some(l2) = &mut self.cpus[cpu].l2
            && let Some(modified) = l2.find(number)
        {
            counts.served.l2 += 1;
            if write && !modified {
                self.own(cpu, number, counts.events);
            }
            return write || modified;
        }
        let mut modified = write;
        let elsewhere = self.snoop(cpu, number, write, counts.events);
        if elsewhere.modified {
            counts.served.remote += 1;
        } else if self.last.find(number).is_some() {
            counts.served.last += 1;
            // A line that CPUs share stays.
            if self.fill == Fill::Victims && (write || !elsewhere.held) {
                modified |= self.last.remove(number) == Some(true);
            }
        } else {
            counts.served.memory += 1;
            if self.fill == Fill::Misses {
                let clean = Line {
                    number,
                    modified: false,
                };
                self.keep(clean, counts.events);
            }
        }
        let line = Line { number, modified };
        if let Some(l2) = &mut self.cpus[cpu].l2
            && let Some(victim) = l2.insert(line)
        {
            // The second level knew already if it was modified.
            self.cpus[cpu].l1d.remove(victim.number);
            self.evict(victim, counts.events);
        }
        modified
    }

    /// Makes a clean line of `cpu` its own before it is modified.
    fn own(&mut self, cpu: usize, number: u64, events: &mut Events) {
        self.snoop(cpu, number, true, events);
        self.cpus[cpu].outer().mark(number, true);
    }

    /// Asks the other CPUs for a line. For a write they lose it; for a read what one had modified
    /// goes to the last level, too, and is clean from then on.
    fn snoop(&mut self, cpu: usize, number: u64, write: bool, events: &mut Events) -> Elsewhere {
        let mut elsewhere = Elsewhere::default();
        for other in (0..self.cpus.len()).filter(|&other| other != cpu) {
            let other = &mut self.cpus[other];
            let Some(modified) = other.outer().peek(number) else {
                continue;
            };
            elsewhere.held = true;
            elsewhere.modified |= modified;
            if write {
                other.l1d.remove(number);
                other.outer().remove(number);
            } else if modified {
                other.l1d.mark(number, false);
                other.outer().mark(number, false);
            }
        }
        if elsewhere.modified && !write {
            events.writebacks += 1;
            let modified = true;
            self.keep(Line { number, modified }, events);
        }
        events.invalidations += u64::from(write && elsewhere.held);
        elsewhere
    }

    /// What becomes of a line that leaves the private caches of a CPU.
    fn evict(&mut self, victim: Line, events: &mut Events) {
        events.writebacks += u64::from(victim.modified);
        if victim.modified || self.fill == Fill::Victims {
            self.keep(victim, events);
        }
    }

    /// Puts a line into the last level.
    fn keep(&mut self, line: Line, events: &mut Events) {
        if let Some(modified) = self.last.find(line.number) {
            self.last.mark(line.number, modified || line.modified);
        } else if let Some(victim) = self.last.insert(line) {
            events.memory_writes += u64::from(victim.modified);
        }
    }

    /// The lines that the data side of `cpu` holds, in no order: for tests.
    pub fn held(&self, cpu: usize) -> Vec<Line> {
        let cpu = &self.cpus[cpu];
        cpu.l2.as_ref().unwrap_or(&cpu.l1d).lines().collect()
    }
}
