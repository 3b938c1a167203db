//! The loop of a thread: enters user mode, returns with a trap, handles it, and enters user mode
//! again.

use crate::arch::trap::{Irq, Trap, UserContext};
use crate::base::above::Above;
use crate::base::cpus;
use crate::base::errno::Errno;
use crate::base::heap::fail;
use crate::base::machine::mm;
use crate::base::requests;
use crate::base::stretch::Reason;
use crate::base::uaccess;
use crate::entry::panic;
use crate::process::core_dump;
use crate::process::signal::{self, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGTRAP, SigInfo};
use crate::process::task::{self, Start, Task, Work};
use crate::process::trace::{self, StopKind};
use crate::process::userfault::{self, Answer, Mode};
use crate::sched::{Entry, kernel_lock, timers};
use crate::{fs, pressure, sched, syscall};
use alloc::sync::Arc;
use linux_raw_sys::general as abi;
use mm::addr::VirtAddr;
use mm::fault::{Access, Resolution};

impl Entry for Above {
    const THREAD_MAIN: extern "C" fn(usize) -> ! = thread_main;

    #[inline]
    fn interrupt(irq: Irq) {
        interrupt(irq);
    }

    #[inline]
    fn hang() -> ! {
        panic::hang()
    }
}

/// Where every thread starts, on its own kernel stack.
extern "C" fn thread_main(_: usize) -> ! {
    sched::finish_switch();
    kernel_lock::enter();
    {
        let task = task::current();
        match task.take_start() {
            Start::User(mut user) => run(&task, &mut user),
            Start::Kernel(work) => {
                task.sched.times.enter_for(Reason::KERNEL_THREAD);
                work()
            }
        }
        // A thread that a fault or an interrupt has met ends without it.
        kernel_lock::ensure();
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
        Irq::Serial => kernel_lock::with(fs::tty::receive_pending),
        Irq::Ipi => {
            requests::serve();
            sched::look();
            if cpus::this().pay_serial() {
                interrupt(Irq::Serial);
            }
        }
        Irq::Spurious => {}
        Irq::Other(number) => log::warn!("interrupt {number} that nobody asked for"),
    }
}

/// Runs user mode and handles its traps until the thread ends.
fn run(task: &Arc<Task>, user: &mut UserContext) {
    // A signal, or a stop, that came before the thread had a CPU has interrupted nothing.
    signal::recalculate(task);
    before_user_mode(task, user, None);
    // There are threads on several CPUs from the first thread on, or never.
    match kernel_lock::is_shared() {
        true => run_on::<true>(task, user),
        false => run_on::<false>(task, user),
    }
}

fn run_on<const SHARED: bool>(task: &Arc<Task>, user: &mut UserContext) {
    loop {
        let special = task.sched.work() & (Work::EXIT | Work::LASTING);
        if special.is_empty() {
            turn::<SHARED>(task, user);
        } else if special.contains(Work::EXIT) {
            last_look(task, user, special);
            return;
        } else {
            watched_turn(task, user);
        }
    }
}

/// The registers of a thread that ends, for its tracer and a core dump.
#[cold]
fn last_look(task: &Arc<Task>, user: &mut UserContext, work: Work) {
    if work.contains(Work::TRACED) {
        kernel_lock::with(|| trace::at_exit(task, user));
    }
    core_dump::leave(task, user);
}

/// Enters user mode until a trap that is more than a quick system call, and handles that. With
/// several CPUs (`SHARED`) the kernel lock is not held in user mode, in quick and parallel calls,
/// in page faults that need only memory, and at the end of a slice.
#[inline(always)]
fn turn<const SHARED: bool>(task: &Arc<Task>, user: &mut UserContext) {
    if SHARED {
        kernel_lock::leave();
    }
    let trap = loop {
        let trap = user.run();
        let Trap::Syscall = trap else { break trap };
        let Some(value) = syscall::quick(task, user.syscall_number()) else {
            break trap;
        };
        user.set_return(value);
    };
    task.sched.times.leave_user();
    if SHARED && matches!(trap, Trap::Syscall) && !syscall::is_parallel(user.syscall_number()) {
        kernel_lock::enter();
    }
    let interrupted = handle(task, user, &trap);
    if interrupted.is_some() || !task.sched.work().is_empty() {
        before_user_mode(task, user, interrupted);
    }
    task.sched.times.leave_kernel();
}

