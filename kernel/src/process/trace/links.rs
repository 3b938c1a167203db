//! Who traces whom: how it begins and ends.

use super::{Event, Trace, TraceOptions, Tracer, new, stops, traced};
use crate::base::errno::{Errno, Result};
use crate::base::room;
use crate::process::signal::{self, SIGKILL, SIGSTOP, SigInfo};
use crate::process::task::{self, Pid, Process, Task, TaskState, Work};
use crate::sched;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::sync::atomic::Ordering::Relaxed;
use linux_raw_sys::general as abi;

/// Whether a process may look into another: it is root's, or both are one user's and the other one
/// may be dumped. Source: ptrace(2), "Ptrace access mode checking".
pub fn may_access(caller: &Process, other: &Process) -> bool {
    let (uid, gid, all) = caller.credentials(|it| {
        let all = it.capabilities.effective & 1 << abi::CAP_SYS_PTRACE != 0;
        (it.uid[0], it.gid[0], it.euid() == 0 && all)
    });
    let same = other.credentials(|it| it.uid == [uid; 3] && it.gid == [gid; 3]);
    all || same && other.dumpable.load(Relaxed) == 1
}

/// PTRACE_TRACEME. EPERM: it is traced already, or has no parent.
pub fn trace_me(task: &Arc<Task>) -> Result {
    let tracer = Tracer {
        process: task.process().ppid(),
        thread: 0,
    };
    link(task, tracer, false, TraceOptions::empty())
}

/// PTRACE_ATTACH, and with options PTRACE_SEIZE. EPERM: the thread is of the caller's process, is
/// not the caller's to look into, is traced already or ends.
pub fn attach(tracer: &Task, tracee: &Arc<Task>, seize: Option<TraceOptions>) -> Result {
    let (own, other) = (tracer.process(), tracee.process());
    let ends = other.has_ended() || other.is_ending_for(tracee);
    if Arc::ptr_eq(own, other) || ends || !may_access(own, other) {
        return Err(Errno::EPERM);
    }
    let by = Tracer {
        process: own.pid(),
        thread: tracer.tid(),
    };
    link(tracee, by, seize.is_some(), seize.unwrap_or_default())?;
    if seize.is_none() {
        signal::send_task(tracee, SigInfo::kernel(SIGSTOP));
    }
    // One that is stopped with its process stops again, for its tracer, before the call returns.
    if tracee.has_stopped.load(Relaxed) {
        sched::wake_from(tracee, |state| state == TaskState::Stopped);
        let has_stopped = || {
            let goes_on = tracee.stopped_by().is_none();
            let trace = tracee.trace.lock();
            let has_stop = trace.as_ref().is_none_or(|trace| trace.stop.is_some());
            (has_stop || goes_on).then_some(())
        };
        let _ = own.child_events.wait_killable(has_stopped);
    }
    Ok(())
}

/// Enters a thread among the tracees of `by`. EPERM: it is traced; ESRCH: there is no such process;
/// ENOMEM.
fn link(task: &Arc<Task>, by: Tracer, seized: bool, options: TraceOptions) -> Result {
    room::check(Errno::ENOMEM)?;
    let tracer = task::find(by.process).filter(|it| !it.has_ended());
    let tracer = tracer.ok_or(Errno::EPERM)?;
    fallible::reserve(&mut *tracer.tracees.lock(), 1)?;
    let fresh = new(by, seized, options);
    {
        let mut slot = task.trace.lock();
        match slot.as_deref_mut() {
            Some(trace) if !trace.is_over => return Err(Errno::EPERM),
            // It has not taken its registers back since the last tracer.
            Some(trace) => {
                (trace.tracer, trace.seized, trace.options) = (by, seized, options);
                (trace.message, trace.is_over) = (0, false);
            }
            None => *slot = Some(fresh),
        }
    }
    tracer.tracees.lock().push(task.clone());
    if task.tid() == task.process().pid() {
        task.process().tracer.store(by.process, Relaxed);
    }
    task.sched.add_work(Work::TRACED);
    Ok(())
}

/// A thread that `parent` has made, before it runs: it is traced, too, if the tracer has asked for
/// that event or the call for it (`asked`, CLONE_PTRACE), and stops at its first instruction.
/// ENOMEM.
pub fn inherit(parent: &Task, child: &Arc<Task>, event: Event, asked: bool) -> Result {
    let from =
        traced(&parent.trace.lock()).map(|trace| (trace.tracer, trace.seized, trace.options));
    let Some((tracer, seized, options)) = from else {
        return Ok(());
    };
    if !asked && !options.contains(event.option()) {
        return Ok(());
    }
    link(child, tracer, seized, options)?;
    if seized {
        if let Some(trace) = child.trace.lock().as_mut() {
            trace.interrupt = true;
        }
    } else {
        // A standard signal always pends.
        let _ = child.pending.lock().add(SigInfo::kernel(SIGSTOP), u64::MAX);
    }
    child.sched.add_work(Work::SIGNAL);
    Ok(())
}

/// A thread that has inherited a tracer is not made after all.
#[cold]
pub fn not_made(task: &Arc<Task>) {
    if let Some(tracer) = task::find(super::tracer_of(task)) {
        forget_task(&tracer, task);
    }
}

