//! futex wait and wake.
use userland::harness::Outcome;
use userland::sys::mem::{ANON, PAGE, RW, load, mmap, shared_page, store};
use userland::sys::{Result, call, file, proc, time};
use userland::{check, check_eq, check_err};

userland::tests![
    futex_value_differs,
    futex_times_out,
    futex_wakes_a_process,
    futex_wakes_as_many,
    futex_refuses,
    futex_bad_addresses,
    futex_bad_targets,
    futex_wake_op,
];

/// FUTEX_WAIT with a relative time in nanoseconds.
pub fn wait(at: usize, value: u32, ns: u64) -> Result<usize> {
    let t = [ns / 1_000_000_000, ns % 1_000_000_000];
    call(
        libc::SYS_futex,
        [at, 0, value as usize, t.as_ptr() as usize, 0, 0],
    )
}

fn wake(at: usize, count: u32) -> Result<usize> {
    call(libc::SYS_futex, [at, 1, count as usize, 0, 0, 0])
}

fn futex_value_differs() -> Outcome {
    let at = shared_page()?;
    store(at, 5);
    check_err!(wait(at, 4, 1_000_000_000), EAGAIN);
    check_eq!(wake(at, 1)?, 0);
    Ok(())
}

fn futex_times_out() -> Outcome {
    let at = shared_page()?;
    let start = time::now();
    check_err!(wait(at, 0, 50_000_000), ETIMEDOUT);
    check!(time::now() - start >= 50_000_000);
    Ok(())
}

fn futex_wakes_a_process() -> Outcome {
    let at = shared_page()?;
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
    let at = shared_page()?;
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
        proc::sched_yield();
    }
    for pid in pids {
        check_eq!(proc::wait_for(pid)?, proc::Status::Exited(3));
    }
    Ok(())
}

fn futex_refuses() -> Outcome {
    let at = shared_page()?;
    check_err!(wait(at + 2, 0, 1000), EINVAL);
    check_err!(wait(8, 0, 1000), EFAULT);
    check_err!(wait(0xffff_8000_0000_0000, 0, 1000), EFAULT);
    check_err!(call(libc::SYS_futex, [at, 99, 0, 0, 0, 0]), ENOSYS);
    Ok(())
}

const WAKE: usize = libc::FUTEX_WAKE as usize;
const PRIVATE: usize = libc::FUTEX_PRIVATE_FLAG as usize;

/// Addresses of every kind: no memory, no access, only reading.
struct Kinds {
    nowhere: usize,
    closed: usize,
    read_only: usize,
    shared_read_only: usize,
    past_the_end: usize,
}

fn kinds() -> Result<Kinds> {
    let shared = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    let empty = file::memfd(0)?;
    Ok(Kinds {
        closed: mmap(0, PAGE, libc::PROT_NONE, ANON, -1, 0)?,
        read_only: mmap(0, PAGE, libc::PROT_READ, ANON, -1, 0)?,
        shared_read_only: mmap(0, PAGE, libc::PROT_READ, shared, -1, 0)?,
        past_the_end: mmap(0, PAGE, RW, libc::MAP_SHARED, empty, 0)?,
        // Below where anything is mapped.
        nowhere: PAGE,
    })
}

fn futex_bad_addresses() -> Outcome {
    let k = kinds()?;
    let wake = |at, flag| call(libc::SYS_futex, [at, WAKE | flag, 1, 0, 0, 0]);
    // A private word is its address, and need not be there.
    for at in [k.nowhere, k.closed, k.read_only, k.past_the_end, 0] {
        check_eq!(wake(at, PRIVATE)?, 0);
        check_err!(wake(at, 0), EFAULT);
        check_err!(wake(at + 2, PRIVATE), EINVAL);
        check_err!(wake(at + 2, 0), EINVAL);
    }
    check_eq!(wake(k.shared_read_only, 0)?, 0);
    check_err!(wake(0xffff_8000_0000_0000, PRIVATE), EFAULT);
    // Waiting reads the word.
    let wait = |at, flag| call(libc::SYS_futex, [at, flag, 7, 0, 0, 0]);
    check_err!(wait(k.closed, PRIVATE), EFAULT);
    check_err!(wait(k.read_only, PRIVATE), EAGAIN);
    check_err!(wait(k.read_only, 0), EFAULT);
    check_err!(wait(k.shared_read_only, 0), EAGAIN);
    check_err!(wait(k.past_the_end, PRIVATE), EFAULT);
    // No bit to wait for, and a clock where there is no time.
    let bits = libc::FUTEX_WAIT_BITSET as usize;
    check_err!(call(libc::SYS_futex, [k.closed, bits, 0, 0, 0, 0]), EINVAL);
    let bits = libc::FUTEX_WAKE_BITSET as usize;
    check_err!(call(libc::SYS_futex, [k.closed, bits, 0, 0, 0, 0]), EINVAL);
    let clock = libc::FUTEX_CLOCK_REALTIME as usize;
    check_err!(wake(k.closed, PRIVATE | clock), ENOSYS);
    Ok(())
}

