//! Copy on write after fork, and the page of zeros.
use userland::harness::{Outcome, in_child};
use userland::sys::mem::{ANON, PAGE, RW, anon, load, mmap, mprotect, munmap, store};
use userland::sys::{file, proc, proc::Status};
use userland::{check, check_eq, counters};

userland::tests![
    cow_both_sides_keep_their_own,
    cow_zero_page,
    cow_three_generations,
    cow_siblings,
    cow_after_exit_reuses,
    cow_private_file,
    cow_unmapped_in_parent,
    cow_read_only_while_forking,
    cow_stack_and_heap,
    cow_kernel_writes_copy,
];

/// Pages of most tests here.
const N: usize = 64;

fn fill(at: usize, value: u64) {
    (0..N).for_each(|n| store(at + n * PAGE, value + n as u64));
}

fn holds(at: usize, value: u64) -> bool {
    (0..N).all(|n| load(at + n * PAGE) == value + n as u64)
}

fn cow_both_sides_keep_their_own() -> Outcome {
    let at = anon(N)?;
    fill(at, 100);
    let (hear, tell) = file::pipe(0)?;
    let pid = match proc::fork()? {
        proc::Fork::Child => {
            let before = holds(at, 100);
            fill(at, 200);
            let _ = file::write(tell, b"x");
            proc::exit_now((before && holds(at, 200)) as i32)
        }
        proc::Fork::Parent(pid) => pid,
    };
    file::read(hear, &mut [0])?;
    check!(holds(at, 100));
    fill(at, 300);
    check_eq!(proc::wait_for(pid)?, Status::Exited(1));
    check!(holds(at, 300));
    Ok(munmap(at, N * PAGE)?)
}

fn cow_zero_page() -> Outcome {
    let at = anon(N)?;
    check!((0..N).all(|n| load(at + n * PAGE) == 0));
    let status = in_child(|| {
        let clean = (0..N).all(|n| load(at + n * PAGE) == 0);
        fill(at, 5);
        Ok((clean && holds(at, 5)) as i32)
    })?;
    check_eq!(status, Status::Exited(1));
    check!((0..N).all(|n| load(at + n * PAGE) == 0));
    fill(at, 9);
    let fresh = anon(N)?;
    check!((0..N).all(|n| load(fresh + n * PAGE) == 0));
    Ok(())
}

fn cow_three_generations() -> Outcome {
    let at = anon(N)?;
    fill(at, 1);
    let status = in_child(|| {
        fill(at, 2);
        let grandchild = in_child(|| {
            let saw = holds(at, 2);
            fill(at, 3);
            Ok((saw && holds(at, 3)) as i32)
        })?;
        Ok((grandchild == Status::Exited(1) && holds(at, 2)) as i32)
    })?;
    check_eq!(status, Status::Exited(1));
    check!(holds(at, 1));
    Ok(())
}

fn cow_siblings() -> Outcome {
    let at = anon(N)?;
    fill(at, 1000);
    let shared = mmap(0, PAGE, RW, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1, 0)?;
    let mut pids = Vec::new();
    for child in 0..8usize {
        match proc::fork()? {
            proc::Fork::Child => {
                let value = 10_000 * (child as u64 + 1);
                let clean = holds(at, 1000);
                (0..N)
                    .skip(child)
                    .step_by(8)
                    .for_each(|n| store(at + n * PAGE, value));
                let own = (0..N).all(|n| {
                    load(at + n * PAGE)
                        == if n % 8 == child {
                            value
                        } else {
                            1000 + n as u64
                        }
                });
                store(shared + child * 8, (clean && own) as u64);
                proc::exit_now(0)
            }
            proc::Fork::Parent(pid) => pids.push(pid),
        }
    }
    for pid in pids {
        check_eq!(proc::wait_for(pid)?, Status::Exited(0));
    }
    check_eq!(
        [0, 1, 2, 3, 4, 5, 6, 7].map(|n| load(shared + n * 8)),
        [1; 8]
    );
    check!(holds(at, 1000));
    Ok(())
}

