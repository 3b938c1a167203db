//! User pointers of every wrong kind in many calls: EFAULT, never a crash, and what was right
//! before stays done.
use userland::harness::{Outcome, Stop};
use userland::sys::mem::{ANON, PAGE, anon, copy_to, load, mmap, munmap, store};
use userland::sys::{Errno, call, file, proc};
use userland::{check, check_eq, check_err};

userland::tests![
    pointer_output_refused,
    pointer_input_refused,
    pointer_path_refused,
    pointer_read_only_output,
    pointer_half_mapped,
    pointer_half_mapped_string,
    pointer_unaligned_works,
    pointer_huge_length,
    pointer_vectors,
    pointer_taken_by_a_thread,
    pointer_exec,
];

/// Addresses no program has: null, low, between the halves, kernel image, direct map, stacks, the
/// last ones.
const BAD: [usize; 10] = [
    0,
    8,
    0x1000,
    0x0000_8000_0000_0000,
    0x4000_0000_0000_0000,
    0xffff_8000_0000_0000,
    0xffff_c000_0000_0000,
    0xffff_ffff_8020_0000,
    0xffff_ffff_ffff_f000,
    usize::MAX - 6,
];

fn fault_in(what: &str, at: usize, result: userland::sys::Result<usize>) -> Result<(), Stop> {
    match result {
        Err(Errno(libc::EFAULT)) => Ok(()),
        other => Err(Stop::Fail(format!(
            "{what} with {at:#x}: {other:?}, not EFAULT"
        ))),
    }
}

fn pointer_output_refused() -> Outcome {
    let zero = file::open("/dev/zero", libc::O_RDONLY, 0)? as usize;
    std::fs::write("f", vec![1u8; 5000])?;
    let plain = file::open("f", libc::O_RDONLY, 0)? as usize;
    let dir = file::open("/proc", libc::O_RDONLY, 0)? as usize;
    let (hear, tell) = file::pipe(0)?;
    file::write_all(tell, b"some bytes")?;
    let path = c".".as_ptr() as usize;
    let here = libc::AT_FDCWD as usize;
    let status = file::open("/proc/self/status", libc::O_RDONLY, 0)? as usize;
    for at in BAD {
        fault_in(
            "read zero",
            at,
            call(libc::SYS_read, [zero, at, 100, 0, 0, 0]),
        )?;
        fault_in(
            "read file",
            at,
            call(libc::SYS_pread64, [plain, at, 100, 0, 0, 0]),
        )?;
        fault_in(
            "read pipe",
            at,
            call(libc::SYS_read, [hear as usize, at, 4, 0, 0, 0]),
        )?;
        fault_in(
            "read proc",
            at,
            call(libc::SYS_pread64, [status, at, 100, 0, 0, 0]),
        )?;
        fault_in(
            "getdents64",
            at,
            call(libc::SYS_getdents64, [dir, at, 1000, 0, 0, 0]),
        )?;
        fault_in("fstat", at, call(libc::SYS_fstat, [plain, at, 0, 0, 0, 0]))?;
        fault_in(
            "newfstatat",
            at,
            call(libc::SYS_newfstatat, [here, path, at, 0, 0, 0]),
        )?;
        fault_in("pipe2", at, call(libc::SYS_pipe2, [at, 0, 0, 0, 0, 0]))?;
        fault_in("uname", at, call(libc::SYS_uname, [at, 0, 0, 0, 0, 0]))?;
        fault_in("getcwd", at, call(libc::SYS_getcwd, [at, 100, 0, 0, 0, 0]))?;
        fault_in(
            "getrandom",
            at,
            call(libc::SYS_getrandom, [at, 16, 0, 0, 0, 0]),
        )?;
        fault_in(
            "clock_gettime",
            at,
            call(libc::SYS_clock_gettime, [1, at, 0, 0, 0, 0]),
        )?;
        fault_in(
            "getrusage",
            at,
            call(libc::SYS_getrusage, [0, at, 0, 0, 0, 0]),
        )?;
        if at != 0 {
            fault_in("times", at, call(libc::SYS_times, [at, 0, 0, 0, 0, 0]))?;
            fault_in(
                "prlimit64",
                at,
                call(libc::SYS_prlimit64, [0, 7, 0, at, 0, 0]),
            )?;
            fault_in(
                "rt_sigaction",
                at,
                call(libc::SYS_rt_sigaction, [10, 0, at, 8, 0, 0]),
            )?;
            fault_in(
                "rt_sigprocmask",
                at,
                call(libc::SYS_rt_sigprocmask, [0, 0, at, 8, 0, 0]),
            )?;
            fault_in(
                "sigaltstack",
                at,
                call(libc::SYS_sigaltstack, [0, at, 0, 0, 0, 0]),
            )?;
        }
    }
    // A read that failed took nothing from the pipe.
    check_eq!(file::read(hear, &mut [0; 32])?, 10);
    Ok(())
}

