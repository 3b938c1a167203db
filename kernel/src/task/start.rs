//! The first process, and threads of the kernel's own.

use super::thread::{NewTask, Start};
use super::{AltStack, Limits, Process, Task, table};
use crate::arch::trap::UserContext;
use crate::cmdline::CommandLine;
use crate::exec::{self, Strings};
use crate::fs::{self, FsContext};
use crate::kstack::KernelStack;
use crate::machine::{AddressSpace, mm};
use crate::sched;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Makes PID 1 from the program that the command line names and puts it in the queue. The error says in one sentence
/// why it cannot run and what to do about it.
pub fn spawn_init(cmdline: &CommandLine) -> Result<(), String> {
    let out_of_memory = |_| String::from("out of memory; give the machine more (--mem)");
    let context = Arc::new(FsContext::new());
    let files = fs::open_console().map_err(|e| format!("no console: {e:?}"))?;
    let space = Arc::new(AddressSpace::new(mm()).map_err(|_| out_of_memory(()))?);
    let limits = Limits::initial(mm().total_frames());
    let number = table::reserve_pid(u64::MAX).expect("the first number is free");
    let pid = number.pid();
    let process = Arc::new(Process::first(pid, space, limits));
    let name = cmdline.init.rsplit('/').next().unwrap_or_default();
    let new = NewTask {
        tid: pid,
        process: process.clone(),
        files: Some(Arc::new(files)),
        fs: Some(context.clone()),
        comm: [0; 16],
        blocked: 0,
        alt_stack: AltStack::NONE,
        start: Start::User(Box::new(UserContext::new(0, 0))),
    };
    let task = Task::new(new, KernelStack::new().map_err(|_| out_of_memory(()))?);
    task.set_comm(name.as_bytes());
    let arguments = core::iter::once(&cmdline.init).chain(&cmdline.init_args);
    let strings = Strings {
        args: arguments.map(|word| word.clone().into_bytes()).collect(),
        env: cmdline
            .init_env
            .iter()
            .map(|word| word.clone().into_bytes())
            .collect::<Vec<_>>(),
    };
    let user = exec::first(&process, &context, cmdline.init.as_bytes(), strings)?;
    *task.start.lock() = Some(Start::User(Box::new(user)));
    process.threads.lock().push(task.clone());
    table::add_process(process, task.clone());
    drop(number);
    sched::start_task(task);
    Ok(())
}

/// Starts a thread that runs `work` in the kernel. It shares the CPU as any other; no list shows
/// it, and no signal reaches it.
pub fn spawn_kernel_thread(name: &[u8], work: fn() -> !) -> crate::errno::Result {
    let limits = Limits::initial(mm().total_frames());
    let process = Process::first(0, sched::empty_space().clone(), limits);
    let new = NewTask {
        tid: 0,
        process: Arc::new(process),
        files: None,
        fs: None,
        comm: [0; 16],
        blocked: 0,
        alt_stack: AltStack::NONE,
        start: Start::Kernel(work),
    };
    let task = Task::new(new, KernelStack::new()?);
    task.set_comm(name);
    sched::start_task(task);
    Ok(())
}
