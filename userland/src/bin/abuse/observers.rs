//! Open files of /proc that know a process's memory, kept when the process is gone: its memory must
//! not be kept with them.
use super::Outcome;
use userland::counters::{Missing, figure, free_frames};
use userland::sys::mem::{ANON, PAGE, RW, mmap, store_addresses};
use userland::sys::proc::{self, Fork};
use userland::sys::{Result, file};

const MIB: usize = 1 << 20;
/// What a process takes: with the files of one that has ended there would be no room for five.
const TAKEN: usize = 60 * MIB;
const PROCESSES: usize = 10;
/// Files that know an address space.
const FILES: [&str; 7] = [
    "mem",
    "pagemap",
    "maps",
    "smaps",
    "smaps_rollup",
    "clear_refs",
    "environ",
];
/// Frames that files and processes take themselves.
const SLACK: u64 = 512;

/// Processes that take a lot, one after the other; each is killed while its files are open.
pub fn keep(_: &[String]) -> Outcome {
    keep_all().map_err(|error| format!("{error}"))?
}

fn keep_all() -> Result<Outcome> {
    let kills = || figure("/proc/vmstat", "oom_kill").map_err(Missing::say);
    let frames = || free_frames().map_err(Missing::say);
    let (before, free) = (kills()?, frames()?);
    let mut open = Vec::new();
    for n in 0..PROCESSES {
        open.extend(observed()?);
        let now = frames()?;
        if now + SLACK * (n as u64 + 1) < free {
            return Ok(Err(format!(
                "{now} of {free} frames are free after {} processes",
                n + 1
            )));
        }
    }
    let mut word = [0; 8];
    let read = |fd: &i32| file::pread(*fd, &mut word, PAGE as i64).unwrap_or(0);
    if open.iter().map(read).any(|n| n > 0) {
        return Ok(Err("something is to be seen of a dead process".to_owned()));
    }
    Ok(if kills()? == before {
        Ok(format!("{} files kept", open.len()))
    } else {
        Err("a process was ended for memory that came back".to_owned())
    })
}

/// Takes memory in a process and ends it; its open files.
fn observed() -> Result<Vec<i32>> {
    let (hear, tell) = file::pipe(0)?;
    let Fork::Parent(pid) = proc::fork()? else {
        let at = mmap(0, TAKEN, RW, ANON, -1, 0).unwrap_or_else(|_| proc::exit_now(1));
        store_addresses(at, at + TAKEN);
        let _ = file::write(tell, b"x");
        let _ = file::close(tell);
        loop {
            std::thread::park();
        }
    };
    file::close(tell)?;
    file::read(hear, &mut [0])?;
    file::close(hear)?;
    let fds = FILES.iter().map(|name| {
        let how = match *name {
            "clear_refs" => libc::O_WRONLY,
            _ => libc::O_RDONLY,
        };
        file::open(&format!("/proc/{pid}/{name}"), how, 0)
    });
    let fds = fds.collect::<Result<Vec<i32>>>()?;
    proc::kill(pid, libc::SIGKILL)?;
    proc::wait_for(pid)?;
    Ok(fds)
}
