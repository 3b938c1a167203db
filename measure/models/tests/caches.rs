//! The caches beside a slow reference: lists of (line, time of the last use).

mod common;

use common::SMALL;
use models::cache::{Cache, Line};
use models::caches::{Caches, Counts};
use models::config::{CacheShape, Fill, Preset};
use models::figures::{Events, Served};
use proptest::prelude::*;

/// A cache as a list; evicts the line of the set with the earliest use.
struct Slow {
    sets: u64,
    ways: usize,
    lines: Vec<(Line, u64)>,
}

impl Slow {
    fn new(shape: CacheShape) -> Self {
        let ways = shape.ways as usize;
        let sets = shape.bytes / 64 / ways as u64;
        let lines = Vec::new();
        Self { sets, ways, lines }
    }
    fn at(&mut self, number: u64) -> Option<&mut (Line, u64)> {
        let mut lines = self.lines.iter_mut();
        lines.find(|(line, _)| line.number == number)
    }
    fn has(&mut self, number: u64) -> bool {
        self.at(number).is_some()
    }
    fn modified(&mut self, number: u64) -> bool {
        self.at(number).is_some_and(|(line, _)| line.modified)
    }
    fn take(&mut self, number: u64) -> Option<Line> {
        let mut lines = self.lines.iter();
        let at = lines.position(|(line, _)| line.number == number)?;
        Some(self.lines.remove(at).0)
    }
    /// Uses a line, modified from now on if it was or is to be; what it displaces.
    fn put(&mut self, line: Line, now: u64) -> Option<Line> {
        if let Some((old, time)) = self.at(line.number) {
            (old.modified, *time) = (old.modified || line.modified, now);
            return None;
        }
        self.lines.push((line, now));
        let set = line.number % self.sets;
        let of_set = self
            .lines
            .iter()
            .filter(|(line, _)| line.number % self.sets == set);
        let oldest = of_set
            .clone()
            .min_by_key(|(_, time)| *time)
            .map(|(line, _)| line.number);
        if of_set.count() <= self.ways {
            return None;
        }
        self.take(oldest.expect("the new line is one"))
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Op {
    Read,
    Write,
    Fetch,
}

struct SlowMachine {
    cpus: Vec<[Slow; 3]>,
    last: Slow,
    victims: bool,
    now: u64,
    served: Served,
    events: Events,
}

const L1I: usize = 0;
const L1D: usize = 1;
const L2: usize = 2;

impl SlowMachine {
    fn new(preset: &Preset, cpus: usize) -> Self {
        let shapes = [preset.l1i, preset.l1d, preset.l2.expect("a second level")];
        Self {
            cpus: (0..cpus).map(|_| shapes.map(Slow::new)).collect(),
            last: Slow::new(preset.last),
            victims: preset.fill == Fill::Victims,
            now: 0,
            served: Served::default(),
            events: Events::default(),
        }
    }
    fn keep(&mut self, line: Line) {
        self.now += 1;
        let gone = self.last.put(line, self.now);
        self.events.memory_writes += u64::from(gone.is_some_and(|line| line.modified));
    }
    fn step(&mut self, cpu: usize, op: Op, number: u64) {
        let write = op == Op::Write;
        let l1 = if op == Op::Fetch { L1I } else { L1D };
        let others: Vec<usize> = (0..self.cpus.len()).filter(|&other| other != cpu).collect();
        let in_l1 = self.cpus[cpu][l1].has(number);
        let in_l2 = self.cpus[cpu][L2].has(number);
        let theirs = others.iter().any(|&other| self.cpus[other][L2].has(number));
        let dirty = others
            .iter()
            .any(|&other| self.cpus[other][L2].modified(number));
        let mut modified = write || self.cpus[cpu][L2].modified(number);
        let reaches_others = write || !in_l1 && !in_l2;
        if write && theirs {
            self.events.invalidations += 1;
            for &other in &others {
                self.cpus[other][L1D].take(number);
                self.cpus[other][L2].take(number);
            }
        }
        if reaches_others && !write && dirty {
            self.events.writebacks += 1;
            let modified = true;
            self.keep(Line { number, modified });
            for &other in &others {
                for level in [L1D, L2] {
                    if let Some((line, _)) = self.cpus[other][level].at(number) {
                        line.modified = false;
                    }
                }
            }
        }
        let clean = Line {
            number,
            modified: false,
        };
        if in_l1 {
            self.served.l1 += 1;
        } else if in_l2 {
            self.served.l2 += 1;
        } else if dirty {
            self.served.remote += 1;
        } else if self.last.has(number) {
            self.served.last += 1;
            if self.victims && (write || !theirs) {
                modified |= self.last.take(number).expect("it is there").modified;
            } else {
                self.keep(clean);
            }
        } else {
            self.served.memory += 1;
            if !self.victims {
                self.keep(clean);
            }
        }
        self.now += 1;
        let line = Line { number, modified };
        // A hit above is no use of the levels below.
        if !in_l1 {
            if let Some(mut gone) = self.cpus[cpu][L2].put(line, self.now) {
                gone.modified |= self.cpus[cpu][L1D]
                    .take(gone.number)
                    .is_some_and(|l| l.modified);
                self.events.writebacks += u64::from(gone.modified);
                if gone.modified || self.victims {
                    self.keep(gone);
                }
            }
        } else if write {
            self.cpus[cpu][L2]
                .at(number)
                .expect("it is below, too")
                .0
                .modified = true;
        }
        let line = Line {
            modified: modified && op != Op::Fetch,
            ..line
        };
        self.cpus[cpu][l1].put(line, self.now);
    }
}

fn shape(sets: u64, ways: u32) -> CacheShape {
    CacheShape::new(sets * 64 * u64::from(ways), ways)
}

prop_compose! {
    fn presets()(
        sets in prop::array::uniform4(1u64..6),
        ways in prop::array::uniform4(1u32..5),
        victims: bool,
    ) -> Preset {
        Preset {
            l1i: shape(sets[0], ways[0]),
            l1d: shape(sets[1], ways[1]),
            l2: Some(shape(sets[2], ways[2])),
            last: shape(sets[3], ways[3]),
            fill: if victims { Fill::Victims } else { Fill::Misses },
            ..SMALL
        }
    }
}

fn ops() -> impl Strategy<Value = Vec<(usize, Op, u64)>> {
    let op = prop_oneof![4 => Just(Op::Read), 3 => Just(Op::Write), 1 => Just(Op::Fetch)];
    prop::collection::vec((0usize..3, op, 0u64..24), 1..400)
}

fn sorted(lines: impl IntoIterator<Item = Line>) -> Vec<(u64, bool)> {
    let lines = lines.into_iter().map(|line| (line.number, line.modified));
    let mut lines: Vec<_> = lines.collect();
    lines.sort();
    lines
}

proptest! {
    /// Each access is served by the same level, and after it each CPU holds the same lines.
    #[test]
    fn beside_the_reference(preset in presets(), ops in ops(), cpus in 1usize..4) {
        let mut caches = Caches::new(&preset, cpus).expect("a possible shape");
        let mut slow = SlowMachine::new(&preset, cpus);
        let (mut served, mut events) = (Served::default(), Events::default());
        for (cpu, op, number) in ops {
            let cpu = cpu % cpus;
            let mut counts = Counts { served: &mut served, events: &mut events };
            match op {
                Op::Fetch => caches.fetch(cpu, number, &mut counts),
                _ => caches.data(cpu, number, op == Op::Write, &mut counts),
            }
            slow.step(cpu, op, number);
            prop_assert_eq!((served, events), (slow.served, slow.events));
            for cpu in 0..cpus {
                let held = slow.cpus[cpu][L2].lines.iter().map(|(line, _)| *line);
                prop_assert_eq!(sorted(caches.held(cpu)), sorted(held));
            }
        }
    }

    /// What one CPU has modified no other has.
    #[test]
    fn one_writer(preset in presets(), ops in ops(), has_l2: bool) {
        let fill = if has_l2 { preset.fill } else { Fill::Misses };
        let preset = Preset { l2: preset.l2.filter(|_| has_l2), fill, ..preset };
        let mut caches = Caches::new(&preset, 3).expect("a possible shape");
        let (mut served, mut events) = (Served::default(), Events::default());
        for (cpu, op, number) in ops {
            let mut counts = Counts { served: &mut served, events: &mut events };
            match op {
                Op::Fetch => caches.fetch(cpu, number, &mut counts),
                _ => caches.data(cpu, number, op == Op::Write, &mut counts),
            }
            let holders = (0..3).filter(|&cpu| caches.held(cpu).iter().any(|l| l.number == number));
            let holders: Vec<usize> = holders.collect();
            let modified = |cpu: &usize| {
                caches.held(*cpu).contains(&Line { number, modified: true })
            };
            if op == Op::Write {
                prop_assert_eq!(&holders, &[cpu]);
                prop_assert!(modified(&cpu));
            }
            prop_assert!(holders.len() == 1 || !holders.iter().any(modified));
        }
    }

    /// The number of sets need not be a power of two.
    #[test]
    fn one_cache(sets in 1u64..9, ways in 1u32..9, numbers in prop::collection::vec(0u64..60, 1..300)) {
        let mut cache = Cache::new("a cache", shape(sets, ways)).expect("a possible shape");
        let mut slow = Slow::new(shape(sets, ways));
        for (now, number) in numbers.into_iter().enumerate() {
            let line = Line { number, modified: false };
            let was_there = slow.has(number);
            let gone = slow.put(line, now as u64);
            prop_assert_eq!(cache.peek(number).is_some(), was_there);
            prop_assert!(!cache.is_first(number, false) || was_there);
            prop_assert_eq!(cache.find(number).is_some(), was_there);
            if !was_there {
                prop_assert_eq!(cache.insert(line), gone);
            }
            prop_assert!(cache.is_first(number, false) && !cache.is_first(number, true));
        }
    }
}

#[test]
fn shapes_that_cannot_be() {
    for (bytes, ways) in [(0, 1), (1024, 0), (1024, 3), (63, 1)] {
        let error = Cache::new("l1d", CacheShape { bytes, ways }).expect_err("no such cache");
        assert!(error.to_string().contains("l1d"), "{error}");
    }
    let preset = Preset {
        l2: None,
        fill: Fill::Victims,
        ..SMALL
    };
    Caches::new(&preset, 1).expect_err("victims of what?");
}
