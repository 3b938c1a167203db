//! A machine for tests: CPUs that read and write the pages of a space, whose TLBs hold what they
//! have read until they drop it. CPU 0 changes the entries.

use super::{Batch, CAPACITY, Memory, Subject};
use crate::Random;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;

/// What an entry says, and what a TLB holds of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Entry {
    memory: u64,
    writable: bool,
}

/// A CPU.
#[derive(Clone, Default)]
struct Cpu {
    /// What its TLB holds, by page.
    tlb: BTreeMap<u64, Entry>,
    running: bool,
    ran: bool,
}

/// CPUs, and a space in which some of them run.
pub struct Machine {
    cpus: Vec<Cpu>,
    entries: BTreeMap<u64, Entry>,
    /// The next memory that is mapped.
    next: u64,
    owed: Range<u64>,
    kept: Vec<Memory>,
    /// What was unmapped, and is neither kept nor free.
    loose: Vec<Memory>,
    flushes: usize,
    singly: u64,
    interrupts: usize,
    /// What other CPUs do next, where they do something.
    others: Option<Random>,
}

impl Machine {
    /// So many CPUs, 64 at most; CPU 0 runs in the space, of which nothing is mapped.
    pub fn new(cpus: usize) -> Machine {
        let mut cpus = alloc::vec![Cpu::default(); cpus];
        (cpus[0].running, cpus[0].ran) = (true, true);
        Machine {
            cpus,
            entries: BTreeMap::new(),
            next: 0,
            owed: 0..0,
            kept: Vec::new(),
            loose: Vec::new(),
            flushes: 0,
            singly: 0,
            interrupts: 0,
            others: None,
        }
    }
    /// The other CPUs come to the space, read its pages and leave it, as the seed picks, before
    /// each step of a solution.
    pub fn busy(mut self, seed: u64) -> Machine {
        self.others = Some(Random(seed));
        self
    }
    /// A CPU runs a thread of the space from now on.
    pub fn run(&mut self, cpu: usize) {
        (self.cpus[cpu].running, self.cpus[cpu].ran) = (true, true);
    }
    /// A CPU runs something else from now on. Its TLB tells spaces from each other, and drops
    /// nothing.
    pub fn leave(&mut self, cpu: usize) {
        self.cpus[cpu].running = false;
    }
    /// Maps memory to pages that are absent, to be read and written.
    pub fn map(&mut self, pages: Range<u64>) {
        for page in pages {
            let (memory, writable) = (self.next, true);
            self.next += 1;
            self.entries.insert(page, Entry { memory, writable });
        }
    }
    /// A program on a CPU reads a page; whether it could.
    pub fn read(&mut self, cpu: usize, page: u64) -> bool {
        let running = self.cpus[cpu].running;
        assert!(running, "the test reads on CPU {cpu}, which is elsewhere");
        let entry = self.entries.get(&page).copied();
        let tlb = &mut self.cpus[cpu].tlb;
        if let (Some(entry), false) = (entry, tlb.contains_key(&page)) {
            tlb.insert(page, entry);
        }
        tlb.contains_key(&page)
    }
    /// Unmaps pages, which are mapped, one after the other, and tells a solution of each: its
    /// memory is to be given back.
    pub fn unmap(&mut self, solution: &Subject, pages: Range<u64>) {
        for page in pages {
            let entry = self.entries.remove(&page);
            let memory = entry.expect("the test unmaps what is not mapped").memory;
            self.loose.push(Memory(memory));
            solution.gather(self, page..page + 1, Some(Memory(memory)));
            assert!(
                self.loose.is_empty(),
                "the memory of page {page} is neither kept nor given back: it is lost"
            );
        }
    }
    /// Takes the right to write from pages, which are mapped, and tells a solution of all at once.
    pub fn protect(&mut self, solution: &Subject, pages: Range<u64>) {
        for page in pages.clone() {
            let entry = self.entries.get_mut(&page);
            entry
                .expect("the test protects what is not mapped")
                .writable = false;
        }
        solution.gather(self, pages, None);
    }
    /// Has a solution do all that it has gathered. Panics where something is left.
    pub fn finish(&mut self, solution: &Subject) {
        solution.finish(self);
        let kept = self.kept.len();
        assert!(kept == 0, "{kept} pieces of memory are not given back");
        for (number, cpu) in self.cpus.iter().enumerate() {
            for (page, held) in &cpu.tlb {
                let now = self.entries.get(page);
                assert!(
                    now == Some(held),
                    "the TLB of CPU {number} holds for page {page} {held:?}, the entry says {now:?}"
                );
            }
        }
    }
    /// How often CPUs were told to drop something, and waited for.
    pub fn flushes(&self) -> usize {
        self.flushes
    }
    /// How often another CPU was interrupted for that.
    pub fn interrupts(&self) -> usize {
        self.interrupts
    }
    /// How many pages CPUs dropped one by one.
    pub fn singly(&self) -> u64 {
        self.singly
    }
    /// How many pages the TLB of a CPU holds.
    pub fn cached(&self, cpu: usize) -> usize {
        self.cpus[cpu].tlb.len()
    }

