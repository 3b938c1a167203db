//! What a traced thread does: it stops, lends its registers, and goes on as its tracer says.

use super::{Event, Resume, Stop, StopKind, TraceOptions, traced};
use crate::arch::trap::{StopAt, UserContext};
use crate::base::errno::Errno;
use crate::process::signal::{self, SIGCHLD, SIGKILL, SIGTRAP, SigInfo, bit};
use crate::process::signal::{ActionFlags, Fields};
use crate::process::task::{self, Task, TaskState, Work};
use crate::sched;
use alloc::sync::Arc;
use linux_raw_sys::general as abi;
use linux_raw_sys::ptrace;

/// How a thread goes on after a stop.
struct Gone {
    /// The signal that its tracer wants it to have.
    signal: Option<SigInfo>,
    /// The system call that was interrupted is still to be repeated.
    repeats: bool,
}

/// Stops the running thread until its tracer lets it go on, or it is killed.
/// `None`: nothing traces it any more.
fn stay(task: &Arc<Task>, user: &mut UserContext, at: StopAt, stop: Stop) -> Option<Gone> {
    user.begin_stop(at);
    let signal = lend(task, user, stop).then(|| {
        tell_tracer(task, stop.cld(), stop.code & 0x7f);
        wait(task, &stop);
        take_back(task, user)
    });
    let repeats = user.end_stop(at);
    Some(Gone {
        signal: signal?,
        repeats,
    })
}

/// Gives the registers to the tracer. `false`: nothing traces the thread any more.
fn lend(task: &Task, user: &mut UserContext, stop: Stop) -> bool {
    let mut trace = task.trace.lock();
    let Some(trace) = trace.as_deref_mut().filter(|trace| !trace.is_over) else {
        return false;
    };
    core::mem::swap(user, &mut trace.registers);
    (trace.lent, trace.stop, trace.resume) = (true, Some(stop), Resume::Run);
    if stop.code >> 8 == Event::Stop as i32 {
        trace.interrupt = false;
    }
    true
}

fn wait(task: &Arc<Task>, stop: &Stop) {
    // The last stop is one of threads that end.
    let is_last = stop.code >> 8 == Event::Exit as i32;
    loop {
        task.sched.prepare();
        let is_ending = !is_last && task.process().is_ending_for(task);
        let is_killed = is_ending || signal::pending_set(task) & bit(SIGKILL) != 0;
        let mut trace = task.trace.lock();
        let stop = trace.as_mut().map(|trace| &mut trace.stop);
        let stop = stop.expect("a thread that has lent its registers has a tracer's state");
        if is_killed {
            *stop = None;
        }
        if stop.is_none() {
            drop(trace);
            return task.sched.set_state(TaskState::Runnable);
        }
        drop(trace);
        if task.sched.settle(TaskState::Traced) {
            sched::schedule();
        }
    }
}

/// Takes the registers back; the signal to go on with.
fn take_back(task: &Task, user: &mut UserContext) -> Option<SigInfo> {
    let mut slot = task.trace.lock();
    let trace = slot.as_deref_mut()?;
    if core::mem::take(&mut trace.lent) {
        core::mem::swap(user, &mut trace.registers);
    }
    let signal = trace.signal.take();
    let over = match trace.is_over {
        true => slot.take(),
        false => None,
    };
    drop(slot);
    drop(over);
    signal
}

/// Has the tracer's process look at its tracees.
pub(super) fn tell_tracer(task: &Task, code: u32, status: i32) {
    let Some(tracer) = task::find(super::tracer_of(task)) else {
        return;
    };
    if !tracer.handlers().get(SIGCHLD).has(ActionFlags::NOCLDSTOP) {
        let mut info = task.process().child_info(code, status);
        if let Fields::Child { pid, .. } = &mut info.fields {
            *pid = task.tid();
        }
        signal::send_process(&tracer, info);
    }
    tracer.child_events.wake_all();
}

fn stop(kind: StopKind, code: i32, info: SigInfo) -> Stop {
    Stop {
        kind,
        code,
        info,
        unreported: true,
        listens: false,
    }
}

/// A stop that no signal is the reason of: its siginfo is of SIGTRAP, with the stop's code.
fn notice(task: &Task, kind: StopKind, code: i32) -> Stop {
    let info = SigInfo {
        signo: SIGTRAP,
        ..signal::info_from(task.process(), SIGTRAP, code)
    };
    stop(kind, code, info)
}

fn is_traced(task: &Task) -> bool {
    task.sched.work().contains(Work::TRACED)
}

/// What the tracer has set.
fn settings(task: &Task) -> Option<(TraceOptions, Resume, bool)> {
    traced(&task.trace.lock()).map(|trace| (trace.options, trace.resume, trace.seized))
}

