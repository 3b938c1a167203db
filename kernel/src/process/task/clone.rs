//! fork, vfork and clone.

use super::thread::{NewTask, Start};
use super::{AltStack, Pid, Process, Resource, Task, table};
use crate::arch::trap::UserContext;
use crate::base::errno::{Errno, Result};
use crate::base::kstack::KernelStack;
use crate::base::machine::AddressSpace;
use crate::base::room;
use crate::base::uaccess;
use crate::process::signal::{Handlers, LAST};
use crate::sched;
use crate::sched::wait::Completion;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::sync::atomic::Ordering::Relaxed;
use linux_raw_sys::general as abi;
use mm::addr::VirtAddr;

/// clone(2), with the order of its arguments made the same for all machines.
#[derive(Clone, Copy, Debug, Default)]
pub struct CloneRequest {
    /// CLONE_*, without the exit signal.
    pub flags: u32,
    /// Sent to the parent when the child ends; 0 for none.
    pub exit_signal: i32,
    /// Stack pointer of the child; 0 for the parent's.
    pub stack: u64,
    /// Where CLONE_PARENT_SETTID (and CLONE_PIDFD) writes.
    pub parent_tid: u64,
    /// Where CLONE_CHILD_SETTID and CLONE_CHILD_CLEARTID write.
    pub child_tid: u64,
    /// For CLONE_SETTLS.
    pub tls: u64,
}

const NAMESPACES: u32 = abi::CLONE_NEWNS
    | abi::CLONE_NEWCGROUP
    | abi::CLONE_NEWUTS
    | abi::CLONE_NEWIPC
    | abi::CLONE_NEWUSER
    | abi::CLONE_NEWPID
    | abi::CLONE_NEWNET;

/// What x86_64 has system calls of their own for.
#[cfg(target_arch = "x86_64")]
impl CloneRequest {
    /// fork(2).
    pub fn fork() -> Self {
        Self {
            exit_signal: crate::process::signal::SIGCHLD,
            ..Self::default()
        }
    }

    /// vfork(2).
    pub fn vfork() -> Self {
        Self {
            flags: abi::CLONE_VFORK | abi::CLONE_VM,
            ..Self::fork()
        }
    }
}

impl CloneRequest {
    fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// EINVAL for combinations that clone(2) forbids, and for namespaces, of which there are none.
    fn check(&self) -> Result {
        let needs = |flag, other| !self.has(flag) || self.has(other);
        let ok = needs(abi::CLONE_SIGHAND, abi::CLONE_VM)
            && needs(abi::CLONE_THREAD, abi::CLONE_SIGHAND)
            && !self.has(NAMESPACES)
            && !(self.has(abi::CLONE_PIDFD)
                && self.has(abi::CLONE_THREAD | abi::CLONE_PARENT_SETTID))
            && (0..=LAST).contains(&self.exit_signal);
        if ok { Ok(()) } else { Err(Errno::EINVAL) }
    }
}

/// Makes a child or a thread like the running one; returns its number. EAGAIN at RLIMIT_NPROC,
/// threads-max, pid_max and the most address spaces that there may be; ENOMEM.
pub fn clone(parent: &Arc<Task>, user: &UserContext, request: &CloneRequest) -> Result<Pid> {
    request.check()?;
    room::check(Errno::ENOMEM)?;
    if request.has(abi::CLONE_PARENT) && parent.process().pid() == 1 {
        return Err(Errno::EINVAL);
    }
    let siblings_parent = || {
        parent
            .process()
            .parent()
            .filter(|_| request.has(abi::CLONE_PARENT))
    };
    let adopter = siblings_parent().unwrap_or_else(|| parent.process().clone());
    table::make_place(parent.process(), &adopter)?;
    let number = table::reserve_pid(parent.process().limits().soft(Resource::Processes))?;
    let tid = number.pid();
    let process = if request.has(abi::CLONE_THREAD) {
        parent.process().clone()
    } else {
        Arc::new(child_process(parent, tid, request)?)
    };
    let task = Task::new(
        new_task(parent, user, tid, process.clone(), request)?,
        KernelStack::new()?,
    );
    write_numbers(&task, request)?;
    let vfork = request.has(abi::CLONE_VFORK).then(Completion::new);
    task.vfork_done.lock().clone_from(&vfork);
    introduce(parent.process(), &process, &task, request);
    drop(number);
    sched::start_task(task);
    if let Some(done) = vfork {
        // Killed while waiting: the child goes on alone.
        let _ = done.wait_killable();
    }
    Ok(tid)
}

/// The process of a child.
fn child_process(parent: &Arc<Task>, pid: Pid, request: &CloneRequest) -> Result<Process> {
    let process = parent.process();
    let space = process
        .space()
        .expect("a running thread has an address space");
    let space: Arc<AddressSpace> = if request.has(abi::CLONE_VM) {
        space
    } else {
        Arc::new(space.fork()?)
    };
    let handlers: Arc<Handlers> = if request.has(abi::CLONE_SIGHAND) {
        process.handlers()
    } else {
        process.handlers().copy()
    };
    let child = process.child(pid, space, handlers, request.exit_signal);
    if request.has(abi::CLONE_PARENT) {
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
    if request.has(abi::CLONE_SETTLS) {
        user.set_tls(request.tls);
    }
    let (files, fs) = (parent.files(), parent.fs());
    // A thread, and a child that shares memory, must not run on the parent's alternate stack;
    // vfork's child may.
    let shares_memory = request.has(abi::CLONE_VM) && !request.has(abi::CLONE_VFORK);
    Ok(NewTask {
        tid,
        process,
        files: Some(if request.has(abi::CLONE_FILES) {
            files
        } else {
            Arc::new(files.fork()?)
        }),
        fs: Some(if request.has(abi::CLONE_FS) {
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
        start: Start::User(user),
    })
}

/// CLONE_PARENT_SETTID, CLONE_CHILD_SETTID, CLONE_CHILD_CLEARTID.
fn write_numbers(child: &Arc<Task>, request: &CloneRequest) -> Result {
    let tid = child.tid();
    if request.has(abi::CLONE_PARENT_SETTID) {
        uaccess::write(request.parent_tid, &tid)?;
    }
    if request.has(abi::CLONE_CHILD_CLEARTID) {
        child.clear_child_tid.store(request.child_tid, Relaxed);
    }
    if request.has(abi::CLONE_CHILD_SETTID) {
        // As in Linux an address that cannot be written is the child's bad luck.
        child.process().with_space(|space| {
            space.write(VirtAddr(request.child_tid), &tid.to_ne_bytes(), false)
        });
    }
    Ok(())
}

/// Enters the new one into all lists.
fn introduce(
    parent: &Arc<Process>,
    process: &Arc<Process>,
    task: &Arc<Task>,
    request: &CloneRequest,
) {
    process.threads.lock().push(task.clone());
    if request.has(abi::CLONE_THREAD) {
        table::add_thread(task.clone());
        return;
    }
    table::add_process(process.clone(), task.clone());
    let parent = process.parent().unwrap_or_else(|| parent.clone());
    parent.children.lock().push(process.clone());
}
