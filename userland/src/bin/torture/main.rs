//! `torture [SECONDS | --steps N] [--seed N] [--processes N] [--threads N] [--plays A,B]
//! [--stall SECONDS]`: processes and threads that change the same memory on all CPUs, at random,
//! for so long or for so many steps. Every word says which thread may have written it: a word that
//! no thread can have written, an access that succeeds or traps against the rights, a process that
//! ends in another way than it was meant to, or a thread that stands still ends the program with
//! status 1, and is printed.
//!
//! The plays, of which each process has one: `arena` ([`arena`]), `race` ([`race`]), `ring`
//! ([`ring`]), `ends` ([`ends`]), `apart` ([`apart`]). A step is a turn of each thread in a race;
//! turns of the others take longer, and count for more steps. The seed makes the same choices in
//! each thread; how the threads meet is up to the kernel, and the same where its clock counts
//! instructions.
mod apart;
mod arena;
mod board;
mod ends;
mod page;
mod phase;
mod play;
mod race;
mod ring;
mod watch;

use board::Board;
use play::{Part, Until};
use race::Memory;
use std::fmt;
use std::process::exit;
use userland::counters::{free_frames, on_quire};
use userland::random::Random;
use userland::sys::{Result, call, fault, time};
use watch::Watch;

/// What a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Play {
    Arena,
    Race,
    Ring,
    Ends,
    Apart,
}

const PLAYS: [(&str, Play); 5] = [
    ("arena", Play::Arena),
    ("race", Play::Race),
    ("ring", Play::Ring),
    ("ends", Play::Ends),
    ("apart", Play::Apart),
];

impl Play {
    /// Steps that a turn counts for: as many of a race as take as much time, about.
    fn steps(self) -> u64 {
        match self {
            Play::Race => 1,
            Play::Arena => 30,
            Play::Ring => 40,
            Play::Ends | Play::Apart => 180,
        }
    }
}

/// Threads of one process: as many as a page of the arena has words for.
const MOST_THREADS: u64 = 64;
/// Parts of the run: what is lost in each of them is a leak.
const ROUNDS: u64 = 3;
/// Frames that each round may keep: of processes that the kernel frees late.
const SLACK: u64 = 8;

/// How long the run is.
#[derive(Clone, Copy)]
enum Length {
    Seconds(u64),
    Steps(u64),
}

impl Length {
    /// When the threads of a play end in the round that begins now.
    fn until(self, play: Play) -> Until {
        match self {
            Length::Seconds(s) => Until::Time(time::now() + s * 1_000_000_000 / ROUNDS),
            Length::Steps(n) => Until::Turns((n / ROUNDS / play.steps()).max(1)),
        }
    }
}

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Length::Seconds(s) => write!(f, "{s} s"),
            Length::Steps(n) => write!(f, "{n} steps"),
        }
    }
}

struct Options {
    length: Length,
    seed: u64,
    processes: u64,
    threads: u64,
    plays: Vec<Play>,
    stall: u64,
}

fn usage(why: &str) -> ! {
    eprintln!("torture: {why}");
    eprintln!(
        "usage: torture [SECONDS | --steps N] [--seed N] [--processes N] [--threads N] \
         [--plays arena,race,ring,ends,apart] [--stall SECONDS]"
    );
    exit(2);
}

fn number(text: &str) -> u64 {
    text.parse()
        .unwrap_or_else(|_| usage(&format!("{text} is no number")))
}

fn plays(text: &str) -> Vec<Play> {
    let one = |name: &str| {
        PLAYS
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, play)| *play)
    };
    let one = |name| one(name).unwrap_or_else(|| usage(&format!("{name} is no play")));
    text.split(',').map(one).collect()
}

