//! Pipes, poll and select.
use crate::clock::once_in_time;
use userland::harness::{Outcome, Stop, in_child};
use userland::sys::proc::{self, Fork, Status};
use userland::sys::{call, file, sig, time};
use userland::{check, check_eq, check_err};

userland::tests![
    pipe_carries_bytes,
    pipe_ends,
    pipe_broken,
    pipe_holds_64k,
    pipe_nonblocking,
    pipe_small_writes_stay_whole,
    pipe_large_transfer,
    pipe_of_five,
    pipe_flags,
    pipe_reopened,
    pipe_reopened_without_a_writer,
    poll_pipe,
    poll_bad_and_regular,
    poll_waits_for_the_time,
    poll_wakes,
    select_pipe,
    select_of_a_million,
];

fn pipe_carries_bytes() -> Outcome {
    let (hear, tell) = file::pipe(0)?;
    file::write_all(tell, b"hello ")?;
    file::write_all(tell, b"world")?;
    let mut buf = [0u8; 32];
    check_eq!(file::read(hear, &mut buf[..3])?, 3);
    check_eq!(file::read(hear, &mut buf[3..])?, 8);
    check_eq!(&buf[..11], b"hello world");
    check_err!(file::write(hear, b"x"), EBADF);
    check_err!(file::read(tell, &mut buf), EBADF);
    check_eq!(file::read(hear, &mut [])?, 0);
    Ok(())
}

fn pipe_ends() -> Outcome {
    let (hear, tell) = file::pipe(0)?;
    let other = file::dup(tell)?;
    file::write_all(tell, b"x")?;
    file::close(tell)?;
    file::write_all(other, b"y")?;
    file::close(other)?;
    let mut buf = [0u8; 8];
    check_eq!(file::read(hear, &mut buf)?, 2);
    check_eq!(file::read(hear, &mut buf)?, 0);
    check_eq!(file::read(hear, &mut buf)?, 0);
    Ok(())
}

fn pipe_broken() -> Outcome {
    let (hear, tell) = file::pipe(0)?;
    file::close(hear)?;
    check_eq!(
        in_child(|| Ok(file::write(tell, b"x").is_ok() as i32))?,
        Status::Killed(libc::SIGPIPE)
    );
    sig::ignore(libc::SIGPIPE)?;
    check_err!(file::write(tell, b"x"), EPIPE);
    sig::count(libc::SIGPIPE, 0, &[])?;
    check_err!(file::write(tell, b"x"), EPIPE);
    check_eq!(sig::seen(libc::SIGPIPE), 1);
    Ok(())
}

fn pipe_holds_64k() -> Outcome {
    let (hear, tell) = file::pipe(libc::O_NONBLOCK)?;
    let mut held = 0;
    while let Ok(n) = file::write(tell, &[7u8; 4096]) {
        held += n;
        check!(held <= 1 << 20);
    }
    check_eq!(held, 65_536);
    check_err!(file::write(tell, b"x"), EAGAIN);
    let mut buf = vec![0u8; 70_000];
    check_eq!(file::read(hear, &mut buf)?, 65_536);
    check!(buf[..65_536].iter().all(|&b| b == 7));
    Ok(())
}

fn pipe_nonblocking() -> Outcome {
    let (hear, tell) = file::pipe(libc::O_NONBLOCK)?;
    check_err!(file::read(hear, &mut [0; 4]), EAGAIN);
    // More than fits is written in part.
    check_eq!(file::write(tell, &[1u8; 100_000])?, 65_536);
    // Room for less than PIPE_BUF: a small write waits rather than be cut.
    file::read(hear, &mut [0; 100])?;
    check_err!(file::write(tell, &[1u8; 4096]), EAGAIN);
    Ok(())
}

fn pipe_small_writes_stay_whole() -> Outcome {
    let (hear, tell) = file::pipe(0)?;
    let mut pids = Vec::new();
    for who in 1..=4u8 {
        match proc::fork()? {
            Fork::Child => {
                for _ in 0..100 {
                    let _ = file::write(tell, &[who; 1000]);
                }
                proc::exit_now(0)
            }
            Fork::Parent(pid) => pids.push(pid),
        }
    }
    file::close(tell)?;
    let mut all = Vec::new();
    let mut buf = [0u8; 5000];
    loop {
        match file::read(hear, &mut buf)? {
            0 => break,
            n => all.extend_from_slice(&buf[..n]),
        }
    }
    check_eq!(all.len(), 400_000);
    check!(
        all.chunks(1000).all(|c| c.iter().all(|&b| b == c[0])),
        "writes of 1000 bytes were mixed"
    );
    for pid in pids {
        proc::wait_for(pid)?;
    }
    Ok(())
}

