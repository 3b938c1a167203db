//! `fuzz --seed N (--calls N | --seconds S) [--trace yes]`: random system calls with random
//! arguments. A supervisor starts workers that make a batch of calls each and usually die of them;
//! it needs nothing but fork, wait, kill and a clock, since the workers unlink, rename and unmount
//! what they reach. Ends with `fuzz: done N calls` and status 0: the kernel lives.
//!
//! `--trace yes` prints each call before it is made: the last line before a crash names the guilty
//! one.
//!
//! `--full yes` fills memory first, and `--heap-fail K` makes the workers' calls find no memory in
//! the kernel's heap from their K-th allocation on; both on Quire only.
//!
//! Where the clock counts instructions each batch that a call kept the machine in for too long is
//! printed with that call's name, and the status at the end is 1.
//!
//! The same seed makes the same calls in each batch; what they meet depends on what earlier ones
//! left. On Linux it becomes nobody first and mounts nothing.
mod argument;
mod short;
mod stretches;
mod table;
mod worker;

use userland::counters::on_quire;
use userland::random::Random;
use userland::sys::mem::{PAGE, RW, load, mmap, store};
use userland::sys::{Errno, Result, file, proc, sig, time};
use worker::Order;

/// Calls of a batch.
const BATCH: u64 = 4000;
/// A progress line at least this often, ns.
const PROGRESS: u64 = 4_000_000_000;
/// A worker that makes no call for this long (microseconds) is stuck.
const PATIENCE: u64 = 500_000;

/// When to end.
#[derive(Clone, Copy)]
enum Until {
    Calls(u64),
    Time(u64),
}

fn usage() -> ! {
    eprintln!(
        "usage: fuzz --seed N (--calls N | --seconds S) [--trace yes] [--full yes] [--heap-fail K]"
    );
    std::process::exit(2);
}

/// What is to be done.
struct Plan {
    seed: u64,
    until: Until,
    trace: bool,
    full: bool,
    heap_fail: u32,
}

fn arguments() -> Plan {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (mut seed, mut until, mut trace, mut full) = (None, None, false, false);
    let mut heap_fail = 0;
    for pair in args.chunks(2) {
        match pair {
            [name, yes] if name == "--trace" && yes == "yes" => trace = true,
            [name, yes] if name == "--full" && yes == "yes" => full = true,
            _ => {}
        }
        if pair.get(1).is_some_and(|value| value == "yes") {
            continue;
        }
        let Some(value) = pair.get(1).and_then(|v| v.parse::<u64>().ok()) else {
            usage()
        };
        match pair[0].as_str() {
            "--seed" => seed = Some(value),
            "--calls" => until = Some(Until::Calls(value)),
            "--seconds" => until = Some(Until::Time(value)),
            "--heap-fail" => heap_fail = value as u32,
            _ => usage(),
        }
    }
    // Both must be said: a worker may exec this very program with nothing.
    match (seed, until) {
        (Some(seed), Some(until)) => Plan {
            seed,
            until,
            trace,
            full,
            heap_fail,
        },
        _ => usage(),
    }
}

fn say(text: &str) {
    let _ = file::write_all(1, format!("fuzz: {text}\n").as_bytes());
}

/// A directory to work in; wherever this process stands, when there is none.
fn scratch(n: u64) {
    let dir = format!(
        "{}/fuzz-{}-{n}",
        std::env::temp_dir().display(),
        proc::getpid()
    );
    if std::fs::create_dir(&dir).is_ok() {
        let _ = std::env::set_current_dir(&dir);
    }
}

/// Leaves and removes it.
fn clean(n: u64) {
    let _ = std::env::set_current_dir("/");
    let _ = std::fs::remove_dir_all(format!(
        "{}/fuzz-{}-{n}",
        std::env::temp_dir().display(),
        proc::getpid()
    ));
    if on_quire() {
        for name in ["/x", "/a", "/tmp/x", "/tmp/a"] {
            let _ = std::fs::remove_file(name).or_else(|_| std::fs::remove_dir_all(name));
        }
    }
}

/// How a batch ended.
#[derive(Default)]
struct Counts {
    calls: u64,
    batches: u64,
    killed: u64,
    stuck: u64,
}

