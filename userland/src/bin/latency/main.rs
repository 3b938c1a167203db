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
mod faults;
mod late;
mod memory;
mod permitted;
mod processes;
mod report;
mod times;

use permitted::Permit;
use report::{CLOCK, Row};
use times::{Summary, Times};
use userland::controls::Controls;
use userland::measuring::{self, SIZES, list};
use userland::sys::{Result, time};

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
/// What does not, beside the clock: sets of sizes.
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

/// Adds a row and prints its line.
fn add(rows: &mut Vec<Row>, row: Row) {
    println!("{}", row.json());
    rows.push(row);
}

fn run(plan: &Plan, rows: &mut Vec<Row>) -> Result<()> {
    let sysfs = Controls::take();
    if plan.has(CLOCK) {
        add(rows, Row::new(CLOCK, 0, clock(plan.samples)?));
    }
    for &kb in &plan.sizes {
        if !measuring::only(&sysfs, kb)? {
            continue;
        }
        for (name, measure) in EVENTS.iter().filter(|(name, _)| plan.has(name)) {
            add(rows, Row::new(name, kb, measure(plan.samples, kb)?));
        }
    }
    if plan.has(PERMITTED)
        && let Some(permit) = Permit::take()
    {
        sysfs.every()?;
        for set in permitted::SETS {
            let name = format!("{PERMITTED}/{set}");
            add(rows, Row::new(&name, 0, permit.touch(set)?));
        }
    }
    Ok(())
}

fn names() -> impl Iterator<Item = &'static str> {
    let events = EVENTS.iter().map(|(name, _)| *name);
    events.chain([CLOCK, PERMITTED])
}

fn plan() -> Plan {
    let mut plan = Plan {
        sizes: SIZES.to_vec(),
        events: names().map(str::to_owned).collect(),
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
    let mut rows = Vec::new();
    measuring::run(time::counts_instructions(), || {
        run(&plan, &mut rows)?;
        Ok(rows.len())
    });
    print!("{}", report::table(&rows, measuring::unit()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_event_has_a_place() {
        let tables = report::TABLES.concat();
        let mut there: Vec<&str> = tables.iter().map(|(event, _)| *event).collect();
        let mut events = EVENTS.map(|(event, _)| event).to_vec();
        there.sort_unstable();
        events.sort_unstable();
        assert_eq!(there, events);
    }
}
