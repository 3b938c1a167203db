//! System calls: from number and arguments to a result.
//!
//! The three ways in, by cost: [`quick`] answers calls that only read a number of the caller's;
//! [`dispatch`] is one `match` per family, each a jump table, of rows that say all that is known of
//! a call; x86_64's numbers that newer machines do without come last, in `legacy`.

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
mod rows;
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
use crate::base::stretch::Reason;
use crate::pressure;
use crate::process::task::Task;
use alloc::sync::Arc;
use core::sync::atomic::Ordering::Relaxed;
use rows::{Calls, How, rows};
use syscalls::Sysno;

/// A system call: the calling thread and its registers.
pub struct Call<'a> {
    /// The calling thread.
    pub task: &'a Arc<Task>,
    /// Its registers: the arguments, and for calls that change them (clone, execve, rt_sigreturn).
    pub user: &'a mut UserContext,
}

/// How the calls of all families are made.
static CALLS: Calls = Calls::of(&[
    ROWS,
    files::ROWS,
    #[cfg(target_arch = "x86_64")]
    files::old::ROWS,
    #[cfg(target_arch = "x86_64")]
    legacy::ROWS,
]);

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
    let how = CALLS.how(number);
    let result = match Sysno::new(number as usize) {
        Some(sysno) if how.contains(How::NEEDS_MEMORY) => insist(sysno, Call { task, user }),
        Some(sysno) => dispatch(sysno, Call { task, user }),
        None => unknown::report(task, number),
    };
    match result {
        Ok(value) => user.set_return(value),
        Err(Errno::ERESTARTSYS) => return Some(after_signal(how)),
        Err(errno) => user.set_return(errno.to_return()),
    }
    task.restart_deadline.store(0, Relaxed);
    None
}

/// Whether a call runs without the kernel lock.
#[inline]
pub fn is_parallel(number: u64) -> bool {
    CALLS.how(number).contains(How::PARALLEL)
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
        if result != Err(Errno::ENOMEM) || !pressure::makes_room(task, stalls, attempt) {
            return result;
        }
        attempt += 1;
    }
}

/// What becomes of an interrupted call when a handler runs.
fn after_signal(how: How) -> Errno {
    match how.contains(How::NOT_RESTARTED) {
        true => Errno::ERESTARTNOHAND,
        false => Errno::ERESTARTSYS,
    }
}

