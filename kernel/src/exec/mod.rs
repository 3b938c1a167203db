//! execve: from a file to a program that is ready to run.
//!
//! The new address space is built in full beside the old one; only then does the process change
//! over, so a failure at any step before leaves the old program running.
//!
//! What boot says when PID 1 cannot be started, after `quire: cannot start PATH: ` (the machine
//! then ends with the status of a panic, 101):
//!
//! | cause | text |
//! |---|---|
//! | no such file | `no PATH in the initramfs: put a static program there, or name another with init=PATH` |
//! | directory, or not executable | `it is not an executable file: chmod +x it before packing` |
//! | neither ELF nor script | `it is not an ELF program and not a #! script` |
//! | wrong architecture | `it is a program for aarch64, this machine is x86_64: build it for x86_64, or run with --arch aarch64` |
//! | its interpreter is missing | `it is a dynamic program and its interpreter /lib64/ld-linux-x86-64.so.2 is missing: pack it and the program's libraries too, or link it with -static` |
//! | its interpreter is no program | `it is a dynamic program and its interpreter PATH cannot be used: ...`, and the reason as for a program |
//! | shorter than its headers say | `it is truncated: segment N ends at byte N of N` |
//! | two segments at one address | `its segments N and N overlap` |
//! | an address outside user space | `its segment N lies outside user space, at ADDRESS` |
//! | no segments, bad headers | `its ELF headers make no sense: ...` |
//! | no memory | `out of memory; give the machine more (--mem)` |

mod aslr;
mod init;
mod interpreter;
mod layout;
mod refusal;
mod stack;

pub use init::spawn_init;
pub use parts::stack::{MAX_STRING, MAX_STRINGS, Strings};
pub use refusal::Refusal;

use crate::arch::pte::Format;
use crate::arch::trap::UserContext;
use crate::base::cmdline;
use crate::base::errno::{Errno, Result};
use crate::base::machine::{ELF_MACHINE, Space, mm};
use crate::fs::{self, ExecFile, FsContext};
use crate::process::task::{self, AltStack, Image, Process, Resource, ResourceLimits, Task, Work};
use crate::process::{robust, signal, trace};
use crate::sched;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;
use interpreter::Interpreter;
use mm::addr::{VirtAddr, VirtRange};
use mm::arch::{Cpu, Machine, PteFormat};
use parts::program::{Bytes, Flaw, Program, Target};
use parts::script;

/// A program that is ready: its address space and where it starts.
struct NewProgram {
    space: Space,
    image: Image,
    pc: u64,
    sp: u64,
}

/// Lets other threads run after each 4 KiB of strings; EINTR when the thread is to end.
pub fn breathe_between(before: usize, after: usize) -> Result {
    let step = |bytes: usize| bytes >> 12;
    if step(before) != step(after) && sched::breathe() {
        return Err(Errno::EINTR);
    }
    Ok(())
}

/// The target that programs have to be built for.
const TARGET: Target = Target {
    machine: ELF_MACHINE,
    user_end: Format::USER_END.0,
    // Without a word about it, Linux makes the stack executable on x86_64 only.
    executable_stack: cfg!(target_arch = "x86_64"),
};

impl Bytes for ExecFile {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> usize {
        self.object().read_at(offset, into)
    }
    fn size(&self) -> u64 {
        self.object().len()
    }
}

/// The first line of a script; `None` for another file.
fn script_of(file: &ExecFile) -> core::result::Result<Option<script::Script>, Refusal> {
    let mut bytes = [0; script::LINE];
    let len = file.read_at(0, &mut bytes);
    script::parse(&bytes[..len]).map_err(|_| Refusal::Flaw(Flaw::NotElf))
}

/// Interpreters of interpreters of scripts: as many as Linux follows.
const MAX_SCRIPTS: usize = 5;

/// Follows `#!` lines to an ELF file and builds its address space.
fn prepare(
    context: &FsContext,
    path: &[u8],
    file: ExecFile,
    mut strings: Strings,
    process: &Process,
) -> core::result::Result<NewProgram, Refusal> {
    let limits = process.limits();
    let mut file = file;
    let name = path.to_vec();
    let mut path = path.to_vec();
    for _ in 0..=MAX_SCRIPTS {
        let Some(script) = script_of(&file)? else {
            return build(context, file, &name, &strings, &limits, process);
        };
        script
            .rewrite(&mut strings.args, &path)
            .map_err(Errno::from)?;
        path = script.interpreter;
        file = fs::open_exec(context, &path)?;
    }
    Err(Refusal::Errno(Errno::ELOOP))
}

