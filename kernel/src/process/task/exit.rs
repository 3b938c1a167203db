//! Exit of threads and processes: exit(2), exit_group(2), reparenting.

use super::{Image, Process, Task, Work, groups, table};
use crate::arch::cpu;
use crate::base::cpus;
use crate::base::klog::Console;
use crate::base::uaccess;
use crate::process::signal::{self, SIGCHLD, SigInfo};
use crate::process::{futex, robust, trace};
use crate::sched::wait::WaitQueue;
use crate::sched::{self, kernel_lock};
use alloc::sync::Arc;
use core::fmt::Write;
use core::sync::atomic::Ordering::Relaxed;
use linux_raw_sys::general as abi;

/// An address space has ended, and its pages are free.
pub static MEMORY_IS_BACK: WaitQueue = WaitQueue::new();

/// Marks the running thread to end on its way back to user mode. `status` is a wait status.
pub fn exit_thread(task: &Task, status: i32) {
    task.exit_status.store(status, Relaxed);
    task.sched.add_work(Work::EXIT);
}

/// Marks all threads of the process to end: exit_group(2) or a fatal signal. `status` is a wait
/// status.
pub fn exit_group(task: &Arc<Task>, status: i32) {
    let process = task.process();
    process.set_group_exit(status);
    interrupt_others(task);
    exit_thread(task, status);
}

/// Ends the other threads of the process, for execve; returns when they have ended. EAGAIN-like
/// `Err` when this thread is to end itself.
pub fn kill_other_threads(task: &Arc<Task>) -> crate::base::errno::Result {
    let process = task.process();
    if process
        .exec_thread
        .compare_exchange(0, task.tid(), Relaxed, Relaxed)
        .is_err()
    {
        return Err(crate::base::errno::Errno::EAGAIN);
    }
    interrupt_others(task);
    let alone = process
        .thread_events
        .wait_killable(|| (process.threads.lock().len() == 1).then_some(()));
    if alone.is_ok() && task.tid() != process.pid() {
        let former = task.tid();
        table::rename_leader(task);
        trace::leader_replaced(task, former);
    }
    process.exec_thread.store(0, Relaxed);
    alone
}

fn interrupt_others(task: &Arc<Task>) {
    use super::TaskState::{Interruptible, Killable, Stopped, Traced};
    for other in task.process().threads() {
        if !Arc::ptr_eq(&other, task) {
            other.sched.add_work(Work::SIGNAL);
            sched::wake_from(&other, |state| {
                matches!(state, Interruptible | Killable | Stopped | Traced)
            });
        }
    }
}

/// Ends the running thread: frees all it has, and what the process has if it is the last.
/// Afterwards only its kernel stack is in use.
pub fn finish(task: &Arc<Task>) {
    debug_assert!(kernel_lock::is_mine());
    let process = task.process();
    robust::release(task);
    clear_child_tid(task);
    task.drop_files();
    sched::leave_space();
    let is_last = leave_process(task);
    if is_last {
        release_space(process);
    } else {
        signal::pass_on(task, !task.blocked());
        signal::complete_stop(process);
    }
    if let Some(vfork) = task.vfork_done.lock().take() {
        vfork.complete();
    }
    if !trace::thread_has_ended(task) {
        table::remove_task(task.tid());
    }
    trace::tracer_has_ended(task, is_last);
    if is_last {
        end_process(process);
    } else {
        process.thread_events.wake_all();
    }
}

/// set_tid_address(2): a thread that joins this one waits on the word.
fn clear_child_tid(task: &Task) {
    let address = task.clear_child_tid.load(Relaxed);
    // The process has a reference, and each of its threads; more are of another process.
    let threads = task.process().threads.lock().len();
    let shared = threads > 1 || task.space.others() > 1;
    if address != 0 && shared && uaccess::write(address, &0u32).is_ok() {
        futex::wake_address(address.into(), 1);
    }
}

/// Takes the thread off its process's list and adds up its time. Returns `true` for the last
/// thread.
fn leave_process(task: &Arc<Task>) -> bool {
    let process = task.process();
    if task.tid() == process.pid() {
        process
            .status
            .store(task.exit_status.load(Relaxed), Relaxed);
    }
    task.sched.times.leave_kernel();
    let mut threads = process.threads.lock();
    threads.retain(|other| !Arc::ptr_eq(other, task));
    let is_last = threads.is_empty();
    drop(threads);
    process.past_faults.add(task.faults.get());
    let mut past = process.past_times.lock();
    past.user += task.sched.times.user();
    past.system += task.sched.times.system();
    is_last
}

