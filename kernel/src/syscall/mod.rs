//! System calls: from number and arguments to a result.
//!
//! The three ways in, by cost: [`quick`] answers calls that only read a number of the caller's;
//! [`dispatch`] is one `match` per family, each a jump table; x86_64's numbers that newer machines
//! do without come last, in `legacy`.

mod clock;
mod files;
mod identity;
mod itimer;
#[cfg(target_arch = "x86_64")]
mod legacy;
mod log;
mod memory;
mod process;
mod sched;
mod signal;
pub mod system;
mod time;
mod unknown;
mod usage;

pub use unknown::unknown;

use crate::arch::trap::UserContext;
use crate::base::errno::{Errno, Result};
use crate::base::machine::mm;
use crate::base::room;
use crate::base::stretch::Reason;
use crate::pressure;
use crate::process::task::{Task, Work};
use alloc::sync::Arc;
use core::sync::atomic::Ordering::Relaxed;
use syscalls::Sysno;

/// A system call on its way: who calls, and the caller's registers.
pub struct Call<'a> {
    /// The calling thread.
    pub task: &'a Arc<Task>,
    /// Its registers, for calls that change them (clone, execve, rt_sigreturn).
    pub user: &'a mut UserContext,
    /// The arguments as they are in registers.
    pub args: [u64; 6],
}

/// Calls that read a number of the caller's and nothing else: no clock is read for them and nothing
/// is locked.
#[inline]
pub fn quick(task: &Task, number: u64) -> Option<u64> {
    const GETPID: u64 = Sysno::getpid as u64;
    const GETTID: u64 = Sysno::gettid as u64;
    const GETPPID: u64 = Sysno::getppid as u64;
    match number {
        GETPID => Some(task.process().pid() as u64),
        GETTID => Some(task.tid() as u64),
        GETPPID => Some(task.process().ppid() as u64),
        _ => None,
    }
}

/// Does the call that `user` has made. Returns the error when it is to be repeated or ended once
/// signals are handled.
pub fn enter(task: &Arc<Task>, user: &mut UserContext) -> Option<Errno> {
    let number = user.syscall_number();
    task.sched.times.enter_for(Reason(number as u32));
    let args = user.syscall_args();
    let result = match Sysno::new(number as usize) {
        Some(sysno) if needs_memory(sysno) => insist(sysno, Call { task, user, args }),
        Some(sysno) => dispatch(sysno, Call { task, user, args }),
        None => unknown::report(task, number, None),
    };
    match result {
        Ok(value) => user.set_return(value),
        Err(Errno::ERESTARTSYS) => return Some(after_signal(number)),
        Err(errno) => user.set_return(errno.to_return()),
    }
    task.restart_deadline.store(0, Relaxed);
    None
}

/// Calls that may be repeated after ENOMEM, because what they have done by then they find done, and
/// that programs rely on. mremap(2), which moves mappings one by one, goes on by itself where it
/// stopped.
const NEED_MEMORY: &[Sysno] = &[
    #[cfg(target_arch = "x86_64")]
    Sysno::fork,
    #[cfg(target_arch = "x86_64")]
    Sysno::vfork,
    Sysno::clone,
    Sysno::clone3,
    Sysno::execve,
    Sysno::execveat,
    Sysno::mmap,
    Sysno::munmap,
    Sysno::mprotect,
    Sysno::madvise,
    Sysno::mlock,
    Sysno::mlock2,
    Sysno::mlockall,
];

#[inline]
fn needs_memory(sysno: Sysno) -> bool {
    /// A bit for each call's number.
    const BITS: [u64; 8] = {
        let (mut bits, mut at) = ([0; 8], 0);
        while at < NEED_MEMORY.len() {
            let number = NEED_MEMORY[at] as usize;
            bits[number / 64] |= 1 << (number % 64);
            at += 1;
        }
        bits
    };
    let number = sysno as usize;
    BITS.get(number / 64)
        .is_some_and(|bits| bits >> (number % 64) & 1 != 0)
}

/// Does a call, again when there were no frames for it and some could be won. Other reasons for
/// ENOMEM (a limit, nothing mapped) are told at once.
#[inline(always)]
fn insist(sysno: Sysno, call: Call<'_>) -> Result<u64> {
    let Call { task, user, args } = call;
    with_room(task, || {
        let again = Call {
            task,
            user: &mut *user,
            args,
        };
        dispatch(sysno, again)
    })
}

