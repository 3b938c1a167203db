//! The machine as a value behind the memory manager's four traits.

use crate::inside::Inside;
use crate::meanwhile::{At, Meanwhile};
use crate::ram::Ram;
use crate::rng::Rng;
use crate::shadow::{Moment, Shadow};
use crate::threads::Threads;
use crate::tlb::{Cached, CpuCaches, Flush};
use mm::addr::{Pfn, PfnRange, VirtAddr, VirtRange};
use mm::arch::{Asid, Cpu, Key, Level, Machine, PteFormat, Refused, Tlb};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Frames that are no RAM, with RAM on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hole {
    /// The first frame, counted from the beginning of RAM.
    pub first: usize,
    /// Number of frames.
    pub frames: usize,
}

/// The configuration of a machine.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Frames from the first one of RAM to the last.
    pub frames: usize,
    /// Frames among them that are no RAM.
    pub hole: Option<Hole>,
    /// Swap slots.
    pub slots: usize,
    /// CPUs.
    pub cpus: usize,
    /// Tags in the TLB, 0 included; 1 means none.
    pub asids: usize,
    /// The walker sets accessed and dirty bits (always on x86; FEAT_HAFDBS on arm64).
    pub hardware_ad: bool,
    /// A prefetch happens around one in `prefetch` table writes; 0 for never.
    pub prefetch: u64,
    /// Seed of the prefetches.
    pub seed: u64,
    /// Work that a long verb does before it pauses ([`Machine::step`]).
    pub step: u32,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            frames: 1024,
            hole: None,
            slots: 1024,
            cpus: 2,
            asids: 8,
            hardware_ad: true,
            prefetch: 4,
            seed: 1,
            step: 1024,
        }
    }
}

impl Options {
    /// The parts of RAM, in order.
    pub fn ram(&self) -> Vec<PfnRange> {
        let end = FIRST + self.frames as u64;
        match self.hole {
            None => vec![PfnRange::new(FIRST, end)],
            Some(Hole { first, frames }) => {
                let hole = FIRST + first as u64;
                let parts = [(FIRST, hole), (hole + frames as u64, end)];
                parts.map(|(start, end)| PfnRange::new(start, end)).into()
            }
        }
    }
}

/// The first frame of RAM: not 0, so that a forgotten offset shows.
pub const FIRST: Pfn = Pfn(0x80000);

/// State that the memory manager's copy of the machine and the test's share.
pub(crate) struct State {
    pub ram: Ram,
    pub cpus: Vec<Mutex<CpuCaches>>,
    /// By CPU, the register that says which keys refuse what: as x86_64's PKRU.
    pub keys: Vec<AtomicU32>,
    pub rng: Rng,
    pub options: Options,
    /// The state that the rules are checked against.
    pub shadow: Mutex<Shadow>,
    pub threads: Threads,
    /// Addresses used lately, which CPUs prefetch.
    recent: Vec<AtomicU64>,
    used: AtomicUsize,
    pub(crate) drop_flushes: AtomicBool,
    others: Mutex<Option<Others>>,
    /// Number of entries loaded.
    pub(crate) loads: AtomicU64,
    pub(crate) meanwhile: Meanwhile,
}

/// Locks part of the machine. A failed check has poisoned it: only the end of the test uses it
/// then.
fn locked<T>(part: &Mutex<T>) -> MutexGuard<'_, T> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The work of other threads while a long verb pauses; returns whether the thread that pauses is to
/// end.
type Others = Box<dyn FnMut() -> bool + Send>;

/// A simulated machine whose page-table entries have format `F`.
pub struct Sim<F: PteFormat>(pub(crate) Arc<State>, PhantomData<F>);

impl<F: PteFormat> Clone for Sim<F> {
    fn clone(&self) -> Self {
        Sim(self.0.clone(), PhantomData)
    }
}

