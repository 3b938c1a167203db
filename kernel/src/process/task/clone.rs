//! fork, vfork and clone.

use super::thread::{NewTask, Start};
use super::{AltStack, Pid, Process, Resource, Task, Work, table};
use crate::arch::trap::UserContext;
use crate::base::errno::{Errno, Result};
use crate::base::kstack::KernelStack;
use crate::base::machine::Space;
use crate::base::room;
use crate::base::user_ptr::UserPtr;
use crate::process::signal::{Handlers, LAST, SIGCHLD};
use crate::process::trace::{self, Event};
use crate::process::{pidfd, shm, userfault};
use crate::sched;
use crate::sched::wait::Completion;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::sync::atomic::Ordering::Relaxed;
use linux_raw_sys::general as abi;
use mm::addr::VirtAddr;

bitflags::bitflags! {
    /// CLONE_*.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct CloneFlags: u32 {
        /// CLONE_VM: shares the address space.
        const VM = abi::CLONE_VM;
        /// CLONE_FS: shares root, working directory and umask.
        const FS = abi::CLONE_FS;
        /// CLONE_FILES: shares the descriptor table.
        const FILES = abi::CLONE_FILES;
        /// CLONE_SIGHAND: shares the signal actions.
        const SIGHAND = abi::CLONE_SIGHAND;
        /// CLONE_PIDFD: writes a pidfd of the child.
        const PIDFD = abi::CLONE_PIDFD;
        /// CLONE_PTRACE: the child is traced as its parent is.
        const PTRACE = abi::CLONE_PTRACE;
        /// CLONE_VFORK: the parent waits until the child has called execve or ended.
        const VFORK = abi::CLONE_VFORK;
        /// CLONE_PARENT: the child becomes a sibling.
        const PARENT = abi::CLONE_PARENT;
        /// CLONE_THREAD: a thread of the same process.
        const THREAD = abi::CLONE_THREAD;
        /// CLONE_NEWNS.
        const NEWNS = abi::CLONE_NEWNS;
        /// CLONE_SYSVSEM: accepted, without effect.
        const SYSVSEM = abi::CLONE_SYSVSEM;
        /// CLONE_SETTLS: sets the thread pointer.
        const SETTLS = abi::CLONE_SETTLS;
        /// CLONE_PARENT_SETTID: writes the child's number for the parent.
        const PARENT_SETTID = abi::CLONE_PARENT_SETTID;
        /// CLONE_CHILD_CLEARTID: clears a word, and wakes its futex, when the child ends.
        const CHILD_CLEARTID = abi::CLONE_CHILD_CLEARTID;
        /// CLONE_DETACHED: ignored by clone(2), refused by clone3(2).
        const DETACHED = abi::CLONE_DETACHED;
        /// CLONE_UNTRACED: no option of a tracer has it trace the child.
        const UNTRACED = abi::CLONE_UNTRACED;
        /// CLONE_CHILD_SETTID: writes the child's number for the child.
        const CHILD_SETTID = abi::CLONE_CHILD_SETTID;
        /// CLONE_NEWCGROUP.
        const NEWCGROUP = abi::CLONE_NEWCGROUP;
        /// CLONE_NEWUTS.
        const NEWUTS = abi::CLONE_NEWUTS;
        /// CLONE_NEWIPC.
        const NEWIPC = abi::CLONE_NEWIPC;
        /// CLONE_NEWUSER.
        const NEWUSER = abi::CLONE_NEWUSER;
        /// CLONE_NEWPID.
        const NEWPID = abi::CLONE_NEWPID;
        /// CLONE_NEWNET.
        const NEWNET = abi::CLONE_NEWNET;
        /// CLONE_IO: accepted, without effect.
        const IO = abi::CLONE_IO;
    }
}

/// clone(2), with the order of its arguments made the same for all machines.
#[derive(Clone, Copy)]
pub struct CloneRequest {
    /// CLONE_*, without the exit signal.
    pub flags: CloneFlags,
    /// Sent to the parent when the child ends; 0 for none.
    pub exit_signal: i32,
    /// Stack pointer of the child; 0 for the parent's.
    pub stack: u64,
    /// Where CLONE_PARENT_SETTID writes.
    pub parent_tid: UserPtr<Pid>,
    /// Where CLONE_PIDFD writes.
    pub pidfd: UserPtr<i32>,
    /// Where CLONE_CHILD_SETTID and CLONE_CHILD_CLEARTID write.
    pub child_tid: UserPtr<Pid>,
    /// For CLONE_SETTLS.
    pub tls: u64,
}