fn pipe_large_transfer() -> Outcome {
    let (hear, tell) = file::pipe(0)?;
    let data: Vec<u8> = (0..1_000_000u32).map(|n| (n ^ n >> 8) as u8).collect();
    let Fork::Parent(pid) = proc::fork()? else {
        let _ = file::write_all(tell, &data);
        proc::exit_now(0)
    };
    file::close(tell)?;
    let mut got = Vec::new();
    let mut buf = [0u8; 10_007];
    loop {
        match file::read(hear, &mut buf)? {
            0 => break,
            n => got.extend_from_slice(&buf[..n]),
        }
    }
    check!(
        got == data,
        "{} bytes, not the {} that were sent",
        got.len(),
        data.len()
    );
    proc::wait_for(pid)?;
    Ok(())
}

fn pipe_of_five() -> Outcome {
    let (first, mut tell) = file::pipe(0)?;
    let mut from = first;
    let mut pids = Vec::new();
    for _ in 0..5 {
        let (hear, to) = file::pipe(0)?;
        match proc::fork()? {
            Fork::Child => {
                let _ = (file::close(tell), file::close(hear));
                let mut buf = [0u8; 64];
                while let Ok(n @ 1..) = file::read(from, &mut buf) {
                    buf[..n].iter_mut().for_each(|b| *b += 1);
                    let _ = file::write_all(to, &buf[..n]);
                }
                proc::exit_now(0)
            }
            Fork::Parent(pid) => pids.push(pid),
        }
        let _ = (file::close(from), file::close(to));
        if pids.len() == 1 {
            file::write_all(tell, b"AAAA")?;
            file::close(tell)?;
            tell = -1;
        }
        from = hear;
    }
    let mut buf = [0u8; 16];
    check_eq!(file::read(from, &mut buf)?, 4);
    check_eq!(&buf[..4], b"FFFF");
    for pid in pids {
        check_eq!(proc::wait_for(pid)?, Status::Exited(0));
    }
    Ok(())
}

fn pipe_flags() -> Outcome {
    let (hear, tell) = file::pipe(libc::O_CLOEXEC | libc::O_NONBLOCK)?;
    for fd in [hear, tell] {
        check_eq!(file::fcntl(fd, libc::F_GETFD, 0)?, libc::FD_CLOEXEC);
        check!(file::fcntl(fd, libc::F_GETFL, 0)? & libc::O_NONBLOCK != 0);
    }
    check_err!(file::pipe(libc::O_TRUNC), EINVAL);
    Ok(())
}

fn poll_pipe() -> Outcome {
    let (hear, tell) = file::pipe(0)?;
    check_eq!(file::poll(hear, libc::POLLIN, 0)?, 0);
    check_eq!(file::poll(tell, libc::POLLOUT, 0)?, libc::POLLOUT);
    file::write_all(tell, b"x")?;
    check_eq!(file::poll(hear, libc::POLLIN, -1)?, libc::POLLIN);
    file::close(tell)?;
    check_eq!(
        file::poll(hear, libc::POLLIN, -1)?,
        libc::POLLIN | libc::POLLHUP
    );
    file::read(hear, &mut [0])?;
    check_eq!(file::poll(hear, 0, -1)?, libc::POLLHUP);
    let (hear, tell) = file::pipe(0)?;
    file::close(hear)?;
    check!(file::poll(tell, libc::POLLOUT, -1)? & libc::POLLERR != 0);
    Ok(())
}

fn poll_bad_and_regular() -> Outcome {
    check_eq!(file::poll(999, libc::POLLIN, -1)?, libc::POLLNVAL);
    check_eq!(file::poll(-1, libc::POLLIN, 10)?, 0);
    let fd = file::open("f", libc::O_RDWR | libc::O_CREAT, 0o600)?;
    check_eq!(
        file::poll(fd, libc::POLLIN | libc::POLLOUT, -1)?,
        libc::POLLIN | libc::POLLOUT
    );
    Ok(())
}

fn poll_waits_for_the_time() -> Outcome {
    let (hear, _tell) = file::pipe(0)?;
    let took = once_in_time(|| {
        check_eq!(file::poll(hear, libc::POLLIN, 100)?, 0);
        Ok(())
    })?;
    check!(took >= 99_000_000, "100 ms took {took} ns");
    Ok(())
}

fn poll_wakes() -> Outcome {
    let (hear, tell) = file::pipe(0)?;
    let Fork::Parent(pid) = proc::fork()? else {
        let _ = time::sleep(20_000_000);
        let _ = file::write(tell, b"x");
        proc::exit_now(0)
    };
    check_eq!(file::poll(hear, libc::POLLIN, -1)?, libc::POLLIN);
    proc::wait_for(pid)?;
    Ok(())
}

