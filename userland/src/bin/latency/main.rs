//! `latency [--size KB,KB] [--event NAME,NAME] [--samples N]`: how long one event takes, by the
//! size of the folios that it meets: the smallest, the median and the largest of N, 256 if nothing
//! is said.
//!
//! | event | what |
//! |---|---|
//! | `first` | the first write to a folio's worth of memory |
//! | `tracked` | a write that soft-dirty tracking is to see |
//! | `signal` | a write that is forbidden, until the handler of SIGSEGV is done |
//! | `copied` | a write to a folio that a child has, too |
//! | `reused` | a write to a folio that a child had, and has no more |
//! | `fork` | the fork call of a process of 8 MiB, in the parent |
//! | `life` | fork, the child's end, and wait |
//! | `switch` | a byte to another process and one back through pipes |
//! | `threads` | the same between two threads |
//! | `late` | from the end of a timer to the handler of its signal, while the process touches new memory |
//!
//! With all sizes enabled it then writes to 64 MiB with each of some sets of sizes in
//! `/proc/self/thp_orders`, where there is that file: how many faults, how long, and what all of
//! them cost (`permitted`). `clock` is what reading the clock twice takes, which is in all other
//! figures.
//!
//! One JSON line for each, and all of them as a table at the end. Times are nanoseconds of the
//! monotonic clock, which are guest instructions under QEMU's -icount: an interrupt that comes in
//! between counts.
mod child;
mod faults;
mod late;
mod memory;
mod permitted;
mod processes;
mod report;
mod times;

use permitted::Permit;
use report::Row;
use std::process::exit;
use times::{Summary, Times};
use userland::controls::Controls;
use userland::sys::{Errno, Result, time};

/// Folio sizes in kB, those of Linux's controls; 4 is "all others never".
const SIZES: [usize; 9] = [4, 16, 32, 64, 128, 256, 512, 1024, 2048];

/// How a kind of event is measured: so many samples, with folios of so many kB.
type Measure = fn(usize, usize) -> Result<Summary>;

/// The events that depend on the size of folios.
const EVENTS: [(&str, Measure); 10] = [
    ("first", faults::first),
    ("tracked", faults::tracked),
    ("signal", faults::signalled),
    ("copied", faults::copied),
    ("reused", faults::reused),
    ("fork", processes::fork),
    ("life", processes::life),
    ("switch", processes::switch),
    ("threads", processes::threads),
    ("late", late::late),
];
/// What does not: the clock, and sets of sizes.
const CLOCK: &str = "clock";
const PERMITTED: &str = "permitted";

/// What the command line asks for.
struct Plan {
    sizes: Vec<usize>,
    events: Vec<String>,
    samples: usize,
}

impl Plan {
    fn has(&self, event: &str) -> bool {
        self.events.iter().any(|name| name == event)
    }
}

/// Says what is wrong, as an error.
fn wrong(what: &str) -> Errno {
    eprintln!("latency: {what}");
    Errno(libc::EIO)
}

/// What reading the clock takes.
fn clock(samples: usize) -> Result<Summary> {
    let mut times = Times::new(samples);
    times.warm()?;
    while !times.full() {
        times.take(|| ())?;
    }
    times.summary()
}

/// Adds a row and prints its line.
fn add(rows: &mut Vec<Row>, row: Row) {
    println!("{}", row.json());
    rows.push(row);
}

fn run(plan: &Plan) -> Result<Vec<Row>> {
    let sysfs = Controls::take();
    let mut rows = Vec::new();
    if plan.has(CLOCK) {
        add(&mut rows, Row::new(CLOCK, 0, clock(plan.samples)?));
    }
    for &kb in &plan.sizes {
        if !sysfs.only(kb)? {
            println!("{{\"skipped\":{kb},\"why\":\"this kernel has no folios of {kb} kB\"}}");
            continue;
        }
        for (name, measure) in EVENTS.iter().filter(|(name, _)| plan.has(name)) {
            add(&mut rows, Row::new(name, kb, measure(plan.samples, kb)?));
        }
    }
    if plan.has(PERMITTED)
        && let Some(permit) = Permit::take()
    {
        sysfs.every()?;
        for set in permitted::SETS {
            let name = format!("{PERMITTED}/{set}");
            add(&mut rows, Row::new(&name, 0, permit.touch(set)?));
        }
    }
    Ok(rows)
}

fn names() -> impl Iterator<Item = &'static str> {
    let events = EVENTS.iter().map(|(name, _)| *name);
    events.chain([CLOCK, PERMITTED])
}

fn usage() -> ! {
    let names: Vec<&str> = names().collect();
    eprintln!(
        "usage: latency [--size KB,KB] [--event NAME,NAME] [--samples N]\nsizes (kB): {SIZES:?}\nevents: {}",
        names.join(" ")
    );
    exit(2)
}

/// The words behind an option, if all of them will do.
fn list<T: std::str::FromStr>(text: &str, known: impl Fn(&T) -> bool) -> Option<Vec<T>> {
    let words: Option<Vec<T>> = text.split(',').map(|word| word.parse().ok()).collect();
    words.filter(|words| words.iter().all(known))
}

/// Takes one option; `None` when that cannot be.
fn option(plan: &mut Plan, name: &str, text: &str) -> Option<()> {
    match name {
        "--size" => plan.sizes = list(text, |size| SIZES.contains(size))?,
        "--event" => plan.events = list(text, |event: &String| names().any(|name| name == event))?,
        "--samples" => plan.samples = text.parse().ok().filter(|samples| *samples > 0)?,
        _ => return None,
    }
    Some(())
}

fn main() {
    let mut plan = Plan {
        sizes: SIZES.to_vec(),
        events: names().map(str::to_owned).collect(),
        samples: 256,
    };
    let words: Vec<String> = std::env::args().skip(1).collect();
    for pair in words.chunks(2) {
        let taken = match pair {
            [name, text] => option(&mut plan, name, text),
            _ => None,
        };
        taken.unwrap_or_else(|| usage());
    }
    println!(
        "{{\"begin\":true,\"instructions\":{},\"size_controls\":{}}}",
        time::counts_instructions(),
        Controls::take().each_size()
    );
    match run(&plan) {
        Ok(rows) => {
            println!("{{\"done\":true,\"cells\":{}}}", rows.len());
            print!("{}", report::table(&rows));
        }
        Err(error) => {
            eprintln!("latency: {error}");
            exit(1);
        }
    }
}