/// PTRACE_DETACH of a stopped thread, which goes on with a signal or 0, unless its process is
/// stopped.
pub fn detach(tracer: &Task, tid: Pid, signo: i32) -> Result {
    let sent = super::sent_by(tracer, signo);
    super::with_stopped(tracer, tid, |trace| {
        let stop = trace.stop.take().ok_or(Errno::ESRCH)?;
        trace.signal = super::chosen(&stop, sent);
        Ok(())
    })?;
    let task = super::tracee(tracer, tid)?;
    unlist(tracer.process(), &task);
    unlink(&task);
    Ok(())
}

/// Nothing traces a thread any more, that its tracer does not list. It goes on; one that has ended
/// is not waited for by its tracer.
fn unlink(task: &Arc<Task>) {
    let (gone, has_ended) = {
        let mut slot = task.trace.lock();
        let Some(trace) = slot.as_deref_mut() else {
            return;
        };
        (trace.is_over, trace.stop, trace.interrupt) = (true, None, false);
        let (lent, has_ended) = (trace.lent, trace.has_ended);
        (if lent { None } else { slot.take() }, has_ended)
    };
    drop(gone);
    let process = task.process();
    let is_leader = task.tid() == process.pid();
    if is_leader {
        process.tracer.store(0, Relaxed);
    }
    if has_ended {
        task::remove_ended_thread(task);
    } else if is_leader && process.has_ended() {
        task::tell_parent(process);
    } else {
        task.passes_stop.store(false, Relaxed);
        task.sched.clear_work(Work::TRACED);
        // Perhaps to stop with its process.
        task.sched.add_work(Work::SIGNAL);
        sched::wake_from(task, |state| state == TaskState::Traced);
    }
}

/// A thread that may trace others has ended, and its process with it if it `is_last`.
pub fn tracer_has_ended(tracer: &Task, is_last: bool) {
    let process = tracer.process();
    let is_its = |task: &Arc<Task>| {
        let trace = task.trace.lock();
        let of = trace.as_ref().map(|trace| trace.tracer.thread);
        is_last || of == Some(tracer.tid())
    };
    loop {
        let one = {
            let mut tracees = process.tracees.lock();
            let at = tracees.iter().position(is_its);
            at.map(|at| tracees.swap_remove(at))
        };
        let Some(task) = one else { break };
        let kills = {
            let trace = task.trace.lock();
            let options = trace.as_ref().map(|trace| trace.options);
            options.is_some_and(|options| options.contains(TraceOptions::EXITKILL))
        };
        unlink(&task);
        if kills {
            signal::send_process(task.process(), SigInfo::kernel(SIGKILL));
        }
        sched::breathe();
    }
}

/// A thread has ended and is on no list of its process any more. Whether its tracer is to wait for
/// it; the leader's end is that of the process.
pub fn thread_has_ended(task: &Arc<Task>) -> bool {
    let process = task.process();
    if task.tid() == process.pid() || !task.sched.work().contains(Work::TRACED) {
        return false;
    }
    let Some(tracer) = task::find(super::tracer_of(task)) else {
        return false;
    };
    if tracer.handlers().reaps_children() {
        forget_task(&tracer, task);
        return false;
    }
    if let Some(trace) = task.trace.lock().as_mut() {
        trace.has_ended = true;
    }
    let (code, number) = task::exit_code(task.last_status());
    stops::tell_tracer(task, code, number);
    true
}

fn unlist(tracer: &Process, task: &Arc<Task>) {
    let mut tracees = tracer.tracees.lock();
    tracees.retain(|other| !Arc::ptr_eq(other, task));
}

/// Takes a thread off its tracer's list, and its part in the tracing from it.
pub(super) fn forget_task(tracer: &Process, task: &Arc<Task>) {
    unlist(tracer, task);
    let gone: Option<Box<Trace>> = task.trace.lock().take();
    drop(gone);
}

/// A process was waited for: its leader is nobody's tracee any more.
pub fn forget(process: &Arc<Process>) {
    let by = process.tracer.swap(0, Relaxed);
    if let Some(tracer) = task::find(by) {
        let is_leader =
            |task: &Arc<Task>| Arc::ptr_eq(task.process(), process) && task.tid() == process.pid();
        tracer.tracees.lock().retain(|task| !is_leader(task));
    }
}

/// execve(2) by a thread that was `former`, and has taken over the number of its leader, whose
/// tracer hears no more of that.
pub fn leader_replaced(task: &Arc<Task>, former: Pid) {
    let process = task.process();
    for tracee in process.tracees.lock().iter() {
        if let Some(trace) = tracee.trace.lock().as_mut()
            && trace.tracer.thread == former
        {
            trace.tracer.thread = task.tid();
        }
    }
    let is_old = |other: &Arc<Task>| {
        let same = Arc::ptr_eq(other.process(), process) && other.tid() == process.pid();
        same && !Arc::ptr_eq(other, task)
    };
    if let Some(tracer) = task::find(process.tracer.load(Relaxed)) {
        tracer.tracees.lock().retain(|other| !is_old(other));
    }
    process.tracer.store(super::tracer_of(task), Relaxed);
}