fn pointer_input_refused() -> Outcome {
    let (_hear, tell) = file::pipe(0)?;
    let out = file::open("f", libc::O_RDWR | libc::O_CREAT, 0o600)? as usize;
    for at in BAD {
        fault_in(
            "write file",
            at,
            call(libc::SYS_write, [out, at, 100, 0, 0, 0]),
        )?;
        fault_in(
            "write pipe",
            at,
            call(libc::SYS_write, [tell as usize, at, 100, 0, 0, 0]),
        )?;
        fault_in(
            "nanosleep",
            at,
            call(libc::SYS_nanosleep, [at, 0, 0, 0, 0, 0]),
        )?;
        fault_in(
            "futex",
            at & !3,
            call(libc::SYS_futex, [at & !3, 0, 0, 0, 0, 0]),
        )?;
        if at != 0 {
            fault_in("ppoll", at, call(libc::SYS_ppoll, [at, 1, 0, 0, 8, 0]))?;
            fault_in(
                "rt_sigaction",
                at,
                call(libc::SYS_rt_sigaction, [10, at, 0, 8, 0, 0]),
            )?;
            fault_in(
                "rt_sigprocmask",
                at,
                call(libc::SYS_rt_sigprocmask, [0, at, 0, 8, 0, 0]),
            )?;
            fault_in(
                "sigaltstack",
                at,
                call(libc::SYS_sigaltstack, [at, 0, 0, 0, 0, 0]),
            )?;
            fault_in(
                "setitimer",
                at,
                call(libc::SYS_setitimer, [0, at, 0, 0, 0, 0]),
            )?;
            fault_in(
                "prlimit64",
                at,
                call(libc::SYS_prlimit64, [0, 7, at, 0, 0, 0]),
            )?;
        }
    }
    check_eq!(file::lseek(out as i32, 0, libc::SEEK_END)?, 0);
    Ok(())
}

fn pointer_path_refused() -> Outcome {
    let here = libc::AT_FDCWD as usize;
    let good = c"x".as_ptr() as usize;
    for at in BAD {
        fault_in("openat", at, call(libc::SYS_openat, [here, at, 0, 0, 0, 0]))?;
        fault_in(
            "unlinkat",
            at,
            call(libc::SYS_unlinkat, [here, at, 0, 0, 0, 0]),
        )?;
        fault_in(
            "mkdirat",
            at,
            call(libc::SYS_mkdirat, [here, at, 0o700, 0, 0, 0]),
        )?;
        fault_in("chdir", at, call(libc::SYS_chdir, [at, 0, 0, 0, 0, 0]))?;
        fault_in(
            "faccessat",
            at,
            call(libc::SYS_faccessat, [here, at, 0, 0, 0, 0]),
        )?;
        fault_in(
            "symlinkat",
            at,
            call(libc::SYS_symlinkat, [at, here, good, 0, 0, 0]),
        )?;
        fault_in(
            "renameat2",
            at,
            call(libc::SYS_renameat2, [here, at, here, good, 0, 0]),
        )?;
        fault_in("execve", at, call(libc::SYS_execve, [at, 0, 0, 0, 0, 0]))?;
    }
    Ok(())
}

fn pointer_read_only_output() -> Outcome {
    let at = mmap(0, PAGE, libc::PROT_READ, ANON, -1, 0)?;
    let zero = file::open("/dev/zero", libc::O_RDONLY, 0)? as usize;
    check_err!(call(libc::SYS_read, [zero, at, 8, 0, 0, 0]), EFAULT);
    check_err!(call(libc::SYS_uname, [at, 0, 0, 0, 0, 0]), EFAULT);
    let none = mmap(0, PAGE, libc::PROT_NONE, ANON, -1, 0)?;
    let (_hear, tell) = file::pipe(0)?;
    check_err!(
        call(libc::SYS_write, [tell as usize, none, 8, 0, 0, 0]),
        EFAULT
    );
    // The program's own code and constants are no place to write.
    let code = pointer_read_only_output as *const () as usize;
    check_err!(call(libc::SYS_read, [zero, code, 8, 0, 0, 0]), EFAULT);
    Ok(())
}

/// The last `n` bytes before an unmapped page.
fn edge(n: usize) -> Result<usize, Stop> {
    let at = anon(2)?;
    munmap(at + PAGE, PAGE)?;
    Ok(at + PAGE - n)
}

fn pointer_half_mapped() -> Outcome {
    let at = edge(10)?;
    // A structure across the edge.
    check_err!(call(libc::SYS_clock_gettime, [1, at, 0, 0, 0, 0]), EFAULT);
    check_err!(call(libc::SYS_uname, [at, 0, 0, 0, 0, 0]), EFAULT);
    check_err!(call(libc::SYS_nanosleep, [at, 0, 0, 0, 0, 0]), EFAULT);
    // Bytes: what fits may be done, and then the call says how much.
    let out = file::open("f", libc::O_RDWR | libc::O_CREAT, 0o600)?;
    let wrote = call(libc::SYS_write, [out as usize, at, 100, 0, 0, 0]);
    check!(
        wrote == Ok(10) || wrote == Err(Errno(libc::EFAULT)),
        "{wrote:?}"
    );
    let len = file::lseek(out, 0, libc::SEEK_END)?;
    check_eq!(len, wrote.unwrap_or(0) as u64);
    let zero = file::open("/dev/zero", libc::O_RDONLY, 0)? as usize;
    let read = call(libc::SYS_read, [zero, at, 100, 0, 0, 0]);
    check!(
        read.is_ok_and(|n| n <= 10) || read == Err(Errno(libc::EFAULT)),
        "{read:?}"
    );
    Ok(())
}

