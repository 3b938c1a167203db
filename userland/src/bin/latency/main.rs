//! `latency [--size KB,KB] [--event NAME,NAME] [--samples N]`: how long one event takes, by the
//! size of the folios that it meets: the smallest, the median and the largest of N, 256 if nothing
//! is said.
//!
//! | event | what |
//! |---|---|
//! | `first` | the first write to a folio's worth of memory |
//! | `reclaimed` | the same while memory is full, with swap; only where it is asked for |
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
//! One JSON line for each, of which `./run.sh bench --op latency` makes tables; `whole` is the
//! median, `late` what 99 in 100 do not exceed. Times are nanoseconds of the monotonic clock, which
//! are guest instructions under QEMU's -icount: an interrupt that comes in between counts.
mod faults;
mod late;
mod memory;
mod permitted;
mod processes;
mod times;

use times::{Summary, Times};
use userland::controls::Controls;
use userland::measuring::{self, SIZES, list};
use userland::sys::{Result, time};

/// How a kind of event is measured: so many samples, with folios of so many kB.
type Measure = fn(usize, usize) -> Result<Summary>;

/// The events that depend on the size of folios.
const EVENTS: [(&str, Measure); 11] = [
    ("first", faults::first),
    ("reclaimed", faults::reclaimed),
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
/// What does not: two readings of the clock, and sets of sizes.
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

/// What reading the clock takes.
fn clock(samples: usize) -> Result<Summary> {
    let mut times = Times::new(samples);
    times.warm()?;
    while !times.full() {
        times.take(|| ())?;
    }
    times.summary()
}

/// Prints the line of an event with folios of so many kB, or 0 where these do not matter.
fn say(event: &str, kb: usize, s: &Summary) -> usize {
    println!(
        "{{\"op\":\"latency={event}\",\"folio_kb\":{kb},\"whole\":{},\"smallest\":{},\"late\":{},\"largest\":{},\"total\":{},\"samples\":{},\
         \"faults\":{}}}",
        s.median, s.smallest, s.late, s.largest, s.total, s.samples, s.faults
    );
    1
}

/// Measures, and returns how many lines were printed.
fn run(plan: &Plan) -> Result<usize> {
    let sysfs = Controls::take();
    let mut lines = 0;
    if plan.has(CLOCK) {
        lines += say(CLOCK, 0, &clock(plan.samples)?);
    }
    for &kb in &plan.sizes {
        if !measuring::only(&sysfs, kb)? {
            continue;
        }
        for (name, measure) in EVENTS.iter().filter(|(name, _)| plan.has(name)) {
            lines += say(name, kb, &measure(plan.samples, kb)?);
        }
    }
    if plan.has(PERMITTED)
        && let Some(permit) = permitted::permit()
    {
        sysfs.every()?;
        for set in permitted::SETS {
            let touched = permitted::touch(&permit, set)?;
            lines += say(&format!("{PERMITTED}/{set}"), 0, &touched);
        }
    }
    Ok(lines)
}

fn names() -> impl Iterator<Item = &'static str> {
    let events = EVENTS.iter().map(|(name, _)| *name);
    events.chain([CLOCK, PERMITTED])
}

fn plan() -> Plan {
    let mut plan = Plan {
        sizes: SIZES.to_vec(),
        events: names()
            .filter(|name| *name != "reclaimed")
            .map(str::to_owned)
            .collect(),
        samples: 256,
    };
    let usage = format!(
        "latency [--size KB,KB] [--event NAME,NAME] [--samples N]\nevents: {}",
        names().collect::<Vec<_>>().join(" ")
    );
    measuring::options(&usage, |option, value| {
        match option {
            "--size" => plan.sizes = measuring::sizes(value)?,
            "--event" => {
                plan.events = list(value, |event: &String| names().any(|name| name == event))?
            }
            "--samples" => plan.samples = value.parse().ok().filter(|samples| *samples > 0)?,
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
