//! Signal delivery, on the way back to user mode.

use super::*;
use crate::arch::trap::{SignalFrame, UserContext};
use crate::process::task::{self, AltStack};
use crate::process::{core_dump, trace};
use crate::sched::kernel_lock;
use alloc::sync::Arc;
use linux_raw_sys::general as abi;

/// Delivers the pending signals. `interrupted` is the restart error of the system call that the
/// thread comes from, if it ended with one: the call is then repeated, or ends with EINTR.
pub fn deliver(task: &Arc<Task>, user: &mut UserContext, mut interrupted: Option<Errno>) {
    debug_assert!(kernel_lock::is_mine());
    loop {
        if task.process().is_ending_for(task) {
            task::exit_thread(task, task.process().group_exit().unwrap_or(0));
            return;
        }
        stop::stay_stopped(task, user, &mut interrupted);
        if task.sched.work().contains(Work::TRACED) {
            trace::at_interrupt(task, user, &mut interrupted);
        }
        let Some(mut info) = take(task) else { break };
        if task.sched.work().contains(Work::TRACED) {
            match trace::at_signal(task, user, &mut interrupted, info) {
                Some(chosen) => info = chosen,
                None => continue,
            }
        }
        let action = task.process().handlers().get(info.signo);
        match action.disposition() {
            Disposition::Ignore => {}
            Disposition::Handler => {
                if let Some(why) = interrupted.take() {
                    end_system_call(task, user, why, &action);
                }
                enter_handler(task, user, &info, &action);
                if task.sched.work().contains(Work::TRACED) {
                    trace::at_handler(task, user);
                }
            }
            Disposition::Default if task.process().survives(&action) => {}
            Disposition::Default => default_action(task, user, &info),
        }
        if task.sched.work().contains(Work::EXIT) {
            return;
        }
    }
    if interrupted.is_some() {
        user.restart_syscall();
    }
    restore_saved_mask(task);
}

/// Takes the next signal to be handled; without one, the thread has no signal work any more.
fn take(task: &Arc<Task>) -> Option<SigInfo> {
    let allowed = !task.blocked();
    take_of(task, allowed).or_else(|| {
        recalculate(task);
        None
    })
}

/// Ends an interrupted call before a handler runs: it is repeated afterwards, or ends with EINTR.
fn end_system_call(task: &Task, user: &mut UserContext, why: Errno, action: &Action) {
    task.restart_deadline.store(0, Relaxed);
    if why == Errno::ERESTARTSYS && action.has(ActionFlags::RESTART) {
        user.restart_syscall();
    } else {
        user.set_return(Errno::EINTR.to_return());
    }
}

fn enter_handler(task: &Arc<Task>, user: &mut UserContext, info: &SigInfo, action: &Action) {
    let mask = if task.sched.work().contains(Work::RESTORE_MASK) {
        task.sched.clear_work(Work::RESTORE_MASK);
        task.saved_mask.load(Relaxed)
    } else {
        task.blocked()
    };
    let alt = *task.alt_stack.lock();
    let on_alt = alt.contains(user.sp());
    let frame = SignalFrame {
        signo: info.signo,
        siginfo: &info.to_bytes(),
        handler: action.handler,
        restorer: action.restorer,
        mask,
        altstack: [alt.base, u64::from(alt.reported_flags(user.sp())), alt.size],
        stack: (action.has(ActionFlags::ONSTACK) && alt.size > 0 && !on_alt)
            .then(|| alt.base.wrapping_add(alt.size)),
        fault_addr: info.fault_addr(),
    };
    if user.push_signal_frame(&frame).is_err() {
        // The frame cannot be written: SIGSEGV, which ends the process if the frame was for
        // SIGSEGV.
        if info.signo == SIGSEGV {
            task.process().handlers().set(SIGSEGV, Action::DEFAULT);
        }
        return force(task, SigInfo::kernel(SIGSEGV));
    }
    if alt.flags & abi::SS_AUTODISARM != 0 {
        *task.alt_stack.lock() = AltStack::NONE;
    }
    if action.has(ActionFlags::RESETHAND) {
        task.process().handlers().set(
            info.signo,
            Action {
                handler: 0,
                ..*action
            },
        );
    }
    let own = if action.has(ActionFlags::NODEFER) {
        0
    } else {
        bit(info.signo)
    };
    set_blocked(task, task.blocked() | action.mask | own);
}