fn select_pipe() -> Outcome {
    let (hear, tell) = file::pipe(0)?;
    if hear.max(tell) >= 64 {
        return Err(Stop::Skip("descriptors above 63".into()));
    }
    // pselect6 with one word of descriptors a set.
    let select = |read: u64, write: u64| {
        let (mut r, mut w) = ([read; 16], [write; 16]);
        r[1..].fill(0);
        w[1..].fill(0);
        let zero = [0u64; 2];
        let a = [
            64,
            r.as_mut_ptr() as usize,
            w.as_mut_ptr() as usize,
            0,
            zero.as_ptr() as usize,
            0,
        ];
        call(libc::SYS_pselect6, a).map(|n| (n, r[0], w[0]))
    };
    check_eq!(select(1 << hear, 1 << tell)?, (1, 0, 1 << tell));
    file::write_all(tell, b"x")?;
    check_eq!(select(1 << hear, 1 << tell)?, (2, 1 << hear, 1 << tell));
    check_err!(select(1 << 63, 0), EBADF);
    Ok(())
}

/// As many descriptors as a process may have.
fn select_of_a_million() -> Outcome {
    let (_, most) = proc::getrlimit(libc::RLIMIT_NOFILE)?;
    let most = most.min(1 << 20);
    let status = in_child(|| {
        proc::setrlimit(libc::RLIMIT_NOFILE, most, most)?;
        let (hear, tell) = file::pipe(0)?;
        file::write_all(tell, b"x")?;
        let last = file::fcntl(hear, libc::F_DUPFD, most as i64 - 1)? as usize;
        let mut sets = [(); 3].map(|()| vec![0u64; last / 64 + 1]);
        sets[0][last / 64] = 1 << (last % 64);
        let at = sets.each_mut().map(|set| set.as_mut_ptr() as usize);
        let zero = [0u64; 2];
        let time = zero.as_ptr() as usize;
        let ready = call(libc::SYS_pselect6, [last + 1, at[0], at[1], at[2], time, 0])?;
        let found = sets[0][last / 64] == 1 << (last % 64);
        Ok(i32::from(ready != 1 || !found))
    })?;
    check_eq!(status, Status::Exited(0));
    Ok(())
}

fn own(fd: i32) -> String {
    format!("/proc/self/fd/{fd}")
}

fn pipe_reopened() -> Outcome {
    let (hear, tell) = file::pipe(0)?;
    let again = file::open(&own(hear), libc::O_RDONLY, 0)?;
    // An open file of its own: what is set there is set nowhere else.
    file::fcntl(again, libc::F_SETFL, libc::O_NONBLOCK as i64)?;
    check_eq!(file::fcntl(hear, libc::F_GETFL, 0)? & libc::O_NONBLOCK, 0);
    file::write_all(tell, b"abc")?;
    let mut buf = [0u8; 8];
    check_eq!(file::read(again, &mut buf[..1])?, 1);
    check_eq!(file::read(hear, &mut buf[1..])?, 2);
    check_err!(file::read(again, &mut buf), EAGAIN);
    // A second writer counts, too.
    let other = file::open(&own(tell), libc::O_WRONLY, 0)?;
    file::close(tell)?;
    check_err!(file::read(again, &mut buf), EAGAIN);
    file::write_all(other, b"d")?;
    check_eq!(file::read(hear, &mut buf)?, 1);
    file::close(other)?;
    check_eq!(file::read(again, &mut buf)?, 0);
    // Either way through the reader's name; the last reader is the last.
    let both = file::open(&own(hear), libc::O_RDWR, 0)?;
    file::close(hear)?;
    file::close(again)?;
    file::write_all(both, b"e")?;
    check_eq!(file::read(both, &mut buf)?, 1);
    let writer = file::open(&own(both), libc::O_WRONLY | libc::O_NONBLOCK, 0)?;
    file::close(both)?;
    sig::ignore(libc::SIGPIPE)?;
    check_err!(file::write(writer, b"x"), EPIPE);
    Ok(())
}

fn pipe_reopened_without_a_writer() -> Outcome {
    // As a shell's `cat <(echo hello)` does, when echo has ended before cat begins.
    let (hear, tell) = file::pipe(0)?;
    file::write_all(tell, b"hello")?;
    file::close(tell)?;
    file::dup2(hear, 0)?;
    for name in ["/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"] {
        let again = file::open(name, libc::O_RDONLY, 0)?;
        check_eq!(
            file::read(again, &mut [0; 2])?,
            if name == "/proc/self/fd/0" { 1 } else { 2 }
        );
        file::close(again)?;
    }
    check_eq!(file::read(hear, &mut [0; 2])?, 0);
    // Nor does a writer wait for a reader.
    let (hear, tell) = file::pipe(0)?;
    file::close(hear)?;
    let again = file::open(&own(tell), libc::O_WRONLY, 0)?;
    sig::ignore(libc::SIGPIPE)?;
    check_err!(file::write(again, b"x"), EPIPE);
    Ok(())
}