impl<F: PteFormat> Sim<F> {
    /// A machine without an address space.
    pub fn new(options: Options) -> Self {
        let state = State {
            ram: Ram::new(options.ram()),
            cpus: (0..options.cpus)
                .map(|_| Mutex::new(CpuCaches::default()))
                .collect(),
            keys: (0..options.cpus).map(|_| AtomicU32::new(0)).collect(),
            rng: Rng::new(options.seed),
            options,
            shadow: Mutex::new(Shadow::default()),
            threads: Threads::new(),
            recent: (0..32).map(|_| AtomicU64::new(u64::MAX)).collect(),
            used: AtomicUsize::new(0),
            drop_flushes: AtomicBool::new(false),
            others: Mutex::new(None),
            loads: AtomicU64::new(0),
            meanwhile: Meanwhile::default(),
        };
        Sim(Arc::new(state), PhantomData)
    }

    /// The configuration of a machine.
    pub fn options(&self) -> Options {
        self.0.options
    }
    /// Breaks the machine: flushes do nothing. A test of the tests.
    pub fn drop_flushes(&self, on: bool) {
        self.0.drop_flushes.store(on, Ordering::Relaxed);
    }
    /// From now on `others` run in each pause of a long verb, but not in pauses of their own verbs.
    /// They return whether the thread that pauses is to end. `None`: nothing happens in pauses.
    pub fn in_pauses(&self, others: Option<Box<dyn FnMut() -> bool + Send>>) {
        *self.others() = others;
    }
    /// Sets a CPU's register of what keys refuse: for each two bits, accesses and writes.
    pub fn set_keys(&self, cpu: usize, word: u32) {
        self.0.keys[cpu].store(word, Ordering::Relaxed);
    }
    /// Whether a CPU's register refuses accesses to data by the key.
    pub(crate) fn key_refuses(&self, cpu: usize, key: Key, write: bool) -> bool {
        let bits = self.0.keys[cpu].load(Ordering::Relaxed) >> (2 * key.0);
        bits & 1 != 0 || write && bits & 2 != 0
    }
    /// Number of entries that were loaded, by all CPUs: a measure of the work.
    pub fn loads(&self) -> u64 {
        self.0.loads.load(Ordering::Relaxed)
    }
    fn others(&self) -> MutexGuard<'_, Option<Others>> {
        locked(&self.0.others)
    }
    /// All entries of all TLBs, with the CPU.
    pub fn cached(&self) -> Vec<(usize, Cached)> {
        let of = |(cpu, c): (usize, &Mutex<CpuCaches>)| {
            let leaves = locked(c).leaves().to_vec();
            leaves.into_iter().map(move |leaf| (cpu, leaf))
        };
        self.0.cpus.iter().enumerate().flat_map(of).collect()
    }
    /// The root that a CPU has loaded.
    pub fn root(&self, cpu: usize) -> Option<(Pfn, Asid)> {
        self.caches(cpu).root
    }
    pub(crate) fn caches(&self, cpu: usize) -> MutexGuard<'_, CpuCaches> {
        locked(&self.0.cpus[cpu])
    }
    /// The root of each CPU.
    fn active(&self) -> Vec<Option<Pfn>> {
        (0..self.0.options.cpus)
            .map(|cpu| self.root(cpu).map(|(root, _)| root))
            .collect()
    }
    pub(crate) fn shadow(&self) -> MutexGuard<'_, Shadow> {
        locked(&self.0.shadow)
    }
    /// Notes an address for the prefetcher.
    pub(crate) fn note(&self, va: VirtAddr) {
        let at = self.0.used.fetch_add(1, Ordering::Relaxed) % self.0.recent.len();
        self.0.recent[at].store(va.0, Ordering::Relaxed);
    }
    /// A CPU may cache any valid entry at any time: around table writes it finds most mistakes.
    pub(crate) fn maybe_prefetch(&self) {
        self.maybe_yield();
        if !self.0.rng.one_in(self.0.options.prefetch) {
            return;
        }
        let va = self.0.recent[self.0.rng.below(self.0.recent.len())].load(Ordering::Relaxed);
        let cpu = self.0.rng.below(self.0.options.cpus);
        if va != u64::MAX {
            self.prefetch(cpu, VirtAddr(va));
        }
        if self.0.rng.one_in(16) {
            let which = self.0.rng.below(1 << 20);
            self.caches(cpu).evict(which);
        }
    }
    /// Runs `f` on the caches of every CPU and `seen` on the shadow, if flushes work: it covers
    /// what was changed before.
    fn flush(&self, f: impl Fn(&mut CpuCaches), seen: impl FnOnce(&mut Shadow, Moment)) {
        if !self.0.drop_flushes.load(Ordering::Relaxed) {
            let before = self.shadow().stale.moment();
            (0..self.0.options.cpus).for_each(|cpu| {
                f(&mut self.caches(cpu));
                self.maybe_yield();
            });
            seen(&mut self.shadow(), before);
        }
    }
}

