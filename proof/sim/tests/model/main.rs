//! Random sequences of verbs and accesses by several processes on several CPUs, against a plain
//! model that keeps one byte per page; `check::all` and every TLB after each step, frames counted
//! before and after.

mod advice;
#[path = "../common/mod.rs"]
mod common;
mod edges;
mod huge;
mod keys;
mod page;
mod pins;
mod play;
mod remap;
mod steps;
mod verbs;
mod watch;

use arch_sim::{Options, Process, Sim, World};
use common::*;
use mm::addr::{Order, PAGE_SIZE, VirtAddr, VirtRange};
use mm::arch::{Attrs, PteFormat};
use mm::fault::Resolution;
use mm::object::Object;
use mm::switch::Switch;
use mm::thp::{CollapseLimits, PMD_ORDER};
use mm::vma::{Prot, VmaFlags};
use mm::{Advice, Collapse, Error, Offline, Place};
use page::{Area, Backed, Model, Page};
use std::sync::Arc;
use steps::{Shape, Step, What};

/// Pages that are stored before each step of a walk under pressure.
const PRESSED: u64 = 16;

struct Bench<F: PteFormat> {
    world: World<F>,
    shape: Shape,
    /// Switches that stay as they are.
    fixed: Vec<Switch>,
    /// Whether memory is reclaimed before each step.
    pressed: bool,
    pins: Vec<pins::Pinned<F>>,
    processes: Vec<Option<(Process<F>, Model)>>,
    objects: Vec<Arc<Object<Sim<F>>>>,
    /// One byte per page; its length is the object's.
    contents: Vec<Vec<u8>>,
}

impl<F: PteFormat> Bench<F> {
    /// `words`: switches, as on the kernel's command line.
    fn new(options: Options, shape: Shape, words: &str) -> Self {
        let world = World::<F>::new(options);
        let fixed = words.split(' ').filter(|word| !word.is_empty());
        let fixed = fixed.map(|word| play::set(&world, word)).collect();
        let first = (keys::process(&world), Model::default());
        let objects: Vec<_> = (0..2).map(|_| huge::object(&world, shape)).collect();
        let len = 4 * shape.unit * PAGE_SIZE;
        objects.iter().for_each(|o| o.set_len(len));
        objects.iter().for_each(|o| huge::fill(o));
        Bench {
            world,
            shape,
            fixed,
            pressed: false,
            pins: Vec::new(),
            processes: vec![Some(first), None, None],
            objects,
            contents: vec![vec![0; 4]; 2],
        }
    }

    /// Page `n` of those that the processes play with: half lie before and half behind the end of a
    /// page table, where 2 MiB begin.
    fn start(&self, n: u64) -> VirtAddr {
        let half = self.shape.pages / 2 * self.shape.unit;
        page(half.next_multiple_of(512) - half + n * self.shape.unit)
    }
    /// The byte of page `n` that the model knows: the same place in every page, wherever the page
    /// is mapped.
    fn spot(&self, n: u64) -> VirtAddr {
        self.start(n) + self.known() * PAGE_SIZE + 1234
    }
    /// The real page in which it lies.
    fn known(&self) -> u64 {
        self.shape.unit * 3 / 4
    }
    /// Bytes of `n` pages.
    fn bytes(&self, n: u64) -> u64 {
        n * self.shape.unit * PAGE_SIZE
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
        if page.guard {
            return Err(Resolution::Guard);
        }
        match page.backing {
            Backed::Anon(byte) | Backed::Private(_, _, Some(byte)) => Ok(byte),
            Backed::Private(o, index, None) | Backed::Shared(o, index) => self.contents[o]
                .get(index as usize)
                .copied()
                .ok_or(Resolution::Bus),
        }
    }

    /// A write ends the protection of a page, of a huge one whole.
    fn unprotect(&mut self, p: usize, n: u64) {
        let (_, model) = self.processes[p].as_mut().expect("it ran");
        let page = model.pages.get_mut(&n).expect("it is mapped");
        page.protected = Some(false);
    }

    fn set(&mut self, p: usize, n: u64, byte: u8) {
        self.unprotect(p, n);
        let (_, model) = self.processes[p].as_mut().expect("it ran");
        let page = model.pages.get_mut(&n).expect("it is mapped");
        page.written = true;
        match &mut page.backing {
            Backed::Anon(b) => *b = byte,
            Backed::Private(_, _, own) => *own = Some(byte),
            Backed::Shared(o, index) => self.contents[*o][*index as usize] = byte,
        }
    }

