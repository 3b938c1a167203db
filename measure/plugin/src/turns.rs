//! CPUs that take turns on one thread (`-icount`, `thread=single`). QEMU 10.0 tells callbacks the
//! wrong one (`counts::turns`), and adds what is counted inline to wrong addresses: it multiplies
//! the number of the CPU by the size of a scoreboard's entry once for each addition in a block, and
//! crashes. So each block begins with a look at which CPU it is, and callbacks count.
use crate::abi::{Access, Block, Direction, Id, Instruction, Registers, Sees};
use crate::{RUN, locked};
use counts::Arch;
use counts::counts::{Counter, Counts, Mode};
use std::cell::Cell;
use std::ffi::{c_uint, c_void};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};

thread_local! {
    /// How many CPUs began on this thread.
    static CPUS: Cell<usize> = const { Cell::new(0) };
}

/// The registers of the first CPU; handles of others are the same.
static REGISTERS: OnceLock<Registers> = OnceLock::new();

/// A CPU begins, on its thread.
pub extern "C" fn cpu(_: Id, _: c_uint) {
    CPUS.set(CPUS.get() + 1);
    REGISTERS.get_or_init(Registers::of_this_cpu);
}

/// The value of a register of the CPU whose callback this is, by its name in gdb.
pub fn register(name: &str) -> u64 {
    REGISTERS.get().map_or(0, |registers| registers.read(name))
}

/// Whether several CPUs are on this thread. All have begun when the first block is translated.
pub fn are_taken() -> bool {
    CPUS.get() > 1
}

/// The state of CPUs that take turns.
pub struct Turns {
    names: &'static [&'static str],
    state: Mutex<counts::turns::Turns>,
    /// Whether no block began since one was translated.
    has_new: AtomicBool,
    /// The CPU whose turn it is.
    now: AtomicUsize,
    /// Counters of each CPU, where [`Counts::offset`] says.
    counts: Vec<[AtomicU64; Counts::BYTES / 8]>,
}

impl Turns {
    /// Of so many CPUs.
    pub fn new(arch: Arch, cpus: usize) -> Turns {
        Turns {
            names: counts::turns::registers(arch),
            state: Mutex::default(),
            has_new: AtomicBool::new(false),
            now: AtomicUsize::new(0),
            counts: (0..cpus).map(|_| Default::default()).collect(),
        }
    }

    /// The CPU whose turn it is.
    #[inline]
    pub fn now(&self) -> usize {
        self.now.load(Relaxed)
    }

    /// Has a block that is translated say whose turn it is when it begins.
    pub fn translate(&self, block: &Block, mode: Mode) {
        let word = locked(&self.state).translated() << 1 | mode as u64;
        self.has_new.store(true, Relaxed);
        block.on_execution(Sees::Registers, begin, word);
    }

    fn begin(&self, block: u64, cpu: usize) {
        let values = self.names.iter().map(|name| register(name));
        let cpu = locked(&self.state).executed(block, cpu, values);
        self.now.store(cpu, Relaxed);
    }

    fn add(&self, offset: usize) {
        // One thread alone adds.
        let count = &self.counts[self.now()][offset / 8];
        count.store(count.load(Relaxed) + 1, Relaxed);
    }

    /// The counters of all CPUs, now.
    pub fn counts(&self) -> Vec<Counts> {
        let of_cpu = |counts: &[AtomicU64; Counts::BYTES / 8]| {
            Counts::read(|offset| counts[offset / 8].load(Relaxed))
        };
        self.counts.iter().map(of_cpu).collect()
    }
}

/// Counts executions of an instruction.
pub fn count(instruction: &Instruction<'_>, mode: Mode, counter: Counter) {
    let offset = Counts::offset(mode, counter) as u64;
    instruction.on_execution(Sees::Nothing, executed, offset);
}

/// Counts its accesses.
pub fn count_accesses(
    instruction: &Instruction<'_>,
    direction: Direction,
    mode: Mode,
    counter: Counter,
) {
    let offset = Counts::offset(mode, counter) as u64;
    instruction.on_access(direction, Sees::Nothing, accessed, offset);
}

fn turns() -> Option<&'static Turns> {
    RUN.get()?.turns()
}

/// A block begins.
extern "C" fn begin(cpu: c_uint, word: *mut c_void) {
    let Some(run) = RUN.get() else {
        return;
    };
    let word = word.addr() as u64;
    let is_user = word & 1 == Mode::User as u64;
    if let Some(turns) = run.turns()
        && (turns.has_new.swap(false, Relaxed) || is_user || run.wants_kernel())
    {
        turns.begin(word >> 1, cpu as usize);
    }
}

extern "C" fn executed(_: c_uint, offset: *mut c_void) {
    if let Some(turns) = turns() {
        turns.add(offset.addr());
    }
}

extern "C" fn accessed(_: c_uint, _: Access, _: u64, offset: *mut c_void) {
    if let Some(turns) = turns() {
        turns.add(offset.addr());
    }
}
