//! `bench [--op A,B] [--size 4,64] [--pages N] [--mapped pmd] [--marks yes] [--watched yes]`: what
//! the memory operations cost per 4 KiB page, at every folio size. `bench --list`: which there are.
//!
//! One JSON line per cell. By the monotonic clock, whose nanoseconds are guest instructions under
//! QEMU's -icount. Runs on Linux as well: the same program measures both. The cells of a size are
//! the second of two passes (the first with 64 MiB at most), each operation with memory of its own;
//! what the memory must hold afterwards is checked, outside the measured time. With `--marks yes`
//! each measured stretch is marked for QEMU's plugins ([`userland::marks`]).
mod beside;
mod children;
mod copies;
mod crew;
mod list;
mod meter;
mod observer;
mod ops;
mod plan;
mod reach;
mod region;
mod replay;
mod reshape;
mod survivor;
mod swap;
mod table;
mod vmas;
mod zram;

use meter::{Meter, Sample};
use observer::Cell;
use plan::Plan;
use region::HUGE;
use table::{OPS, Op, PAGES};
use userland::controls::Controls;
use userland::counters::on_quire;
use userland::marks::Marks;
use userland::sys::Result;
use userland::{measuring, sys};

/// How long the machine is left alone at first, in nanoseconds.
const SETTLE: u64 = 5_000_000_000;

/// Whether the clock counts instructions; looked at for a while, since with several CPUs it also
/// counts those of a CPU that is still busy with the kernel's start.
fn counts_instructions() -> bool {
    const TIMES: u64 = 20;
    (0..TIMES).any(|_| {
        sys::time::counts_instructions() || {
            let _ = sys::time::sleep(SETTLE / TIMES);
            false
        }
    })
}

/// One line: the cell, instructions (or nanoseconds) per page or for the whole call, and the
/// counters that moved.
fn print(cell: &Cell, marked: bool, sample: &Sample) {
    let mut line = format!("{{\"op\":\"{}\",\"folio_kb\":{}", cell.op, cell.kb);
    if cell.by_pmd {
        line += ",\"mapped\":\"pmd\"";
    }
    if let Some(vmas) = sample.vmas {
        line += &format!(",\"vmas\":{vmas}");
    }
    if marked {
        line += &format!(",\"mark\":\"{}\"", cell.mark());
    }
    line += &match sample.pages {
        0 => format!(",\"whole\":{}", sample.ns),
        // Thousandths, without a float's rounding: a count of 8 changes by less than its hundredth.
        pages => {
            let thousandths = (sample.ns * 1000 + pages / 2) / pages;
            format!(
                ",\"per_page\":{}.{:03},\"pages\":{pages}",
                thousandths / 1000,
                thousandths % 1000
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
    let sysfs = Controls::take();
    // A pass that is not measured needs no more memory than what it warms up.
    let warm = plan.pages.min(PAGES);
    let mut meter = Meter::new(warm)?;
    meter.observer.keys = plan.watched;
    if plan.marks {
        meter.observer.marks = Some(Marks::map()?);
    }
    let mut cells = 0;
    for &size in &plan.sizes {
        if !measuring::only(&sysfs, size)? {
            continue;
        }
        let chosen: Vec<&Op> = OPS.iter().filter(|op| may_run(plan, op, size)).collect();
        meter.by_ptes = size << 10 == HUGE && !plan.by_pmd;
        // The first pass brings the kernel's lists into the state that they keep.
        meter.pages = warm;
        for op in &chosen {
            // A sign of progress: a silent machine is taken for a hang.
            println!("{{\"first_pass\":\"{}\",\"of\":{size}}}", op.name);
            meter.quietly(|meter| op.run(meter))?;
        }
        meter.pages = plan.pages;
        if plan.watched && !on_quire() {
            observer::print_functions();
        }
        for op in &chosen {
            meter.cell = Cell {
                op: op.name,
                kb: size,
                by_pmd: plan.by_pmd && op.by_mapping && size << 10 == HUGE,
                variant: None,
            };
            for sample in op.run(&mut meter)? {
                meter.cell.variant = sample.vmas;
                print(&meter.cell, plan.marks, &sample);
                cells += 1;
            }
        }
    }
    Ok(cells)
}

/// Whether an operation was asked for that there is at this size; says so where the kernel lacks
/// it.
fn may_run(plan: &Plan, op: &Op, size: usize) -> bool {
    let wanted = plan.ops.iter().any(|name| name == op.name) && op.sizes.contains(&size);
    match (op.absent)().filter(|_| wanted) {
        Some(why) => {
            println!(
                "{{\"op\":\"{}\",\"folio_kb\":{size},\"absent\":\"{why}\"}}",
                op.name
            );
            false
        }
        None => wanted,
    }
}

fn main() {
    if std::env::args().nth(1).is_some_and(|word| word == "--list") {
        return list::print();
    }
    let plan = plan::read();
    let counted = counts_instructions();
    measuring::run(counted, || {
        if counted {
            // The kernel's background work after boot ends meanwhile; idle time passes at once.
            let _ = sys::time::sleep(SETTLE);
        }
        run(&plan)
    });
}
