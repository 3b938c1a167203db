//! ptrace(2): threads that a thread of another process traces.
//!
//! A traced thread has [`Work::TRACED`] and a [`Trace`]. At a stop it lends that its registers and
//! sleeps; its tracer reads and changes them there, and ends the stop. Both run with the kernel
//! lock, so a stop does not end while its tracer is at work. A thread that nothing traces has
//! neither, and takes no step of this.

mod links;
mod news;
mod stops;

pub use links::{
    attach, detach, inherit, may_access, not_made, thread_has_ended, tracer_has_ended,
};
pub use links::{forget, leader_replaced, trace_me};
pub use news::{News, look};
pub use stops::{
    at_call, at_exec, at_exit, at_group_stop, at_handler, at_interrupt, at_signal, event,
};

use crate::arch::trap::UserContext;
use crate::base::errno::{Errno, Result};
use crate::process::signal::{self, SigInfo};
use crate::process::task::{self, Pid, Task, TaskState, Work};
use crate::sched;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::sync::atomic::Ordering::Relaxed;
use linux_raw_sys::general as abi;
use linux_raw_sys::ptrace;

bitflags::bitflags! {
    /// PTRACE_O_*.
    #[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
    pub struct TraceOptions: u32 {
        /// The stop at a system call is that of SIGTRAP with 0x80.
        const SYSGOOD = ptrace::PTRACE_O_TRACESYSGOOD;
        /// Stops at fork; the child is traced, too. So with the next two.
        const FORK = ptrace::PTRACE_O_TRACEFORK;
        /// Stops at vfork.
        const VFORK = ptrace::PTRACE_O_TRACEVFORK;
        /// Stops at clone.
        const CLONE = ptrace::PTRACE_O_TRACECLONE;
        /// Stops after execve.
        const EXEC = ptrace::PTRACE_O_TRACEEXEC;
        /// Stops after vfork's child has gone its own way.
        const VFORK_DONE = ptrace::PTRACE_O_TRACEVFORKDONE;
        /// Stops before the end.
        const EXIT = ptrace::PTRACE_O_TRACEEXIT;
        /// Accepted: there are no filters that could ask for the stop.
        const SECCOMP = ptrace::PTRACE_O_TRACESECCOMP;
        /// It is killed when its tracer ends.
        const EXITKILL = ptrace::PTRACE_O_EXITKILL;
    }
}

/// PTRACE_EVENT_*.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Event {
    /// A child by fork.
    Fork = ptrace::PTRACE_EVENT_FORK,
    /// A child by vfork.
    Vfork = ptrace::PTRACE_EVENT_VFORK,
    /// A child by clone, or a thread.
    Clone = ptrace::PTRACE_EVENT_CLONE,
    /// A new program.
    Exec = ptrace::PTRACE_EVENT_EXEC,
    /// A child by vfork does not use the memory any more.
    VforkDone = ptrace::PTRACE_EVENT_VFORK_DONE,
    /// The end of the thread.
    Exit = ptrace::PTRACE_EVENT_EXIT,
    /// PTRACE_INTERRUPT, a new thread, or a stop of the process.
    Stop = ptrace::PTRACE_EVENT_STOP,
}

impl Event {
    /// The option that asks for it.
    fn option(self) -> TraceOptions {
        match self {
            Event::Fork => TraceOptions::FORK,
            Event::Vfork => TraceOptions::VFORK,
            Event::Clone => TraceOptions::CLONE,
            Event::Exec => TraceOptions::EXEC,
            Event::VforkDone => TraceOptions::VFORK_DONE,
            Event::Exit => TraceOptions::EXIT,
            Event::Stop => TraceOptions::empty(),
        }
    }
}

/// How a stopped thread goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resume {
    /// To its next signal.
    #[default]
    Run,
    /// To the begin or the end of a system call, too.
    ToCall,
    /// For one instruction.
    Step,
}

/// What a thread stops for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopKind {
    /// Before it handles a signal.
    Signal,
    /// At the begin of a system call.
    CallEntry,
    /// At its end.
    CallExit,
    /// [`Event`].
    Event,
    /// Its process is stopped by a signal.
    Group,
}

