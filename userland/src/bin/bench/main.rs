//! `bench [--op A,B] [--size 4,64] [--pages N] [--watched yes]`: what the memory operations cost
//! per 4 KiB page, at every folio size.
//!
//! One JSON line per cell. By the monotonic clock, whose nanoseconds are guest instructions under
//! QEMU's -icount. Runs on Linux as well: the same program measures both. The cells of a size are
//! the second of two passes (the first with 64 MiB at most), each operation with memory of its own;
//! what the memory must hold afterwards is checked, outside the measured time.
mod beside;
mod copies;
mod crew;
mod meter;
mod ops;
mod region;
mod survivor;
mod vmas;

use meter::{Meter, Sample};
use std::process::exit;
use userland::sys::Result;
use userland::{counters, sys};

/// Folio sizes in kB, those of Linux's controls; 4 is "all others never".
const SIZES: [usize; 9] = [4, 16, 32, 64, 128, 256, 512, 1024, 2048];

/// How long the machine is left alone at first, in nanoseconds.
const SETTLE: u64 = 5_000_000_000;

/// What the command line asks for.
struct Plan {
    ops: Vec<String>,
    sizes: Vec<usize>,
    /// Of the regions.
    pages: usize,
    /// Whether the second pass waits for a key around what is measured.
    watched: bool,
}

fn usage(problem: &str) -> ! {
    let names: Vec<&str> = ops::OPS.iter().map(|op| op.name).collect();
    eprintln!(
        "bench: {problem}\nusage: bench [--op A,B] [--size N,M] [--pages N] [--watched yes]\noperations: {}\nsizes (kB): {SIZES:?}",
        names.join(" ")
    );
    exit(2)
}

fn plan() -> Plan {
    let default = ops::OPS.iter().filter(|op| op.by_default);
    let mut plan = Plan {
        ops: default.map(|op| op.name.to_owned()).collect(),
        sizes: SIZES.to_vec(),
        pages: ops::PAGES,
        watched: false,
    };
    let mut args = std::env::args().skip(1);
    while let Some(option) = args.next() {
        let Some(list) = args.next() else {
            usage(&format!("{option} wants a value"))
        };
        match option.as_str() {
            "--op" => plan.ops = list.split(',').map(str::to_owned).collect(),
            "--size" => match list.split(',').map(str::parse).collect() {
                Ok(sizes) => plan.sizes = sizes,
                Err(_) => usage("a size is a number of kB"),
            },
            "--pages" => match list.parse() {
                Ok(pages) if pages % 512 == 0 && pages > 0 => plan.pages = pages,
                _ => usage("a number of pages is a multiple of 512"),
            },
            "--watched" => plan.watched = list == "yes",
            _ => usage(&format!("what is {option}?")),
        }
    }
    let known = |name: &String| ops::OPS.iter().any(|op| op.name == name);
    if let Some(name) = plan.ops.iter().find(|name| !known(name)) {
        usage(&format!("there is no operation {name}"));
    }
    if plan.sizes.iter().any(|size| !SIZES.contains(size)) {
        usage("there is no folio of that size");
    }
    plan
}

/// One line: the cell, instructions (or nanoseconds) per page or for the whole call, and the
/// counters that moved.
fn print(op: &str, folio_kb: usize, sample: &Sample) {
    let mut line = format!("{{\"op\":\"{op}\",\"folio_kb\":{folio_kb}");
    if let Some(vmas) = sample.vmas {
        line += &format!(",\"vmas\":{vmas}");
    }
    line += &match sample.pages {
        0 => format!(",\"whole\":{}", sample.ns),
        // Tenths, without a float's rounding.
        pages => {
            let tenths = (sample.ns * 10 + pages / 2) / pages;
            format!(
                ",\"per_page\":{}.{},\"pages\":{pages}",
                tenths / 10,
                tenths % 10
            )
        }
    };
    let several = sys::cpus::allowed(0).is_ok_and(|cpus| cpus.len() > 1);
    let told = |name: &str, value| value > 0 || several && meter::is_of_cpus(name);
    let counters = sample.counters.iter();
    for (name, value) in counters.filter(|(name, value)| told(name, *value)) {
        line += &format!(",\"{name}\":{value}");
    }
    println!("{line}}}");
}

fn run(plan: &Plan) -> Result<usize> {
    let sysfs = userland::controls::Controls::take();
    // A pass that is not measured needs no more memory than what it warms up.
    let warm = plan.pages.min(ops::PAGES);
    let mut meter = Meter::new(warm)?;
    let mut cells = 0;
    for &size in &plan.sizes {
        if !sysfs.only(size)? {
            println!("{{\"skipped\":{size},\"why\":\"this kernel has no folios of {size} kB\"}}");
            continue;
        }
        let chosen = ops::OPS
            .iter()
            .filter(|op| plan.ops.iter().any(|name| name == op.name) && (op.at)(size));
        // The first pass brings the kernel's lists into the state that they keep.
        meter.watched = false;
        meter.pages = warm;
        for op in chosen.clone() {
            // A sign of progress: a silent machine is taken for a hang.
            println!("{{\"first_pass\":\"{}\",\"of\":{size}}}", op.name);
            (op.run)(&mut meter, size)?;
        }
        meter.watched = plan.watched;
        meter.pages = plan.pages;
        for op in chosen {
            for sample in (op.run)(&mut meter, size)? {
                print(op.name, size, &sample);
                cells += 1;
            }
        }
    }
    Ok(cells)
}

fn main() {
    let plan = plan();
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let counted = sys::time::counts_instructions();
    println!(
        "{{\"begin\":true,\"quire\":{},\"release\":\"{}\",\"instructions\":{},\"size_controls\":{}}}",
        counters::on_quire(),
        read("/proc/sys/kernel/osrelease").trim(),
        counted,
        userland::controls::Controls::take().each_size()
    );
    if counted {
        // The kernel's background work after boot ends meanwhile; idle time passes at once.
        let _ = sys::time::sleep(SETTLE);
    }
    match run(&plan) {
        Ok(cells) => println!("{{\"done\":true,\"cells\":{cells}}}"),
        Err(error) => {
            eprintln!("bench: {error}");
            exit(1);
        }
    }
}
