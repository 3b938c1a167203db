//! What others do while a call waits for a monitor (userfaultfd(2)), and what a monitor is told of.
use crate::memfd::{seal, sealable};
use crate::userfault::{MISSING, Monitor, byte_of};
use std::thread;
use userland::harness::{Outcome, Stop, in_child};
use userland::sys::mem::{ANON, MADV_COLLAPSE, PAGE, RW, anon, load, madvise, mmap, munmap, store};
use userland::sys::proc::{self, Fork, Status};
use userland::sys::{Result, call, fault, file};
use userland::{check, check_eq, check_err};

userland::tests![
    userfault_meanwhile_a_write_is_sealed,
    userfault_meanwhile_a_child_is_made,
    userfault_meanwhile_nothing_is_collapsed,
    userfault_is_told_of_other_calls,
];

const EVENT_FORK: u64 = 1 << 1;
const EVENT_REMOVE: u64 = 1 << 3;
const EVENT_UNMAP: u64 = 1 << 6;
/// Of messages: a fork, memory that is dropped, memory that is no more.
const FORK: u8 = 0x13;
const REMOVE: u8 = 0x15;
const UNMAP: u8 = 0x16;

const HUGE: usize = 2 << 20;

fn byte_at(fd: i32, offset: usize) -> Result<u8> {
    let mut byte = [0_u8];
    let to = byte.as_mut_ptr() as usize;
    call(libc::SYS_pread64, [fd as usize, to, 1, offset, 0, 0])?;
    Ok(byte[0])
}

/// F_SEAL_WRITE comes before a write(2) that waits for its source, or after it.
fn userfault_meanwhile_a_write_is_sealed() -> Outcome {
    let monitor = Monitor::new(0)?;
    let (fd, at) = (sealable(2)?, anon(2)?);
    store(at, 5);
    monitor.register(at, 2, MISSING)?;
    thread::scope(|scope| {
        let len = 2 * PAGE;
        let writes = scope.spawn(move || call(libc::SYS_write, [fd as usize, at, len, 0, 0, 0]));
        monitor.read()?;
        let Fork::Parent(pid) = proc::fork()? else {
            let seen = seal(fd, libc::F_SEAL_WRITE).and_then(|()| byte_at(fd, PAGE));
            proc::exit_now(seen.map_or(1, i32::from))
        };
        // It waits for the write, or is over.
        proc::wait_for_state(pid, "SDZ");
        monitor.copy(at + PAGE, 98, 0)?;
        check_eq!(writes.join().unwrap_or(Ok(0))?, len);
        check_eq!(proc::wait_for(pid)?, Status::Exited(98));
        Ok(())
    })?;
    file::close(monitor.0)?;
    Ok(())
}

/// A child maps what its parent does from the beginning of the fork on.
fn userfault_meanwhile_a_child_is_made() -> Outcome {
    if call(libc::SYS_geteuid, [0; 6])? != 0 {
        return Err(Stop::Skip("only root is told of forks".into()));
    }
    let monitor = Monitor::new(EVENT_FORK)?;
    file::fcntl(monitor.0, libc::F_SETFL, i64::from(libc::O_NONBLOCK))?;
    let (fd, watched) = (sealable(2)?, anon(1)?);
    let map = |how| mmap(0, 2 * PAGE, RW, how, fd, 0);
    let (shared, copies) = (map(libc::MAP_SHARED)?, map(libc::MAP_PRIVATE)?);
    for page in [0, PAGE] {
        store(copies + page, 9);
    }
    monitor.register(watched, 1, MISSING)?;
    thread::scope(|scope| {
        fault::arm();
        let forks = scope.spawn(move || {
            in_child(|| {
                check_eq!(fault::load(copies), Ok(9));
                let gone = fault::load(copies + PAGE);
                check!(
                    gone.is_err_and(|trap| trap.signal == libc::SIGBUS),
                    "it has what is gone"
                );
                Ok(0)
            })
        });
        let meanwhile = || -> Outcome {
            check_eq!(file::poll(monitor.0, libc::POLLIN, -1)?, libc::POLLIN);
            munmap(shared, 2 * PAGE)?;
            check_err!(seal(fd, libc::F_SEAL_WRITE), EBUSY);
            file::ftruncate(fd, PAGE as i64)?;
            let (kind, words) = monitor.message()?;
            check_eq!(kind, FORK);
            file::close(words[0] as i32)?;
            Ok(())
        };
        // Without its file nobody waits for it.
        meanwhile().inspect_err(|_| {
            let _ = file::close(monitor.0);
        })?;
        let child = forks
            .join()
            .map_err(|_| Stop::Fail("the thread panicked".into()))?;
        check_eq!(child?, Status::Exited(0));
        Ok(())
    })?;
    // With the child the last mapping has gone that may write.
    seal(fd, libc::F_SEAL_WRITE)?;
    file::close(monitor.0)?;
    Ok(())
}

