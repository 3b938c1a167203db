//! `hog [--times N]`: uses up all memory there is, to see that the kernel ends it and nothing else.
//! With `--times` a parent lets N children do that, in turn in four ways, and compares the free
//! memory before and after.
//!
//! On any other kernel than Quire it does nothing: there it would hurt others.
use userland::counters::{Missing, figure, free_frames, on_quire};
use userland::sys::mem::{ANON, PAGE, RW, mmap, store};
use userland::sys::proc::{self, Fork, Status};
use userland::sys::{Errno, Result, call};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if !on_quire() {
        eprintln!("hog: only on Quire: elsewhere it would hurt others");
        std::process::exit(2);
    }
    let status = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => why(touch(ANON)),
        ["--times", n] => n.parse().map_or_else(|_| usage(), |n| many(n).unwrap_or(1)),
        _ => usage(),
    };
    std::process::exit(status);
}

fn usage() -> i32 {
    eprintln!("usage: hog [--times N]");
    2
}

/// Memory of the machine in pages.
fn total() -> Result<usize> {
    let kb = figure("/proc/meminfo", "MemTotal").map_err(Missing::say)?;
    Ok(kb as usize * 1024 / PAGE)
}

/// Touches more memory than there is. Comes back only if that was possible, or the kernel refused.
fn touch(flags: i32) -> Result<()> {
    let pages = total()? * 3 / 2;
    let at = mmap(0, pages * PAGE, RW, flags | libc::MAP_NORESERVE, -1, 0)?;
    (0..pages).for_each(|n| store(at + n * PAGE, 1));
    Ok(())
}

/// Touches a third of memory, then four children write all of it, which copies it: some of them, or
/// this one, must go.
fn copy() -> Result<()> {
    let pages = total()? / 3;
    let at = mmap(0, pages * PAGE, RW, ANON | libc::MAP_NORESERVE, -1, 0)?;
    (0..pages).for_each(|n| store(at + n * PAGE, 1));
    for _ in 0..4 {
        if proc::fork()? == Fork::Child {
            (0..pages).for_each(|n| store(at + n * PAGE, 2));
            proc::exit_now(0);
        }
    }
    while proc::wait(-1, 0).is_ok() {}
    Ok(())
}

/// Fills memory up to the last page by system calls that write to it.
fn fill() -> Result<()> {
    let pages = total()? * 3 / 2;
    let at = mmap(0, pages * PAGE, RW, ANON | libc::MAP_NORESERVE, -1, 0)?;
    let zero = userland::sys::file::open("/dev/zero", libc::O_RDONLY, 0)?;
    let mut done = 0;
    while done < pages * PAGE {
        let left = pages * PAGE - done;
        done += call(libc::SYS_read, [zero as usize, at + done, left, 0, 0, 0])?;
    }
    Ok(())
}

fn why(result: Result<()>) -> i32 {
    match result {
        Ok(()) => eprintln!("hog: there is more memory than the kernel says"),
        Err(error) => eprintln!("hog: {error}"),
    }
    1
}

/// Number of processes that the kernel has killed for memory.
fn kills() -> Result<u64> {
    figure("/proc/vmstat", "oom_kill").map_err(Missing::say)
}

/// One child; whether it was ended as it should be.
fn one(turn: u32) -> Result<bool> {
    let before = kills()?;
    let status = match proc::fork() {
        Ok(Fork::Child) => {
            let _ = proc::setpgid(0, 0);
            let result = match turn % 4 {
                0 => touch(ANON),
                1 => touch(libc::MAP_SHARED | libc::MAP_ANONYMOUS),
                2 => copy(),
                _ => fill(),
            };
            proc::exit_now(why(result));
        }
        Ok(Fork::Parent(pid)) => {
            let status = proc::wait_for(pid);
            end_group(pid);
            status
        }
        Err(error) => Err(error),
    };
    let fine = match status {
        Ok(Status::Killed(libc::SIGKILL)) => true,
        // Its children went.
        Ok(Status::Exited(1)) => turn % 4 == 2,
        _ => false,
    };
    let fine = fine && kills()? > before;
    if !fine {
        eprintln!("hog: turn {turn}: {status:?}");
    }
    Ok(fine)
}

/// Ends the children that an ended child left behind, and lets PID 1 reap them.
fn end_group(group: i32) {
    while proc::kill(-group, libc::SIGKILL) != Err(Errno(libc::ESRCH)) {
        std::thread::yield_now();
    }
}

/// Turns before free memory is compared: the kernel's heap and tables grow in the first ones.
const WARM: u32 = 8;
/// Frames that may differ: what the kernel keeps at hand.
const SLACK: u64 = 16;

fn many(times: u32) -> Result<i32> {
    let free = || free_frames().map_err(Missing::say);
    let (mut before, mut bad) = (free()?, 0);
    for turn in 0..times {
        bad += u32::from(!one(turn)?);
        if turn + 1 == WARM.min(times / 2) {
            before = free()?;
        }
    }
    let after = free()?;
    println!("hog: {times} turns, {bad} went wrong, {before} frames free before, {after} after");
    Ok(i32::from(bad > 0 || before.abs_diff(after) > SLACK))
}