rows! {
    /// Answers a call: first the families of processes and memory, then those of files.
    dispatch, files::call;

    mmap => memory::mmap, PARALLEL | NEEDS_MEMORY;
    munmap => memory::munmap, PARALLEL | NEEDS_MEMORY;
    mprotect => memory::mprotect, PARALLEL | NEEDS_MEMORY;
    pkey_mprotect => memory::pkey_mprotect, PARALLEL | NEEDS_MEMORY;
    pkey_alloc => memory::pkey_alloc, PARALLEL;
    pkey_free => memory::pkey_free, PARALLEL;
    mremap => memory::mremap, PARALLEL;
    brk => memory::brk, PARALLEL;
    madvise => memory::madvise, PARALLEL | NEEDS_MEMORY;
    mseal => memory::mseal, PARALLEL | NEEDS_MEMORY;
    process_madvise => memory::process_madvise, NEEDS_MEMORY;
    process_mrelease => memory::process_mrelease;
    process_vm_readv => memory::process_vm_readv;
    process_vm_writev => memory::process_vm_writev;
    get_mempolicy => memory::get_mempolicy;
    move_pages => memory::move_pages;
    migrate_pages => memory::migrate_pages;
    mincore => memory::mincore, PARALLEL;
    shmget => memory::shmget, NEEDS_MEMORY;
    shmat => memory::shmat, NEEDS_MEMORY;
    shmdt => memory::shmdt, NEEDS_MEMORY;
    shmctl => memory::shmctl;
    userfaultfd => memory::userfaultfd;
    msync => memory::msync, PARALLEL;
    mlock => memory::mlock, PARALLEL | NEEDS_MEMORY;
    mlock2 => memory::mlock2, PARALLEL | NEEDS_MEMORY;
    munlock => memory::munlock, PARALLEL;
    mlockall => memory::mlockall, PARALLEL | NEEDS_MEMORY;
    munlockall => memory::munlockall, PARALLEL;

    clone => process::clone, NEEDS_MEMORY;
    clone3 => process::clone3, NEEDS_MEMORY;
    execve => process::execve, NEEDS_MEMORY;
    execveat => process::execveat, NEEDS_MEMORY;
    exit => process::exit;
    exit_group => process::exit_group;
    wait4 => process::wait4;
    waitid => process::waitid;
    ptrace => process::ptrace;
    pidfd_open => process::pidfd_open;
    pidfd_send_signal => signal::pidfd_send_signal;
    set_tid_address => process::set_tid_address, PARALLEL;
    set_robust_list => process::set_robust_list, PARALLEL;
    get_robust_list => process::get_robust_list;
    membarrier => process::membarrier;
    futex => process::futex, PARALLEL;

    setpgid => identity::setpgid;
    getpgid => identity::getpgid;
    setsid => identity::setsid;
    getsid => identity::getsid;
    getuid => |task: &Task| identity::user(task, 0);
    geteuid | setfsuid => |task: &Task| identity::user(task, 1);
    getgid => |task: &Task| identity::group(task, 0);
    getegid | setfsgid => |task: &Task| identity::group(task, 1);
    setuid => identity::setuid;
    setgid => identity::setgid;
    setreuid => identity::setreuid;
    setregid => identity::setregid;
    setresuid => identity::setresuid;
    setresgid => identity::setresgid;
    getresuid => identity::getresuid;
    getresgid => identity::getresgid;
    getgroups => identity::getgroups;
    setgroups => identity::setgroups;

    capget => capabilities::capget;
    capset => capabilities::capset;

    kill => signal::kill;
    tkill => signal::tkill;
    tgkill => signal::tgkill;
    rt_sigqueueinfo => signal::sigqueueinfo;
    rt_tgsigqueueinfo => signal::tgsigqueueinfo;
    rt_sigaction => signal::sigaction;
    rt_sigprocmask => signal::sigprocmask;
    rt_sigpending => signal::sigpending;
    rt_sigsuspend => signal::sigsuspend, NOT_RESTARTED;
    rt_sigtimedwait => signal::sigtimedwait, NOT_RESTARTED;
    rt_sigreturn => signal::sigreturn;
    signalfd4 => signal::signalfd4;
    sigaltstack => signal::sigaltstack;

    nanosleep => time::nanosleep, PARALLEL | NOT_RESTARTED;
    clock_nanosleep => time::clock_nanosleep, PARALLEL | NOT_RESTARTED;
    clock_gettime => clock::clock_gettime, PARALLEL;
    clock_getres => clock::clock_getres, PARALLEL;
    clock_settime => clock::clock_settime;
    gettimeofday => clock::gettimeofday, PARALLEL;
    settimeofday => clock::settimeofday;
    setitimer => itimer::setitimer;
    getitimer => itimer::getitimer;
    timer_create => posix_timer::timer_create;
    timer_settime => posix_timer::timer_settime;
    timer_gettime => posix_timer::timer_gettime;
    timer_getoverrun => posix_timer::timer_getoverrun;
    timer_delete => posix_timer::timer_delete;
    times => usage::times;
    getrusage => usage::getrusage;

    sched_yield => |_: &Task| sched::sched_yield(), PARALLEL;
    sched_getaffinity => sched::getaffinity;
    sched_setaffinity => sched::setaffinity;
    sched_getscheduler => sched::getscheduler;
    sched_setscheduler => sched::setscheduler;
    sched_getparam => sched::getparam;
    sched_setparam => sched::setparam;
    sched_getattr => sched::getattr;
    sched_setattr => sched::setattr;
    sched_get_priority_max => sched::priority_max;
    sched_get_priority_min => sched::priority_min;
    sched_rr_get_interval => sched::rr_get_interval;
    getpriority => sched::getpriority;
    setpriority => sched::setpriority;
    getcpu => sched::getcpu, PARALLEL;

    syslog => log::syslog;
    uname => system::uname;
    sysinfo => system::sysinfo;
    getrandom => system::getrandom;
    prctl => system::prctl;
    personality => system::personality;
    reboot => system::reboot;
    getrlimit => system::getrlimit;
    setrlimit => system::setrlimit;
    prlimit64 => system::prlimit;
    sethostname => system::sethostname;
    setdomainname => |_: &Task| Ok(0);
    // ENOSYS, as of a kernel without it: programs ask, and do without.
    rseq => |_: &Task| Err(Errno::ENOSYS);
}

/// Calls that no family has.
#[cfg(target_arch = "x86_64")]
use legacy::call as other;
#[cfg(not(target_arch = "x86_64"))]
use unknown::call as other;
