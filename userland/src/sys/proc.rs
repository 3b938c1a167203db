//! Processes: fork, exec, wait, kill, groups, limits.
use super::{Errno, Result, call, check, cstr};
use std::ffi::CString;
use std::sync::atomic::AtomicU32;

/// Which side of a fork this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fork {
    /// The new process.
    Child,
    /// The old one, with the child's process number.
    Parent(i32),
}

/// Forks. The programs here are single-threaded when they call it (a forked copy of a program with
/// threads could hold their locks for ever).
pub fn fork() -> Result<Fork> {
    // SAFETY: no memory is handed over; the child continues with its own copy.
    match check(unsafe { libc::fork() })? {
        0 => Ok(Fork::Child),
        pid => Ok(Fork::Parent(pid as i32)),
    }
}

/// Ends this process at once: no destructors, no buffers written.
pub fn exit_now(status: i32) -> ! {
    // SAFETY: _exit takes any status and does not return.
    unsafe { libc::_exit(status) }
}

/// Forks a child that does something and ends: with 0, or with 1 if that failed.
pub fn child(work: impl FnOnce() -> Result<()>) -> Result<i32> {
    match fork()? {
        Fork::Child => exit_now(i32::from(work().is_err())),
        Fork::Parent(pid) => Ok(pid),
    }
}

/// How a child ended or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// exit(N).
    Exited(i32),
    /// Killed by this signal.
    Killed(i32),
    /// Stopped by this signal.
    Stopped(i32),
    /// Continued after a stop.
    Continued,
}

impl Status {
    /// From wait's status word.
    pub fn from_raw(raw: i32) -> Self {
        if libc::WIFEXITED(raw) {
            Status::Exited(libc::WEXITSTATUS(raw))
        } else if libc::WIFSIGNALED(raw) {
            Status::Killed(libc::WTERMSIG(raw))
        } else if libc::WIFSTOPPED(raw) {
            Status::Stopped(libc::WSTOPSIG(raw))
        } else {
            Status::Continued
        }
    }

    /// The shell's `$?`: the exit status, or 128 and the signal.
    pub fn code(self) -> i32 {
        match self {
            Status::Exited(n) => n,
            Status::Killed(s) | Status::Stopped(s) => 128 + s,
            Status::Continued => 0,
        }
    }
}

/// wait4: the process that changed and how; `None` when WNOHANG found nothing.
pub fn wait(pid: i32, flags: i32) -> Result<Option<(i32, Status)>> {
    let mut raw = 0;
    // SAFETY: the status word is ours and lives through the call.
    match check(unsafe { libc::waitpid(pid, &mut raw, flags) })? {
        0 => Ok(None),
        pid => Ok(Some((pid as i32, Status::from_raw(raw)))),
    }
}

/// Waits for one child, across interruptions by signals.
pub fn wait_for(pid: i32) -> Result<Status> {
    loop {
        match wait(pid, 0) {
            Err(Errno(libc::EINTR)) | Ok(None) => {}
            Ok(Some((_, status))) => return Ok(status),
            Err(e) => return Err(e),
        }
    }
}

/// Waits until the process sleeps so that a signal would end it.
pub fn wait_until_asleep(pid: i32) {
    wait_for_state(pid, "S");
}

/// sched_yield(2), which never fails.
pub fn sched_yield() {
    let _ = call(libc::SYS_sched_yield, [0; 6]);
}

/// Looks at the process's state until it is one of these; after 2 s a system without /proc goes on.
pub fn wait_for_state(pid: i32, states: &str) {
    let mut running = super::time::Running::begin();
    while running.passed() < 2_000_000_000 {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = stat.rsplit_once(") ").and_then(|s| s.1.chars().next());
        if state.is_some_and(|state| states.contains(state)) {
            return;
        }
        sched_yield();
    }
}

/// waitid's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitInfo {
    /// The child, 0 when none had changed.
    pub pid: i32,
    /// CLD_EXITED, CLD_KILLED, ...
    pub code: i32,
    /// Exit status or signal.
    pub status: i32,
}

/// waitid with `options`.
pub fn waitid(kind: libc::idtype_t, id: u32, options: i32) -> Result<WaitInfo> {
    // SAFETY: an all-zero siginfo is a valid value.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: `info` is ours and lives through the call.
    check(unsafe { libc::waitid(kind, id as libc::id_t, &mut info, options) })?;
    // SAFETY: waitid filled the child's fields, or left them zero.
    let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
    Ok(WaitInfo {
        pid,
        code: info.si_code,
        status,
    })
}