fn default_action(task: &Arc<Task>, user: &mut UserContext, info: &SigInfo) {
    match Default::of(info.signo) {
        Default::Ignore | Default::Continue => {}
        // In an orphaned group only SIGSTOP stops: there is no shell that would continue it.
        Default::Stop if info.signo != SIGSTOP && task::is_orphaned(task.process().pgid()) => {}
        Default::Stop => stop_process(task.process(), info.signo),
        Default::Terminate => task::exit_group(task, info.signo),
        Default::Core => {
            report(task, user, info);
            let dumped = core_dump::dump(task, user, info);
            task::exit_group(task, core_dump::status(info.signo, dumped));
        }
    }
}

/// One line about a fault that ends a process, as Linux writes it.
fn report(task: &Task, user: &UserContext, info: &SigInfo) {
    let Fields::Fault { addr, .. } = info.fields else {
        return;
    };
    let (comm, tid, pc, sp) = (task.comm(), task.tid(), user.pc(), user.sp());
    match info.signo {
        SIGSEGV => log::info!(
            "{comm}[{tid}]: segfault at {addr:x} ip {pc:016x} sp {sp:016x} code {}",
            info.code
        ),
        signo => log::info!(
            "{comm}[{tid}]: {} ip:{pc:x} sp:{sp:x} addr:{addr:x} code {}",
            name(signo),
            info.code
        ),
    }
}

fn name(signo: i32) -> &'static str {
    match signo {
        SIGBUS => "bus error",
        SIGILL => "invalid opcode",
        SIGFPE => "arithmetic exception",
        SIGTRAP => "trap",
        _ => "fault",
    }
}

/// Puts back the mask of before sigsuspend and its like, when no handler has taken it over.
fn restore_saved_mask(task: &Task) {
    if task.sched.work().contains(Work::RESTORE_MASK) {
        task.sched.clear_work(Work::RESTORE_MASK);
        set_blocked(task, task.saved_mask.load(Relaxed));
    }
}

/// rt_sigreturn(2): back to what the handler interrupted. A frame that cannot be read is SIGSEGV.
pub fn sigreturn(task: &Arc<Task>, user: &mut UserContext) -> u64 {
    match user.pop_signal_frame() {
        Ok((mask, [base, flags, size])) => {
            set_blocked(task, mask);
            *task.alt_stack.lock() = AltStack::from_frame(base, flags as u32, size);
        }
        Err(()) => force(task, SigInfo::kernel(SIGSEGV)),
    }
    user.return_value()
}

impl AltStack {
    /// Whether `sp` lies on it.
    pub fn contains(&self, sp: u64) -> bool {
        self.size > 0 && sp > self.base && sp - self.base <= self.size
    }

    /// ss_flags as sigaltstack(2) returns them at `sp`.
    pub fn reported_flags(&self, sp: u64) -> u32 {
        match self {
            AltStack { size: 0, .. } => abi::SS_DISABLE,
            AltStack { flags, .. } if flags & abi::SS_AUTODISARM != 0 => *flags,
            _ if self.contains(sp) => abi::SS_ONSTACK,
            _ => 0,
        }
    }

    /// From the words of a signal frame.
    fn from_frame(base: u64, flags: u32, size: u64) -> Self {
        if flags & abi::SS_DISABLE != 0 {
            return Self::NONE;
        }
        Self {
            base,
            size,
            flags: flags & abi::SS_AUTODISARM,
        }
    }
}
