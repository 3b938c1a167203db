//! process_madvise and process_mrelease: the memory of another process.
use userland::harness::{Outcome, Stop, need};
use userland::sys::mem::{PAGE, anon, load, munmap, store};
use userland::sys::{Result, call, fault, file, proc};
use userland::{check, check_eq, check_err};

userland::tests![
    process_madvise_of_the_caller,
    process_madvise_of_a_child,
    process_madvise_stops_at_a_refusal,
    process_madvise_refuses_bad_arguments,
    process_mrelease_frees,
    process_mrelease_refuses,
];

fn pidfd(pid: i32) -> Result<usize> {
    call(libc::SYS_pidfd_open, [pid as usize, 0, 0, 0, 0, 0])
}

fn process_madvise(fd: usize, ranges: &[[usize; 2]], advice: i32, flags: usize) -> Result<usize> {
    let list = ranges.as_ptr() as usize;
    let args = [fd, list, ranges.len(), advice as usize, flags, 0];
    call(libc::SYS_process_madvise, args)
}

fn process_mrelease(fd: usize, flags: usize) -> Result<usize> {
    call(libc::SYS_process_mrelease, [fd, flags, 0, 0, 0, 0])
}

/// A child that waits until it is killed.
struct Waiter {
    pid: i32,
    fd: usize,
    /// It waits for a byte from here.
    _tell: i32,
}

impl Waiter {
    fn new() -> std::result::Result<Self, Stop> {
        let (hear, tell) = file::pipe(0)?;
        let (ready, set) = file::pipe(0)?;
        match proc::fork()? {
            proc::Fork::Child => {
                let _ = file::write_all(set, b"1");
                let _ = file::read(hear, &mut [0]);
                proc::exit_now(1)
            }
            proc::Fork::Parent(pid) => {
                file::read(ready, &mut [0])?;
                let (fd, _tell) = (pidfd(pid)?, tell);
                Ok(Waiter { pid, fd, _tell })
            }
        }
    }

    fn end(self) -> Outcome {
        let _ = proc::kill(self.pid, libc::SIGKILL);
        check_eq!(
            proc::wait_for(self.pid)?,
            proc::Status::Killed(libc::SIGKILL)
        );
        Ok(())
    }
}

/// A pidfd of the caller; skips the test before Linux 6.13, where only few kinds of advice were
/// allowed.
fn own() -> std::result::Result<usize, Stop> {
    crate::areas::since(6, 13)?;
    Ok(pidfd(proc::getpid())?)
}

fn process_madvise_of_the_caller() -> Outcome {
    fault::arm();
    let (fd, at) = (own()?, anon(6)?);
    for n in 0..6 {
        store(at + n * PAGE, 1 + n as u64);
    }
    let ranges = [[at, PAGE], [at + 2 * PAGE, 2 * PAGE], [at, 0]];
    check_eq!(
        process_madvise(fd, &ranges, libc::MADV_DONTNEED, 0)?,
        3 * PAGE
    );
    let kept: Vec<u64> = (0..6).map(|n| load(at + n * PAGE)).collect();
    check_eq!(kept, [0, 2, 0, 0, 5, 6]);
    check_eq!(process_madvise(fd, &[], libc::MADV_DONTNEED, 0)?, 0);
    Ok(())
}

fn process_madvise_of_a_child() -> Outcome {
    let at = anon(4)?;
    store(at, 1);
    let child = Waiter::new()?;
    let cold = process_madvise(child.fd, &[[at, 2 * PAGE]], libc::MADV_COLD, 0);
    check_eq!(need(cold, "process_madvise")?, 2 * PAGE);
    // What it reads must stay as it is.
    for advice in [libc::MADV_DONTNEED, libc::MADV_FREE, libc::MADV_DONTFORK] {
        check_err!(process_madvise(child.fd, &[[at, PAGE]], advice, 0), EINVAL);
    }
    let fd = child.fd;
    child.end()?;
    check_err!(
        process_madvise(fd, &[[at, PAGE]], libc::MADV_COLD, 0),
        ESRCH
    );
    Ok(())
}

fn process_madvise_stops_at_a_refusal() -> Outcome {
    let (fd, at) = (own()?, anon(6)?);
    (0..6).for_each(|n| store(at + n * PAGE, 7));
    munmap(at + 3 * PAGE, PAGE)?;
    let (good, hole, last) = ([at, PAGE], [at + 2 * PAGE, 2 * PAGE], [at + 5 * PAGE, PAGE]);
    let done = process_madvise(fd, &[good, hole, last], libc::MADV_DONTNEED, 0)?;
    check_eq!(done, PAGE);
    check_eq!((load(at), load(at + PAGE), load(at + 5 * PAGE)), (0, 7, 7));
    check_err!(
        process_madvise(fd, &[hole, good], libc::MADV_DONTNEED, 0),
        ENOMEM
    );
    check_err!(
        process_madvise(fd, &[[at + 1, PAGE]], libc::MADV_DONTNEED, 0),
        EINVAL
    );
    Ok(())
}

fn process_madvise_refuses_bad_arguments() -> Outcome {
    let (fd, at) = (own()?, anon(1)?);
    let range = [[at, PAGE]];
    check_err!(process_madvise(fd, &range, libc::MADV_COLD, 1), EINVAL);
    check_err!(process_madvise(fd, &range, 999, 0), EINVAL);
    check_err!(process_madvise(999, &range, libc::MADV_COLD, 0), EBADF);
    let null = file::open("/dev/null", libc::O_RDONLY, 0)? as usize;
    check_err!(process_madvise(null, &range, libc::MADV_COLD, 0), EBADF);
    check_err!(
        process_madvise(fd, &[[at, PAGE]; 1025], libc::MADV_COLD, 0),
        EINVAL
    );
    check_err!(
        process_madvise(fd, &[[at, usize::MAX]], libc::MADV_COLD, 0),
        EINVAL
    );
    let args = [fd, PAGE, 1, libc::MADV_COLD as usize, 0, 0];
    check_err!(call(libc::SYS_process_madvise, args), EFAULT);
    Ok(())
}

fn process_mrelease_frees() -> Outcome {
    let at = anon(64)?;
    (0..64).for_each(|n| store(at + n * PAGE, 1));
    let child = Waiter::new()?;
    check_err!(process_mrelease(child.fd, 1), EINVAL);
    // It is not to end.
    check_err!(process_mrelease(child.fd, 0), EINVAL);
    proc::kill(child.pid, libc::SIGKILL)?;
    // It may have ended by itself before, and has no memory then.
    match process_mrelease(child.fd, 0) {
        Ok(done) => check_eq!(done, 0),
        Err(why) => check_eq!(why.0, libc::ESRCH),
    }
    let fd = child.fd;
    child.end()?;
    check_err!(process_mrelease(fd, 0), ESRCH);
    Ok(())
}

fn process_mrelease_refuses() -> Outcome {
    let own = pidfd(proc::getpid())?;
    check_err!(process_mrelease(own, 1), EINVAL);
    check!(
        process_mrelease(own, 0).is_err(),
        "the caller is not to end"
    );
    check_err!(process_mrelease(999, 0), EBADF);
    Ok(())
}
