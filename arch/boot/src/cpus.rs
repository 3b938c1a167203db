//! The CPUs of a machine: the list that firmware gives, the numbers that the kernel gives them, the
//! record by which a CPU that starts finds its stack, and the flag that stops all but one.

use arrayvec::ArrayVec;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use mm::addr::PhysAddr;

/// CPUs that the kernel numbers; further ones are left out.
pub const NR_CPUS: usize = mm::arch::CPUS;

/// Capacity of the list of CPUs; further ones are left out.
pub type Cpus = ArrayVec<Cpu, 128>;

/// A CPU that the kernel could use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// Local APIC ID (x86_64), affinity fields of MPIDR_EL1 (aarch64).
    pub id: u64,
    /// How it is started.
    pub start: Start,
}

/// How a CPU is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// By INIT and SIPI of the local APIC.
    Sipi,
    /// By PSCI's CPU_ON.
    Psci,
    /// By an entry point written to this address (spin table).
    Spin(PhysAddr),
    /// By a method that the kernel does not support.
    Unknown,
}

/// Why a CPU that has come is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// It lacks a feature that is in use for good.
    Lacking,
    /// The interrupt controller has no part for it.
    Unreachable,
}

/// The CPU that pretends to have no feature that the kernel can do without; 0: none does.
static LEAST: AtomicUsize = AtomicUsize::new(0);

/// A CPU that has not come yet, not the first, pretends to have the least features that will do.
pub fn pretend_least(number: usize) {
    LEAST.store(number, Ordering::Relaxed);
}

/// Whether this CPU, not the first, pretends that.
pub fn is_least(number: usize) -> bool {
    LEAST.load(Ordering::Relaxed) == number
}

/// Adds a CPU, unless one with its ID is listed already or the list is full.
pub fn list(cpus: &mut Cpus, cpu: Cpu) {
    if cpus.iter().all(|other| other.id != cpu.id) {
        let _left_out_when_full = cpus.try_push(cpu);
    }
}

/// The CPUs with their numbers.
#[derive(Debug, PartialEq, Eq)]
pub struct Roster {
    /// By number: the running CPU is 0, the others follow in the order of the list.
    pub numbered: ArrayVec<Cpu, NR_CPUS>,
    /// Numbers below this are started.
    pub wanted: usize,
    /// Listed CPUs that got no number.
    pub beyond: usize,
}

impl Roster {
    /// The CPUs of a list whose IDs are different; `boot` is the running CPU's, which may be
    /// missing there. `most`: how many may run, from the command line.
    pub fn new(listed: &Cpus, boot: u64, most: usize) -> Roster {
        let mut numbered = ArrayVec::new();
        numbered.push(Cpu {
            id: boot,
            start: Start::Unknown,
        });
        let mut beyond = 0;
        for cpu in listed.iter().filter(|cpu| cpu.id != boot) {
            beyond += usize::from(numbered.try_push(*cpu).is_err());
        }
        Roster {
            wanted: most.clamp(1, numbered.len()),
            beyond,
            numbered,
        }
    }
}

/// Stacks of a CPU, by their tops; each has a guard below it and is never given back.
#[derive(Debug)]
pub struct Stacks {
    /// What it runs on.
    pub own: u64,
    /// For double fault and NMI (x86_64); the first for what the running stack cannot take
    /// (aarch64).
    pub emergency: [u64; 2],
}

/// State of the one CPU that is being started: it takes its stack only if it is claimed in time.
#[derive(Debug)]
#[repr(transparent)]
pub struct Claim(pub AtomicU32);

impl Claim {
    /// The CPU has not come yet.
    pub const OPEN: u32 = 0;
    /// The CPU has come and uses its stack.
    pub const TAKEN: u32 = 1;
    /// No CPU is being started, or it was given up.
    pub const CLOSED: u32 = 2;

    /// No CPU is being started.
    pub const fn closed() -> Claim {
        Claim(AtomicU32::new(Claim::CLOSED))
    }
    /// The next CPU may come. Release: what was written for it is visible to it.
    pub fn open(&self) {
        self.0.store(Claim::OPEN, Ordering::Release);
    }
    /// Gives the CPU up. False: it has come meanwhile.
    pub fn close(&self) -> bool {
        let (open, closed) = (Claim::OPEN, Claim::CLOSED);
        let relaxed = Ordering::Relaxed;
        let was = self.0.compare_exchange(open, closed, relaxed, relaxed);
        was.is_ok()
    }
}

/// The CPU that goes on when all others stop, plus 1.
static SURVIVOR: AtomicUsize = AtomicUsize::new(0);
static STOPPED: AtomicU64 = AtomicU64::new(0);