fn pointer_half_mapped_string() -> Outcome {
    let here = libc::AT_FDCWD as usize;
    std::fs::write("f", "")?;
    // Its NUL is the last byte there is.
    let at = edge(2)?;
    copy_to(at, b"f\0");
    call(libc::SYS_faccessat, [here, at, 0, 0, 0, 0])?;
    // Without one it runs over the edge.
    let at = edge(3)?;
    copy_to(at, b"abc");
    check_err!(call(libc::SYS_openat, [here, at, 0, 0, 0, 0]), EFAULT);
    Ok(())
}

fn pointer_unaligned_works() -> Outcome {
    let at = anon(2)?;
    // Across a page's edge, at every odd place.
    for n in 1..16 {
        call(libc::SYS_clock_gettime, [1, at + PAGE - n, 0, 0, 0, 0])?;
        call(libc::SYS_uname, [at + 100 + n, 0, 0, 0, 0, 0])?;
    }
    store(at, 0);
    check_eq!(load(at), 0);
    Ok(())
}

fn pointer_huge_length() -> Outcome {
    let at = anon(1)?;
    let (hear, tell) = file::pipe(libc::O_NONBLOCK)?;
    for len in [1usize << 63, usize::MAX, usize::MAX - at, 1 << 47] {
        let wrote = call(libc::SYS_write, [tell as usize, at, len, 0, 0, 0]);
        check!(!matches!(wrote, Ok(n) if n > PAGE), "{len:#x}: {wrote:?}");
        let read = call(libc::SYS_read, [hear as usize, at, len, 0, 0, 0]);
        check!(!matches!(read, Ok(n) if n > PAGE), "{len:#x}: {read:?}");
    }
    Ok(())
}

fn pointer_vectors() -> Outcome {
    let zero = file::open("/dev/zero", libc::O_RDWR, 0)? as usize;
    for at in BAD {
        fault_in("readv", at, call(libc::SYS_readv, [zero, at, 1, 0, 0, 0]))?;
        let one = [at, 10usize];
        fault_in(
            "readv's base",
            at,
            call(libc::SYS_readv, [zero, one.as_ptr() as usize, 1, 0, 0, 0]),
        )?;
    }
    let ok = [0usize; 2];
    check_err!(
        call(libc::SYS_readv, [zero, ok.as_ptr() as usize, 1025, 0, 0, 0]),
        EINVAL
    );
    check_err!(
        call(
            libc::SYS_writev,
            [zero, ok.as_ptr() as usize, usize::MAX, 0, 0, 0]
        ),
        EINVAL
    );
    let negative = [load as *const () as usize, usize::MAX];
    check_err!(
        call(
            libc::SYS_writev,
            [zero, negative.as_ptr() as usize, 1, 0, 0, 0]
        ),
        EINVAL
    );
    Ok(())
}

fn pointer_taken_by_a_thread() -> Outcome {
    // While one thread waits in read for bytes, another takes the buffer away.
    let at = anon(1)?;
    let (hear, tell) = file::pipe(0)?;
    let reader = std::thread::spawn(move || call(libc::SYS_read, [hear as usize, at, 8, 0, 0, 0]));
    for _ in 0..10 {
        proc::sched_yield();
    }
    // Replaced rather than removed: nothing else may move in meanwhile.
    mmap(at, PAGE, libc::PROT_NONE, ANON | libc::MAP_FIXED, -1, 0)?;
    file::write_all(tell, b"12345678")?;
    let Ok(got) = reader.join() else {
        return Err(Stop::Fail("the reader panicked".into()));
    };
    check_eq!(got, Err(Errno(libc::EFAULT)));
    Ok(())
}

fn pointer_exec() -> Outcome {
    let path = c"/proc/self/exe".as_ptr() as usize;
    for at in BAD.into_iter().filter(|&a| a != 0) {
        fault_in(
            "execve's argv",
            at,
            call(libc::SYS_execve, [path, at, 0, 0, 0, 0]),
        )?;
        fault_in(
            "execve's envp",
            at,
            call(libc::SYS_execve, [path, 0, at, 0, 0, 0]),
        )?;
        let list = [at, 0usize];
        fault_in(
            "execve's word",
            at,
            call(libc::SYS_execve, [path, list.as_ptr() as usize, 0, 0, 0, 0]),
        )?;
    }
    Ok(())
}
