//! The loop of a thread: enters user mode, returns with a trap, handles it, and enters user mode
//! again.

use crate::arch::trap::{Irq, Trap, UserContext};
use crate::base::above::Above;
use crate::base::cpus;
use crate::base::errno::Errno;
use crate::base::heap::fail;
use crate::base::machine::mm;
use crate::base::stretch::Reason;
use crate::process::signal::{self, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGTRAP, SigInfo};
use crate::process::task::{self, Start, Task, Work};
use crate::sched::Entry;
use crate::sched::timers;
use crate::{fs, pressure, sched, syscall};
use alloc::sync::Arc;
use core::sync::atomic::Ordering::Relaxed;
use linux_raw_sys::general as abi;
use mm::addr::VirtAddr;
use mm::fault::{Access, Resolution};

impl Entry for Above {
    const THREAD_MAIN: extern "C" fn(usize) -> ! = thread_main;

    #[inline]
    fn interrupt(irq: Irq) {
        interrupt(irq);
    }
}

/// Where every thread starts, on its own kernel stack.
extern "C" fn thread_main(_: usize) -> ! {
    sched::finish_switch();
    {
        let task = task::current();
        match task.take_start() {
            Start::User(mut user) => run(&task, &mut user),
            Start::Kernel(work) => {
                task.sched.times.enter_for(Reason::KERNEL_THREAD);
                work()
            }
        }
        task.sched.times.enter_for(Reason::END);
        let heap_fails = task.sched.work().contains(Work::HEAP_FAILS);
        if heap_fails {
            task::watch_heap(&task, "end of a thread");
        }
        task::finish(&task);
        if heap_fails {
            fail::end();
        }
    }
    sched::exit()
}

/// An interrupt, from user mode or from the idle CPU.
fn interrupt(irq: Irq) {
    match irq {
        Irq::Timer => timers::interrupt(),
        Irq::Serial => fs::tty::receive_pending(),
        Irq::Ipi => cpus::serve(),
        Irq::Spurious => {}
        Irq::Other(number) => log::warn!("interrupt {number} that nobody asked for"),
    }
}

/// Runs user mode and handles its traps until the thread ends.
fn run(task: &Arc<Task>, user: &mut UserContext) {
    loop {
        let special = task.sched.work() & (Work::EXIT | Work::HEAP_FAILS);
        if special.is_empty() {
            turn(task, user, |_, _| ());
        } else if special.contains(Work::EXIT) {
            return;
        } else {
            watched_turn(task, user);
        }
    }
}

/// [`turn`] of a thread whose allocations fail on purpose.
#[cold]
fn watched_turn(task: &Arc<Task>, user: &mut UserContext) {
    turn(task, user, |trap, user| {
        task::watch_heap_of_trap(task, trap, user)
    });
    fail::end();
}

/// Enters user mode once and handles the trap that ends it. `entered` is called first.
#[inline(always)]
fn turn(task: &Arc<Task>, user: &mut UserContext, entered: impl Fn(&Trap, &UserContext)) {
    let trap = user.run();
    if let Trap::Syscall = trap
        && let Some(value) = syscall::quick(task, user.syscall_number())
    {
        user.set_return(value);
        return;
    }
    task.sched.times.leave_user();
    entered(&trap, user);
    let interrupted = handle(task, user, trap);
    if interrupted.is_some() || !task.sched.work().is_empty() {
        before_user_mode(task, user, interrupted);
    }
    task.sched.times.leave_kernel();
}

/// Handles a trap. Returns the restart error of a system call that a signal interrupted.
// Each page fault takes this way, and a call is a thirtieth of what it costs here.
#[inline(always)]
fn handle(task: &Arc<Task>, user: &mut UserContext, trap: Trap) -> Option<Errno> {
    match trap {
        Trap::Syscall => return syscall::enter(task, user),
        Trap::Interrupt(irq) => {
            task.sched.times.enter_for(Reason::INTERRUPT);
            interrupt(irq);
        }
        Trap::PageFault { addr, access, .. } => {
            task.sched.times.enter_for(Reason::FAULT);
            page_fault(task, addr, access);
        }
        other => {
            task.sched.times.enter_for(Reason::EXCEPTION);
            signal::force(task, fault_info(other, user));
        }
    }
    None
}

/// Does the pending work, until there is no more or the thread ends.
fn before_user_mode(task: &Arc<Task>, user: &mut UserContext, mut interrupted: Option<Errno>) {
    loop {
        let work = task.sched.work().difference(Work::HEAP_FAILS);
        if work.contains(Work::EXIT) || work.is_empty() && interrupted.is_none() {
            return;
        }
        work_off(task, user, work, interrupted.take());
    }
}

