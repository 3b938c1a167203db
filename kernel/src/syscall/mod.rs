//! System calls: from number and arguments to a result.
//!
//! The three ways in, by cost: [`quick`] answers calls that only read a number of the caller's;
//! [`dispatch`] is one `match` per family, each a jump table; x86_64's numbers that newer machines
//! do without come last, in `legacy`.

mod capabilities;
mod clock;
mod door;
mod files;
mod identity;
mod itimer;
#[cfg(target_arch = "x86_64")]
mod legacy;
mod log;
mod memory;
mod posix_timer;
mod process;
mod sched;
mod signal;
pub mod system;
mod time;
mod unknown;
mod usage;

pub use memory::ENABLE_SOFT_OFFLINE;
pub use unknown::unknown;

use crate::arch::trap::UserContext;
use crate::base::errno::{Errno, Result};
use crate::base::machine::mm;
use crate::base::room;
use crate::base::stretch::Reason;
use crate::pressure;
use crate::process::task::{Task, Work};
use crate::sched::kernel_lock;
use alloc::sync::Arc;
use core::sync::atomic::Ordering::Relaxed;
use syscalls::Sysno;

/// A system call: the calling thread and its registers.
pub struct Call<'a> {
    /// The calling thread.
    pub task: &'a Arc<Task>,
    /// Its registers: the arguments, and for calls that change them (clone, execve, rt_sigreturn).
    pub user: &'a mut UserContext,
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

/// Does the system call that `user` has made. Returns the error when it is to be repeated or ended
/// once signals are handled.
pub fn enter(task: &Arc<Task>, user: &mut UserContext) -> Option<Errno> {
    let number = user.syscall_number();
    task.sched.times.enter_for(Reason(number as u32));
    let result = match Sysno::new(number as usize) {
        Some(sysno) if needs_memory(sysno) => insist(sysno, Call { task, user }),
        Some(sysno) => dispatch(sysno, Call { task, user }),
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

/// Calls that are repeated after ENOMEM once memory is free: a repetition finds what the first
/// attempt has done. mremap(2), which moves mappings one by one, continues by itself where it
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
    Sysno::pkey_mprotect,
    Sysno::madvise,
    Sysno::mlock,
    Sysno::mlock2,
    Sysno::mlockall,
    Sysno::mseal,
    Sysno::process_madvise,
    Sysno::shmat,
    Sysno::shmdt,
    Sysno::shmget,
];

/// Calls that run without the kernel lock, on several CPUs at once: what they use has locks of its
/// own, or is the calling thread's. Where one needs more (files, other processes, memory that has
/// to be made free), it takes the kernel lock for that.
const PARALLEL: &[Sysno] = &[
    Sysno::brk,
    Sysno::clock_getres,
    Sysno::clock_gettime,
    Sysno::clock_nanosleep,
    Sysno::futex,
    Sysno::getcpu,
    Sysno::gettimeofday,
    Sysno::madvise,
    Sysno::mincore,
    Sysno::mlock,
    Sysno::mlock2,
    Sysno::mlockall,
    Sysno::mmap,
    Sysno::mprotect,
    Sysno::mremap,
    Sysno::mseal,
    Sysno::msync,
    Sysno::munlock,
    Sysno::munlockall,
    Sysno::munmap,
    Sysno::nanosleep,
    Sysno::pkey_alloc,
    Sysno::pkey_free,
    Sysno::pkey_mprotect,
    Sysno::sched_yield,
    Sysno::set_robust_list,
    Sysno::set_tid_address,
];

/// A set of calls, a bit for each number.
struct Calls([u64; 8]);

impl Calls {
    const fn of(list: &[Sysno]) -> Calls {
        let (mut bits, mut at) = ([0; 8], 0);
        while at < list.len() {
            let number = list[at] as usize;
            bits[number / 64] |= 1 << (number % 64);
            at += 1;
        }
        Calls(bits)
    }

    #[inline]
    fn contains(&self, number: u64) -> bool {
        let bits = self.0.get((number / 64) as usize);
        bits.is_some_and(|bits| bits >> (number % 64) & 1 != 0)
    }
}

#[inline]
fn needs_memory(sysno: Sysno) -> bool {
    const CALLS: Calls = Calls::of(NEED_MEMORY);
    CALLS.contains(sysno as u64)
}

/// Whether a call runs without the kernel lock.
#[inline]
pub fn is_parallel(number: u64) -> bool {
    const CALLS: Calls = Calls::of(PARALLEL);
    CALLS.contains(number)
}

/// Does a call, and repeats it when there were no frames and some could be freed. Other reasons for
/// ENOMEM (a limit, nothing mapped) are returned at once.
#[inline(always)]
fn insist(sysno: Sysno, call: Call<'_>) -> Result<u64> {
    let Call { task, user } = call;
    with_room(task, || {
        let user = &mut *user;
        dispatch(sysno, Call { task, user })
    })
}

/// As [`insist`], for an action that continues where it stopped.
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
    let make_room = || pressure::make_room(task, attempt);
    !task.sched.work().contains(Work::HEAP_FAILS) && short() && kernel_lock::with(make_room)
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
            | Sysno::epoll_pwait
            | Sysno::epoll_pwait2,
        ) => true,
        _ => false,
    };
    if never_restarted {
        Errno::ERESTARTNOHAND
    } else {
        Errno::ERESTARTSYS
    }
}

