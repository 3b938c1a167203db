//! `snapshot [--table MIB] [--size KB,KB] [--fork WORD,WORD] [--writes N] [--seed N] [--to FILE]
//! [--marks yes]`:
//! a store in memory that saves itself by fork, as Redis does: the child writes out the table as it
//! was at the fork, while the parent keeps writing to it.
//!
//! A hash table of so many MiB in folios of so many kB, for each setting of `fork=` where the
//! kernel has that switch. After the fork the parent writes N pseudo-random keys, which the seed
//! chooses; the child lives until all of them are written, so each of them is a write during the
//! snapshot. The child writes keys and values into a pipe; at its other end a process takes the sum
//! of them (or stores them in a file, and takes the sum of that), which must be what the parent
//! found before the fork.
//!
//! One JSON line for each, of which `./run.sh bench --op snapshot` makes a table; `whole` is the
//! fork call. Times are CPU time of the parent's thread, which does not pass while the others run:
//! nanoseconds, which are guest instructions under QEMU's -icount.
mod save;
mod store;
mod sum;

use save::{Saver, Sink};
use store::Store;
use userland::controls::Controls;
use userland::counters::{self, Missing};
use userland::marks::{self, Marks};
use userland::measuring::{self, Clock, SIZES, list, word};
use userland::random::Random;
use userland::switch::Switch;
use userland::sys::proc::rusage;
use userland::sys::{Errno, Result, time};

/// It does not pass while other processes run.
const CLOCK: i32 = libc::CLOCK_THREAD_CPUTIME_ID;
/// The words of the switch `fork`.
const FORKS: [&str; 3] = ["per-pte", "batch", "share"];
/// Other kernels have one way; on this one, the way that the switch has.
const ONE_WAY: &str = "kernel";

/// What the command line asks for.
struct Plan {
    /// MiB of the table.
    table: usize,
    sizes: Vec<usize>,
    forks: Vec<String>,
    /// How many keys are written during the snapshot; by default one for every four pages.
    writes: Option<usize>,
    seed: u64,
    to: Option<String>,
    /// Around the fork call and around the writes.
    marks: Option<Marks>,
}

impl Plan {
    fn writes(&self) -> usize {
        self.writes.unwrap_or(self.table * 64)
    }
    /// Numbers of the keys to be written.
    fn keys(&self, store: &Store) -> impl Iterator<Item = u64> {
        let (mut random, keys) = (Random::new(self.seed), store.keys());
        (0..self.writes()).map(move |_| 1 + random.below(keys))
    }
}

/// Pages copied since boot, where that is counted.
fn copied() -> Result<Option<u64>> {
    match counters::on_quire() {
        true => counters::own("pages_copied")
            .map(Some)
            .map_err(Missing::say),
        false => Ok(None),
    }
}

/// One snapshot of a new table; prints its line.
fn snapshot(plan: &Plan, fork: &str, folio_kb: usize) -> Result<()> {
    let sink = Sink::start(plan.to.as_deref())?;
    let (store, scratch) = (Store::new(plan.table)?, Store::new(1)?);
    let mut times = vec![0; plan.writes()];
    let (expected, clock) = (store.sum()?, Clock::new(CLOCK));
    let (free, copies) = (free()?, copied()?);

    let marks = plan.marks.as_ref();
    let of_fork = format!("snapshot-fork@{folio_kb}");
    let saver = marks::around(marks, &of_fork, || Saver::start(&store, &sink, &clock))?;
    // The pages that the program itself needs are its own again before anything is measured.
    times.fill(1);
    clock.time(|| scratch.set(1, 1));
    let faults = rusage(libc::RUSAGE_SELF)?.minor_faults;
    let write = |(version, key): (usize, u64)| {
        (_, times[version - 1]) = clock.time(|| store.set(key, version as u64));
    };
    marks::around(marks, &format!("snapshot@{folio_kb}"), || {
        (1..).zip(plan.keys(&store)).for_each(write);
        Ok::<(), Errno>(())
    })?;
    let faults = rusage(libc::RUSAGE_SELF)?.minor_faults - faults;

    let written = sink.finish()?;
    let memory = free.saturating_sub(self::free()?);
    let copies = copied()?.zip(copies).map(|(after, before)| after - before);
    let forked = saver.finish()?;
    if written != expected {
        eprintln!("snapshot: {written:?} was written out, and {expected:?} was there at the fork");
        return Err(Errno(libc::EIO));
    }
    check(plan, &store)?;
    times.sort_unstable();
    let longest = times.last().copied().unwrap_or(0);
    let median = times.get(times.len() / 2).copied().unwrap_or(0);
    let (total, writes): (u64, usize) = (times.iter().sum(), times.len());
    let copies = copies.map_or("null".to_owned(), |copies| copies.to_string());
    println!(
        "{{\"op\":\"snapshot={fork}/{}\",\"folio_kb\":{folio_kb},\"whole\":{forked},\"longest\":{longest},\"median\":{median},\
         \"writing\":{total},\"writes\":{writes},\"faults\":{faults},\"pages_copied\":{copies},\"memory_kb\":{memory}}}",
        plan.table
    );
    Ok(())
}

