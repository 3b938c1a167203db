//! Random sequences of verbs and accesses by several processes on several CPUs, against a plain model that keeps one byte
//! per page; `check::all` and every TLB after each step, frames counted before and after.

#[path = "../common/mod.rs"]
mod common;
mod steps;

use arch_sim::{Options, Process, Sim, World};
use common::*;
use mm::addr::{PAGE_SIZE, VirtAddr};
use mm::arch::PteFormat;
use mm::fault::Resolution;
use mm::object::Object;
use mm::space::{Advice, Error, Place};
use mm::vma::{Prot, VmaFlags};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use std::collections::BTreeMap;
use std::sync::Arc;
use steps::{PAGES, Step, What, step};

/// What the model knows of one page of a process.
#[derive(Clone, Copy)]
struct Page {
    prot: Prot,
    backing: Backed,
}

#[derive(Clone, Copy)]
enum Backed {
    Anon(u8),
    /// Object, its page, and the process's own copy.
    Private(usize, u64, Option<u8>),
    Shared(usize, u64),
}

#[derive(Clone, Default)]
struct Model {
    pages: BTreeMap<u64, Page>,
}

struct Bench<F: PteFormat> {
    world: World<F>,
    processes: Vec<Option<(Process<F>, Model)>>,
    objects: Vec<Arc<Object<Sim<F>>>>,
    /// One byte per page; its length is the object's.
    contents: Vec<Vec<u8>>,
}

/// Page `n` of those that the processes play with: half lie before and half behind the end of a page table.
fn start(n: u64) -> VirtAddr {
    page(512 - PAGES / 2 + n)
}

/// The byte of page `n` that the model knows: the same place in every page, wherever the page is mapped.
fn spot(n: u64) -> VirtAddr {
    start(n) + 1234
}

impl<F: PteFormat> Bench<F> {
    fn new(options: Options) -> Self {
        let world = World::<F>::new(options);
        let first = (world.process(), Model::default());
        let objects: Vec<_> = (0..2).map(|_| Object::new(&world.mm)).collect();
        objects.iter().for_each(|o| o.set_len(4 * PAGE_SIZE));
        Bench {
            world,
            processes: vec![Some(first), None, None],
            objects,
            contents: vec![vec![0; 4]; 2],
        }
    }

    /// What reading page `n` gives by the model. The object's byte lies where the mapping's does.
    fn expect(
        &self,
        model: &Model,
        n: u64,
        allowed: impl Fn(Prot) -> bool,
    ) -> Result<u8, Resolution> {
        let page = model.pages.get(&n).ok_or(Resolution::NotMapped)?;
        if !allowed(page.prot) {
            return Err(Resolution::Denied);
        }
        match page.backing {
            Backed::Anon(byte) | Backed::Private(_, _, Some(byte)) => Ok(byte),
            Backed::Private(o, index, None) | Backed::Shared(o, index) => self.contents[o]
                .get(index as usize)
                .copied()
                .ok_or(Resolution::Bus),
        }
    }