/// Asks all CPUs but `survivor` to stop at their next interrupt, for good. False: another CPU has
/// asked already.
pub fn ask_to_stop(survivor: usize) -> bool {
    let (acquire, release) = (Ordering::Acquire, Ordering::AcqRel);
    let asked = SURVIVOR.compare_exchange(0, survivor + 1, release, acquire);
    asked.map_or_else(|first| first == survivor + 1, |_| true)
}

/// Where a CPU has stopped: its program counter and its frame pointer. 0: it was in user mode, or
/// it has not stopped.
struct Stop {
    pc: AtomicU64,
    fp: AtomicU64,
}

static STOPS: [Stop; NR_CPUS] = [const {
    Stop {
        pc: AtomicU64::new(0),
        fp: AtomicU64::new(0),
    }
}; NR_CPUS];

/// For a CPU that was interrupted at `pc` with the frame pointer `fp` (both 0: in user mode): if it
/// is to stop, counts it among the stopped ones and says so; it halts then.
pub fn must_stop(cpu: usize, pc: u64, fp: u64) -> bool {
    let survivor = SURVIVOR.load(Ordering::Acquire);
    let stop = survivor != 0 && survivor != cpu + 1;
    if stop {
        STOPS[cpu].pc.store(pc, Ordering::Relaxed);
        STOPS[cpu].fp.store(fp, Ordering::Relaxed);
        STOPPED.fetch_or(1 << cpu, Ordering::Release);
    }
    stop
}

/// Where a CPU that has stopped was: program counter and frame pointer; `None` in user mode.
pub fn stopped_at(cpu: usize) -> Option<(u64, u64)> {
    let at = |word: &AtomicU64| word.load(Ordering::Relaxed);
    Some((at(&STOPS[cpu].pc), at(&STOPS[cpu].fp))).filter(|(pc, _)| *pc != 0)
}

/// The CPUs that have stopped, a bit each.
pub fn stopped() -> u64 {
    STOPPED.load(Ordering::Acquire)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu(id: u64) -> Cpu {
        Cpu {
            id,
            start: Start::Psci,
        }
    }

    fn listed(ids: impl IntoIterator<Item = u64>) -> Cpus {
        let mut cpus = Cpus::new();
        ids.into_iter().for_each(|id| list(&mut cpus, cpu(id)));
        cpus
    }

    fn ids(roster: &Roster) -> ArrayVec<u64, NR_CPUS> {
        roster.numbered.iter().map(|cpu| cpu.id).collect()
    }

    #[test]
    fn a_cpu_is_listed_once() {
        assert_eq!(listed([3, 1, 3, 3, 1]).len(), 2);
        assert_eq!(listed(0..1000).len(), 128);
    }

    #[test]
    fn the_running_cpu_is_the_first() {
        let roster = Roster::new(&listed([0, 1, 2, 3]), 2, usize::MAX);
        assert_eq!(ids(&roster)[..], [2, 0, 1, 3]);
        assert_eq!((roster.wanted, roster.beyond), (4, 0));
    }

    #[test]
    fn the_running_cpu_need_not_be_listed() {
        let alone = Roster::new(&Cpus::new(), 7, usize::MAX);
        assert_eq!((&ids(&alone)[..], alone.wanted), (&[7][..], 1));
        let forgotten = Roster::new(&listed([1]), 7, usize::MAX);
        assert_eq!(ids(&forgotten)[..], [7, 1]);
        assert_eq!((forgotten.wanted, forgotten.beyond), (2, 0));
    }

    #[test]
    fn fewer_by_the_command_line() {
        let wanted = |most| Roster::new(&listed(0..4), 0, most).wanted;
        assert_eq!([0, 1, 2, 4, 5].map(wanted), [1, 1, 2, 4, 4]);
    }

    #[test]
    fn more_than_the_kernel_numbers() {
        let roster = Roster::new(&listed(0..100), 99, usize::MAX);
        assert_eq!((roster.wanted, roster.beyond), (NR_CPUS, 36));
        assert_eq!((roster.numbered[0].id, roster.numbered[63].id), (99, 62));
    }

    #[test]
    fn all_but_the_first_that_asks_stop() {
        assert!(!must_stop(1, 0, 0));
        assert!(ask_to_stop(2) && ask_to_stop(2) && !ask_to_stop(0));
        assert!(!must_stop(2, 0, 0) && must_stop(0, 4, 8) && must_stop(1, 0, 0));
        assert_eq!(stopped(), 0b11);
        assert_eq!((stopped_at(0), stopped_at(1)), (Some((4, 8)), None));
    }

    #[test]
    fn a_late_cpu_gets_nothing() {
        let claim = Claim::closed();
        assert!(!claim.close(), "nothing to give up");
        claim.open();
        assert!(claim.close());
        claim.open();
        claim.0.store(Claim::TAKEN, Ordering::Relaxed);
        assert!(!claim.close(), "it has come");
    }
}