/// A hole that a monitor is to be asked for stays one.
fn userfault_meanwhile_nothing_is_collapsed() -> Outcome {
    let monitor = Monitor::new(0)?;
    let fd = sealable(HUGE / PAGE)?;
    let room = mmap(0, 2 * HUGE, libc::PROT_NONE, ANON, -1, 0)?;
    let (at, how) = (
        room.next_multiple_of(HUGE),
        libc::MAP_SHARED | libc::MAP_FIXED,
    );
    mmap(at, HUGE, RW, how, fd, 0)?;
    store(at, 1);
    monitor.register(at, HUGE / PAGE, MISSING)?;
    check!(
        madvise(at, HUGE, MADV_COLLAPSE).is_err(),
        "it was collapsed"
    );
    let value = monitor.serve(
        || load(at + PAGE),
        |_| monitor.copy(at + PAGE, 4, 0).map(drop).map_err(Stop::from),
    )?;
    check_eq!(value, byte_of(4));
    file::close(monitor.0)?;
    Ok(())
}

/// process_madvise(2) of one's own memory, and brk(2).
fn userfault_is_told_of_other_calls() -> Outcome {
    let monitor = Monitor::new(EVENT_REMOVE | EVENT_UNMAP)?;
    file::fcntl(monitor.0, libc::F_SETFL, i64::from(libc::O_NONBLOCK))?;
    let at = anon(2)?;
    store(at + PAGE, 1);
    monitor.register(at, 2, MISSING)?;
    let own = call(
        libc::SYS_pidfd_open,
        [proc::getpid() as usize, 0, 0, 0, 0, 0],
    )?;
    let told = thread::scope(|scope| {
        let drops = scope.spawn(move || {
            let range = [at + PAGE, PAGE];
            let (list, advice) = (range.as_ptr() as usize, libc::MADV_DONTNEED as usize);
            call(libc::SYS_process_madvise, [own, list, 1, advice, 0, 0])
        });
        let mut told = None;
        while told.is_none() && !drops.is_finished() {
            if file::poll(monitor.0, libc::POLLIN, 10)? == libc::POLLIN {
                told = Some(monitor.message()?);
            }
        }
        // Linux before 6.13 has it for other advice only.
        match drops.join().unwrap_or(Ok(0)) {
            Err(_) => Ok::<_, Stop>(None),
            Ok(_) => Ok(Some(told)),
        }
    })?;
    if let Some(told) = told {
        let end = (at + 2 * PAGE) as u64;
        check!(
            told.is_some_and(
                |(kind, [from, to, _])| (kind, from, to) == (REMOVE, end - PAGE as u64, end)
            ),
            "{told:x?}"
        );
    }
    let told = thread::scope(|scope| {
        let listens = scope.spawn(move || {
            file::poll(monitor.0, libc::POLLIN, -1)?;
            monitor.message()
        });
        // Nothing allocates before it is as it was.
        let brk = |at: usize| call(libc::SYS_brk, [at, 0, 0, 0, 0, 0]);
        let end = brk(0)?.next_multiple_of(PAGE);
        let grown = brk(end + 2 * PAGE);
        let registered = monitor.register(end, 2, MISSING);
        let _ = brk(end);
        check_eq!(grown?, end + 2 * PAGE);
        registered?;
        let told = listens
            .join()
            .map_err(|_| Stop::Fail("the thread panicked".into()))??;
        check_eq!(
            (told.0, told.1[0], told.1[1]),
            (UNMAP, end as u64, (end + 2 * PAGE) as u64)
        );
        Ok::<_, Stop>(())
    });
    told?;
    file::close(monitor.0)?;
    Ok(())
}