const NAMESPACES: CloneFlags = CloneFlags::NEWNS
    .union(CloneFlags::NEWCGROUP)
    .union(CloneFlags::NEWUTS)
    .union(CloneFlags::NEWIPC)
    .union(CloneFlags::NEWUSER)
    .union(CloneFlags::NEWPID)
    .union(CloneFlags::NEWNET);

/// What x86_64 has system calls of their own for.
#[cfg(target_arch = "x86_64")]
impl CloneRequest {
    /// fork(2).
    pub fn fork() -> Self {
        Self {
            flags: CloneFlags::empty(),
            exit_signal: SIGCHLD,
            stack: 0,
            parent_tid: 0.into(),
            pidfd: 0.into(),
            child_tid: 0.into(),
            tls: 0,
        }
    }

    /// vfork(2).
    pub fn vfork() -> Self {
        Self {
            flags: CloneFlags::VFORK | CloneFlags::VM,
            ..Self::fork()
        }
    }
}

impl CloneRequest {
    fn has(&self, flag: CloneFlags) -> bool {
        self.flags.intersects(flag)
    }

    /// What a tracer may ask for to be told of it.
    fn event(&self) -> Event {
        if self.has(CloneFlags::VFORK) {
            Event::Vfork
        } else if self.exit_signal == SIGCHLD {
            Event::Fork
        } else {
            Event::Clone
        }
    }

    /// EINVAL for combinations that clone(2) forbids, and for namespaces, of which there are none.
    fn check(&self) -> Result {
        let needs = |flag, other| !self.has(flag) || self.has(other);
        let ok = needs(CloneFlags::SIGHAND, CloneFlags::VM)
            && needs(CloneFlags::THREAD, CloneFlags::SIGHAND)
            && !self.has(NAMESPACES)
            && !(self.has(CloneFlags::PIDFD)
                && self.has(CloneFlags::THREAD | CloneFlags::DETACHED))
            && (0..=LAST).contains(&self.exit_signal);
        if ok { Ok(()) } else { Err(Errno::EINVAL) }
    }
}

/// Makes a child or a thread of the running one; returns its number. EAGAIN at RLIMIT_NPROC,
/// threads-max, pid_max and the most address spaces that there may be; ENOMEM.
pub fn clone(parent: &Arc<Task>, user: &mut UserContext, request: &CloneRequest) -> Result<Pid> {
    request.check()?;
    room::check(Errno::ENOMEM)?;
    if request.has(CloneFlags::PARENT) && parent.process().pid() == 1 {
        return Err(Errno::EINVAL);
    }
    let siblings_parent = || {
        parent
            .process()
            .parent()
            .filter(|_| request.has(CloneFlags::PARENT))
    };
    let adopter = siblings_parent().unwrap_or_else(|| parent.process().clone());
    let number = table::reserve_pid(parent.process().limits().soft(Resource::Processes))?;
    table::make_place(parent.process(), &adopter)?;
    let tid = number.pid();
    let process = if request.has(CloneFlags::THREAD) {
        parent
            .process()
            .space
            .with(|space| space.share())
            .unwrap_or(Ok(()))?;
        parent.process().clone()
    } else {
        Arc::new(child_process(parent, tid, request)?)
    };
    let task = Task::new(
        new_task(parent, user, tid, process.clone(), request)?,
        KernelStack::new()?,
    );
    write_numbers(&task, request)?;
    let event = request.event();
    let is_traced = || parent.sched.work().contains(Work::TRACED);
    if is_traced() && !request.has(CloneFlags::UNTRACED) {
        trace::inherit(parent, &task, event, request.has(CloneFlags::PTRACE))?;
    }
    if request.has(CloneFlags::PIDFD) {
        write_pidfd(parent, &process, request).inspect_err(|_| trace::not_made(&task))?;
    }
    let vfork = request.has(CloneFlags::VFORK).then(Completion::new);
    task.vfork_done.lock().clone_from(&vfork);
    introduce(parent.process(), &process, &task, request);
    drop(number);
    sched::start_task(task);
    if is_traced() && !request.has(CloneFlags::UNTRACED) {
        trace::event(parent, user, event, tid as u64);
    }
    if let Some(done) = vfork {
        // Killed while waiting: the child runs on its own.
        let _ = done.wait_killable();
        if is_traced() {
            trace::event(parent, user, Event::VforkDone, tid as u64);
        }
    }
    Ok(tid)
}