impl<F: PteFormat> Machine for Sim<F> {
    type Pte = F;
    type Mem = Self;
    type Tlb = Self;
    type Cpu = Self;
    fn mem(&self) -> &Self {
        self
    }
    fn tlb(&self) -> &Self {
        self
    }
    fn cpu(&self) -> &Self {
        self
    }
    fn prepare_root(&self, _root: Pfn) {}
    fn step(&self) -> u32 {
        self.0.options.step
    }
    fn breathe(&self) -> bool {
        assert_eq!(mm::sync::held(), 0, "a verb pauses with a lock held");
        self.maybe_yield();
        // Taken out during the call, which may pause, too.
        let Some(mut others) = self.others().take() else {
            return false;
        };
        let ends = others();
        self.others().get_or_insert(others);
        ends
    }
    /// One thread that is several CPUs would wait for itself, in a pause: it ends instead.
    fn wait(&self, ready: &mut dyn FnMut() -> bool) -> bool {
        assert_eq!(mm::sync::held(), 0, "a verb waits with a lock held");
        while !ready() {
            if !self.0.threads.are_several() {
                return false;
            }
            self.relax();
        }
        true
    }
}

impl<F: PteFormat> Tlb for Sim<F> {
    fn flush_range(&self, asid: Asid, range: VirtRange, stride: Level, tables: bool) {
        self.0.meanwhile.comes_to(At::Flush);
        let _inside = Inside::new();
        let flush = Flush {
            range,
            stride,
            tables,
        };
        self.flush(
            |c| c.flush_range(asid, flush),
            |s, before| s.flush_range(asid, flush, before),
        );
    }
    fn widened(&self, asid: Asid, range: VirtRange, stride: Level) -> bool {
        // On x86_64 a fault drops the entry (`Sim::translate`).
        let needed = F::BREAK_BEFORE_MAKE;
        if needed && !self.0.drop_flushes.load(Ordering::Relaxed) {
            let flush = Flush {
                range,
                stride,
                tables: false,
            };
            self.caches(self.id()).flush_range(asid, flush);
        }
        self.note_widened(asid, range);
        needed
    }
    fn flush_asid(&self, asid: Asid) {
        let _inside = Inside::new();
        let active = self.active();
        self.flush(|c| c.flush_asid(asid), |s, _| s.flush_asid(asid, &active));
    }
    fn flush_kernel(&self, range: VirtRange) {
        let _inside = Inside::new();
        self.flush(|c| c.flush_kernel(range), |_, _| ());
    }
}

impl<F: PteFormat> Cpu for Sim<F> {
    fn id(&self) -> usize {
        // Asked for at each event that is counted: between any two steps of a verb.
        self.maybe_yield();
        self.0.threads.current()
    }
    fn count(&self) -> usize {
        self.0.options.cpus
    }
    fn asids(&self) -> usize {
        self.0.options.asids
    }
    fn activate(&self, root: Pfn, asid: Asid) {
        let _inside = Inside::new();
        self.load_root(self.id(), root, asid);
    }
    /// Nothing interrupts a thread of the host: it looks for itself, wherever it waits.
    fn interrupt(&self, _number: usize) {}
    fn wait(&self, done: &mut dyn FnMut() -> bool) {
        while !done() {
            self.relax();
        }
    }
    fn refuses_key(&self, key: Key, write: bool) -> bool {
        self.key_refuses(self.0.threads.current(), key, write)
    }
    fn set_key(&self, key: Key, refused: Refused) {
        let (word, at) = (&self.0.keys[self.0.threads.current()], 2 * key.0);
        let others = word.load(Ordering::Relaxed) & !(0b11 << at);
        word.store(others | refused.bits() << at, Ordering::Relaxed);
    }
}