    fn step(&mut self) {
        let Some(random) = &mut self.others else {
            return;
        };
        if self.cpus.len() < 2 {
            return;
        }
        let cpu = 1 + random.below(self.cpus.len() as u64 - 1) as usize;
        let (verb, at) = (random.below(4), random.below(1 << 20));
        match (verb, self.cpus[cpu].running) {
            (0, true) => self.leave(cpu),
            (0, false) => self.run(cpu),
            (_, true) if !self.entries.is_empty() => {
                let at = at as usize % self.entries.len();
                let page = self.entries.keys().nth(at).copied();
                self.read(cpu, page.unwrap_or(0));
            }
            _ => {}
        }
    }
    fn set(&self, has: impl Fn(&Cpu) -> bool) -> u64 {
        let numbers = self.cpus.iter().enumerate().filter(|(_, cpu)| has(cpu));
        numbers.fold(0, |set, (number, _)| set | 1 << number)
    }
    /// Tells CPUs.
    fn tell(&mut self, cpus: u64, drop: impl Fn(&mut Cpu)) {
        self.flushes += 1;
        for (number, cpu) in self.cpus.iter_mut().enumerate() {
            if cpus & 1 << number != 0 {
                self.interrupts += usize::from(number != 0);
                drop(cpu);
            }
        }
    }
}

impl Batch for Machine {
    fn owed(&self) -> Range<u64> {
        self.owed.clone()
    }
    fn owe(&mut self, pages: Range<u64>) {
        self.owed = pages;
    }
    fn kept(&self) -> usize {
        self.kept.len()
    }
    fn keep(&mut self, memory: Memory) {
        self.step();
        let at = self.loose.iter().position(|loose| *loose == memory);
        let at = at.unwrap_or_else(|| panic!("{memory:?} is not there to be kept"));
        assert!(
            self.kept.len() < CAPACITY,
            "{CAPACITY} pieces of memory are kept: there is no room for another"
        );
        self.kept.push(self.loose.swap_remove(at));
    }
    fn free(&mut self) {
        self.step();
        for (number, cpu) in self.cpus.iter().enumerate() {
            for (page, held) in &cpu.tlb {
                assert!(
                    !self.kept.contains(&Memory(held.memory)),
                    "memory is given back that the TLB of CPU {number} holds for page {page}"
                );
            }
        }
        self.kept.clear();
    }
    fn running(&self) -> u64 {
        self.set(|cpu| cpu.running)
    }
    fn ran(&self) -> u64 {
        self.set(|cpu| cpu.ran)
    }
    fn flush(&mut self, cpus: u64, pages: Range<u64>) {
        self.step();
        let told = cpus & self.set(|_| true);
        self.singly += pages.end.saturating_sub(pages.start) * u64::from(told.count_ones());
        self.tell(cpus, |cpu| cpu.tlb.retain(|page, _| !pages.contains(page)));
    }
    fn flush_all(&mut self, cpus: u64) {
        self.step();
        self.tell(cpus, |cpu| {
            cpu.tlb.clear();
            cpu.ran = cpu.running;
        });
    }
}