/// [`insist`] for what goes on where it stopped.
#[inline(always)]
fn with_room(task: &Arc<Task>, mut act: impl FnMut() -> Result<u64>) -> Result<u64> {
    let mut attempt = 0;
    loop {
        let stalls = mm().stalls();
        let result = act();
        if result != Err(Errno::ENOMEM) || !makes_room(task, stalls, attempt) {
            return result;
        }
        attempt += 1;
    }
}

/// Whether a call failed for want of frames, of which some are there now.
#[cold]
fn makes_room(task: &Arc<Task>, stalls_before: u64, attempt: u32) -> bool {
    let short = || mm().stalls() != stalls_before || room::check(Errno::ENOMEM).is_err();
    !task.sched.work().contains(Work::HEAP_FAILS) && short() && pressure::make_room(task, attempt)
}

/// What becomes of an interrupted call when a handler runs: some end with EINTR whatever SA_RESTART
/// says, signal(7).
fn after_signal(number: u64) -> Errno {
    let never_restarted = match Sysno::new(number as usize) {
        #[cfg(target_arch = "x86_64")]
        Some(Sysno::poll | Sysno::select | Sysno::pause | Sysno::epoll_wait) => true,
        Some(
            Sysno::ppoll
            | Sysno::pselect6
            | Sysno::nanosleep
            | Sysno::clock_nanosleep
            | Sysno::rt_sigsuspend
            | Sysno::rt_sigtimedwait
            | Sysno::epoll_pwait,
        ) => true,
        _ => false,
    };
    if never_restarted {
        Errno::ERESTARTNOHAND
    } else {
        Errno::ERESTARTSYS
    }
}