/// Before (`kind` CallEntry) or after (CallExit) a system call: a stop if its tracer wants it, and
/// after a call that was one step, the trap of that. Whether the tracer has the thread make no
/// call: its number is -1, and the result stays as it is.
pub fn at_call(task: &Arc<Task>, user: &mut UserContext, kind: StopKind) -> bool {
    const NONE: i32 = -1;
    let Some((options, resume, _)) = settings(task) else {
        return false;
    };
    match resume {
        Resume::ToCall => {}
        Resume::Step if kind == StopKind::CallExit => {
            signal::force(task, SigInfo::fault(SIGTRAP, abi::TRAP_TRACE, user.pc()));
            return false;
        }
        _ => return false,
    }
    let is_none = |user: &UserContext| user.syscall_number() as i32 == NONE;
    if kind == StopKind::CallEntry && (cfg!(target_arch = "x86_64") || is_none(user)) {
        // On aarch64 the result's register holds an argument.
        user.set_return(Errno::ENOSYS.to_return());
    }
    let sysgood = i32::from(options.contains(TraceOptions::SYSGOOD));
    let stop = notice(task, kind, SIGTRAP | sysgood << 7);
    set_message(
        task,
        match kind {
            StopKind::CallEntry => ptrace::PTRACE_EVENTMSG_SYSCALL_ENTRY.into(),
            _ => ptrace::PTRACE_EVENTMSG_SYSCALL_EXIT.into(),
        },
    );
    let gone = stay(task, user, StopAt::Call, stop);
    send(task, gone);
    is_none(user)
}

/// Before a traced thread handles a signal: a stop. The signal that its tracer has it handle; an
/// interrupted call that the tracer has changed the registers of is not repeated.
pub fn at_signal(
    task: &Arc<Task>,
    user: &mut UserContext,
    interrupted: &mut Option<Errno>,
    info: SigInfo,
) -> Option<SigInfo> {
    if info.signo == SIGKILL {
        return Some(info);
    }
    let stop = stop(StopKind::Signal, info.signo, info);
    let info = stay_between(task, user, interrupted, stop)?;
    if task.blocked() & bit(info.signo) != 0 {
        signal::send_task(task, info);
        return None;
    }
    Some(info)
}

/// A stop on the way to user mode.
fn stay_between(
    task: &Arc<Task>,
    user: &mut UserContext,
    interrupted: &mut Option<Errno>,
    stop: Stop,
) -> Option<SigInfo> {
    let at = interrupted.map_or(StopAt::Elsewhere, |why| StopAt::Interrupted(why.0 as u16));
    let Some(gone) = stay(task, user, at, stop) else {
        return Some(stop.info);
    };
    if !gone.repeats {
        *interrupted = None;
    }
    gone.signal
}

/// Sends the thread the signal that its tracer wants it to have after a stop for something else.
fn send(task: &Arc<Task>, gone: Option<Gone>) {
    if let Some(info) = gone.and_then(|gone| gone.signal) {
        signal::send_task(task, info);
    }
}

/// The stop that PTRACE_INTERRUPT or PTRACE_SEIZE of its parent has asked for, if any.
pub fn at_interrupt(task: &Arc<Task>, user: &mut UserContext, interrupted: &mut Option<Errno>) {
    let asked = {
        let mut trace = task.trace.lock();
        let trace = trace.as_mut().filter(|trace| !trace.is_over);
        trace.is_some_and(|trace| core::mem::take(&mut trace.interrupt))
    };
    if asked {
        let signo = task.process().stop.lock().signal().unwrap_or(SIGTRAP);
        let kind = match signo {
            SIGTRAP => StopKind::Event,
            _ => StopKind::Group,
        };
        let stop = notice(task, kind, signo | (Event::Stop as i32) << 8);
        stay_between(task, user, interrupted, stop);
    }
}

/// A traced thread's part in the stop of its process by `signo`.
pub fn at_group_stop(
    task: &Arc<Task>,
    user: &mut UserContext,
    interrupted: &mut Option<Errno>,
    signo: i32,
) {
    let Some((_, _, seized)) = settings(task) else {
        return;
    };
    let event = if seized { Event::Stop as i32 } else { 0 };
    let stop = notice(task, StopKind::Group, signo | event << 8);
    stay_between(task, user, interrupted, stop);
}

/// A handler of a thread that goes on for one instruction begins: that is the step.
pub fn at_handler(task: &Arc<Task>, user: &mut UserContext) {
    if is_traced(task) && super::steps(task) {
        let stop = notice(task, StopKind::Signal, SIGTRAP);
        let gone = stay(task, user, StopAt::Elsewhere, stop);
        send(task, gone);
    }
}

/// An event, with its message: a stop if the tracer has asked for it.
pub fn event(task: &Arc<Task>, user: &mut UserContext, event: Event, message: u64) {
    let Some((options, ..)) = settings(task) else {
        return;
    };
    if options.contains(event.option()) {
        set_message(task, message);
        let stop = notice(task, StopKind::Event, SIGTRAP | (event as i32) << 8);
        stay(task, user, StopAt::Call, stop);
    }
}

/// A new program: an event, or the signal that ptrace(2) has for tracers which know none.
/// `former`: the number that the thread had before.
pub fn at_exec(task: &Arc<Task>, user: &mut UserContext, former: i32) {
    let Some((options, _, seized)) = settings(task) else {
        return;
    };
    if options.contains(TraceOptions::EXEC) {
        event(task, user, Event::Exec, former as u64);
    } else if !seized {
        let code = abi::SI_USER as i32;
        signal::send_task(task, signal::info_from(task.process(), SIGTRAP, code));
    }
}

/// The end of a traced thread, with its wait status; none for one that is killed.
pub fn at_exit(task: &Arc<Task>, user: &mut UserContext) {
    let killed = task.process().is_ending_for(task)
        && task
            .process()
            .group_exit()
            .is_some_and(|status| status & 0x7f == SIGKILL);
    if is_traced(task) && !killed {
        event(task, user, Event::Exit, task.last_status() as u64);
    }
}

fn set_message(task: &Task, message: u64) {
    if let Some(trace) = task.trace.lock().as_mut() {
        trace.message = message;
    }
}
