//! The process that starts the others, stops and continues them now and then, has all invariants of
//! the memory manager checked, and ends the run when one ends wrongly or stands still.
use crate::board::Board;
use std::ops::Range;
use userland::invariants;
use userland::random::Random;
use userland::sys::proc::{self, Fork, Status};
use userland::sys::time::{self, Running};
use userland::sys::{Errno, Result, sig};

const SECOND: u64 = 1_000_000_000;
/// A line of what was done at least this often.
const PROGRESS: u64 = 10 * SECOND;

/// One process of the run.
struct Worker {
    pid: i32,
    name: String,
    /// Those of its threads that must make steps.
    seats: Range<usize>,
}

/// The last step of a seat that was seen, and when this one had run for how long.
struct Step {
    number: u64,
    at: u64,
}

/// The processes of the run.
pub struct Watch {
    board: Board,
    workers: Vec<Worker>,
    steps: Vec<Step>,
    /// How long this one has run: a machine that is stopped makes no steps.
    running: Running,
    /// A thread without a step for so long stands still, in nanoseconds.
    stall: u64,
    /// How often all invariants were checked.
    checks: u64,
}

/// Takes the ends of processes, and not their stops, as signals that [`Watch::wait`] waits for.
pub fn listen() -> Result<()> {
    sig::count(libc::SIGCHLD, libc::SA_NOCLDSTOP, &[])?;
    sig::mask(libc::SIG_BLOCK, &[libc::SIGCHLD])
}

impl Watch {
    pub fn new(board: Board, seats: usize, stall: u64) -> Watch {
        let first = |_| Step { number: 0, at: 0 };
        Watch {
            board,
            workers: Vec::new(),
            running: Running::begin(),
            steps: (0..seats).map(first).collect(),
            stall: stall * SECOND,
            checks: 0,
        }
    }

    /// Starts a process in a group of its own.
    pub fn start(&mut self, name: String, seats: Range<usize>, run: impl FnOnce()) -> Result<()> {
        seats.clone().for_each(|seat| self.board.seat(seat).begin());
        match proc::fork()? {
            Fork::Child => {
                let _ = proc::setpgid(0, 0);
                run();
                proc::exit_now(0)
            }
            Fork::Parent(pid) => {
                // Also here, so that the group exists when it is killed.
                let _ = proc::setpgid(pid, pid);
                self.workers.push(Worker { pid, name, seats });
                Ok(())
            }
        }
    }

    /// Waits until all have ended well; false if one has not, or stands still.
    pub fn wait(mut self, random: &mut Random) -> bool {
        let mut said = 0;
        while !self.workers.is_empty() {
            // Until one has ended, or for that long.
            let _ = sig::timed_wait(&[libc::SIGCHLD], SECOND / 2);
            if !self.reap() || !self.all_move() || !self.jolt(random) || !self.check() {
                self.end();
                return false;
            }
            let now = self.running.passed();
            if now - said >= PROGRESS {
                said = now;
                println!("torture: {}", self.board);
            }
        }
        // Now there is a moment for it.
        let last = invariants::check();
        println!(
            "torture: invariants checked {} times, and once at the end: {last:?}",
            self.checks
        );
        last.is_ok()
    }

    /// Has all invariants checked, if there is a moment for it; false if it cannot be asked for.
    fn check(&mut self) -> bool {
        let done = invariants::check_now();
        self.checks += u64::from(done == Ok(true));
        done.inspect_err(|why| println!("torture: WRONG: no check of invariants: {why:?}"))
            .is_ok()
    }

    /// Takes the status of those that have ended.
    fn reap(&mut self) -> bool {
        let mut good = true;
        self.workers
            .retain(|worker| match proc::wait(worker.pid, libc::WNOHANG) {
                Ok(None) => true,
                Ok(Some((_, Status::Exited(0)))) => false,
                how => {
                    println!(
                        "torture: WRONG: {} ({}) ended with {how:?}",
                        worker.name, worker.pid
                    );
                    good = false;
                    false
                }
            });
        good
    }

    /// Whether every thread has made a step lately. One that has made its last waits for the others
    /// of its process, and when all have, the process ends.
    fn all_move(&mut self) -> bool {
        let now = self.running.passed();
        let mut good = true;
        for worker in &self.workers {
            let finished = |seat| self.board.seat(seat).is_finished();
            let all_have = worker.seats.clone().all(finished);
            for seat in worker.seats.clone() {
                let waits = finished(seat) && !all_have;
                let (last, number) = (&mut self.steps[seat], self.board.seat(seat).steps());
                if number != last.number || waits {
                    *last = Step { number, at: now };
                } else if now - last.at > self.stall {
                    let thread = seat - worker.seats.start;
                    let seconds = (now - last.at) / SECOND;
                    println!(
                        "torture: WRONG: thread {thread} of {} ({}) has made no step for {seconds} s, {number} before",
                        worker.name, worker.pid
                    );
                    good = false;
                }
            }
        }
        good
    }

    /// Stops one process, with its threads wherever they are, and continues it; false if it does
    /// not stop.
    fn jolt(&self, random: &mut Random) -> bool {
        let Some(worker) = self
            .workers
            .get(random.below(self.workers.len() as u64) as usize)
        else {
            return true;
        };
        // It may have ended meanwhile.
        let Ok(()) = proc::kill(worker.pid, libc::SIGSTOP) else {
            return true;
        };
        let stopped = self.wait_for_stop(worker);
        let _ = proc::kill(worker.pid, libc::SIGCONT);
        stopped
    }

    /// Waits until a process has stopped or ended; false if neither comes in time. It asks again
    /// and again: nobody would end a wait that the kernel has forgotten.
    fn wait_for_stop(&self, worker: &Worker) -> bool {
        let (mut running, pid) = (Running::begin(), worker.pid as u32);
        let how = libc::WSTOPPED | libc::WEXITED | libc::WNOWAIT | libc::WNOHANG;
        loop {
            match proc::waitid(libc::P_PID, pid, how) {
                Ok(info) if info.pid == 0 && running.passed() < self.stall => {}
                Ok(info) if info.pid == 0 => {
                    println!("torture: WRONG: {} ({pid}) does not stop", worker.name);
                    return false;
                }
                Ok(_) => return true,
                Err(why @ Errno(_)) => {
                    println!("torture: waiting for a stop gives {why:?}");
                    return true;
                }
            }
            let _ = time::sleep(SECOND / 1000);
        }
    }

    /// Prints the state of the threads that are left, and kills them.
    fn end(&self) {
        for worker in &self.workers {
            println!(
                "torture: {} ({}): {}",
                worker.name,
                worker.pid,
                threads(worker.pid)
            );
        }
        for worker in &self.workers {
            let _ = proc::kill(-worker.pid, libc::SIGKILL);
            let _ = proc::wait_for(worker.pid);
        }
    }
}

/// The threads of a process: number, state, and the call that each is in.
fn threads(pid: i32) -> String {
    let Ok(folder) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return "it is gone".to_owned();
    };
    let one = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.ok()?.path();
        let stat = std::fs::read_to_string(path.join("stat")).ok()?;
        let state = stat.rsplit_once(") ")?.1.chars().next()?;
        let call = std::fs::read_to_string(path.join("wchan")).unwrap_or_default();
        Some(format!("{} {state} {call}", path.file_name()?.display()))
    };
    folder.filter_map(one).collect::<Vec<_>>().join(", ")
}
