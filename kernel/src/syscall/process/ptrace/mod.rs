//! ptrace(2).

mod call_info;
mod registers;

use crate::base::errno::{Errno, Result};
use crate::base::user_ptr::UserPtr;
use crate::process::signal::{self, SIGKILL, SigInfo, UNBLOCKABLE};
use crate::process::task::{self, Pid, Task};
use crate::process::trace::{self, Resume, StopKind, TraceOptions};
use crate::sched;
use crate::syscall::signal::InfoBytes;
use alloc::sync::Arc;
use linux_raw_sys::ptrace as abi;
use mm::addr::VirtAddr;

/// Requests of one machine only, which bindings for the other lack.
const GETREGS: u32 = 12;
const SETREGS: u32 = 13;
const GETFPREGS: u32 = 14;
const SETFPREGS: u32 = 15;

/// A request about a thread, of the running one.
#[derive(Clone, Copy)]
struct Request<'a> {
    tracer: &'a Task,
    tid: Pid,
    at: u64,
    data: u64,
}

/// ptrace(2). ESRCH: no such thread, or it is not traced by the caller and stopped; EPERM: it may
/// not be traced; EIO: no such request, no such signal, or no memory there.
pub fn ptrace(task: &Arc<Task>, request: u64, tid: Pid, at: u64, data: u64) -> Result<u64> {
    let number = u32::try_from(request).map_err(|_| Errno::EIO)?;
    let request = Request {
        tracer: task,
        tid,
        at,
        data,
    };
    match number {
        abi::PTRACE_TRACEME => trace::trace_me(task)?,
        abi::PTRACE_ATTACH => trace::attach(task, &request.thread()?, None)?,
        abi::PTRACE_SEIZE => request.seize()?,
        abi::PTRACE_INTERRUPT => trace::interrupt(&request.tracee()?)?,
        abi::PTRACE_KILL => {
            let tracee = request.tracee()?;
            signal::send_process(tracee.process(), SigInfo::kernel(SIGKILL));
        }
        _ => return request.of_stopped(number),
    }
    Ok(0)
}