/// [`turn`] of a thread whose allocations fail on purpose, or that is traced: one trap, and a
/// system call has the kernel lock in all.
#[cold]
fn watched_turn(task: &Arc<Task>, user: &mut UserContext) {
    kernel_lock::leave();
    let trap = match task.sched.work().contains(Work::TRACED) {
        true => user.run_traced(trace::steps(task)),
        false => user.run(),
    };
    task.sched.times.leave_user();
    let heap_fails = task.sched.work().contains(Work::HEAP_FAILS);
    if heap_fails {
        task::watch_heap_of_trap(task, &trap, user);
    }
    let interrupted = match trap {
        Trap::Syscall => {
            kernel_lock::enter();
            watched_call(task, user)
        }
        trap => handle(task, user, &trap),
    };
    before_user_mode(task, user, interrupted);
    task.sched.times.leave_kernel();
    if heap_fails {
        fail::end();
    }
}

/// A system call between two stops for a tracer.
fn watched_call(task: &Arc<Task>, user: &mut UserContext) -> Option<Errno> {
    let stop = |user: &mut UserContext, kind| {
        // After exit(2) there is no end of the call.
        task.sched.work() & (Work::TRACED | Work::EXIT) == Work::TRACED
            && trace::at_call(task, user, kind)
    };
    let is_none = stop(user, StopKind::CallEntry);
    let interrupted = match syscall::quick(task, user.syscall_number()) {
        Some(value) => {
            user.set_return(value);
            None
        }
        None if is_none => None,
        None => syscall::enter(task, user),
    };
    stop(user, StopKind::CallExit);
    interrupted
}

/// Handles a trap. Returns the restart error of a system call that a signal interrupted.
// Each page fault takes this way, and a call is a thirtieth of what it costs here; so is a trap
// that is not borrowed but moved, by way of memory.
#[inline(always)]
fn handle(task: &Arc<Task>, user: &mut UserContext, trap: &Trap) -> Option<Errno> {
    match *trap {
        Trap::Syscall => return syscall::enter(task, user),
        Trap::Interrupt(irq) => {
            task.sched.times.enter_for(Reason::INTERRUPT);
            interrupt(irq);
        }
        Trap::PageFault { addr, access, .. } => {
            task.sched.times.enter_for(Reason::FAULT);
            page_fault(task, addr, access);
        }
        Trap::ProtectionKey { addr } => {
            task.sched.times.enter_for(Reason::FAULT);
            key_fault(task, addr);
        }
        other => {
            task.sched.times.enter_for(Reason::EXCEPTION);
            let info = fault_info(other, user);
            kernel_lock::with(|| signal::force(task, info));
        }
    }
    None
}