    fn run(&mut self, step: &Step) {
        if self.shape.huge && (!step.is_for_huge_pages() || self.has_many_pins(step)) {
            return;
        }
        self.detach(step);
        if self.pressed {
            self.reclaim(PRESSED);
        }
        match *step {
            Step::Fork(p) => self.fork(p as usize),
            Step::Exit(p) if p != 0 => self.processes[p as usize] = None,
            Step::Truncate(o, pages) => self.truncate(o as usize, pages),
            Step::Write(o, index, byte) => {
                let o = o as usize;
                self.objects[o]
                    .write_at(self.bytes(index), &vec![byte; self.bytes(1) as usize])
                    .unwrap();
                let len = self.contents[o].len().max(index as usize + 1);
                self.contents[o].resize(len, 0);
                self.contents[o][index as usize] = byte;
            }
            Step::Punch(o, index) => {
                let o = o as usize;
                self.objects[o].punch(self.bytes(index), self.bytes(1));
                huge::fill(&self.objects[o]);
                if let Some(byte) = self.contents[o].get_mut(index as usize) {
                    *byte = 0;
                }
                for (_, model) in self.processes.iter_mut().flatten() {
                    model.drop_object(o, index..index + 1, self.shape.huge);
                    if self.shape.huge {
                        model.unprotect_object(o, index..index + 1);
                    }
                }
            }
            Step::Fill(p, cpu, at, len, byte) => {
                for n in at..(at + len).min(self.shape.pages) {
                    self.access(p as usize, &Step::Store(p, cpu, n, byte));
                }
            }
            Step::Load(p, ..)
            | Step::Store(p, ..)
            | Step::Fetch(p, ..)
            | Step::Poke(p, ..)
            | Step::KernelWrite(p, ..) => self.access(p as usize, step),
            Step::Map(p, ..)
            | Step::Unmap(p, ..)
            | Step::Protect(p, ..)
            | Step::ProtectWithKey(p, ..)
            | Step::Remap(p, ..)
            | Step::Advise(p, ..)
            | Step::Lock(p, ..)
            | Step::Unlock(p, ..)
            | Step::Guard(p, ..)
            | Step::Watch(p, ..)
            | Step::DontNeed(p, ..) => {
                if let Some((process, mut model)) = self.processes[p as usize].take() {
                    self.grow_huge_file(step);
                    self.change(&process, &mut model, step);
                    self.processes[p as usize] = Some((process, model));
                }
            }
            Step::Exit(_) => {}
            Step::Collapse(p, n, now) => {
                if let Some((process, _)) = &self.processes[p as usize] {
                    let at = self.start(n);
                    // Whether there is anything to collapse is not the model's to know.
                    let _ = if now {
                        let start = at.align_down(PMD_ORDER.bytes());
                        process
                            .advise(start, PMD_ORDER.bytes(), Advice::Collapse)
                            .is_ok()
                    } else {
                        process.collapse(at, CollapseLimits::ANY) == Collapse::Done
                    };
                }
            }
            Step::ClearDirty(p) => self.clear_dirty(p as usize),
            Step::Edge(p, cpu, n, byte) => self.edge(p as usize, cpu as usize, n, byte),
            Step::SplitDeferred(p) => {
                if let Some((process, _)) = &self.processes[p as usize] {
                    process.split_deferred();
                }
            }
            Step::SoftOffline(p, n) => self.soft_offline(p as usize, n),
            Step::Pin(p, n, long_term) => self.pin(p as usize, n, long_term),
            Step::Unpin(n) => {
                if !self.pins.is_empty() {
                    self.pins.swap_remove(n % self.pins.len());
                }
            }
            Step::Split(p, at, len) => {
                if let Some((process, _)) = &self.processes[p as usize] {
                    let range = VirtRange::new(self.start(at), self.start(at + len));
                    process.split_range(range, Order([0, 2, 4, 6][at as usize % 4]));
                }
            }
            Step::Reclaim(pages) => self.reclaim(pages),
            Step::Compact => self.world.mm.compact_all(),
            Step::Sizes(orders) => play::set_sizes(&self.world, orders),
            Step::Turn(switch, number) => {
                if !self.fixed.contains(&switch) {
                    self.world.mm.switches().set(switch, number);
                }
            }
        }
        let spaces: Vec<&Space<F>> = self.processes.iter().flatten().map(|(p, _)| &**p).collect();
        self.world
            .check(&spaces, &self.objects.iter().collect::<Vec<_>>());
        self.check_usage();
        self.check_protection();
        self.check_keys();
        self.check_pins();
    }

