//! signalfd(2): blocked signals, read from a file.
use userland::harness::{Outcome, Stop, in_child};
use userland::sys::proc::{self, Status};
use userland::sys::{Result, call, file, sig, time};
use userland::{check, check_eq, check_err};

userland::tests![
    signalfd_reads_what_pends,
    signalfd_changes,
    signalfd_refuses,
    signalfd_wakes,
    signalfd_of_a_child,
    signalfd_watched,
];

const NONBLOCK: i32 = libc::O_NONBLOCK;

fn change(fd: i32, signals: &[i32], flags: i32) -> Result<i32> {
    let set = signals
        .iter()
        .fold(0u64, |set, signal| set | 1 << (signal - 1));
    let at = (&raw const set) as usize;
    let fd = call(
        libc::SYS_signalfd4,
        [fd as usize, at, 8, flags as usize, 0, 0],
    )?;
    Ok(fd as i32)
}

pub fn signalfd(signals: &[i32], flags: i32) -> Result<i32> {
    change(-1, signals, flags)
}

/// Number, code and sender of what a read gives.
fn take(fd: i32) -> Result<Vec<(i32, i32, i32)>> {
    let mut bytes = [0u8; 4 * 128];
    let n = file::read(fd, &mut bytes)?;
    let word = |one: &[u8], at: usize| {
        i32::from_ne_bytes([one[at], one[at + 1], one[at + 2], one[at + 3]])
    };
    Ok(bytes[..n]
        .chunks(128)
        .map(|one| (word(one, 0), word(one, 8), word(one, 12)))
        .collect())
}

fn signalfd_reads_what_pends() -> Outcome {
    let both = [libc::SIGUSR1, libc::SIGUSR2];
    sig::mask(libc::SIG_BLOCK, &both)?;
    let (fd, me) = (signalfd(&both, NONBLOCK)?, proc::getpid());
    check_err!(take(fd), EAGAIN);
    check_eq!(file::poll(fd, libc::POLLIN | libc::POLLOUT, 0)?, 0);
    for signal in both {
        proc::kill(me, signal)?;
    }
    check_eq!(file::poll(fd, libc::POLLIN, 0)?, libc::POLLIN);
    let all = take(fd)?;
    check_eq!(all, both.map(|signal| (signal, libc::SI_USER, me)).to_vec());
    check_err!(take(fd), EAGAIN);
    check!(!sig::pending(libc::SIGUSR1), "it was read and pends");
    sig::mask(libc::SIG_UNBLOCK, &both)?;
    // What does not pend is no more: the process would have ended.
    Ok(())
}

fn signalfd_changes() -> Outcome {
    sig::mask(libc::SIG_BLOCK, &[libc::SIGUSR1, libc::SIGUSR2])?;
    let fd = signalfd(&[libc::SIGUSR1], NONBLOCK)?;
    proc::kill(proc::getpid(), libc::SIGUSR2)?;
    check_err!(take(fd), EAGAIN);
    check_eq!(change(fd, &[libc::SIGUSR2], 0)?, fd);
    check_eq!(take(fd)?.len(), 1);
    Ok(())
}

fn signalfd_refuses() -> Outcome {
    check_err!(signalfd(&[libc::SIGUSR1], 1), EINVAL);
    check_err!(change(1000, &[libc::SIGUSR1], 0), EBADF);
    let (hear, _tell) = file::pipe(0)?;
    check_err!(change(hear, &[libc::SIGUSR1], 0), EINVAL);
    let set = 0u64;
    let at = (&raw const set) as usize;
    let bad = usize::MAX;
    check_err!(call(libc::SYS_signalfd4, [bad, at, 4, 0, 0, 0]), EINVAL);
    check_err!(call(libc::SYS_signalfd4, [bad, 8, 8, 0, 0, 0]), EFAULT);
    let fd = signalfd(&[libc::SIGUSR1], NONBLOCK)?;
    check_err!(file::read(fd, &mut [0; 127]), EINVAL);
    check_err!(file::write(fd, &[0; 128]), EINVAL);
    Ok(())
}

fn signalfd_wakes() -> Outcome {
    sig::mask(libc::SIG_BLOCK, &[libc::SIGCHLD])?;
    let fd = signalfd(&[libc::SIGCHLD], 0)?;
    let waits = std::thread::spawn(move || take(fd));
    let child = match proc::fork()? {
        proc::Fork::Child => proc::exit_now(3),
        proc::Fork::Parent(child) => child,
    };
    let ready = waits
        .join()
        .map_err(|_| Stop::Fail("the thread died".into()))??;
    check_eq!(ready, vec![(libc::SIGCHLD, libc::CLD_EXITED, child)]);
    proc::wait_for(child)?;
    Ok(())
}

fn signalfd_of_a_child() -> Outcome {
    sig::mask(libc::SIG_BLOCK, &[libc::SIGUSR1])?;
    let fd = signalfd(&[libc::SIGUSR1], NONBLOCK)?;
    proc::kill(proc::getpid(), libc::SIGUSR1)?;
    // It reads its own signals, of which there is none, whoever made the file.
    let status = in_child(|| {
        check_err!(take(fd), EAGAIN);
        check_eq!(file::poll(fd, libc::POLLIN, 0)?, 0);
        proc::kill(proc::getpid(), libc::SIGUSR1)?;
        check_eq!(file::poll(fd, libc::POLLIN, -1)?, libc::POLLIN);
        check_eq!(take(fd)?.len(), 1);
        Ok(0)
    })?;
    check_eq!(status, Status::Exited(0));
    check_eq!(take(fd)?.len(), 1);
    Ok(())
}

fn signalfd_watched() -> Outcome {
    sig::mask(libc::SIG_BLOCK, &[libc::SIGALRM])?;
    let fd = signalfd(&[libc::SIGALRM], NONBLOCK)?;
    let set = call(libc::SYS_epoll_create1, [0; 6])?;
    let mut event = libc::epoll_event {
        events: libc::EPOLLIN as u32,
        u64: 7,
    };
    let (add, at) = (libc::EPOLL_CTL_ADD as usize, (&raw mut event) as usize);
    call(libc::SYS_epoll_ctl, [set, add, fd as usize, at, 0, 0])?;
    time::itimer(5_000, 0)?;
    let forever = usize::MAX;
    let n = call(libc::SYS_epoll_pwait, [set, at, 1, forever, 0, 8])?;
    check_eq!((n, { event.u64 }), (1, 7));
    check_eq!(take(fd)?[0].0, libc::SIGALRM);
    check_eq!(call(libc::SYS_epoll_pwait, [set, at, 1, 0, 0, 8])?, 0);
    Ok(())
}