/// Answers a call: first the families of processes and memory, then those of files.
fn dispatch(sysno: Sysno, call: Call<'_>) -> Result<u64> {
    match sysno {
        Sysno::mmap => call.run(memory::mmap),
        Sysno::munmap => call.run(memory::munmap),
        Sysno::mprotect => call.run(memory::mprotect),
        Sysno::pkey_mprotect => call.run(memory::pkey_mprotect),
        Sysno::pkey_alloc => call.run(memory::pkey_alloc),
        Sysno::pkey_free => call.run(memory::pkey_free),
        Sysno::mremap => call.run(memory::mremap),
        Sysno::brk => call.run(memory::brk),
        Sysno::madvise => call.run(memory::madvise),
        Sysno::mseal => call.run(memory::mseal),
        Sysno::process_madvise => call.run(memory::process_madvise),
        Sysno::process_mrelease => call.run(memory::process_mrelease),
        Sysno::process_vm_readv => call.run(memory::process_vm_readv),
        Sysno::process_vm_writev => call.run(memory::process_vm_writev),
        Sysno::get_mempolicy => call.run(memory::get_mempolicy),
        Sysno::mincore => call.run(memory::mincore),
        Sysno::shmget => call.run(memory::shmget),
        Sysno::shmat => call.run(memory::shmat),
        Sysno::shmdt => call.run(memory::shmdt),
        Sysno::shmctl => call.run(memory::shmctl),
        Sysno::userfaultfd => call.run(memory::userfaultfd),
        Sysno::msync => call.run(memory::msync),
        Sysno::mlock => call.run(memory::mlock),
        Sysno::mlock2 => call.run(memory::mlock2),
        Sysno::munlock => call.run(memory::munlock),
        Sysno::mlockall => call.run(memory::mlockall),
        Sysno::munlockall => call.run(memory::munlockall),

        Sysno::clone => call.run(process::clone),
        Sysno::clone3 => call.run(process::clone3),
        Sysno::execve => call.run(process::execve),
        Sysno::execveat => call.run(process::execveat),
        Sysno::exit => call.run(process::exit),
        Sysno::exit_group => call.run(process::exit_group),
        Sysno::wait4 => call.run(process::wait4),
        Sysno::waitid => call.run(process::waitid),
        Sysno::ptrace => call.run(process::ptrace),
        Sysno::pidfd_open => call.run(process::pidfd_open),
        Sysno::pidfd_send_signal => call.run(signal::pidfd_send_signal),
        Sysno::set_tid_address => call.run(process::set_tid_address),
        Sysno::set_robust_list => call.run(process::set_robust_list),
        Sysno::get_robust_list => call.run(process::get_robust_list),
        Sysno::membarrier => call.run(process::membarrier),
        Sysno::futex => call.run(process::futex),

        Sysno::setpgid => call.run(identity::setpgid),
        Sysno::getpgid => call.run(identity::getpgid),
        Sysno::setsid => call.run(identity::setsid),
        Sysno::getsid => call.run(identity::getsid),
        Sysno::getuid => identity::user(call.task, 0),
        Sysno::geteuid | Sysno::setfsuid => identity::user(call.task, 1),
        Sysno::getgid => identity::group(call.task, 0),
        Sysno::getegid | Sysno::setfsgid => identity::group(call.task, 1),
        Sysno::setuid => call.run(identity::setuid),
        Sysno::setgid => call.run(identity::setgid),
        Sysno::setreuid => call.run(identity::setreuid),
        Sysno::setregid => call.run(identity::setregid),
        Sysno::setresuid => call.run(identity::setresuid),
        Sysno::setresgid => call.run(identity::setresgid),
        Sysno::getresuid => call.run(identity::getresuid),
        Sysno::getresgid => call.run(identity::getresgid),
        Sysno::getgroups => call.run(identity::getgroups),
        Sysno::setgroups => call.run(identity::setgroups),

        Sysno::capget => call.run(capabilities::capget),
        Sysno::capset => call.run(capabilities::capset),

        Sysno::kill => call.run(signal::kill),
        Sysno::tkill => call.run(signal::tkill),
        Sysno::tgkill => call.run(signal::tgkill),
        Sysno::rt_sigqueueinfo => call.run(signal::sigqueueinfo),
        Sysno::rt_tgsigqueueinfo => call.run(signal::tgsigqueueinfo),
        Sysno::rt_sigaction => call.run(signal::sigaction),
        Sysno::rt_sigprocmask => call.run(signal::sigprocmask),
        Sysno::rt_sigpending => call.run(signal::sigpending),
        Sysno::rt_sigsuspend => call.run(signal::sigsuspend),
        Sysno::rt_sigtimedwait => call.run(signal::sigtimedwait),
        Sysno::rt_sigreturn => call.run(signal::sigreturn),
        Sysno::signalfd4 => call.run(signal::signalfd4),
        Sysno::sigaltstack => call.run(signal::sigaltstack),

        Sysno::nanosleep => call.run(time::nanosleep),
        Sysno::clock_nanosleep => call.run(time::clock_nanosleep),
        Sysno::clock_gettime => call.run(clock::clock_gettime),
        Sysno::clock_getres => call.run(clock::clock_getres),
        Sysno::clock_settime => call.run(clock::clock_settime),
        Sysno::gettimeofday => call.run(clock::gettimeofday),
        Sysno::settimeofday => call.run(clock::settimeofday),
        Sysno::setitimer => call.run(itimer::setitimer),
        Sysno::getitimer => call.run(itimer::getitimer),
        Sysno::timer_create => call.run(posix_timer::timer_create),
        Sysno::timer_settime => call.run(posix_timer::timer_settime),
        Sysno::timer_gettime => call.run(posix_timer::timer_gettime),
        Sysno::timer_getoverrun => call.run(posix_timer::timer_getoverrun),
        Sysno::timer_delete => call.run(posix_timer::timer_delete),
        Sysno::times => call.run(usage::times),
        Sysno::getrusage => call.run(usage::getrusage),

        Sysno::sched_yield => sched::sched_yield(),
        Sysno::sched_getaffinity => call.run(sched::getaffinity),
        Sysno::sched_setaffinity => call.run(sched::setaffinity),
        Sysno::sched_getscheduler => call.run(sched::getscheduler),
        Sysno::sched_setscheduler => call.run(sched::setscheduler),
        Sysno::sched_getparam => call.run(sched::getparam),
        Sysno::sched_setparam => call.run(sched::setparam),
        Sysno::sched_getattr => call.run(sched::getattr),
        Sysno::sched_setattr => call.run(sched::setattr),
        Sysno::sched_get_priority_max => call.run(sched::priority_max),
        Sysno::sched_get_priority_min => call.run(sched::priority_min),
        Sysno::sched_rr_get_interval => call.run(sched::rr_get_interval),
        Sysno::getpriority => call.run(sched::getpriority),
        Sysno::setpriority => call.run(sched::setpriority),
        Sysno::getcpu => call.run(sched::getcpu),

        Sysno::syslog => call.run(log::syslog),
        Sysno::uname => call.run(system::uname),
        Sysno::sysinfo => call.run(system::sysinfo),
        Sysno::getrandom => call.run(system::getrandom),
        Sysno::prctl => call.run(system::prctl),
        Sysno::personality => call.run(system::personality),
        Sysno::reboot => call.run(system::reboot),
        Sysno::getrlimit => call.run(system::getrlimit),
        Sysno::setrlimit => call.run(system::setrlimit),
        Sysno::prlimit64 => call.run(system::prlimit),
        Sysno::sethostname => call.run(system::sethostname),
        Sysno::setdomainname => Ok(0),
        // ENOSYS, as of a kernel without it: programs ask, and do without.
        Sysno::rseq => Err(Errno::ENOSYS),
        _ => files::call(sysno, call),
    }
}

/// Calls that no family has.
#[cfg(target_arch = "x86_64")]
fn other(sysno: Sysno, call: Call<'_>) -> Result<u64> {
    legacy::call(sysno, call)
}

#[cfg(not(target_arch = "x86_64"))]
fn other(sysno: Sysno, call: Call<'_>) -> Result<u64> {
    unknown::report(call.task, sysno as u64, Some(sysno))
}