/// One family after the other: first those of processes and memory, then those of files.
fn dispatch(sysno: Sysno, mut call: Call<'_>) -> Result<u64> {
    let [a, b, c, d, e, f] = call.args;
    match sysno {
        Sysno::mmap => memory::mmap(call.task, a, b, c, d, e.into(), f),
        Sysno::munmap => memory::munmap(call.task, a, b),
        Sysno::mprotect => memory::mprotect(call.task, a, b, c),
        Sysno::mremap => memory::mremap(call.task, a, b, c, d, e),
        Sysno::brk => memory::brk(call.task, a),
        Sysno::madvise => memory::madvise(call.task, a, b, c),
        Sysno::mincore => memory::mincore(call.task, a, b, c),
        Sysno::msync => memory::msync(call.task, a, b, c),
        Sysno::mlock => memory::mlock(call.task, a, b, 0),
        Sysno::mlock2 => memory::mlock(call.task, a, b, c),
        Sysno::munlock => memory::munlock(call.task, a, b),
        Sysno::mlockall => memory::mlockall(call.task, a),
        Sysno::munlockall => memory::munlockall(call.task),

        Sysno::clone => process::clone(&mut call),
        Sysno::clone3 => process::clone3(&mut call, a, b),
        Sysno::execve => process::execve(&mut call, a, b, c),
        Sysno::execveat => process::execveat(&mut call, a.into(), b, c, d, e),
        Sysno::exit => process::exit(call.task, a),
        Sysno::exit_group => process::exit_group(call.task, a),
        Sysno::wait4 => process::wait4(call.task, a, b, c, d),
        Sysno::waitid => process::waitid(call.task, a, b, c, d, e),
        Sysno::pidfd_open => process::pidfd_open(call.task, a, b),
        Sysno::pidfd_send_signal => signal::pidfd_send_signal(call.task, a.into(), b, c, d),
        Sysno::set_tid_address => process::set_tid_address(call.task, a),
        Sysno::futex => process::futex(call.task, a, b, c, d, e, f),

        Sysno::setpgid => identity::setpgid(call.task, a, b),
        Sysno::getpgid => identity::getpgid(call.task, a),
        Sysno::setsid => identity::setsid(call.task),
        Sysno::getsid => identity::getsid(call.task, a),
        Sysno::getuid => identity::user(call.task, 0),
        Sysno::geteuid => identity::user(call.task, 1),
        Sysno::getgid => identity::group(call.task, 0),
        Sysno::getegid => identity::group(call.task, 1),
        Sysno::setuid => identity::setuid(call.task, a),
        Sysno::setgid => identity::setgid(call.task, a),
        Sysno::setreuid => identity::setresuid(call.task, a, b, b),
        Sysno::setregid => identity::setresgid(call.task, a, b, b),
        Sysno::setresuid => identity::setresuid(call.task, a, b, c),
        Sysno::setresgid => identity::setresgid(call.task, a, b, c),
        Sysno::getresuid => identity::getres(call.task, true, a, b, c),
        Sysno::getresgid => identity::getres(call.task, false, a, b, c),
        Sysno::setfsuid => identity::user(call.task, 1),
        Sysno::setfsgid => identity::group(call.task, 1),
        Sysno::getgroups => identity::getgroups(call.task, a, b),
        Sysno::setgroups => identity::setgroups(call.task, a, b),

        Sysno::kill => signal::kill(call.task, a, b),
        Sysno::tkill => signal::tgkill(call.task, None, a, b),
        Sysno::tgkill => signal::tgkill(call.task, Some(a), b, c),
        Sysno::rt_sigqueueinfo => signal::sigqueueinfo(call.task, a, None, b, c),
        Sysno::rt_tgsigqueueinfo => signal::sigqueueinfo(call.task, a, Some(b), c, d),
        Sysno::rt_sigaction => signal::sigaction(call.task, a, b, c, d),
        Sysno::rt_sigprocmask => signal::sigprocmask(call.task, a, b, c, d),
        Sysno::rt_sigpending => signal::sigpending(call.task, a, b),
        Sysno::rt_sigsuspend => signal::sigsuspend(a, b),
        Sysno::rt_sigtimedwait => signal::sigtimedwait(call.task, a, b, c, d),
        Sysno::rt_sigreturn => Ok(crate::process::signal::sigreturn(call.task, call.user)),
        Sysno::sigaltstack => signal::sigaltstack(call.task, call.user, a, b),

        Sysno::nanosleep => time::nanosleep(call.task, a.into(), b.into()),
        Sysno::clock_nanosleep => time::clock_nanosleep(call.task, a, b, c.into(), d.into()),
        Sysno::clock_gettime => clock::clock_gettime(call.task, a, b.into()),
        Sysno::clock_getres => clock::clock_getres(a, b.into()),
        Sysno::clock_settime => clock::clock_settime(a, b.into()),
        Sysno::gettimeofday => clock::gettimeofday(a.into(), b.into()),
        Sysno::settimeofday => clock::settimeofday(a.into()),
        Sysno::setitimer => itimer::setitimer(call.task, a, b.into(), c.into()),
        Sysno::getitimer => itimer::getitimer(call.task, a, b.into()),
        Sysno::times => usage::times(call.task, a.into()),
        Sysno::getrusage => usage::getrusage(call.task, a, b.into()),

        Sysno::sched_yield => sched::sched_yield(),
        Sysno::sched_getaffinity => sched::getaffinity(a, b, c),
        Sysno::sched_setaffinity => sched::setaffinity(a, b, c),
        Sysno::sched_getscheduler => sched::getscheduler(a),
        Sysno::sched_setscheduler => sched::setscheduler(a, b, c),
        Sysno::sched_getparam => sched::getparam(a, b),
        Sysno::sched_setparam => sched::setparam(a, b),
        Sysno::sched_get_priority_max | Sysno::sched_get_priority_min => {
            sched::priority_range(sysno, a)
        }
        Sysno::sched_rr_get_interval => sched::rr_get_interval(a, b.into()),
        Sysno::getpriority => sched::getpriority(call.task, a, b),
        Sysno::setpriority => sched::setpriority(call.task, a, b, c),
        Sysno::getcpu => sched::getcpu(a, b),

        Sysno::syslog => log::syslog(a, b, c),
        Sysno::uname => system::uname(a),
        Sysno::sysinfo => system::sysinfo(a),
        Sysno::getrandom => system::getrandom(a, b, c),
        Sysno::prctl => system::prctl(call.task, a, b, c, d, e),
        Sysno::personality => system::personality(call.task, a),
        Sysno::reboot => system::reboot(a, b, c),
        Sysno::getrlimit => system::getrlimit(call.task, a, b),
        Sysno::setrlimit => system::setrlimit(call.task, a, b),
        Sysno::prlimit64 => system::prlimit(call.task, a, b, c, d),
        Sysno::sethostname => system::sethostname(a, b),
        Sysno::setdomainname => Ok(0),
        // Answered as a kernel without them does: programs ask, and do without.
        Sysno::rseq | Sysno::set_robust_list | Sysno::get_robust_list | Sysno::membarrier => {
            Err(Errno::ENOSYS)
        }
        _ => files::call(call.task, sysno, &call.args).unwrap_or_else(|| other(sysno, call)),
    }
}

#[cfg(target_arch = "x86_64")]
fn other(sysno: Sysno, call: Call<'_>) -> Result<u64> {
    let task = call.task;
    legacy::call(sysno, call).unwrap_or_else(|| unknown::report(task, sysno as u64, Some(sysno)))
}

#[cfg(not(target_arch = "x86_64"))]
fn other(sysno: Sysno, call: Call<'_>) -> Result<u64> {
    unknown::report(call.task, sysno as u64, Some(sysno))
}