/// Forks a worker; when the machine is out of processes or memory for a moment, waits for it to
/// recover.
fn start(order: &Order<'_>) -> Result<i32> {
    for _ in 0..200 {
        match proc::fork() {
            Ok(proc::Fork::Child) => {
                // A session of its own: no terminal to speak on, and a group to be killed by.
                let _ = proc::setsid();
                worker::run(order)
            }
            Ok(proc::Fork::Parent(pid)) => return Ok(pid),
            Err(Errno(libc::EAGAIN | libc::ENOMEM)) => {
                let _ = time::sleep(50_000_000);
                while let Ok(Some(_)) = proc::wait(-1, libc::WNOHANG) {}
            }
            Err(e) => return Err(e),
        }
    }
    Err(Errno(libc::EAGAIN))
}

/// One worker from start to end.
fn batch(order: &Order<'_>, counts: &mut Counts) -> Result<()> {
    let done = order.done;
    store(done, 0);
    let pid = start(order)?;
    // The timer's signal ends the wait, again and again, to see whether the worker moves.
    time::itimer(PATIENCE, PATIENCE)?;
    let mut seen = u64::MAX;
    let status = loop {
        match proc::wait(-1, 0) {
            Ok(Some((p, status))) if p == pid => break Some(status),
            // Children given to us by CLONE_PARENT.
            Ok(_) => {}
            Err(Errno(libc::EINTR)) if load(done) != seen => seen = load(done),
            Err(Errno(libc::EINTR)) => {
                counts.stuck += 1;
                if order.trace {
                    say(&format!("{pid} is stuck"));
                }
                let _ = proc::kill(-pid, libc::SIGKILL);
                let _ = proc::kill(pid, libc::SIGKILL);
            }
            Err(_) => break None,
        }
    };
    time::itimer(0, 0)?;
    let _ = proc::kill(-pid, libc::SIGKILL);
    while let Ok(Some(_)) = proc::wait(-1, libc::WNOHANG) {}
    counts.calls += load(done).min(BATCH);
    counts.batches += 1;
    counts.killed += matches!(status, Some(proc::Status::Killed(_))) as u64;
    Ok(())
}

/// Makes the calls; `false` if the kernel has not done what it must.
fn run(plan: &Plan) -> Result<bool> {
    let &Plan {
        seed,
        until,
        trace,
        full,
        heap_fail,
    } = plan;
    let guest = !on_quire();
    if guest && proc::geteuid() == 0 {
        proc::setuid(65534)?;
    }
    let done = mmap(0, PAGE, RW, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1, 0)?;
    let null = file::open("/dev/null", libc::O_RDWR, 0)?;
    // A worker's signals must not end this process; the traps' own stay as they are.
    let kept = [
        libc::SIGALRM,
        libc::SIGCHLD,
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGILL,
        libc::SIGFPE,
        libc::SIGTRAP,
    ];
    for signal in (1..=64).filter(|s| !kept.contains(s)) {
        // Some belong to the C library or cannot be ignored.
        let _ = sig::ignore(signal);
    }
    sig::count(libc::SIGALRM, 0, &[])?;
    let start = time::now();
    let (mut counts, mut last) = (Counts::default(), start);
    let mut seeds = Random::new(seed);
    say(&format!("0 calls, seed {seed}"));
    let filling = (full && !guest).then(short::Filling::new).transpose()?;
    let mut stretches = stretches::Stretches::open();
    loop {
        let over = match until {
            Until::Calls(n) => counts.calls >= n,
            Until::Time(s) => time::now() - start >= s * 1_000_000_000,
        };
        if over {
            break;
        }
        if let Some(filling) = &filling {
            filling.top_up();
        }
        let round = counts.batches;
        scratch(round);
        let order = Order {
            seed: seeds.bits(),
            calls: BATCH,
            done,
            guest,
            null,
            trace,
            heap_fail,
            filling: filling.as_ref(),
        };
        stretches.begin(round);
        batch(&order, &mut counts)?;
        stretches.end(round);
        clean(round);
        if time::now() - last >= PROGRESS {
            last = time::now();
            say(&format!("{} calls, seed {seed}", counts.calls));
        }
    }
    say(&format!(
        "{} workers, {} killed by a signal, {} stuck",
        counts.batches, counts.killed, counts.stuck
    ));
    let sound = filling.is_none_or(short::Filling::empty) & stretches.sound();
    if sound {
        say(&format!("done {} calls", counts.calls));
    }
    Ok(sound)
}

fn main() {
    match run(&arguments()) {
        Ok(true) => {}
        Ok(false) => std::process::exit(1),
        Err(e) => {
            say(&format!("the supervisor cannot go on: {e}"));
            std::process::exit(1);
        }
    }
}