    fn set(&mut self, p: usize, n: u64, byte: u8) {
        let (_, model) = self.processes[p].as_mut().expect("it ran");
        match &mut model.pages.get_mut(&n).expect("it is mapped").backing {
            Backed::Anon(b) => *b = byte,
            Backed::Private(_, _, own) => *own = Some(byte),
            Backed::Shared(o, index) => self.contents[*o][*index as usize] = byte,
        }
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::Fork(p) => self.fork(p as usize),
            Step::Exit(p) if p != 0 => self.processes[p as usize] = None,
            Step::Truncate(o, pages) => self.truncate(o as usize, pages),
            Step::Write(o, index, byte) => {
                let o = o as usize;
                self.objects[o]
                    .write_at(index * PAGE_SIZE, &[byte; PAGE_SIZE as usize])
                    .unwrap();
                let len = self.contents[o].len().max(index as usize + 1);
                self.contents[o].resize(len, 0);
                self.contents[o][index as usize] = byte;
            }
            Step::Punch(o, index) => {
                let o = o as usize;
                self.objects[o].punch(index * PAGE_SIZE, PAGE_SIZE);
                for (process, _) in self.processes.iter().flatten() {
                    process.zap_object_range(&self.objects[o], index, index + 1, true);
                }
                if let Some(byte) = self.contents[o].get_mut(index as usize) {
                    *byte = 0;
                }
            }
            Step::Load(p, ..)
            | Step::Store(p, ..)
            | Step::Fetch(p, ..)
            | Step::KernelWrite(p, ..) => self.access(p as usize, step),
            Step::Map(p, ..)
            | Step::Unmap(p, ..)
            | Step::Protect(p, ..)
            | Step::Remap(p, ..)
            | Step::DontNeed(p, ..) => {
                if let Some((process, mut model)) = self.processes[p as usize].take() {
                    self.change(&process, &mut model, step);
                    self.processes[p as usize] = Some((process, model));
                }
            }
            Step::Exit(_) => {}
        }
        let spaces: Vec<&Space<F>> = self.processes.iter().flatten().map(|(p, _)| &**p).collect();
        self.world
            .check(&spaces, &self.objects.iter().collect::<Vec<_>>());
    }

    fn access(&mut self, p: usize, step: &Step) {
        let Some((process, model)) = &self.processes[p] else {
            return;
        };
        let w = &self.world;
        match *step {
            Step::Load(_, cpu, n) => {
                let expected = self.expect(model, n, |prot| !prot.is_empty());
                assert_eq!(w.load(cpu as usize, process, spot(n)), expected);
            }
            Step::Fetch(_, cpu, n) => {
                let expected = self.expect(model, n, |prot| prot.contains(Prot::EXEC));
                assert_eq!(w.fetch(cpu as usize, process, spot(n)), expected);
            }
            Step::Store(_, cpu, n, byte) => {
                let expected = self
                    .expect(model, n, |prot| prot.contains(Prot::WRITE))
                    .map(drop);
                assert_eq!(w.store(cpu as usize, process, spot(n), byte), expected);
                expected.is_ok().then(|| self.set(p, n, byte));
            }
            Step::KernelWrite(_, n, byte) => {
                let expected = self
                    .expect(model, n, |prot| prot.contains(Prot::WRITE))
                    .is_ok();
                assert_eq!(
                    process.write(spot(n), &[byte], false),
                    usize::from(expected)
                );
                expected.then(|| self.set(p, n, byte));
            }
            _ => unreachable!("not an access"),
        }
    }

    fn fork(&mut self, p: usize) {
        let Some(free) = self.processes.iter().position(Option::is_none) else {
            return;
        };
        if let Some((process, model)) = &self.processes[p] {
            let child = self.world.adopt(process.fork().unwrap());
            self.processes[free] = Some((child, model.clone()));
        }
    }

    fn truncate(&mut self, o: usize, pages: u64) {
        self.objects[o].set_len(pages * PAGE_SIZE);
        self.contents[o].resize(pages as usize, 0);
        for (process, model) in self.processes.iter_mut().flatten() {
            process.zap_object(&self.objects[o], pages);
            for page in model.pages.values_mut() {
                match &mut page.backing {
                    Backed::Private(object, index, own) if *object == o && *index >= pages => {
                        *own = None
                    }
                    _ => {}
                }
            }
        }
    }

    fn change(&self, process: &Process<F>, model: &mut Model, step: &Step) {
        match *step {
            Step::Map(_, at, len, prot, what, populate) => {
                let request = match what {
                    What::Anon => anon(Place::Fixed(start(at)), len, prot),
                    What::Private(o) => of_object(
                        &self.objects[o as usize],
                        at % 3,
                        start(at),
                        len,
                        prot,
                        VmaFlags::empty(),
                    ),
                    What::Shared(o) => of_object(
                        &self.objects[o as usize],
                        at % 3,
                        start(at),
                        len,
                        prot,
                        VmaFlags::SHARED,
                    ),
                };
                process
                    .map(mm::space::MapRequest {
                        populate,
                        ..request
                    })
                    .unwrap();
                for n in at..at + len {
                    let index = at % 3 + n - at;
                    let backing = match what {
                        What::Anon => Backed::Anon(0),
                        // Populating writable private memory copies what the object has, as a write of nothing would.
                        What::Private(o) => {
                            let o = o as usize;
                            let first_gone = self.contents[o].len() as u64;
                            let copied =
                                populate && prot.contains(Prot::WRITE) && index < first_gone;
                            Backed::Private(
                                o,
                                index,
                                copied.then(|| self.contents[o][index as usize]),
                            )
                        }
                        What::Shared(o) => Backed::Shared(o as usize, index),
                    };
                    model.pages.insert(n, Page { prot, backing });
                }
            }
            Step::Unmap(_, at, len) => {
                process.unmap(start(at), len * PAGE_SIZE).unwrap();
                model.pages.retain(|n, _| !(at..at + len).contains(n));
            }
            Step::Protect(_, at, len, prot) => {
                let hole = (at..at + len).find(|n| !model.pages.contains_key(n));
                let expected = if hole.is_some() {
                    Err(Error::NoMem)
                } else {
                    Ok(())
                };
                assert_eq!(process.protect(start(at), len * PAGE_SIZE, prot), expected);
                for n in at..hole.unwrap_or(at + len) {
                    model.pages.get_mut(&n).expect("before the hole").prot = prot;
                }
            }
            Step::DontNeed(_, at, len) => {
                let hole = (at..at + len).any(|n| !model.pages.contains_key(&n));
                let expected = if hole { Err(Error::NoMem) } else { Ok(()) };
                assert_eq!(
                    process.advise(start(at), len * PAGE_SIZE, Advice::DontNeed),
                    expected
                );
                for (_, page) in model.pages.range_mut(at..at + len) {
                    match &mut page.backing {
                        Backed::Anon(byte) => *byte = 0,
                        Backed::Private(_, _, own) => *own = None,
                        Backed::Shared(..) => {}
                    }
                }
            }
            Step::Remap(_, from, len, to) => self.remap(process, model, from, len, to),
            _ => unreachable!("not a change"),
        }
    }

    fn remap(&self, process: &Process<F>, model: &mut Model, from: u64, len: u64, to: u64) {
        let one = process
            .vma_at(start(from))
            .is_some_and(|v| v.range.end >= start(from + len));
        let overlap = from < to + len && to < from + len;
        let expected = match (overlap, one) {
            (true, _) => Err(Error::Inval),
            (_, false) => Err(Error::Fault),
            _ => Ok(start(to)),
        };
        let bytes = len * PAGE_SIZE;
        assert_eq!(
            process.remap(start(from), bytes, bytes, true, false, Some(start(to))),
            expected
        );
        if expected.is_ok() {
            for n in 0..len {
                let page = model.pages.remove(&(from + n)).expect("it was mapped");
                model.pages.insert(to + n, page);
            }
        }
    }
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(0x51),
        ..ProptestConfig::default()
    }
}