/// kB that are free.
fn free() -> Result<u64> {
    let frames = counters::free_frames().map_err(Missing::say)?;
    Ok(frames * 4)
}

/// Each key that was written is in its last version, all others are in their first.
fn check(plan: &Plan, store: &Store) -> Result<()> {
    let mut versions = vec![0; store.keys() as usize + 1];
    for (version, key) in (1..).zip(plan.keys(store)) {
        versions[key as usize] = version;
    }
    match (1..=store.keys()).find(|key| !store.is(*key, versions[*key as usize])) {
        None => Ok(()),
        Some(key) => {
            eprintln!("snapshot: key {key} is not what was written");
            Err(Errno(libc::EIO))
        }
    }
}

/// All snapshots; how many lines they print.
fn run(plan: &Plan) -> Result<usize> {
    let sysfs = Controls::take();
    let switch = Switch::take("fork");
    let one_way = [ONE_WAY.to_owned()];
    let forks = if switch.is_some() {
        &plan.forks[..]
    } else {
        &one_way
    };
    let mut lines = 0;
    for &size in &plan.sizes {
        if !measuring::only(&sysfs, size)? {
            continue;
        }
        for fork in forks {
            if let Some(switch) = switch.as_ref().filter(|_| fork != ONE_WAY) {
                switch.set(fork)?;
            }
            snapshot(plan, fork, size)?;
            lines += 1;
        }
    }
    Ok(lines)
}

fn plan() -> Plan {
    let mut plan = Plan {
        table: 64,
        sizes: SIZES.to_vec(),
        forks: FORKS.map(str::to_owned).to_vec(),
        writes: None,
        seed: 1,
        to: None,
        marks: None,
    };
    let usage = format!(
        "snapshot [--table MIB] [--size KB,KB] [--fork WORD,WORD] [--writes N] [--seed N] [--to FILE] [--marks yes]\n\
         fork: {FORKS:?}, or {ONE_WAY} as it is set"
    );
    measuring::options(&usage, |option, value| {
        let way = |word: &String| word == ONE_WAY || FORKS.contains(&word.as_str());
        match option {
            "--table" => plan.table = value.parse().ok().filter(|mib| *mib > 0)?,
            "--size" => plan.sizes = measuring::sizes(value)?,
            "--fork" => plan.forks = list(value, way)?,
            "--writes" => plan.writes = Some(value.parse().ok()?),
            "--seed" => plan.seed = value.parse().ok()?,
            "--to" => plan.to = Some(value.to_owned()),
            "--marks" if word(value, "yes", "no")? => plan.marks = Some(Marks::map().ok()?),
            "--marks" => plan.marks = None,
            _ => return None,
        }
        Some(())
    });
    plan
}

fn main() {
    let plan = plan();
    measuring::run(time::counts_instructions(), || run(&plan));
}
