//! futex wait and wake.
use userland::ktap::Outcome;
use userland::sys::mem::{PAGE, RW, load, mmap, store};
use userland::sys::{Result, call, proc, time};
use userland::{check, check_eq, check_err};

userland::tests![
    futex_value_differs,
    futex_times_out,
    futex_wakes_a_process,
    futex_wakes_as_many,
    futex_refuses,
];

/// FUTEX_WAIT with a relative time in nanoseconds.
fn wait(at: usize, value: u32, ns: u64) -> Result<usize> {
    let t = [ns / 1_000_000_000, ns % 1_000_000_000];
    call(
        libc::SYS_futex,
        [at, 0, value as usize, t.as_ptr() as usize, 0, 0],
    )
}

fn wake(at: usize, count: u32) -> Result<usize> {
    call(libc::SYS_futex, [at, 1, count as usize, 0, 0, 0])
}

fn shared() -> Result<usize> {
    mmap(0, PAGE, RW, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1, 0)
}

fn futex_value_differs() -> Outcome {
    let at = shared()?;
    store(at, 5);
    check_err!(wait(at, 4, 1_000_000_000), EAGAIN);
    check_eq!(wake(at, 1)?, 0);
    Ok(())
}

fn futex_times_out() -> Outcome {
    let at = shared()?;
    let start = time::now();
    check_err!(wait(at, 0, 50_000_000), ETIMEDOUT);
    check!(time::now() - start >= 50_000_000);
    Ok(())
}

fn futex_wakes_a_process() -> Outcome {
    let at = shared()?;
    let proc::Fork::Parent(pid) = proc::fork()? else {
        while load(at) == 0 {
            let _ = wait(at, 0, 20_000_000_000);
        }
        store(at + 8, 7);
        proc::exit_now(0)
    };
    store(at, 1);
    // The child waits already, or will see the value: either way it ends.
    wake(at, 1)?;
    check_eq!(proc::wait_for(pid)?, proc::Status::Exited(0));
    check_eq!(load(at + 8), 7);
    Ok(())
}

fn futex_wakes_as_many() -> Outcome {
    let at = shared()?;
    let mut pids = Vec::new();
    for _ in 0..4 {
        match proc::fork()? {
            proc::Fork::Child => {
                let woken = wait(at, 0, 50_000_000_000) == Ok(0);
                proc::exit_now(if woken { 3 } else { 4 })
            }
            proc::Fork::Parent(pid) => pids.push(pid),
        }
    }
    let mut woken = 0;
    // Some may not wait yet: wake two at a time until all four were.
    while woken < 4 {
        let n = wake(at, 2)?;
        check!(n <= 2, "{n} woken at once");
        woken += n;
        let _ = call(libc::SYS_sched_yield, [0; 6]);
    }
    for pid in pids {
        check_eq!(proc::wait_for(pid)?, proc::Status::Exited(3));
    }
    Ok(())
}

fn futex_refuses() -> Outcome {
    let at = shared()?;
    check_err!(wait(at + 2, 0, 1000), EINVAL);
    check_err!(wait(8, 0, 1000), EFAULT);
    check_err!(wait(0xffff_8000_0000_0000, 0, 1000), EFAULT);
    check_err!(call(libc::SYS_futex, [at, 99, 0, 0, 0, 0]), ENOSYS);
    Ok(())
}