fn cow_after_exit_reuses() -> Outcome {
    let at = anon(N)?;
    fill(at, 1);
    check_eq!(in_child(|| Ok(holds(at, 1) as i32))?, Status::Exited(1));
    let before = counters::own("cow_copied");
    fill(at, 2);
    let after = counters::own("cow_copied");
    // Only Quire counts copies; everywhere the data must be right.
    check!(holds(at, 2));
    let copied = after? - before?;
    // Reading the counter may itself have copied a page or two of this process's heap.
    check!(copied < N as u64 / 4, "{copied} of {N} pages were copied");
    Ok(())
}

fn cow_private_file() -> Outcome {
    std::fs::write("f", vec![b'a'; N * PAGE])?;
    let fd = file::open("f", libc::O_RDWR, 0)?;
    let at = mmap(0, N * PAGE, RW, libc::MAP_PRIVATE, fd, 0)?;
    check_eq!(load(at), u64::from_ne_bytes(*b"aaaaaaaa"));
    let status = in_child(|| {
        fill(at, 7);
        Ok(holds(at, 7) as i32)
    })?;
    check_eq!(status, Status::Exited(1));
    check_eq!(load(at), u64::from_ne_bytes(*b"aaaaaaaa"));
    fill(at, 8);
    check!(std::fs::read("f")?.iter().all(|&b| b == b'a'));
    check!(holds(at, 8));
    Ok(())
}

fn cow_unmapped_in_parent() -> Outcome {
    let at = anon(N)?;
    fill(at, 50);
    let (hear, tell) = file::pipe(0)?;
    match proc::fork()? {
        proc::Fork::Child => {
            let _ = file::close(tell);
            // The end of the pipe says that the parent has unmapped.
            let _ = file::read(hear, &mut [0]);
            proc::exit_now(holds(at, 50) as i32)
        }
        proc::Fork::Parent(pid) => {
            munmap(at, N * PAGE)?;
            file::close(tell)?;
            check_eq!(proc::wait_for(pid)?, Status::Exited(1));
        }
    }
    Ok(())
}

fn cow_read_only_while_forking() -> Outcome {
    let at = anon(N)?;
    fill(at, 1);
    mprotect(at, N * PAGE, libc::PROT_READ)?;
    let status = in_child(|| {
        mprotect(at, N * PAGE, RW)?;
        fill(at, 2);
        Ok(holds(at, 2) as i32)
    })?;
    check_eq!(status, Status::Exited(1));
    mprotect(at, N * PAGE, RW)?;
    check!(holds(at, 1));
    fill(at, 3);
    check!(holds(at, 3));
    Ok(())
}

fn cow_stack_and_heap() -> Outcome {
    let mut local = [1u64; 1024];
    let mut heap = vec![1u64; 100_000];
    let status = in_child(|| {
        std::hint::black_box(&mut local).fill(2);
        std::hint::black_box(&mut heap).fill(2);
        Ok((local.iter().sum::<u64>() + heap.iter().sum::<u64>() == 2 * 101_024) as i32)
    })?;
    check_eq!(status, Status::Exited(1));
    check_eq!(
        local.iter().sum::<u64>() + heap.iter().sum::<u64>(),
        101_024
    );
    Ok(())
}

fn cow_kernel_writes_copy() -> Outcome {
    let at = anon(1)?;
    store(at, 1);
    let (hear, tell) = file::pipe(0)?;
    let status = in_child(|| {
        file::write(tell, &7u64.to_ne_bytes())?;
        // The kernel's own write to a shared page must copy it too.
        let n = userland::sys::call(libc::SYS_read, [hear as usize, at, 8, 0, 0, 0])?;
        Ok((n == 8 && load(at) == 7) as i32)
    })?;
    check_eq!(status, Status::Exited(1));
    check_eq!(load(at), 1);
    // And to a page that was never touched, or only read.
    let fresh = mmap(0, 2 * PAGE, RW, ANON, -1, 0)?;
    check_eq!(load(fresh + PAGE), 0);
    file::write(tell, &[9u8; 16])?;
    userland::sys::call(
        libc::SYS_read,
        [hear as usize, fresh + PAGE - 8, 16, 0, 0, 0],
    )?;
    check_eq!(
        [load(fresh + PAGE - 8), load(fresh + PAGE)],
        [0x0909_0909_0909_0909; 2]
    );
    Ok(())
}