/// Replaces this program; returns only an error. `path` is looked up as it stands.
pub fn exec(path: &str, args: &[String], env: &[String]) -> Errno {
    let strings = |list: &[String]| {
        list.iter()
            .map(|s| cstr(s))
            .collect::<Result<Vec<CString>>>()
    };
    let (path, args, env) = match (cstr(path), strings(args), strings(env)) {
        (Ok(p), Ok(a), Ok(e)) => (p, a, e),
        _ => return Errno(libc::EINVAL),
    };
    let pointers = |list: &[CString]| {
        list.iter()
            .map(|s| s.as_ptr())
            .chain([std::ptr::null()])
            .collect::<Vec<_>>()
    };
    let (argv, envp) = (pointers(&args), pointers(&env));
    // SAFETY: both arrays end with a null and the strings they point to outlive the call.
    unsafe { libc::execve(path.as_ptr(), argv.as_ptr(), envp.as_ptr()) };
    Errno::last()
}

/// This process's environment as `NAME=value` lines.
pub fn environ() -> Vec<String> {
    std::env::vars_os()
        .map(|(k, v)| format!("{}={}", k.to_string_lossy(), v.to_string_lossy()))
        .collect()
}

/// Sends `sig` to a process, or with a negative `pid` to a group.
pub fn kill(pid: i32, sig: i32) -> Result<()> {
    // SAFETY: only numbers go over.
    check(unsafe { libc::kill(pid, sig) }).map(|_| ())
}

/// This process.
pub fn getpid() -> i32 {
    std::process::id() as i32
}

/// The number of the calling thread.
pub fn gettid() -> i32 {
    call(libc::SYS_gettid, [0; 6]).unwrap_or(0) as i32
}

/// The parent.
pub fn getppid() -> i32 {
    std::os::unix::process::parent_id() as i32
}

/// The effective user; 0 may do everything.
pub fn geteuid() -> u32 {
    // SAFETY: takes nothing, cannot fail.
    unsafe { libc::geteuid() }
}

/// Becomes another user for good.
pub fn setuid(uid: u32) -> Result<()> {
    // SAFETY: only a number goes over.
    check(unsafe { libc::setuid(uid) }).map(|_| ())
}

/// Joins or makes a process group.
pub fn setpgid(pid: i32, group: i32) -> Result<()> {
    // SAFETY: only numbers go over.
    check(unsafe { libc::setpgid(pid, group) }).map(|_| ())
}

/// The group of a process.
pub fn getpgid(pid: i32) -> Result<i32> {
    // SAFETY: only a number goes over.
    check(unsafe { libc::getpgid(pid) }).map(|n| n as i32)
}

/// The session of a process.
pub fn getsid(pid: i32) -> Result<i32> {
    // SAFETY: only a number goes over.
    check(unsafe { libc::getsid(pid) }).map(|n| n as i32)
}

/// Leads a new session without a terminal.
pub fn setsid() -> Result<i32> {
    // SAFETY: takes nothing.
    check(unsafe { libc::setsid() }).map(|n| n as i32)
}

/// The type of RLIMIT_CORE and its like: glibc and musl differ.
#[cfg(target_env = "musl")]
pub type Resource = libc::c_int;
/// The type of RLIMIT_CORE and its like: glibc and musl differ.
#[cfg(not(target_env = "musl"))]
pub type Resource = libc::__rlimit_resource_t;

/// A resource limit, soft and hard; `RLIM_INFINITY` for none.
pub fn getrlimit(which: Resource) -> Result<(u64, u64)> {
    let mut r = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `r` is ours and lives through the call.
    check(unsafe { libc::getrlimit(which, &mut r) })?;
    Ok((r.rlim_cur, r.rlim_max))
}

/// Sets a resource limit.
pub fn setrlimit(which: Resource, soft: u64, hard: u64) -> Result<()> {
    let r = libc::rlimit {
        rlim_cur: soft,
        rlim_max: hard,
    };
    // SAFETY: `r` is ours and lives through the call.
    check(unsafe { libc::setrlimit(which, &r) }).map(|_| ())
}

/// The fields of getrusage that programs here use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time in user mode, microseconds.
    pub user_us: u64,
    /// Time in the kernel, microseconds.
    pub system_us: u64,
    /// Largest resident size, kB.
    pub max_rss_kb: u64,
    /// Faults without reading from a disk.
    pub minor_faults: u64,
    /// Faults that read.
    pub major_faults: u64,
}

/// getrusage of RUSAGE_SELF, RUSAGE_CHILDREN or RUSAGE_THREAD.
pub fn rusage(who: i32) -> Result<Usage> {
    // SAFETY: an all-zero rusage is a valid value.
    let mut r: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `r` is ours and lives through the call.
    check(unsafe { libc::getrusage(who, &mut r) })?;
    let us = |t: libc::timeval| t.tv_sec as u64 * 1_000_000 + t.tv_usec as u64;
    Ok(Usage {
        user_us: us(r.ru_utime),
        system_us: us(r.ru_stime),
        max_rss_kb: r.ru_maxrss as u64,
        minor_faults: r.ru_minflt as u64,
        major_faults: r.ru_majflt as u64,
    })
}