/// One round of pending work: reschedules, refills reserves, delivers signals.
fn work_off(task: &Arc<Task>, user: &mut UserContext, work: Work, interrupted: Option<Errno>) {
    if work.contains(Work::RESCHEDULE) {
        task.sched.clear_work(Work::RESCHEDULE);
        task.sched.count_involuntary_switch();
        sched::yield_now();
    }
    if work.contains(Work::MAKE_ROOM) {
        pressure::refill(task);
    }
    if work.contains(Work::OUT_OF_MEMORY) {
        task.sched.clear_work(Work::OUT_OF_MEMORY);
        out_of_memory(task);
    }
    if interrupted.is_some()
        || task
            .sched
            .work()
            .intersects(Work::SIGNAL | Work::RESTORE_MASK)
    {
        signal::deliver(task, user, interrupted);
    }
}

/// A page fault in user mode: resolved, or a signal.
#[inline(always)]
fn page_fault(task: &Arc<Task>, addr: VirtAddr, access: Access) {
    let mut attempt = 0;
    let info = loop {
        match resolve(task, addr, access) {
            Resolution::Done => return,
            Resolution::NotMapped => break SigInfo::fault(SIGSEGV, abi::SEGV_MAPERR, addr.0),
            Resolution::Denied => break SigInfo::fault(SIGSEGV, abi::SEGV_ACCERR, addr.0),
            Resolution::Bus => break SigInfo::fault(SIGBUS, abi::BUS_ADRERR, addr.0),
            Resolution::NoMem if pressure::make_room(task, attempt) => attempt += 1,
            // It is to end.
            Resolution::NoMem => return,
        }
    };
    signal::force(task, info);
}

fn resolve(task: &Task, addr: VirtAddr, access: Access) -> Resolution {
    let process = task.process();
    let Some(resolution) = process.with_space(|space| space.fault(addr, access)) else {
        return Resolution::NotMapped;
    };
    if resolution == Resolution::Done {
        process.faults.fetch_add(1, Relaxed);
    }
    resolution
}

/// No memory for a fault inside a system call, which could not wait for some: the call has failed,
/// and the program with it.
fn out_of_memory(task: &Arc<Task>) {
    log::warn!(
        "out of memory: killed {}[{}]",
        task.comm(),
        task.process().pid()
    );
    signal::kill_current(task);
}

/// The signal of a trap that is always the program's mistake.
// A call of it would keep each trap in memory, those of page faults and system calls, too.
#[inline(always)]
fn fault_info(trap: Trap, user: &UserContext) -> SigInfo {
    let pc = user.pc();
    match trap {
        Trap::IllegalInstruction => SigInfo::fault(SIGILL, abi::ILL_ILLOPN, pc),
        Trap::DivideError => SigInfo::fault(SIGFPE, abi::FPE_INTDIV, pc),
        Trap::FloatingPoint(code) => SigInfo::fault(SIGFPE, code as u32, pc),
        Trap::Breakpoint => breakpoint(pc),
        Trap::SingleStep => SigInfo::fault(SIGTRAP, abi::TRAP_TRACE, pc),
        Trap::Alignment { addr } => SigInfo::fault(SIGBUS, abi::BUS_ADRALN, addr.0),
        // x86: segment not present, stack fault (a non-canonical stack pointer).
        Trap::Other(11 | 12) => SigInfo::kernel(SIGBUS),
        _ => SigInfo::fault(SIGSEGV, abi::SI_KERNEL, 0),
    }
}

/// Linux says SI_KERNEL without an address for int3, TRAP_BRKPT at the instruction for brk.
fn breakpoint(pc: u64) -> SigInfo {
    if cfg!(target_arch = "x86_64") {
        SigInfo::kernel(SIGTRAP)
    } else {
        SigInfo::fault(SIGTRAP, abi::TRAP_BRKPT, pc)
    }
}

/// A page fault in the kernel's user access routines: `true` when the access can be repeated. It
/// may come under any lock of the kernel crate, so it takes none below
/// [`crate::base::ranks::SCHEDULER`].
pub fn kernel_fault(addr: VirtAddr, access: Access) -> bool {
    let Some(task) = sched::current() else {
        return false;
    };
    let mut resolution = resolve(&task, addr, access);
    if resolution == Resolution::NoMem {
        pressure::reclaim_under_locks(&task);
        resolution = mm().urgently(|| resolve(&task, addr, access));
        task.sched.add_work(match resolution {
            Resolution::NoMem => Work::OUT_OF_MEMORY,
            _ => Work::MAKE_ROOM,
        });
    }
    resolution == Resolution::Done
}