fn futex_bad_targets() -> Outcome {
    let (k, word) = (kinds()?, shared_page()?);
    let requeue = |from, to, flag: usize, counts: [usize; 2]| {
        let nr = libc::FUTEX_REQUEUE as usize | flag;
        call(libc::SYS_futex, [from, nr, counts[0], counts[1], to, 0])
    };
    let compare = |from, to, flag: usize, value| {
        let nr = libc::FUTEX_CMP_REQUEUE as usize | flag;
        call(libc::SYS_futex, [from, nr, 1, 1, to, value])
    };
    for at in [k.nowhere, k.closed, k.read_only] {
        check_eq!(requeue(at, word, PRIVATE, [1, 1])?, 0);
        check_eq!(requeue(word, at, PRIVATE, [1, 1])?, 0);
        check_err!(requeue(at, word, 0, [1, 1]), EFAULT);
        check_err!(requeue(word, at, 0, [1, 1]), EFAULT);
        check_eq!(compare(word, at, PRIVATE, 0)?, 0);
        check_err!(compare(word, at, 0, 0), EFAULT);
        check_err!(compare(word, at, 0, 7), EFAULT);
        check_err!(requeue(word, at + 1, PRIVATE, [1, 1]), EINVAL);
    }
    check_err!(compare(k.closed, word, PRIVATE, 0), EFAULT);
    check_err!(compare(k.read_only, word, PRIVATE, 7), EAGAIN);
    check_err!(compare(word, word + 4, 0, 7), EAGAIN);
    let minus = usize::MAX;
    check_err!(requeue(word, word + 4, 0, [minus, 1]), EINVAL);
    check_err!(requeue(word, word + 4, 0, [1, minus]), EINVAL);
    Ok(())
}

fn futex_wake_op() -> Outcome {
    let (k, word) = (kinds()?, shared_page()?);
    /// What to do with the word (bit 3: by a shifted bit), with what, and the comparison with 0.
    fn operation(what: usize, argument: usize, compare: usize) -> usize {
        what << 28 | compare << 24 | argument << 12
    }
    let wake_op = |first, second, flag: usize, operation| {
        let nr = libc::FUTEX_WAKE_OP as usize | flag;
        call(libc::SYS_futex, [first, nr, 1, 1, second, operation])
    };
    let (set, add) = (operation(0, 5, 0), operation(1, 1, 0));
    check_eq!(wake_op(k.closed, word, PRIVATE, set)?, 0);
    check_eq!(load(word), 5);
    check_err!(wake_op(k.closed, word, 0, add), EFAULT);
    for at in [k.nowhere, k.closed, k.read_only, k.shared_read_only] {
        check_err!(wake_op(word, at, PRIVATE, add), EFAULT);
        check_err!(wake_op(word, at, 0, add), EFAULT);
    }
    check_eq!(load(word), 5);
    // Unknown operations do nothing; after an unknown comparison the word has changed.
    check_err!(wake_op(word, word, PRIVATE, operation(7, 1, 0)), ENOSYS);
    check_eq!(load(word), 5);
    check_err!(wake_op(word, word, PRIVATE, operation(1, 1, 9)), ENOSYS);
    check_eq!(load(word), 6);
    check_eq!(wake_op(word, word, PRIVATE, operation(8, 12, 0))?, 0);
    check_eq!(load(word), 1 << 12);
    Ok(())
}