fn options() -> Options {
    let mut options = Options {
        length: Length::Seconds(5),
        seed: random_seed().unwrap_or(1),
        processes: PLAYS.len() as u64,
        threads: 4,
        plays: PLAYS.map(|(_, play)| play).to_vec(),
        // Less than the minute of silence after which a test gives up the machine.
        stall: 40,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || {
            words
                .next()
                .unwrap_or_else(|| usage(&format!("{word} of what?")))
        };
        match word.as_str() {
            "--steps" => options.length = Length::Steps(number(&value())),
            "--seed" => options.seed = number(&value()),
            "--processes" => options.processes = number(&value()),
            "--threads" => options.threads = number(&value()),
            "--plays" => options.plays = plays(&value()),
            "--stall" => options.stall = number(&value()),
            // After exec.
            ends::EXEC => exit(number(&value()) as i32),
            seconds => options.length = Length::Seconds(number(seconds)),
        }
    }
    let all = options.processes.saturating_mul(options.threads);
    if options.processes == 0 || !(1..=MOST_THREADS).contains(&options.threads) {
        usage(&format!(
            "there are 1 to {MOST_THREADS} threads in at least one process"
        ));
    }
    if all > race::MOST as u64 {
        usage(&format!("there are {} threads in all at most", race::MOST));
    }
    options
}

fn random_seed() -> Result<u64> {
    let mut bytes = [0u8; 4];
    let at = bytes.as_mut_ptr() as usize;
    call(libc::SYS_getrandom, [at, bytes.len(), 0, 0, 0, 0])?;
    Ok(u32::from_le_bytes(bytes).into())
}

/// One process of the run.
fn work(play: Play, part: &Part, options: &Options, memory: Memory, pages: usize) {
    fault::arm();
    let done = match play {
        Play::Arena => {
            arena::play(part, pages, options.processes == 1);
            Ok(())
        }
        Play::Race => race::play(part, memory),
        Play::Ring => ring::play(part),
        Play::Ends => ends::play(part),
        Play::Apart => {
            apart::play(part);
            Ok(())
        }
    };
    if let Err(why) = done {
        page::wrong(0, &format!("{play:?} cannot play: {why:?}"));
    }
}

/// Starts all processes and waits for them; whether they found nothing wrong.
fn round(options: &Options, board: Board, random: &mut Random) -> Result<bool> {
    let (threads, memory) = (options.threads as usize, Memory::new()?);
    let pages = arena::pages()? / options.processes as usize;
    let seats = options.processes as usize * threads;
    let mut jolts = Random::new(random.bits());
    let mut watch = Watch::new(board, seats, options.stall);
    for n in 0..options.processes as usize {
        let play = options.plays[n % options.plays.len()];
        let part = Part {
            board,
            first: n * threads,
            threads,
            seed: random.bits(),
            until: options.length.until(play),
        };
        let moving = if play == Play::Ends { 1 } else { threads };
        watch.start(format!("{play:?}"), part.first..part.first + moving, || {
            work(play, &part, options, memory, pages);
        })?;
    }
    // Numbers of its own: how often it draws is up to the clock.
    let good = watch.wait(&mut jolts);
    memory.close()?;
    Ok(good)
}

/// Plays all rounds; the free frames that each has lost.
fn run(options: &Options, board: Board) -> Result<Option<Vec<u64>>> {
    let mut random = Random::new(options.seed);
    watch::listen()?;
    let free = || free_frames().map_err(userland::counters::Missing::say);
    let mut lost = Vec::new();
    for _ in 0..ROUNDS {
        let before = free()?;
        if !round(options, board, &mut random)? {
            return Ok(None);
        }
        lost.push(before.saturating_sub(free()?));
    }
    Ok(Some(lost))
}

fn main() {
    let options = options();
    let (seed, length) = (options.seed, options.length);
    let (processes, threads) = (options.processes, options.threads);
    println!("torture: seed {seed}, {processes} processes, {threads} threads each, {length}");
    let seats = (processes * threads) as usize;
    let done = Board::new(seats).and_then(|board| {
        let lost = run(&options, board)?;
        println!("torture: {board}");
        Ok(lost)
    });
    match done {
        Ok(Some(lost)) if on_quire() && lost.iter().all(|frames| *frames > SLACK) => {
            println!("torture: WRONG: free frames lost in each round: {lost:?}");
        }
        Ok(Some(_)) => {
            println!("torture: done, seed {seed}: nothing wrong");
            return;
        }
        Ok(None) => println!("torture: WRONG: seed {seed}"),
        Err(why) => println!("torture: WRONG: it cannot run: {why:?}"),
    }
    exit(1)
}