/// mount(2) without options.
pub fn mount(source: &str, target: &str, kind: &str, flags: u64) -> Result<()> {
    mount_with(source, target, kind, flags, "")
}

/// [`mount`] with options of the file system.
pub fn mount_with(source: &str, target: &str, kind: &str, flags: u64, options: &str) -> Result<()> {
    let (s, t, k) = (cstr(source)?, cstr(target)?, cstr(kind)?);
    let options = cstr(options)?;
    // SAFETY: the four strings end with NUL and outlive the call.
    check(unsafe {
        libc::mount(
            s.as_ptr(),
            t.as_ptr(),
            k.as_ptr(),
            flags as _,
            options.as_ptr().cast(),
        )
    })
    .map(|_| ())
}

/// Switches the machine off; returns only when the kernel refuses.
pub fn power_off() -> Errno {
    // SAFETY: only numbers go over.
    unsafe { libc::reboot(libc::LINUX_REBOOT_CMD_POWER_OFF) };
    Errno::last()
}

/// Sets a variable of this process's environment. Only for programs that have one thread then.
pub fn set_env(name: &str, value: &str) {
    // SAFETY: no other thread reads the environment meanwhile.
    unsafe { std::env::set_var(name, value) };
}

/// vfork whose child stores `value` at `at` (mapped by the caller) and exits with `status`: the
/// child's number.
///
/// The child runs on the parent's stack, so it must not return from any function: all it does is
/// these instructions.
pub fn vfork_store_and_exit(at: usize, value: u64, status: i32) -> Result<i32> {
    const FLAGS: i32 = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    let ret: isize;
    // SAFETY: the child touches no stack and ends in the block; the parent sees one word changed
    // that it asked for.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!(
            "syscall", "test rax, rax", "jnz 2f",
            "mov qword ptr [r12], r13", "mov edi, r14d", "mov eax, 60", "syscall", "2:",
            inlateout("rax") libc::SYS_clone as isize => ret,
            inlateout("rdi") FLAGS as usize => _, in("rsi") 0, in("rdx") 0, in("r10") 0, in("r8") 0,
            in("r12") at, in("r13") value, in("r14") status, lateout("rcx") _, lateout("r11") _,
        );
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!(
            "svc 0", "cbnz x0, 2f",
            "str x10, [x9]", "mov w0, w11", "mov x8, 93", "svc 0", "2:",
            inlateout("x8") libc::SYS_clone => _,
            inlateout("x0") FLAGS as isize => ret, in("x1") 0, in("x2") 0, in("x3") 0, in("x4") 0,
            in("x9") at, in("x10") value, in("w11") status,
        );
    }
    match ret {
        e @ -4095..0 => Err(Errno(-e as i32)),
        pid => Ok(pid as i32),
    }
}

/// A bare clone with these arguments, whatever they are: 0 in a child with memory of its own. A
/// child that shares this process's memory never returns: it yields a few times and ends, without
/// touching its stack.
pub fn clone_raw(a: [usize; 6]) -> isize {
    if a[0] & libc::CLONE_VM as usize == 0 {
        return super::call_bare(libc::SYS_clone as usize, a);
    }
    let ret: isize;
    // SAFETY: the child's path uses registers only and ends in the block; the parent's registers
    // are named.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!(
            "syscall", "test rax, rax", "jnz 2f",
            "mov eax, 24", "syscall", "mov eax, 24", "syscall",
            "xor edi, edi", "mov eax, 60", "syscall", "ud2", "2:",
            inlateout("rax") libc::SYS_clone as isize => ret,
            inlateout("rdi") a[0] => _, in("rsi") a[1], in("rdx") a[2], in("r10") a[3], in("r8") a[4],
            lateout("rcx") _, lateout("r11") _,
        );
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!(
            "svc 0", "cbnz x0, 2f",
            "mov x8, 124", "svc 0", "mov x8, 124", "svc 0",
            "mov x0, 0", "mov x8, 93", "svc 0", "udf #0", "2:",
            inlateout("x8") libc::SYS_clone => _,
            inlateout("x0") a[0] as isize => ret, in("x1") a[1], in("x2") a[2], in("x3") a[3], in("x4") a[4],
        );
    }
    ret
}

/// futex(2) on a word that processes share; `arguments` are those behind the operation.
pub fn futex(word: &AtomicU32, op: i32, arguments: [usize; 4]) -> Result<usize> {
    let [value, more, second, third] = arguments;
    let at = word.as_ptr() as usize;
    call(
        libc::SYS_futex,
        [at, op as usize, value, more, second, third],
    )
}