/// A stop that lasts until the tracer ends it.
#[derive(Clone, Copy, Debug)]
pub struct Stop {
    /// What for.
    pub kind: StopKind,
    /// WSTOPSIG: a signal's number, at a system call perhaps with 0x80; an event from bit 8 on.
    code: i32,
    /// PTRACE_GETSIGINFO.
    pub info: SigInfo,
    /// wait(2) has not told of it.
    unreported: bool,
    /// PTRACE_LISTEN: it ends when the process goes on.
    listens: bool,
}

impl Stop {
    /// CLD_*, as wait(2) and SIGCHLD tell of it.
    fn cld(&self) -> u32 {
        match self.kind {
            StopKind::Group => abi::CLD_STOPPED,
            _ => abi::CLD_TRAPPED,
        }
    }
}

/// Who traces: a thread, of which the others of its process hear by wait(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tracer {
    process: Pid,
    /// 0: any thread of it, PTRACE_TRACEME.
    thread: Pid,
}

impl Tracer {
    fn is(self, task: &Task) -> bool {
        self.process == task.process().pid() && (self.thread == 0 || self.thread == task.tid())
    }
}

/// The part of ptrace(2) in a traced thread.
pub struct Trace {
    tracer: Tracer,
    /// PTRACE_SEIZE.
    pub seized: bool,
    /// PTRACE_SETOPTIONS.
    pub options: TraceOptions,
    /// PTRACE_GETEVENTMSG.
    pub message: u64,
    resume: Resume,
    /// Where it has stopped.
    stop: Option<Stop>,
    /// It is to stop with [`Event::Stop`].
    interrupt: bool,
    /// The signal with which it goes on.
    signal: Option<SigInfo>,
    /// Its registers, while `lent`.
    pub registers: UserContext,
    lent: bool,
    /// Nothing traces it any more; it takes its registers back.
    is_over: bool,
    /// It has ended, and is not the leader; its tracer has not waited for it.
    has_ended: bool,
}

impl Trace {
    /// Where it is stopped; `None` while it listens for the end of its process's stop.
    pub fn stop(&mut self) -> Option<&mut Stop> {
        self.stop.as_mut().filter(|stop| !stop.listens)
    }

    /// It stops with [`Event::Stop`], after the stop that it is in unless that listens.
    fn ask_to_stop(&mut self) {
        self.interrupt = true;
        if self.stop.is_some_and(|stop| stop.listens) {
            self.stop = None;
        }
    }
}

/// What there is of a thread that is traced now.
fn traced(trace: &Option<Box<Trace>>) -> Option<&Trace> {
    trace.as_deref().filter(|trace| !trace.is_over)
}

/// The process that traces a thread; 0 for none.
pub fn tracer_of(task: &Task) -> Pid {
    traced(&task.trace.lock()).map_or(0, |trace| trace.tracer.process)
}

/// Whether a thread goes to user mode for one instruction.
pub fn steps(task: &Task) -> bool {
    traced(&task.trace.lock()).is_some_and(|trace| trace.resume == Resume::Step)
}

/// Whether a thread is to stop for its tracer as soon as it can.
pub fn is_interrupted(task: &Task) -> bool {
    let trace = task.trace.lock();
    trace.as_ref().is_some_and(|trace| trace.interrupt)
}

/// A thread that `tracer` traces. ESRCH: it does not.
pub fn tracee(tracer: &Task, tid: Pid) -> Result<Arc<Task>> {
    let is_its = |task: &Arc<Task>| {
        traced(&task.trace.lock()).is_some_and(|trace| !trace.has_ended && trace.tracer.is(tracer))
    };
    task::find_task(tid).filter(is_its).ok_or(Errno::ESRCH)
}

/// Calls `f` with the state of a thread that `tracer` traces and that is stopped, under its lock.
/// ESRCH: it is not.
pub fn with_stopped<R>(
    tracer: &Task,
    tid: Pid,
    f: impl FnOnce(&mut Trace) -> Result<R>,
) -> Result<R> {
    let (mut f, mut result) = (Some(f), Err(Errno::ESRCH));
    look_at_stopped(tracer, tid, &mut |trace| {
        if let Some(f) = f.take() {
            result = f(trace);
        }
    });
    result
}