impl Request<'_> {
    fn thread(&self) -> Result<Arc<Task>> {
        task::find_task(self.tid).ok_or(Errno::ESRCH)
    }

    fn tracee(&self) -> Result<Arc<Task>> {
        trace::tracee(self.tracer, self.tid)
    }

    fn options(&self) -> Option<TraceOptions> {
        TraceOptions::from_bits(u32::try_from(self.data).ok()?)
    }

    fn seize(&self) -> Result {
        if self.at != 0 {
            return Err(Errno::EIO);
        }
        let options = self.options().ok_or(Errno::EIO)?;
        trace::attach(self.tracer, &self.thread()?, Some(options))
    }

    /// EIO past 64.
    fn signo(&self) -> Result<i32> {
        match self.data {
            0 => Ok(0),
            _ => signal::check(self.data as i32).map_err(|_| Errno::EIO),
        }
    }

    /// The requests about a thread that is stopped.
    fn of_stopped(&self, number: u32) -> Result<u64> {
        self.with_stopped(|_| Ok(()))?;
        match number {
            abi::PTRACE_PEEKTEXT | abi::PTRACE_PEEKDATA => self.peek()?,
            abi::PTRACE_POKETEXT | abi::PTRACE_POKEDATA => self.poke()?,
            abi::PTRACE_CONT => self.go_on(Resume::Run)?,
            abi::PTRACE_SYSCALL => self.go_on(Resume::ToCall)?,
            abi::PTRACE_SINGLESTEP => self.go_on(Resume::Step)?,
            abi::PTRACE_LISTEN => trace::listen(self.tracer, self.tid)?,
            abi::PTRACE_DETACH => trace::detach(self.tracer, self.tid, self.signo()?)?,
            abi::PTRACE_SETOPTIONS => {
                let options = self.options().ok_or(Errno::EINVAL)?;
                self.with_stopped(|trace| {
                    trace.options = options;
                    Ok(())
                })?;
            }
            abi::PTRACE_GETEVENTMSG => {
                let message = self.with_stopped(|trace| Ok(trace.message))?;
                UserPtr::from(self.data).write(&message)?;
            }
            abi::PTRACE_GETSIGINFO => {
                let info = self.siginfo(|info| *info)?;
                UserPtr::<InfoBytes>::from(self.data).write(&info.to_bytes())?;
            }
            abi::PTRACE_SETSIGINFO => {
                let bytes = UserPtr::<InfoBytes>::from(self.data).read()?;
                let [a, b, c, d, ..] = bytes;
                let signo = i32::from_ne_bytes([a, b, c, d]);
                self.siginfo(|info| *info = SigInfo::from_user(signo, &bytes))?;
            }
            abi::PTRACE_PEEKSIGINFO => return self.peek_siginfo(),
            abi::PTRACE_GETSIGMASK => {
                self.check_mask_size()?;
                UserPtr::from(self.data).write(&self.tracee()?.blocked())?;
            }
            abi::PTRACE_SETSIGMASK => {
                self.check_mask_size()?;
                let set: u64 = UserPtr::from(self.data).read()?;
                let tracee = self.tracee()?;
                tracee.store_blocked(set & !UNBLOCKABLE);
                signal::recalculate(&tracee);
            }
            abi::PTRACE_GET_SYSCALL_INFO => return call_info::get(self),
            call_info::SET => call_info::set(self)?,
            _ => registers::request(self, number)?,
        }
        Ok(0)
    }

    fn with_stopped<R>(&self, f: impl FnOnce(&mut trace::Trace) -> Result<R>) -> Result<R> {
        trace::with_stopped(self.tracer, self.tid, f)
    }

    fn go_on(&self, resume: Resume) -> Result {
        trace::go_on(self.tracer, self.tid, self.signo()?, resume)
    }

    /// EINVAL unless the set of signals has the size that it has.
    fn check_mask_size(&self) -> Result {
        match self.at {
            8 => Ok(()),
            _ => Err(Errno::EINVAL),
        }
    }

    /// The siginfo of the stop. EINVAL: it is that of the process, which has none.
    fn siginfo<R>(&self, f: impl FnOnce(&mut SigInfo) -> R) -> Result<R> {
        self.with_stopped(|trace| {
            let seized = trace.seized;
            let stop = trace.stop().ok_or(Errno::ESRCH)?;
            if stop.kind == StopKind::Group && !seized {
                return Err(Errno::EINVAL);
            }
            Ok(f(&mut stop.info))
        })
    }

    /// Copies pending signals, which stay, to `data`; how many. `at`: `struct
    /// ptrace_peeksiginfo_args`, the first, whether those of the process are meant, and how many.
    fn peek_siginfo(&self) -> Result<u64> {
        let arguments = UserPtr::<u64>::from(self.at);
        let [first, more]: [u64; 2] = arguments.field(0).read()?;
        let (flags, most) = (more as u32, (more >> 32) as i32);
        if flags & !abi::PTRACE_PEEKSIGINFO_SHARED != 0 || most < 0 {
            return Err(Errno::EINVAL);
        }
        let tracee = self.tracee()?;
        let into = UserPtr::<InfoBytes>::from(self.data);
        for n in 0..most as u64 {
            let at = usize::try_from(first.saturating_add(n)).unwrap_or(usize::MAX);
            let info = match flags {
                0 => tracee.pending.lock().nth(at),
                _ => tracee.process().pending.lock().nth(at),
            };
            let Some(info) = info else {
                return Ok(n);
            };
            match into.element(n).write(&info.to_bytes()) {
                Err(why) if n == 0 => return Err(why),
                Err(_) => return Ok(n),
                Ok(()) => {}
            }
            if sched::breathe() {
                return Ok(n + 1);
            }
        }
        Ok(most as u64)
    }

    fn peek(&self) -> Result {
        let mut word = [0; 8];
        let space = self.tracee()?.space.get();
        whole_word(space.map(|space| space.read(VirtAddr(self.at), &mut word, true)))?;
        UserPtr::from(self.data).write(&u64::from_ne_bytes(word))
    }

    fn poke(&self) -> Result {
        let word = self.data.to_ne_bytes();
        let space = self.tracee()?.space.get();
        whole_word(space.map(|space| space.write(VirtAddr(self.at), &word, true)))
    }
}

fn whole_word(bytes: Option<usize>) -> Result {
    match bytes {
        Some(8) => Ok(()),
        _ => Err(Errno::EIO),
    }
}
