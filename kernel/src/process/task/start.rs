//! Starting PID 1 and kernel threads.

use super::table::Reserved;
use super::thread::{NewTask, Start};
use super::{AltStack, Process, ResourceLimits, Task, table};
use crate::arch::trap::UserContext;
use crate::base::errno::Result;
use crate::base::kstack::KernelStack;
use crate::base::machine::{Space, mm};
use crate::fs::{FdTable, FsContext};
use crate::sched;
use alloc::boxed::Box;
use alloc::sync::Arc;
use linux_raw_sys::general as abi;

/// PID 1 before it has a program and a thread.
pub struct FirstProcess {
    process: Arc<Process>,
    number: Reserved,
}

impl FirstProcess {
    /// With an empty address space; ENOMEM.
    pub fn new() -> Result<Self> {
        let space = Space::new(mm())?;
        let limits = ResourceLimits::initial(mm().total_frames());
        let number = table::reserve_pid(u64::MAX)?;
        let process = Arc::new(Process::first(number.pid(), space, limits));
        Ok(Self { process, number })
    }

    /// The process, to be given a program.
    pub fn process(&self) -> &Arc<Process> {
        &self.process
    }

    /// Starts its thread with the registers `user`; ENOMEM.
    pub fn start(
        self,
        name: &[u8],
        user: UserContext,
        files: FdTable,
        fs: Arc<FsContext>,
    ) -> Result {
        let new = NewTask {
            tid: self.number.pid(),
            process: self.process.clone(),
            files: Some(Arc::new(files)),
            fs: Some(fs),
            comm: [0; 16],
            blocked: 0,
            alt_stack: AltStack::NONE,
            policy: abi::SCHED_NORMAL,
            start: Start::User(Box::new(user)),
        };
        let task = Task::new(new, KernelStack::new()?);
        task.set_comm(name);
        self.process.threads.lock().push(task.clone());
        table::add_process(self.process, task.clone());
        drop(self.number);
        sched::start_task(task);
        Ok(())
    }
}

/// Starts a thread that runs `work` in the kernel. It shares the CPU as any other; no list shows
/// it, and no signal reaches it.
pub fn spawn_kernel_thread(name: &[u8], work: fn() -> !) -> Result {
    let limits = ResourceLimits::initial(mm().total_frames());
    let process = Process::first(0, sched::empty_space().clone(), limits);
    let new = NewTask {
        tid: 0,
        process: Arc::new(process),
        files: None,
        fs: None,
        comm: [0; 16],
        blocked: 0,
        alt_stack: AltStack::NONE,
        policy: abi::SCHED_NORMAL,
        start: Start::Kernel(work),
    };
    let task = Task::new(new, KernelStack::new()?);
    task.set_comm(name);
    sched::start_task(task);
    Ok(())
}
