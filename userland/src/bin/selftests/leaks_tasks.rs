//! What a process makes and dies with, it leaves nothing of: processes, threads, and what they wait
//! for.
use crate::leaks::{HOUR, leaves_nothing, made};
use crate::userfault::{MISSING, Monitor};
use crate::{epoll, futex};
use std::thread;
use userland::check_err;
use userland::harness::{Outcome, Stop};
use userland::sys::mem::{PAGE, anon, load, munmap, shared_page};
use userland::sys::proc::{self, Fork};
use userland::sys::{Errno, Result, file, sig, time};

userland::tests![leaks_of_processes, leaks_of_threads, leaks_of_monitors];

fn leaks_of_processes() -> Outcome {
    leaves_nothing(&[
        ("pidfd_open", || {
            let Fork::Parent(child) = proc::fork()? else {
                proc::exit_now(0)
            };
            proc::wait_for_state(child, "Z");
            for pid in [child, proc::getpid(), proc::getppid()] {
                made(libc::SYS_pidfd_open, [pid as usize])?;
            }
            Ok(())
        }),
        ("a process that is not waited for", || match proc::fork()? {
            Fork::Child => proc::exit_now(0),
            Fork::Parent(_) => Ok(()),
        }),
        ("an orphan", || {
            let (hear, tell) = file::pipe(0)?;
            if let Fork::Parent(_) = proc::fork()? {
                return Ok(());
            }
            // It ends after its parent.
            let _ = file::close(tell);
            let _ = file::read(hear, &mut [0]);
            proc::exit_now(0)
        }),
        ("groups and a session", || {
            let groups: Vec<u32> = (0..100).collect();
            let _ = made(
                libc::SYS_setgroups,
                [groups.len(), groups.as_ptr() as usize],
            );
            let _ = proc::setsid();
            Ok(())
        }),
    ])
}

/// A thread in each of these, which the end of the process finds there.
fn in_threads<const N: usize>(waits: [fn() -> Result<()>; N]) -> Outcome {
    for wait in waits {
        thread::spawn(wait);
    }
    // Until they sleep, or most of them.
    time::sleep(2_000_000).map_err(|(error, _)| error.into())
}

/// Each list of sleepers of the kernel keeps room for a few from its first one on.
fn sleep_everywhere() -> Outcome {
    let words = anon(1)?;
    for word in (words..words + PAGE).step_by(4) {
        check_err!(futex::wait(word, 0, 1), ETIMEDOUT);
    }
    Ok(munmap(words, PAGE)?)
}

fn leaks_of_threads() -> Outcome {
    sleep_everywhere()?;
    leaves_nothing(&[
        ("many threads that wait for one word", || {
            // One of its own for each child.
            let word = anon(1)? + proc::getpid() as usize % 1024 * 4;
            for _ in 0..24 {
                thread::spawn(move || futex::wait(word, 0, HOUR));
            }
            Ok(time::sleep(2_000_000).map_err(|(error, _)| error)?)
        }),
        ("threads that wait for a word", || {
            in_threads([
                || futex::wait(anon(1)?, 0, HOUR).map(drop),
                || futex::wait(shared_page()?, 0, HOUR).map(drop),
                || {
                    let word = anon(1)?;
                    futex::wait(word, 0, HOUR).map(drop)
                },
            ])
        }),
        ("threads that sleep", || {
            in_threads([
                || time::sleep(HOUR).map_err(|(error, _)| error),
                || sig::timed_wait(&[40], HOUR).map(drop),
                || made(libc::SYS_rt_sigsuspend, [&raw const ALL as usize, 8]).map(drop),
            ])
        }),
        ("threads that wait for files", || {
            in_threads([
                || file::read(file::pipe(0)?.0, &mut [0]).map(drop),
                || file::poll(file::pipe(0)?.0, libc::POLLIN, -1).map(drop),
                || {
                    let set = epoll::create()?;
                    epoll::add(set, file::pipe(0)?.0, libc::EPOLLIN as u32)?;
                    let mut events = [0u64; 2];
                    let into = events.as_mut_ptr() as usize;
                    made(libc::SYS_epoll_pwait, [set as usize, into, 1, usize::MAX]).map(drop)
                },
            ])
        }),
        ("a thread that waits for a child", || {
            in_threads([|| match proc::fork()? {
                Fork::Child => {
                    let _ = time::sleep(5_000_000);
                    proc::exit_now(0)
                }
                Fork::Parent(child) => proc::wait_for(child).map(drop),
            }])
        }),
        ("threads that have ended", || {
            let ended = |_| thread::spawn(|| ()).join().map_err(|_| Errno(libc::EIO));
            (0..4).try_for_each(ended).map_err(Stop::from)
        }),
    ])
}

/// No signal wakes who waits with this mask.
static ALL: u64 = u64::MAX;

fn leaks_of_monitors() -> Outcome {
    leaves_nothing(&[
        ("userfaultfd", || {
            let (monitor, at) = (Monitor::new(0)?, anon(8)?);
            monitor.register(at, 8, MISSING)?;
            monitor.copy(at, 1, 0)?;
            // Nobody answers these.
            thread::spawn(move || load(at + PAGE));
            thread::spawn(move || load(at + 2 * PAGE));
            monitor.read()?;
            Ok(())
        }),
        ("userfaultfd of what is not there any more", || {
            let (monitor, at) = (Monitor::new(0)?, anon(8)?);
            monitor.register(at, 8, MISSING)?;
            let from = at + PAGE;
            munmap(from, 3 * PAGE)?;
            Ok(file::close(monitor.0)?)
        }),
    ])
}