/// The process of a child.
fn child_process(parent: &Arc<Task>, pid: Pid, request: &CloneRequest) -> Result<Process> {
    let process = parent.process();
    let space = process
        .space
        .get()
        .expect("a running thread has an address space");
    let space: Space = if request.has(CloneFlags::VM) {
        space.share()?;
        space
    } else {
        let child = space.fork()?;
        if userfault::are_told() {
            userfault::forked(&child);
        }
        shm::inherited(&child);
        child
    };
    let handlers: Arc<Handlers> = if request.has(CloneFlags::SIGHAND) {
        process.handlers()
    } else {
        process.handlers().copy()
    };
    let child = process.child(pid, space, handlers, request.exit_signal);
    if request.has(CloneFlags::PARENT) {
        // A sibling: what its parent gets at the end is not for the caller to choose.
        child.set_ppid(process.ppid());
        let signal = process.exit_signal.load(Relaxed);
        child.exit_signal.store(signal, Relaxed);
    }
    Ok(child)
}

fn new_task(
    parent: &Arc<Task>,
    user: &UserContext,
    tid: Pid,
    process: Arc<Process>,
    request: &CloneRequest,
) -> Result<NewTask> {
    let mut user = Box::new(user.clone());
    user.set_return(0);
    if request.stack != 0 {
        user.set_sp(request.stack);
    }
    if request.has(CloneFlags::SETTLS) {
        user.set_tls(request.tls);
    }
    let (files, fs) = (parent.files(), parent.fs());
    // A thread, and a child that shares memory, must not run on the parent's alternate stack;
    // vfork's child may.
    let shares_memory = request.has(CloneFlags::VM) && !request.has(CloneFlags::VFORK);
    Ok(NewTask {
        tid,
        process,
        files: Some(if request.has(CloneFlags::FILES) {
            files
        } else {
            Arc::new(files.fork()?)
        }),
        fs: Some(if request.has(CloneFlags::FS) {
            fs
        } else {
            Arc::new(fs.fork())
        }),
        comm: parent.comm_bytes(),
        blocked: parent.blocked(),
        alt_stack: if shares_memory {
            AltStack::NONE
        } else {
            *parent.alt_stack.lock()
        },
        policy: parent.policy_of_child(),
        start: Start::User(user),
    })
}

/// CLONE_PARENT_SETTID, CLONE_CHILD_SETTID, CLONE_CHILD_CLEARTID.
fn write_numbers(child: &Arc<Task>, request: &CloneRequest) -> Result {
    let tid = child.tid();
    if request.has(CloneFlags::PARENT_SETTID) {
        request.parent_tid.write(&tid)?;
    }
    if request.has(CloneFlags::CHILD_CLEARTID) {
        child
            .clear_child_tid
            .store(request.child_tid.address(), Relaxed);
    }
    if request.has(CloneFlags::CHILD_SETTID) {
        // As in Linux, an address that cannot be written is ignored.
        let at = VirtAddr(request.child_tid.address());
        if let Some(space) = child.process().space.get() {
            space.write(at, &tid.to_ne_bytes(), false);
        }
    }
    Ok(())
}

/// CLONE_PIDFD: a descriptor of the child for the caller, which the child does not have.
fn write_pidfd(caller: &Task, child: &Arc<Process>, request: &CloneRequest) -> Result {
    let fd = pidfd::open(caller, child.clone(), false)?;
    let written = request.pidfd.write(&fd.0);
    if written.is_err() {
        caller.files().close(fd)?;
    }
    written
}

/// Enters the new thread or process into all lists.
fn introduce(
    parent: &Arc<Process>,
    process: &Arc<Process>,
    task: &Arc<Task>,
    request: &CloneRequest,
) {
    process.threads.lock().push(task.clone());
    if request.has(CloneFlags::THREAD) {
        table::add_thread(task.clone());
        return;
    }
    table::add_process(process.clone(), task.clone());
    let parent = process.parent().unwrap_or_else(|| parent.clone());
    parent.children.lock().push(process.clone());
}