/// Builds the address space of an ELF file.
fn build(
    context: &FsContext,
    file: ExecFile,
    name: &[u8],
    strings: &Strings,
    limits: &ResourceLimits,
    process: &Process,
) -> core::result::Result<NewProgram, Refusal> {
    let program = Program::read(&file, &TARGET)?;
    let interpreter = Interpreter::of(context, &program)?;
    if !strings.fit(limits.soft(Resource::Stack)) {
        return Err(Errno::E2BIG.into());
    }
    let space = Space::new(mm())?;
    space.set_limits(process.space_limits());
    process.space.with(|old| {
        space.change_thp_permit(|_| old.thp_permit());
        space.inherit_mdwe(old);
    });
    let aslr = aslr::offsets(limits, process);
    let loaded = layout::load(&space, &program, &file, &aslr)?;
    let interpreter = interpreter
        .map(|interpreter| layout::load_interpreter(&space, &interpreter))
        .transpose()?;
    let start = stack::StackInputs {
        program: &program,
        loaded: &loaded,
        interpreter: interpreter.map_or(VirtAddr(0), |at| at.base),
        strings,
        name,
        process,
    };
    let stack = stack::build(&space, &start, limits, &aslr)?;
    let range = |r: Range<u64>| VirtRange::new(VirtAddr(r.start), VirtAddr(r.end));
    let image = Image {
        exe: Some(file),
        args: range(stack.args),
        env: range(stack.env),
        auxv: range(stack.auxv),
        code: loaded.code,
        data: loaded.data,
        brk: loaded.brk,
        stack: VirtAddr(stack.pointer),
    };
    Ok(NewProgram {
        space,
        image,
        pc: interpreter.map_or(loaded.entry, |at| at.entry).0,
        sp: stack.pointer,
    })
}

/// execve(2) and execveat(2) by the running thread: `file` is open already, `path` becomes
/// AT_EXECFN.
pub fn execve(
    task: &Arc<Task>,
    user: &mut UserContext,
    file: ExecFile,
    path: &[u8],
    strings: Strings,
) -> Result<u64> {
    let process = task.process();
    let context = task.fs();
    let ready = prepare(&context, path, file, strings, process).map_err(|why| {
        if !matches!(why, Refusal::Errno(_) | Refusal::Flaw(Flaw::NotElf)) {
            log::info!(
                "{}: cannot execute {}: {why}",
                task::describe_current(),
                String::from_utf8_lossy(path)
            );
        }
        why.errno()
    })?;
    // Descriptors that are shared with another process (CLONE_FILES) stay as they are there.
    let files = task.files();
    let own_files = match Arc::strong_count(&files) > 2 {
        true => Some(Arc::new(files.fork()?)),
        false => None,
    };
    drop(files);
    let former = task.tid();
    task::kill_other_threads(task)?;
    *user = UserContext::new(ready.pc, ready.sp);
    if let Some(files) = own_files {
        task.set_files(files);
    }
    change_over(task, ready, path);
    mm().machine().cpu().reset_keys();
    if task.sched.work().contains(Work::TRACED) {
        trace::at_exec(task, user, former);
    }
    Ok(0)
}

/// Point of no return: the running thread's process becomes the new program.
fn change_over(task: &Arc<Task>, ready: NewProgram, path: &[u8]) {
    let process = task.process();
    robust::release(task);
    process.barriers.store(false, Relaxed);
    ready.space.activate();
    let own = task.space.replace(Some(ready.space.clone()));
    let old = process.space.replace(Some(ready.space));
    // Not the last reference.
    drop(own);
    process.set_image(ready.image);
    process.set_handlers(process.handlers().copy_for_exec());
    process.delete_timers();
    process.did_exec.store(true, Relaxed);
    process.dumpable.store(1, Relaxed);
    *task.alt_stack.lock() = AltStack::NONE;
    task.clear_child_tid.store(0, Relaxed);
    task.set_comm(path.rsplit(|b| *b == b'/').next().unwrap_or_default());
    task.files().close_on_exec();
    signal::recalculate(task);
    if let Some(done) = task.vfork_done.lock().take() {
        done.complete();
    }
    // Other threads may run meanwhile: they see the new program.
    drop(old);
}

/// PID 1's program, before there is a thread; the error is for the console.
fn first(
    process: &Arc<Process>,
    context: &FsContext,
    path: &[u8],
    strings: Strings,
) -> core::result::Result<UserContext, String> {
    let name = String::from_utf8_lossy(path).into_owned();
    let ready = fs::open_exec(context, path)
        .map_err(Refusal::Errno)
        .and_then(|file| prepare(context, path, file, strings, process))
        .map_err(|why| match why {
            Refusal::Errno(Errno::ENOENT) => {
                format!("no {name} in the initramfs: put a static program there, or name another with init=PATH")
            }
            Refusal::Errno(Errno::EACCES) => {
                String::from("it is not an executable file: chmod +x it before packing")
            }
            why => format!("{why}"),
        })?;
    process.space.replace(Some(ready.space));
    process.set_image(ready.image);
    Ok(UserContext::new(ready.pc, ready.sp))
}

/// Whether addresses are to be random for this process.
fn randomised(process: &Process) -> bool {
    const ADDR_NO_RANDOMIZE: u32 = 0x004_0000;
    !cmdline::get().norandmaps && process.personality.load(Relaxed) & ADDR_NO_RANDOMIZE == 0
}
