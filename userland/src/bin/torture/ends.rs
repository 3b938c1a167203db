//! Processes that end while their threads fault on other CPUs: by exit_group, exec, a fault, or a
//! signal. Each must end as it was meant to.
use crate::board::Op;
use crate::page::wrong;
use crate::play::Part;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use userland::random::Random;
use userland::sys::mem::{self, ANON, PAGE, RW};
use userland::sys::proc::{self, Fork, Status};
use userland::sys::{Result, file, sig};

/// The option with which this program only ends, with the status that follows.
pub const EXEC: &str = "--exec";
/// A status that nothing else has.
const STATUS: i32 = 7;
const BASE: usize = 0x6000_0000_0000;
/// Pages in which the threads of a victim fault.
const PAGES: usize = 1024;
/// Rounds of each thread before the end may come.
const ROUNDS: u32 = 2;

/// How a victim ends. "Main" is its first thread, "other" one of those that fault.
#[derive(Clone, Copy, Debug)]
enum Way {
    MainExits,
    OtherExits,
    AllExit,
    MainExecs,
    OtherExecs,
    Faults,
    Killed,
    Terminated,
}

const WAYS: [Way; 8] = [
    Way::MainExits,
    Way::OtherExits,
    Way::AllExit,
    Way::MainExecs,
    Way::OtherExecs,
    Way::Faults,
    Way::Killed,
    Way::Terminated,
];

impl Way {
    fn expected(self) -> Status {
        match self {
            Way::Faults => Status::Killed(libc::SIGSEGV),
            Way::Killed => Status::Killed(libc::SIGKILL),
            Way::Terminated => Status::Killed(libc::SIGTERM),
            _ => Status::Exited(STATUS),
        }
    }
    /// The signal by which another process ends it.
    fn signal(self) -> Option<i32> {
        match self {
            Way::Killed => Some(libc::SIGKILL),
            Way::Terminated => Some(libc::SIGTERM),
            _ => None,
        }
    }
}

/// Makes victims one after the other, in the first seat; the number of threads is that of each
/// victim.
pub fn play(part: &Part) -> Result<()> {
    let mut player = part.player(0);
    while player.goes_on() {
        let way = player.random.pick(&WAYS);
        victim(way, part.threads.max(2), player.random.bits())?;
        player.seat.count(Op::End);
    }
    Ok(())
}

fn victim(way: Way, threads: usize, seed: u64) -> Result<()> {
    let (hear, tell) = file::pipe(libc::O_CLOEXEC)?;
    match proc::fork()? {
        Fork::Child => {
            run(way, threads, seed, tell);
            proc::exit_now(0)
        }
        Fork::Parent(pid) => {
            file::close(tell)?;
            // It is at work, or has ended.
            let ready = file::read(hear, &mut [0])?;
            if let Some(signal) = way.signal() {
                proc::kill(pid, signal)?;
            }
            let how = proc::wait_for(pid)?;
            file::close(hear)?;
            if how != way.expected() || ready != 1 {
                wrong(
                    BASE,
                    &format!("{way:?} of {pid} ended it with {how:?}, ready {ready}"),
                );
            }
            Ok(())
        }
    }
}

/// What a victim does.
fn run(way: Way, threads: usize, seed: u64, tell: i32) {
    for signal in [libc::SIGSEGV, libc::SIGTERM] {
        let _ = sig::default(signal);
    }
    let flags = ANON | libc::MAP_FIXED;
    if mem::mmap(BASE, PAGES * PAGE, RW, flags, -1, 0).is_err() {
        wrong(BASE, "a victim has no memory");
    }
    let rounds: Vec<AtomicU32> = (0..threads).map(|_| AtomicU32::new(0)).collect();
    let go = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for (number, done) in rounds.iter().enumerate() {
            let (random, go) = (Random::new(seed + number as u64), &go);
            scope.spawn(move || work(random, done, || ends(way, number, go)));
        }
        while rounds.iter().any(|done| done.load(SeqCst) < ROUNDS) {
            std::thread::yield_now();
        }
        let _ = file::write_all(tell, b"!");
        go.store(1, SeqCst);
        match way {
            Way::MainExits | Way::AllExit => proc::exit_now(STATUS),
            Way::MainExecs => exec(),
            // Another thread ends it, or a signal.
            _ => {}
        }
    });
}

/// What a thread of a victim does when the time has come.
fn ends(way: Way, number: usize, go: &AtomicU32) {
    if go.load(SeqCst) == 0 {
        return;
    }
    match (way, number) {
        (Way::OtherExits, 1) | (Way::AllExit, _) => proc::exit_now(STATUS),
        (Way::OtherExecs, 1) => exec(),
        (Way::Faults, 1) => mem::store(PAGE, 1),
        _ => {}
    }
}

fn exec() {
    let program = std::env::current_exe().unwrap_or_default();
    let words = ["torture", EXEC, &STATUS.to_string()].map(str::to_owned);
    let why = proc::exec(&program.to_string_lossy(), &words, &[]);
    wrong(BASE, &format!("exec gives {why:?}"));
}

/// Touches and gives back memory until the process ends.
fn work(mut random: Random, done: &AtomicU32, mut each: impl FnMut()) {
    loop {
        let page = random.below(PAGES as u64) as usize;
        let len = 1 + random.below(64.min(PAGES - page) as u64) as usize;
        let (at, end) = (BASE + page * PAGE, BASE + (page + len) * PAGE);
        mem::store_addresses(at, end);
        if random.one_in(4) {
            let _ = mem::madvise(at, end - at, libc::MADV_DONTNEED);
        }
        done.fetch_add(1, SeqCst);
        each();
    }
}
