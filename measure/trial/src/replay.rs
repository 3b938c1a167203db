//! The memory manager itself on the simulated machine: its spaces map what a stream uses, and it
//! reclaims as the kernel's thread does (`kernel/src/pressure/worker.rs`), which runs whenever it
//! is woken. All pages are zeros, of which the store keeps nothing: memory is what is resident.
use crate::model::{Figures, WANT};
use arch_sim::{Options, Process, World};
use arch_x86_64::pte::Format;
use counts::pages::Stream;
use mm::addr::{Order, PAGE_SIZE, VirtAddr};
use mm::arch::Tlb;
use mm::fault::Resolution;
use mm::switch::Switch;
use mm::thp::ORDERS;
use mm::thp::controls::SizeEnabled;
use mm::vma::{Backing, Prot, VmaFlags};
use mm::{MapRequest, Place};
use std::collections::BTreeSet;
use std::mem::{replace, take};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How many pages a round of the thread stores at most.
const BATCH: u64 = 4096;
/// Accesses after which the simulated TLBs are emptied: they have no size of their own.
const TLB: usize = 256;
/// Pages of an area: those of a table.
const AREA: u64 = 512;

/// Plays a stream with so many frames for pages and what is always there, in folios of an order,
/// with this `swapin=`. Returns what became of it, and how many pages were resident at most;
/// `None` if memory ran out.
pub fn run(stream: &Stream, frames: usize, order: u8, way: &str) -> Option<(Figures, u64)> {
    let mut replay = Replay::new(stream, frames, order);
    let switches = replay.world.mm.switches();
    switches.set(Switch::SwapIn, Switch::SwapIn.place(way));
    for (n, &(page, write)) in stream.accesses.iter().enumerate() {
        if n % TLB == 0 {
            let spaces = replay.spaces.iter();
            spaces.for_each(|space| replay.world.sim.flush_asid(space.asid()));
        }
        replay.access(page, write)?;
        // As when the thread is woken.
        if replay.world.mm.allocator().is_tight() && !replay.all_hot {
            replay.all_hot = replay.store(true) == 0;
        }
    }
    replay.figures.brought = replay.world.mm.event("pswpin")?;
    replay.figures.faults = replay.world.mm.event("pgfault");
    replay.figures.longest = replay.longest.load(Relaxed);
    Some((replay.figures, replay.most))
}

struct Replay<'a> {
    stream: &'a Stream,
    world: World<Format>,
    spaces: Vec<Process<Format>>,
    /// What is mapped: the space, its first page.
    areas: BTreeSet<(u64, u64)>,
    /// By page of the stream, whether it was written once; and went since it was used.
    known: Vec<bool>,
    gone: Vec<bool>,
    /// The last round for nobody found no cold page.
    all_hot: bool,
    most: u64,
    figures: Figures,
    longest: Arc<AtomicU64>,
}

impl<'a> Replay<'a> {
    fn new(stream: &'a Stream, frames: usize, order: u8) -> Replay<'a> {
        let areas = stream
            .pages
            .iter()
            .map(|(space, page)| (*space, page / AREA * AREA));
        let areas = BTreeSet::from_iter(areas);
        let world = World::<Format>::new(Options {
            frames: frames + areas.len(),
            slots: 2 * areas.len() * AREA as usize,
            cpus: 1,
            prefetch: 0,
            ..Options::default()
        });
        let controls = &world.mm.thp().controls;
        ORDERS.for_each(|it| controls.set_size(Order(it), SizeEnabled::Never));
        if order != 0 {
            controls.set_size(Order(order), SizeEnabled::Always);
        }
        let count = areas.last().map_or(0, |(space, _)| space + 1);
        let spaces = Vec::from_iter((0..count).map(|_| world.process()));
        for &(space, first) in &areas {
            let mapped = spaces[space as usize].map(MapRequest {
                place: Place::Fixed(VirtAddr(first * PAGE_SIZE)),
                len: AREA * PAGE_SIZE,
                prot: Prot::READ | Prot::WRITE,
                flags: VmaFlags::empty(),
                backing: Backing::Anon,
                populate: false,
            });
            mapped.expect("a place that no other area has");
        }
        Replay {
            stream,
            world,
            spaces,
            areas,
            known: vec![false; stream.pages.len()],
            gone: vec![false; stream.pages.len()],
            all_hot: false,
            most: 0,
            figures: Figures::default(),
            longest: Arc::default(),
        }
    }

    fn access(&mut self, at: usize, write: bool) -> Option<()> {
        let (space, page) = self.stream.pages[at];
        let va = VirtAddr(page * PAGE_SIZE);
        // One that was never written would be the page of zeros.
        let write = write || !self.known[at];
        let mut patient = true;
        loop {
            let space = &self.spaces[space as usize];
            match self.world.touch(space, va, write, patient) {
                Ok(()) => break,
                Err(Resolution::Short(_)) => {
                    self.round();
                    patient = false;
                }
                Err(Resolution::NoMem) if self.round() > 0 => {}
                Err(_) => return None,
            }
        }
        self.known[at] = true;
        self.figures.again += u64::from(take(&mut self.gone[at]));
        Some(())
    }

    /// What the thread does for who lacks memory.
    fn round(&mut self) -> u64 {
        let stored = self.store(false);
        self.all_hot &= stored == 0;
        stored + self.world.mm.drain_pcp()
    }
    fn store(&mut self, cold: bool) -> u64 {
        let resident = self
            .spaces
            .iter()
            .map(|space| space.usage().rss.resident_anon());
        self.most = self.most.max(resident.sum());
        let (world, longest) = (&self.world, Arc::clone(&self.longest));
        let (machine, before) = (world.sim.clone(), world.sim.loads());
        let mut last = before;
        world.sim.in_pauses(Some(Box::new(move || {
            let now = machine.loads();
            longest.fetch_max(now - replace(&mut last, now), Relaxed);
            false
        })));
        let mut all = 0;
        loop {
            let stored = match cold {
                true => world.mm.reclaim_cold(WANT),
                false => world.mm.reclaim(WANT),
            };
            self.figures.overshoot = self.figures.overshoot.max(stored.saturating_sub(WANT));
            all += stored;
            if stored == 0 || all >= BATCH || !world.mm.allocator().is_tight() {
                break;
            }
        }
        world.sim.in_pauses(None);
        self.figures.looked += world.sim.loads() - before;
        self.figures.gone += all;
        self.note_gone();
        all
    }
    /// Marks what is in slots now.
    fn note_gone(&mut self) {
        let pages = &self.stream.pages;
        for &(space, first) in &self.areas {
            let (mut words, start) = ([0; AREA as usize], VirtAddr(first * PAGE_SIZE));
            self.spaces[space as usize].page_words(start, &mut words, |info| info.swapped.into());
            let place = |page| pages.partition_point(|it| *it < (space, page));
            for at in place(first)..place(first + AREA) {
                self.gone[at] |= words[(pages[at].1 - first) as usize] != 0;
            }
        }
    }
}