    /// A file of huge pages is as long as a writable mapping of it reaches.
    fn grow_huge_file(&mut self, step: &Step) {
        if let Step::Map(_, at, len, prot, What::Private(o) | What::Shared(o), _) = *step
            && self.shape.huge
            && prot.contains(Prot::WRITE)
        {
            let contents = &mut self.contents[o as usize];
            let pages = contents.len().max((at % 3 + len) as usize);
            contents.resize(pages, 0);
            self.objects[o as usize].grow_to(self.bytes(pages as u64));
            huge::fill(&self.objects[o as usize]);
        }
    }

    /// As many pages are mapped, and locked, as the model says.
    fn check_usage(&self) {
        for (process, model) in self.processes.iter().flatten() {
            let usage = process.usage();
            let locked = model.pages.values().filter(|page| page.area.locked);
            let pages = (model.pages.len() as u64, locked.count() as u64);
            let unit = self.shape.unit;
            assert_eq!(
                (usage.mapped.total, usage.mapped.locked),
                (pages.0 * unit, pages.1 * unit)
            );
        }
    }

    fn access(&mut self, p: usize, step: &Step) {
        if matches!(*step, Step::Poke(_, _, _, sub) if sub == self.known()) {
            return;
        }
        // What grows stays grown, whether the access is allowed or not.
        if let (Some((_, model)), Some(n)) = (&mut self.processes[p], step.page()) {
            model.grow_stack(n);
        }
        let Some((process, model)) = &self.processes[p] else {
            return;
        };
        let w = &self.world;
        let _keys = keys::Set::on(&w.sim);
        match *step {
            Step::Load(_, cpu, n) => {
                let expected = self.expect(model, n, |prot| !prot.is_none());
                let expected = keys::refuse(expected, cpu, &model.pages, n, false);
                assert_eq!(w.load(cpu as usize, process, self.spot(n)), expected);
            }
            Step::Fetch(_, cpu, n) => {
                let expected = self.expect(model, n, |prot| prot.contains(Prot::EXEC));
                assert_eq!(w.fetch(cpu as usize, process, self.spot(n)), expected);
            }
            Step::Store(_, cpu, n, byte) => {
                let expected = self
                    .expect(model, n, |prot| prot.contains(Prot::WRITE))
                    .map(drop);
                let expected = keys::refuse(expected, cpu, &model.pages, n, true);
                assert_eq!(w.store(cpu as usize, process, self.spot(n), byte), expected);
                expected.is_ok().then(|| self.set(p, n, byte));
            }
            Step::Poke(_, cpu, n, sub) => {
                let expected = self
                    .expect(model, n, |prot| prot.contains(Prot::WRITE))
                    .map(drop);
                let expected = keys::refuse(expected, cpu, &model.pages, n, true);
                let at = self.start(n) + sub * PAGE_SIZE + 8;
                assert_eq!(w.store(cpu as usize, process, at, 1), expected);
                if self.shape.huge && expected.is_ok() {
                    self.unprotect(p, n);
                }
            }
            Step::KernelWrite(_, n, byte) => {
                let expected = self
                    .expect(model, n, |prot| prot.contains(Prot::WRITE))
                    .is_ok();
                assert_eq!(
                    process.write(self.spot(n), &[byte], false),
                    usize::from(expected)
                );
                expected.then(|| self.set(p, n, byte));
            }
            _ => unreachable!("not an access"),
        }
    }

    /// What was not used since the last time goes.
    fn reclaim(&self, pages: u64) {
        self.world.mm.reclaim(pages);
        for (process, _) in self.processes.iter().flatten() {
            self.world.forget_accesses(process);
        }
    }

    /// Whether the page can be moved is not the model's to know: its contents stay.
    fn soft_offline(&mut self, p: usize, n: u64) {
        if let Some((_, model)) = &mut self.processes[p] {
            model.grow_stack(n);
        }
        if let Some((process, _)) = &self.processes[p] {
            let result = process.offline(self.spot(n), Offline::Soft);
            assert_ne!(result, Err(Error::HwPoison));
        }
    }

    fn fork(&mut self, p: usize) {
        let Some(free) = self.processes.iter().position(Option::is_none) else {
            return;
        };
        if let Some((process, model)) = &self.processes[p] {
            let child = self.world.adopt(process.fork().unwrap());
            self.processes[free] = Some((child, model.forked()));
        }
    }

    fn truncate(&mut self, o: usize, pages: u64) {
        self.objects[o].truncate(self.bytes(pages));
        let shrinks = (pages as usize) < self.contents[o].len();
        self.contents[o].resize(pages as usize, 0);
        for (_, model) in self.processes.iter_mut().flatten() {
            model.drop_object(o, pages..u64::MAX, true);
            if self.shape.huge && shrinks {
                model.unprotect_object(o, pages..u64::MAX);
            }
        }
        huge::fill(&self.objects[o]);
    }
}
