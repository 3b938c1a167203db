//! The program under ptrace(2): its calls, one after the other.
use crate::memory::Memory;
use nix::sys::ptrace::{self, Event, Options};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::io::{Error, Result, Write};
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use userland::trace::{Pages, Step};

const PAGE: u64 = 4096;
/// Calls before which pages are looked for: those about memory, and the end.
const OF_MEMORY: [i64; 7] = [
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_mremap,
    libc::SYS_brk,
    libc::SYS_exit_group,
];
/// In an entry of pagemap: the page is there.
const PRESENT: u64 = 1 << 63;

/// Runs the program to its end.
pub fn run(program: &[String]) -> Result<Vec<Step>> {
    nix::sys::prctl::set_thp_disable(true)?;
    // A shell that waits until it is traced, and becomes the program.
    let mut child = Command::new("sh")
        .args(["-c", "read go; exec \"$@\"", "sh"])
        .args(program)
        .stdin(Stdio::piped())
        .spawn()?;
    let pid = Pid::from_raw(child.id() as i32);
    let options = Options::PTRACE_O_TRACESYSGOOD
        | Options::PTRACE_O_TRACECLONE
        | Options::PTRACE_O_TRACEEXEC
        | Options::PTRACE_O_EXITKILL;
    ptrace::seize(pid, options)?;
    ptrace::interrupt(pid)?;
    let go = child.stdin.take();
    go.map_or(Ok(()), |mut go| go.write_all(b"\n"))?;
    Tracee::new(pid).follow()
}

struct Tracee {
    pid: Pid,
    pagemap: Option<File>,
    memory: Memory,
    /// Threads that are in a call.
    inside: BTreeSet<Pid>,
    /// The thread that is in a call about memory, and those that wait to be let into one: calls at
    /// the same time would be seen to end in another order than that in which they were done.
    caller: Option<Pid>,
    waiting: VecDeque<Pid>,
    /// The end of the heap, in pages.
    end_of_heap: Option<u64>,
}

impl Tracee {
    fn new(pid: Pid) -> Tracee {
        Tracee {
            pid,
            pagemap: None,
            memory: Memory::default(),
            inside: BTreeSet::new(),
            caller: None,
            waiting: VecDeque::new(),
            end_of_heap: None,
        }
    }

    /// Until the program ends.
    fn follow(mut self) -> Result<Vec<Step>> {
        loop {
            let status = waitpid(None, Some(WaitPidFlag::__WALL))?;
            let Some(thread) = status.pid() else { continue };
            let mut signal = None;
            match status {
                WaitStatus::Exited(pid, 0) if pid == self.pid => return Ok(self.memory.steps),
                WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, ..) if pid == self.pid => {
                    return Err(Error::other(format!("it ended with {status:?}")));
                }
                WaitStatus::Exited(..) | WaitStatus::Signaled(..) => continue,
                WaitStatus::PtraceEvent(_, _, event)
                    if event == Event::PTRACE_EVENT_EXEC as i32 =>
                {
                    self.pagemap = Some(File::open(format!("/proc/{}/pagemap", self.pid))?);
                    // What came before was a shell, or a program that looks for the right one.
                    self.memory = Memory::default();
                    self.end_of_heap = None;
                    // Its other threads are gone, and it has not left execve yet.
                    self.inside = [self.pid].into();
                    (self.caller, self.waiting) = (None, VecDeque::new());
                }
                // It is let go on when another one has left its call.
                WaitStatus::PtraceSyscall(_) if self.call(thread)? => continue,
                WaitStatus::Stopped(_, other) => signal = Some(other),
                _ => {}
            }
            // One that was killed meanwhile is waited for.
            let _ = ptrace::syscall(thread, signal);
        }
    }

    /// A thread enters or leaves a call. Whether it has to wait.
    fn call(&mut self, thread: Pid) -> Result<bool> {
        let enters = !self.inside.remove(&thread);
        if enters {
            self.inside.insert(thread);
        }
        let registers = ptrace::getregs(thread)?;
        let number = registers.orig_rax as i64;
        if self.pagemap.is_none() || !OF_MEMORY.contains(&number) {
            return Ok(false);
        }
        if enters {
            return self.enter(thread);
        }
        self.done(&registers);
        self.caller = None;
        if let Some(next) = self.waiting.pop_front() {
            self.enter(next)?;
            let _ = ptrace::syscall(next, None);
        }
        Ok(false)
    }

    /// A thread would make a call about memory. Whether it has to wait.
    fn enter(&mut self, thread: Pid) -> Result<bool> {
        if self.caller.is_some() {
            self.waiting.push_back(thread);
            return Ok(true);
        }
        self.caller = Some(thread);
        self.look().map(|()| false)
    }

    /// Pages that came since the last call.
    fn look(&mut self) -> Result<()> {
        let Some(file) = &self.pagemap else {
            return Ok(());
        };
        self.memory.look(|pages| {
            let mut bytes = vec![0; pages.count as usize * 8];
            file.read_exact_at(&mut bytes, pages.at * 8)?;
            let (entries, _) = bytes.as_chunks::<8>();
            Ok(entries
                .iter()
                .map(|entry| u64::from_le_bytes(*entry) & PRESENT != 0)
                .collect())
        })
    }

    /// A call about memory has returned.
    fn done(&mut self, registers: &libc::user_regs_struct) {
        let result = registers.rax;
        if (result as i64) < 0 && result as i64 > -4096 {
            return;
        }
        let pages = |at: u64, len: u64| Pages {
            at: at / PAGE,
            count: len.div_ceil(PAGE),
        };
        let here = pages(registers.rdi, registers.rsi);
        let third = registers.rdx as i32;
        match registers.orig_rax as i64 {
            libc::SYS_mmap => {
                let anon = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
                let there = pages(result, registers.rsi);
                match registers.r10 as i32 & anon == anon {
                    true => self.memory.map(there, third),
                    false => self.memory.unmap(there),
                }
            }
            libc::SYS_munmap => self.memory.unmap(here),
            libc::SYS_mprotect => self.memory.protect(here, third),
            libc::SYS_madvise => self.memory.advise(here, third),
            libc::SYS_mremap => self.memory.remap(here, pages(result, registers.rdx)),
            libc::SYS_brk => self.heap(result.div_ceil(PAGE)),
            _ => {}
        }
    }

    /// The heap ends there now.
    fn heap(&mut self, end: u64) {
        let before = self.end_of_heap.replace(end).unwrap_or(end);
        let at = before.min(end);
        let pages = Pages {
            at,
            count: before.max(end) - at,
        };
        match before {
            _ if end > before => self.memory.map(pages, libc::PROT_READ | libc::PROT_WRITE),
            _ if end < before => self.memory.unmap(pages),
            _ => {}
        }
    }
}
