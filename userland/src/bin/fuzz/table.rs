//! The calls worth making and what their arguments are. Others are made too, with anything.

/// What an argument is; each kind also comes out wrong now and then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A descriptor.
    Fd,
    /// Memory to read or write.
    Ptr,
    /// A path.
    Path,
    /// AT_FDCWD or a directory.
    Dir,
    /// A length in bytes.
    Len,
    /// A page of the arena.
    Page,
    /// A length in pages.
    Pages,
    /// A file offset.
    Off,
    /// Bits.
    Flags,
    /// Protection bits.
    Prot,
    /// mmap's flags.
    Map,
    /// open's flags.
    Open,
    /// A process: only this one, its children, none.
    Pid,
    /// A signal.
    Sig,
    /// A small number.
    Small,
    /// ioctl's request.
    Request,
    /// sizeof(sigset_t), mostly.
    SetSize,
}
use Kind::*;

/// A call's number and arguments.
pub type Call = (i64, &'static [Kind]);

/// Calls of both machines.
pub const CALLS: &[Call] = &[
    (libc::SYS_read, &[Fd, Ptr, Len]),
    (libc::SYS_write, &[Fd, Ptr, Len]),
    (libc::SYS_readv, &[Fd, Ptr, Small]),
    (libc::SYS_writev, &[Fd, Ptr, Small]),
    (libc::SYS_pread64, &[Fd, Ptr, Len, Off]),
    (libc::SYS_pwrite64, &[Fd, Ptr, Len, Off]),
    (libc::SYS_preadv, &[Fd, Ptr, Small, Off]),
    (libc::SYS_pwritev, &[Fd, Ptr, Small, Off]),
    (libc::SYS_sendfile, &[Fd, Fd, Ptr, Len]),
    (libc::SYS_lseek, &[Fd, Off, Small]),
    (libc::SYS_openat, &[Dir, Path, Open, Flags]),
    (libc::SYS_close, &[Fd]),
    (libc::SYS_dup, &[Fd]),
    (libc::SYS_dup3, &[Fd, Fd, Open]),
    (libc::SYS_fcntl, &[Fd, Small, Ptr]),
    (libc::SYS_ioctl, &[Fd, Request, Ptr]),
    (libc::SYS_pipe2, &[Ptr, Open]),
    (libc::SYS_ppoll, &[Ptr, Small, Ptr, Ptr, SetSize]),
    (libc::SYS_pselect6, &[Small, Ptr, Ptr, Ptr, Ptr, Ptr]),
    (libc::SYS_newfstatat, &[Dir, Path, Ptr, Flags]),
    (libc::SYS_fstat, &[Fd, Ptr]),
    (libc::SYS_statx, &[Dir, Path, Flags, Flags, Ptr]),
    (libc::SYS_statfs, &[Path, Ptr]),
    (libc::SYS_fstatfs, &[Fd, Ptr]),
    (libc::SYS_faccessat, &[Dir, Path, Small]),
    (libc::SYS_getdents64, &[Fd, Ptr, Len]),
    (libc::SYS_mkdirat, &[Dir, Path, Flags]),
    (libc::SYS_mknodat, &[Dir, Path, Flags, Small]),
    (libc::SYS_unlinkat, &[Dir, Path, Flags]),
    (libc::SYS_renameat2, &[Dir, Path, Dir, Path, Flags]),
    (libc::SYS_linkat, &[Dir, Path, Dir, Path, Flags]),
    (libc::SYS_symlinkat, &[Path, Dir, Path]),
    (libc::SYS_readlinkat, &[Dir, Path, Ptr, Len]),
    (libc::SYS_fchmodat, &[Dir, Path, Flags]),
    (libc::SYS_fchmod, &[Fd, Flags]),
    (libc::SYS_fchownat, &[Dir, Path, Small, Small, Flags]),
    (libc::SYS_utimensat, &[Dir, Path, Ptr, Flags]),
    (libc::SYS_ftruncate, &[Fd, Off]),
    (libc::SYS_truncate, &[Path, Off]),
    (libc::SYS_fallocate, &[Fd, Flags, Off, Off]),
    (libc::SYS_chdir, &[Path]),
    (libc::SYS_fchdir, &[Fd]),
    (libc::SYS_getcwd, &[Ptr, Len]),
    (libc::SYS_umask, &[Flags]),
    (libc::SYS_mount, &[Path, Path, Path, Flags, Ptr]),
    (libc::SYS_umount2, &[Path, Flags]),
    (libc::SYS_fsync, &[Fd]),
    (libc::SYS_sync, &[]),
    (libc::SYS_memfd_create, &[Path, Flags]),
    (libc::SYS_mmap, &[Page, Pages, Prot, Map, Fd, Off]),
    (libc::SYS_mmap, &[Page, Pages, Prot, Map, Fd, Off]),
    (libc::SYS_munmap, &[Page, Pages]),
    (libc::SYS_mprotect, &[Page, Pages, Prot]),
    (libc::SYS_mremap, &[Page, Pages, Pages, Small, Page]),
    (libc::SYS_madvise, &[Page, Pages, Small]),
    (libc::SYS_mseal, &[Page, Pages, Small]),
    (libc::SYS_msync, &[Page, Pages, Small]),
    (libc::SYS_mincore, &[Page, Pages, Ptr]),
    (libc::SYS_shmget, &[Small, Pages, Flags]),
    (libc::SYS_shmat, &[Small, Page, Flags]),
    (libc::SYS_shmdt, &[Page]),
    (libc::SYS_shmctl, &[Small, Small, Ptr]),
    (libc::SYS_mlock, &[Page, Pages]),
    (libc::SYS_mlock2, &[Page, Pages, Small]),
    (libc::SYS_munlock, &[Page, Pages]),
    (libc::SYS_mlockall, &[Small]),
    (libc::SYS_munlockall, &[]),
    (libc::SYS_brk, &[Page]),
    (libc::SYS_clone, &[Flags, Page, Ptr, Ptr, Ptr]),
    (libc::SYS_execve, &[Path, Ptr, Ptr]),
    (libc::SYS_wait4, &[Pid, Ptr, Flags, Ptr]),
    (libc::SYS_waitid, &[Small, Pid, Ptr, Flags, Ptr]),
    (libc::SYS_kill, &[Pid, Sig]),
    (libc::SYS_tgkill, &[Pid, Pid, Sig]),
    (libc::SYS_tkill, &[Pid, Sig]),
    (libc::SYS_pidfd_open, &[Pid, Flags]),
    (libc::SYS_getpid, &[]),
    (libc::SYS_getppid, &[]),
    (libc::SYS_gettid, &[]),
    (libc::SYS_getpgid, &[Pid]),
    (libc::SYS_getsid, &[Pid]),
    (libc::SYS_getuid, &[]),
    (libc::SYS_getgroups, &[Small, Ptr]),
    (libc::SYS_rt_sigaction, &[Sig, Ptr, Ptr, SetSize]),
    (libc::SYS_rt_sigprocmask, &[Small, Ptr, Ptr, SetSize]),
    (libc::SYS_rt_sigpending, &[Ptr, SetSize]),
    (libc::SYS_rt_sigtimedwait, &[Ptr, Ptr, Ptr, SetSize]),
    (libc::SYS_rt_sigsuspend, &[Ptr, SetSize]),
    (libc::SYS_sigaltstack, &[Ptr, Ptr]),
    (libc::SYS_setitimer, &[Small, Ptr, Ptr]),
    (libc::SYS_getitimer, &[Small, Ptr]),
    (libc::SYS_nanosleep, &[Ptr, Ptr]),
    (libc::SYS_clock_nanosleep, &[Small, Flags, Ptr, Ptr]),
    (libc::SYS_clock_gettime, &[Small, Ptr]),
    (libc::SYS_clock_getres, &[Small, Ptr]),
    (libc::SYS_gettimeofday, &[Ptr, Ptr]),
    (libc::SYS_times, &[Ptr]),
    (libc::SYS_futex, &[Ptr, Flags, Small, Ptr, Ptr, Small]),
    (libc::SYS_set_robust_list, &[Ptr, Len]),
    (libc::SYS_get_robust_list, &[Pid, Ptr, Ptr]),
    (libc::SYS_set_tid_address, &[Ptr]),
    (libc::SYS_membarrier, &[Small, Flags, Small]),
    (libc::SYS_rseq, &[Ptr, Len, Flags, Small]),
    (libc::SYS_sched_yield, &[]),
    (libc::SYS_sched_getaffinity, &[Pid, Len, Ptr]),
    (libc::SYS_sched_setaffinity, &[Pid, Len, Ptr]),
    (libc::SYS_getrlimit, &[Small, Ptr]),
    (libc::SYS_prlimit64, &[Pid, Small, Ptr, Ptr]),
    (libc::SYS_getrusage, &[Small, Ptr]),
    (libc::SYS_sysinfo, &[Ptr]),
    (libc::SYS_uname, &[Ptr]),
    (libc::SYS_getrandom, &[Ptr, Len, Flags]),
    (libc::SYS_prctl, &[Small, Ptr, Ptr, Ptr, Ptr]),
    (libc::SYS_personality, &[Flags]),
    (libc::SYS_socketpair, &[Small, Small, Small, Ptr]),
    (libc::SYS_vmsplice, &[Fd, Ptr, Small, Flags]),
    (libc::SYS_splice, &[Fd, Ptr, Fd, Ptr, Len, Flags]),
    (libc::SYS_rt_sigreturn, &[]),
    (libc::SYS_exit, &[Small]),
    (libc::SYS_exit_group, &[Small]),
];

/// Calls only x86_64 has.
#[cfg(target_arch = "x86_64")]
pub const OLD_CALLS: &[Call] = &[
    (libc::SYS_open, &[Path, Open, Flags]),
    (libc::SYS_stat, &[Path, Ptr]),
    (libc::SYS_lstat, &[Path, Ptr]),
    (libc::SYS_access, &[Path, Small]),
    (libc::SYS_pipe, &[Ptr]),
    (libc::SYS_select, &[Small, Ptr, Ptr, Ptr, Ptr]),
    (libc::SYS_poll, &[Ptr, Small, Small]),
    (libc::SYS_dup2, &[Fd, Fd]),
    (libc::SYS_fork, &[]),
    (libc::SYS_rename, &[Path, Path]),
    (libc::SYS_mkdir, &[Path, Flags]),
    (libc::SYS_rmdir, &[Path]),
    (libc::SYS_unlink, &[Path]),
    (libc::SYS_symlink, &[Path, Path]),
    (libc::SYS_link, &[Path, Path]),
    (libc::SYS_readlink, &[Path, Ptr, Len]),
    (libc::SYS_chmod, &[Path, Flags]),
    (libc::SYS_arch_prctl, &[Small, Ptr]),
    (libc::SYS_alarm, &[Small]),
    (libc::SYS_pause, &[]),
    (libc::SYS_time, &[Ptr]),
    (libc::SYS_getpgrp, &[]),
];

/// Calls only x86_64 has: none on aarch64.
#[cfg(target_arch = "aarch64")]
pub const OLD_CALLS: &[Call] = &[];

#[cfg(target_arch = "x86_64")]
const KEXEC_FILE_LOAD: i64 = 320;
#[cfg(target_arch = "aarch64")]
const KEXEC_FILE_LOAD: i64 = 294;

/// Never made: they end the machine, or reach processes that are not this one's: the supervisor
/// must live.
pub const FORBIDDEN: &[i64] = &[
    libc::SYS_reboot,
    libc::SYS_kexec_load,
    KEXEC_FILE_LOAD,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_ptrace,
    libc::SYS_process_vm_writev,
    libc::SYS_process_vm_readv,
    libc::SYS_process_madvise,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_pidfd_send_signal,
    libc::SYS_setpgid,
    libc::SYS_setsid,
    libc::SYS_setpriority,
    libc::SYS_ioprio_set,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setattr,
    libc::SYS_vhangup,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    // Their children would run on stacks that hold nothing, or change what this process stands on.
    libc::SYS_clone3,
    libc::SYS_seccomp,
    libc::SYS_swapoff,
    libc::SYS_swapon,
];

/// ioctl requests that would silence or take away the console the supervisor speaks on.
pub const FORBIDDEN_REQUESTS: &[u64] = &[
    0x5409, 0x540a, 0x540c, 0x540e, 0x5410, 0x5412, 0x5420, 0x5422, 0x5423, 0x5425, 0x5437,
];

/// Paths, good and bad, all ending with NUL.
pub const PATHS: &[&std::ffi::CStr] = &[
    c"a",
    c"b",
    c"c",
    c"a/b",
    c"b/c",
    c"c/a",
    c"./a",
    c"..",
    c".",
    c"",
    c"/",
    c"a/",
    c"a/../b",
    c"../a",
    c"/dev/null",
    c"/dev/zero",
    c"/dev/full",
    c"/dev/random",
    c"/dev/urandom",
    c"/proc/self/maps",
    c"/proc/self/smaps",
    c"/proc/self/status",
    c"/proc/self/stat",
    c"/proc/self/statm",
    c"/proc/self/cmdline",
    c"/proc/self/exe",
    c"/proc/self/fd",
    c"/proc/self/pagemap",
    c"/proc/self/cwd",
    c"/proc/self/clear_refs",
    c"/proc/meminfo",
    c"/proc/vmstat",
    c"/proc/stat",
    c"/proc/cpuinfo",
    c"/proc/mounts",
    c"/proc/1/maps",
    c"/proc/self",
    c"/proc",
    c"/sys",
    c"/sys/kernel/mm",
    c"/proc/sys/vm/overcommit_memory",
    c"/sys/kernel/mm/transparent_hugepage/enabled",
    c"/tmp",
    c"/tmp/x",
    c"/dev",
    c"/dev/tty",
    c"/x",
    c"proc",
    c"sysfs",
    c"tmpfs",
    c"devtmpfs",
];