/// The part of [`with_stopped`] that is there once.
#[inline(never)]
fn look_at_stopped(tracer: &Task, tid: Pid, f: &mut dyn FnMut(&mut Trace)) {
    let Ok(task) = tracee(tracer, tid) else {
        return;
    };
    let mut trace = task.trace.lock();
    if let Some(trace) = trace.as_deref_mut()
        && trace.stop().is_some()
    {
        f(trace);
    }
}

/// A stopped thread goes on, with a signal or 0.
pub fn go_on(tracer: &Task, tid: Pid, signo: i32, resume: Resume) -> Result {
    let sent = sent_by(tracer, signo);
    let kind = with_stopped(tracer, tid, |trace| {
        trace.resume = resume;
        let stop = trace.stop.take().ok_or(Errno::ESRCH)?;
        trace.signal = chosen(&stop, sent);
        Ok(stop.kind)
    })?;
    let task = tracee(tracer, tid)?;
    // It goes on alone; the process stays stopped.
    task.passes_stop.store(kind == StopKind::Group, Relaxed);
    sched::wake_from(&task, |state| state == TaskState::Traced);
    Ok(())
}

/// The siginfo of a signal that a tracer has a thread handle; `None` for 0.
fn sent_by(tracer: &Task, signo: i32) -> Option<SigInfo> {
    let code = abi::SI_USER as i32;
    (signo != 0).then(|| signal::info_from(tracer.process(), signo, code))
}

/// What a thread goes on with: the signal that it stopped for keeps what came with it.
fn chosen(stop: &Stop, sent: Option<SigInfo>) -> Option<SigInfo> {
    match stop.kind {
        StopKind::Event | StopKind::Group => None,
        StopKind::Signal if sent.is_some_and(|it| it.signo == stop.info.signo) => Some(stop.info),
        _ => sent,
    }
}

/// PTRACE_INTERRUPT: the thread stops as soon as it can. EIO: it was not seized.
pub fn interrupt(task: &Arc<Task>) -> Result {
    {
        let mut trace = task.trace.lock();
        let trace = trace.as_mut().ok_or(Errno::ESRCH)?;
        if !trace.seized {
            return Err(Errno::EIO);
        }
        trace.ask_to_stop();
    }
    task.sched.add_work(Work::SIGNAL);
    sched::wake_from(task, |state| {
        matches!(state, TaskState::Interruptible | TaskState::Traced)
    });
    Ok(())
}

/// PTRACE_LISTEN. EIO: the thread was not seized, or has not stopped for [`Event::Stop`].
pub fn listen(tracer: &Task, tid: Pid) -> Result {
    let task = tracee(tracer, tid)?;
    with_stopped(tracer, tid, |trace| {
        let seized = trace.seized;
        let stop = trace.stop();
        let stop = stop.filter(|stop| seized && stop.code >> 8 == Event::Stop as i32);
        stop.ok_or(Errno::EIO)?.listens = true;
        if trace.interrupt {
            // The process has gone on already.
            trace.ask_to_stop();
        }
        Ok(())
    })?;
    sched::wake_from(&task, |state| state == TaskState::Traced);
    Ok(())
}

/// The process of this thread goes on, or is stopped anew: a tracer that has seized it is told by
/// a stop.
pub fn stop_changes(task: &Arc<Task>) {
    task.passes_stop.store(false, Relaxed);
    if task.sched.work().contains(Work::TRACED) {
        // Others are told by the signal.
        let _ = interrupt(task);
    }
}

/// Memory for what a traced thread has more than others.
fn new(tracer: Tracer, seized: bool, options: TraceOptions) -> Box<Trace> {
    Box::new(Trace {
        tracer,
        seized,
        options,
        message: 0,
        resume: Resume::Run,
        stop: None,
        interrupt: false,
        signal: None,
        registers: UserContext::new(0, 0),
        lent: false,
        is_over: false,
        has_ended: false,
    })
}