/// Does the pending work, until there is no more or the thread ends.
fn before_user_mode(task: &Arc<Task>, user: &mut UserContext, mut interrupted: Option<Errno>) {
    loop {
        let work = task.sched.work().difference(Work::LASTING);
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
    if interrupted.is_some() || !(work - Work::RESCHEDULE).is_empty() {
        kernel_lock::with(|| work_off_more(task, user, work, interrupted));
    }
}

/// The part of [`work_off`] that needs the kernel lock.
fn work_off_more(task: &Arc<Task>, user: &mut UserContext, work: Work, interrupted: Option<Errno>) {
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
    match resolve(task, addr, access, true) {
        Resolution::Done => {}
        why => unresolved(task, addr, access, why),
    }
}

/// A page fault that was not resolved at once, for this reason.
#[cold]
#[inline(never)]
fn unresolved(task: &Arc<Task>, addr: VirtAddr, access: Access, mut why: Resolution) {
    let (mut attempt, mut patient, mut is_major) = (0, true, false);
    let info = loop {
        is_major |= matches!(why, Resolution::Stored(_));
        match why {
            Resolution::Done if is_major => return count_major(task),
            Resolution::Done => return,
            Resolution::NotMapped | Resolution::Guard => {
                break SigInfo::fault(SIGSEGV, abi::SEGV_MAPERR, addr.0);
            }
            Resolution::Denied => break denied(task, addr, access),
            Resolution::Bus if take_huge_back(task, addr, access) => {}
            Resolution::Bus => break SigInfo::fault(SIGBUS, abi::BUS_ADRERR, addr.0),
            Resolution::Poisoned(order) => break SigInfo::memory_error(addr.0, order.bytes()),
            Resolution::NoMem if kernel_lock::with(|| pressure::make_room(task, attempt)) => {
                attempt += 1;
            }
            Resolution::Short(order) => {
                pressure::make_room_for(task, order);
                patient = false;
            }
            Resolution::Claimed | Resolution::Stored(_) => match wait_for(task, why, patient) {
                Ok(()) => {}
                // It is to end.
                Err(Resolution::Claimed) => return,
                Err(failed) => {
                    why = failed;
                    continue;
                }
            },
            Resolution::Userfault => match userfault::ask(task, addr, access, Mode::User) {
                Answer::Again => {}
                Answer::Refused => break SigInfo::fault(SIGBUS, abi::BUS_ADRERR, addr.0),
                Answer::Interrupted => return,
            },
            // It is to end.
            Resolution::NoMem => return,
        }
        why = resolve(task, addr, access, patient);
    };
    kernel_lock::with(|| signal::force(task, info));
}

/// The signal of an access that the memory's rights do not allow. As in Linux it is about the key
/// where that refuses it, too.
fn denied(task: &Task, addr: VirtAddr, access: Access) -> SigInfo {
    let key = task.space.with(|space| space.refusing_key(addr, access));
    match key.flatten() {
        Some(key) => SigInfo::key_fault(addr.0, key.0),
        None => SigInfo::fault(SIGSEGV, abi::SEGV_ACCERR, addr.0),
    }
}

/// A fault by a protection key: nothing is resolved.
#[cold]
fn key_fault(task: &Arc<Task>, addr: VirtAddr) {
    let key = task.space.with(|space| space.key_at(addr));
    let info = SigInfo::key_fault(addr.0, key.unwrap_or_default().0);
    kernel_lock::with(|| signal::force(task, info));
}

/// Resolves a fault, for a thread that can wait for memory if it is `patient`.
#[inline]
fn resolve(task: &Task, addr: VirtAddr, access: Access, patient: bool) -> Resolution {
    let resolution = task.space.with(|space| match patient {
        true => space.fault(addr, access),
        false => space.fault_anyhow(addr, access),
    });
    let Some(resolution) = resolution else {
        return Resolution::NotMapped;
    };
    if resolution == Resolution::Done {
        task.faults.count();
    }
    resolution
}

/// A fault was resolved that has waited for what was stored.
#[cold]
fn count_major(task: &Task) {
    task.faults.count_major();
    task.space.with(|space| space.count_major_fault());
}

/// [`AddressSpace::wait_patiently`](mm::AddressSpace::wait_patiently).
#[cold]
fn wait_for(task: &Task, why: Resolution, patient: bool) -> Result<(), Resolution> {
    let wait = || task.space.lend(|space| space.wait_patiently(why, patient));
    let waited = match why {
        Resolution::Stored(_) => pressure::stall::waiting(wait),
        _ => wait(),
    };
    waited.unwrap_or(Err(Resolution::NotMapped))
}

/// Whether a write that found no huge page left has taken that of the space's children.
#[cold]
fn take_huge_back(task: &Task, addr: VirtAddr, access: Access) -> bool {
    let take = || task.space.lend(|space| space.take_huge_back(addr));
    access == Access::Write && take() == Some(true)
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
        Trap::HardwareBreak { addr } => SigInfo::fault(SIGTRAP, abi::TRAP_HWBKPT, addr.0),
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

/// Resolves a fault, after what it has to wait for.
fn resolve_in_kernel(task: &Arc<Task>, addr: VirtAddr, access: Access) -> Resolution {
    let (mut patient, mut is_major) = (true, false);
    loop {
        let resolution = resolve(task, addr, access, patient);
        is_major |= matches!(resolution, Resolution::Stored(_));
        let ask = || userfault::ask(task, addr, access, Mode::Kernel);
        match resolution {
            Resolution::Done if is_major => {
                count_major(task);
                return resolution;
            }
            Resolution::Done => return resolution,
            Resolution::Bus if take_huge_back(task, addr, access) => {}
            Resolution::Userfault if ask() == Answer::Again => {}
            Resolution::Short(_) => patient = false,
            why => match wait_for(task, why, false) {
                Ok(()) => {}
                Err(why) => return why,
            },
        }
    }
}

/// A page fault in the kernel's user access routines: `true` when the access can be repeated. No
/// lock but the kernel lock is held in them ([`uaccess`]), so it may wait for a change of VMAs.
pub fn kernel_fault(addr: VirtAddr, access: Access) -> bool {
    if !uaccess::may_fault() {
        return false;
    }
    let Some(task) = sched::current() else {
        return false;
    };
    let mut resolution = resolve_in_kernel(&task, addr, access);
    if resolution == Resolution::NoMem {
        pressure::reclaim_under_locks(&task);
        resolution = mm().urgently(|| resolve_in_kernel(&task, addr, access));
        task.sched.add_work(match resolution {
            Resolution::NoMem => Work::OUT_OF_MEMORY,
            _ => Work::MAKE_ROOM,
        });
    }
    resolution == Resolution::Done
}