/// Frees the address space and the program's file at once, not when the zombie is waited for.
fn release_space(process: &Process) {
    if let Some(space) = process.space.get() {
        process.last_peak_rss.store(space.usage().rss.peak, Relaxed);
    }
    process.set_image(Image::NONE);
    process.releases_memory.store(true, Relaxed);
    drop(process.space.replace(None));
    process.releases_memory.store(false, Relaxed);
    MEMORY_IS_BACK.wake_all();
}

/// Ends a process whose last thread has ended.
fn end_process(process: &Arc<Process>) {
    let status = process
        .group_exit()
        .unwrap_or_else(|| process.exit_status());
    if process.pid() == 1 {
        end_machine(status);
    }
    process.set_real_timer(0, 0);
    process.delete_timers();
    if process.sid() == process.pid() {
        crate::fs::tty::session_ended(process.sid());
    }
    orphan_children(process);
    process.set_ended(status);
    process.exit_events.wake_all();
    match traced_by_other(process) {
        Some(tracer) => notify_parent(&tracer, process, SIGCHLD, status),
        None => tell_parent(process),
    }
}

/// A process that traces the leader of this one, and is not its parent: the parent is told when
/// that has waited for it.
fn traced_by_other(process: &Process) -> Option<Arc<Process>> {
    let tracer = process.tracer.load(Relaxed);
    let other = tracer != 0 && tracer != process.ppid();
    other.then(|| table::find(tracer)).flatten()
}

/// A process that has ended is its parent's to wait for, which is told.
pub fn tell_parent(process: &Arc<Process>) {
    let Some(parent) = process.parent() else {
        return;
    };
    let status = process.exit_status();
    let exit_signal = process.exit_signal.load(Relaxed);
    if exit_signal == SIGCHLD && parent.handlers().reaps_children() {
        parent
            .children
            .lock()
            .retain(|child| !Arc::ptr_eq(child, process));
        trace::forget(process);
        table::remove_process(process.pid());
    }
    notify_parent(&parent, process, exit_signal, status);
}

fn notify_parent(parent: &Arc<Process>, process: &Arc<Process>, exit_signal: i32, status: i32) {
    if exit_signal != 0 {
        let (code, number) = exit_code(status);
        signal::send_process(
            parent,
            SigInfo {
                signo: exit_signal,
                ..process.child_info(code, number)
            },
        );
    }
    parent.child_events.wake_all();
}

/// si_code and si_status of a wait status.
pub fn exit_code(status: i32) -> (u32, i32) {
    match status & 0x7f {
        0 => (abi::CLD_EXITED, status >> 8 & 0xff),
        signo if status & 0x80 != 0 => (abi::CLD_DUMPED, signo),
        signo => (abi::CLD_KILLED, signo),
    }
}

/// The nearest ancestor that asked for it (PR_SET_CHILD_SUBREAPER), or PID 1.
fn reaper_of(process: &Process) -> Arc<Process> {
    core::iter::successors(process.parent(), |ancestor| ancestor.parent())
        .find(|ancestor| ancestor.subreaper.load(Relaxed) && !ancestor.has_ended())
        .unwrap_or_else(table::init_process)
}

/// Makes the reaper the parent of the orphaned children.
fn orphan_children(process: &Process) {
    let children = core::mem::take(&mut *process.children.lock());
    if children.is_empty() {
        return;
    }
    let reaper = reaper_of(process);
    for child in table::in_steps(children.iter()) {
        if !table::is_listed(child) {
            // It has ended meanwhile, and its parent ignored that.
            continue;
        }
        child.set_ppid(reaper.pid());
        child.exit_signal.store(SIGCHLD, Relaxed);
        let death_signal = child.parent_death_signal.load(Relaxed);
        if death_signal != 0 {
            signal::send_process(child, SigInfo::kernel(death_signal));
        }
        reaper.children.lock().push(child.clone());
        if child.has_ended() && traced_by_other(child).is_none() {
            notify_parent(&reaper, child, SIGCHLD, child.exit_status());
        }
    }
    for child in table::in_steps(children.iter()) {
        hang_up(process, child);
    }
}

/// The parent's end may have orphaned a child's process group: when it is stopped, nothing would
/// continue it.
fn hang_up(parent: &Process, child: &Process) {
    let pgid = child.pgid();
    let could = parent.sid() == child.sid() && parent.pgid() != pgid;
    if could && child.stop.lock().is_stopped() && groups::is_orphaned(pgid) {
        signal::send_group(pgid, signal::SIGHUP);
        signal::send_group(pgid, signal::SIGCONT);
        sched::breathe();
    }
}

/// Ends the machine with PID 1: with its exit status, or 128 + the signal that ended it.
fn end_machine(status: i32) -> ! {
    let (code, number) = exit_code(status);
    let number = if code == abi::CLD_EXITED {
        number
    } else {
        let _ = writeln!(Console, "quire: PID 1 was ended by signal {number}");
        128 + number
    };
    cpus::stop_others();
    cpu::exit(number as u8)
}