fn play<F: PteFormat>(steps: &[Step], seed: u64, asids: usize, hardware_ad: bool) {
    let options = Options {
        frames: 512,
        asids,
        hardware_ad,
        seed,
        ..Options::default()
    };
    let mut bench = Bench::<F>::new(options);
    let tables = bench.world.mm.counts().page_tables;
    steps.iter().for_each(|step| bench.run(step));
    let Bench {
        world,
        processes,
        objects,
        ..
    } = bench;
    drop(processes);
    drop(objects);
    let counts = world.mm.counts();
    // The idle root and the zero page are all that is left.
    assert_eq!(
        (
            counts.anon,
            counts.object,
            counts.page_tables,
            counts.kernel
        ),
        (0, 0, tables - 1, 1)
    );
    world.check(&[], &[]);
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn x86_64(steps in prop::collection::vec(step(), 1..160), seed in any::<u64>(), asids in prop_oneof![Just(1), Just(3), Just(64)]) {
        play::<arch_x86_64::pte::Format>(&steps, seed, asids, true);
    }

    #[test]
    fn aarch64(
        steps in prop::collection::vec(step(), 1..160),
        seed in any::<u64>(),
        asids in prop_oneof![Just(1), Just(3), Just(64)],
        hardware_ad in any::<bool>(),
    ) {
        play::<arch_aarch64::pte::Format>(&steps, seed, asids, hardware_ad);
    }
}
