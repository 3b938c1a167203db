//! ptrace(2) of a child by its parent: it asks for it (PTRACE_TRACEME), stops before each of its
//! signals and, if the parent wants that, before and after each system call, and goes on when the
//! parent says so. The parent's wait(2) tells of the stops.

use super::*;
use crate::process::task::Process;
use crate::sched;
use alloc::sync::Arc;
use linux_raw_sys::{general as abi, ptrace};

bitflags::bitflags! {
    /// PTRACE_O_*.
    #[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
    pub struct TraceOptions: u64 {
        /// The stop at a system call is that of SIGTRAP with 0x80.
        const SYSGOOD = ptrace::PTRACE_O_TRACESYSGOOD as u64;
        /// It is killed when its tracer ends.
        const EXITKILL = ptrace::PTRACE_O_EXITKILL as u64;
    }
}

/// What a process's parent has to do with it by ptrace(2).
#[derive(Default)]
pub struct Trace {
    /// It is traced.
    on: bool,
    /// As PTRACE_SETOPTIONS has set them.
    pub options: TraceOptions,
    /// It goes on to its next system call only.
    at_calls: bool,
    /// Where it has stopped.
    stop: Option<TraceStop>,
    /// The signal with which it goes on; 0 for none.
    signo: i32,
}

/// A stop that lasts until the parent ends it.
struct TraceStop {
    /// WSTOPSIG: a signal's number, at a system call perhaps with 0x80.
    code: i32,
    /// wait(2) has not told of it.
    unreported: bool,
}

impl Trace {
    /// Whether the process is traced.
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// The stop to be reported; `take`: it counts as reported now.
    pub fn unreported(&mut self, take: bool) -> Option<i32> {
        let stop = self.stop.as_mut().filter(|stop| stop.unreported)?;
        stop.unreported = !take;
        Some(stop.code)
    }
}

/// PTRACE_TRACEME. EPERM: it is traced already, is not the first thread of its process, or has no
/// parent.
pub fn trace_me(task: &Task) -> Result {
    let process = task.process();
    let mut trace = process.trace.lock();
    if trace.on || task.tid() != process.pid() || process.ppid() == 0 {
        return Err(Errno::EPERM);
    }
    trace.on = true;
    task.sched.add_work(Work::TRACED);
    Ok(())
}

/// Whether a process is traced and stopped, so that its tracer may change it.
pub fn is_trace_stopped(process: &Process) -> bool {
    let (on, stopped) = {
        let trace = process.trace.lock();
        (trace.on, trace.stop.is_some())
    };
    on && (stopped || process.stop.lock().is_stopped())
}

/// A stopped process goes on with signal `signo` (0: none), to its next system call with
/// `at_calls`; also one that a signal has stopped.
pub fn go_on(process: &Process, signo: i32, at_calls: bool) {
    let mut trace = process.trace.lock();
    let of_trace = trace.stop.take().is_some();
    (trace.signo, trace.at_calls) = (signo, at_calls);
    drop(trace);
    if !of_trace {
        *process.stop.lock() = StopState::RUNNING;
    }
    wake(process, |state| {
        matches!(state, TaskState::Stopped | TaskState::Traced)
    });
}

/// Ends the tracing of a process, which goes on with signal `signo` unless a signal has stopped it.
pub fn detach(process: &Process, signo: i32) {
    *process.trace.lock() = Trace {
        signo,
        ..Trace::default()
    };
    for task in process.threads() {
        task.sched.clear_work(Work::TRACED);
    }
    wake(process, |state| state == TaskState::Traced);
}

fn wake(process: &Process, from: impl Fn(TaskState) -> bool) {
    for task in process.threads() {
        sched::wake_from(&task, &from);
    }
}

/// The parent of a process has ended, and its tracer with it.
pub fn tracer_has_ended(process: &Arc<Process>) {
    let (on, options) = {
        let trace = process.trace.lock();
        (trace.on, trace.options)
    };
    if on {
        detach(process, 0);
    }
    if options.contains(TraceOptions::EXITKILL) {
        send_process(process, SigInfo::kernel(SIGKILL));
    }
}

/// A new program of a traced thread: SIGTRAP, for which it stops.
pub fn after_exec(task: &Arc<Task>) {
    if task.sched.work().contains(Work::TRACED) {
        send_task(
            task,
            info_from(task.process(), SIGTRAP, abi::SI_USER as i32),
        );
    }
}

/// Before or after a system call of a thread with [`Work::TRACED`]: a stop if its parent wants it.
pub fn at_system_call(task: &Arc<Task>) {
    let code = {
        let trace = task.process().trace.lock();
        let sysgood = i32::from(trace.options.contains(TraceOptions::SYSGOOD));
        trace.at_calls.then_some(SIGTRAP | sysgood << 7)
    };
    let signo = code.map_or(0, |code| stay(task, code));
    if signo != 0 {
        send_task(task, SigInfo::kernel(signo));
    }
}

/// Before a thread with [`Work::TRACED`] handles a signal: a stop. Returns the signal that its
/// parent has it handle.
pub(super) fn at_signal(task: &Arc<Task>, info: SigInfo) -> Option<SigInfo> {
    if info.signo == SIGKILL {
        return Some(info);
    }
    let info = match stay(task, info.signo) {
        0 => return None,
        signo if signo == info.signo => info,
        signo => info_from(&*task.process().parent()?, signo, abi::SI_USER as i32),
    };
    if task.blocked() & bit(info.signo) != 0 {
        send_task(task, info);
        return None;
    }
    Some(info)
}

/// Stops until the parent lets the thread go on, or it is killed; the signal to go on with.
fn stay(task: &Arc<Task>, code: i32) -> i32 {
    let process = task.process();
    let stop = TraceStop {
        code,
        unreported: true,
    };
    process.trace.lock().stop = Some(stop);
    stop::notify_parent(process, abi::CLD_TRAPPED, code & 0x7f);
    loop {
        task.sched.prepare();
        let is_killed = process.is_ending_for(task) || pending_set(task) & bit(SIGKILL) != 0;
        let mut trace = process.trace.lock();
        if is_killed {
            (trace.stop, trace.signo) = (None, 0);
        }
        if trace.stop.is_none() {
            drop(trace);
            task.sched.set_state(TaskState::Runnable);
            return core::mem::take(&mut process.trace.lock().signo);
        }
        drop(trace);
        if task.sched.settle(TaskState::Traced) {
            sched::schedule();
        }
    }
}
