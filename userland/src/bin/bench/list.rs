//! `bench --list`: what there is to measure, and what that needs, as JSON lines.
use crate::table::{OPS, Op};
use userland::measuring::SIZES;

/// A measurement by a program of its own, for which the options of the bench are not enough.
struct Beside {
    op: &'static str,
    about: &'static str,
    program: &'static str,
    args: &'static str,
    sizes: &'static [usize],
    mib: usize,
}

/// They take `--marks`, too, and `--size` where there is more than one.
const BESIDE: [Beside; 3] = [
    Beside {
        op: "snapshot",
        about: "a hash table of 256 MiB is saved by fork while it is written to",
        program: "snapshot",
        args: "--table 256 --fork kernel",
        sizes: &SIZES,
        mib: 1024,
    },
    Beside {
        op: "gcflip",
        about: "the pause of a collector that moves its heap by mremap",
        program: "gcflip",
        args: "256 1024",
        sizes: &[64],
        mib: 3072,
    },
    Beside {
        op: "latency",
        about: "the distribution of single faults, forks and switches",
        program: "latency",
        args: "",
        sizes: &SIZES,
        mib: 1024,
    },
];

/// Prints a line for each.
pub fn print() {
    for op in &OPS {
        println!("{}", of_bench(op));
    }
    for program in &BESIDE {
        println!("{}", beside(program));
    }
}

fn of_bench(op: &Op) -> String {
    let mapped = if op.by_mapping {
        r#"["pte","pmd"]"#
    } else {
        "[]"
    };
    format!(
        "{{\"op\":\"{}\",\"about\":\"{}\",\"program\":\"bench\",\"args\":\"--op {}\",{},\"mapped\":{mapped},\"cpus\":{:?},\
         \"default\":{}}}",
        op.name,
        op.about,
        op.name,
        needs(op.sizes, op.mib),
        op.cpus,
        op.by_default
    )
}

fn beside(program: &Beside) -> String {
    format!(
        "{{\"op\":\"{}\",\"about\":\"{}\",\"program\":\"{}\",\"args\":\"{}\",{},\"mapped\":[],\"cpus\":[1],\"default\":false}}",
        program.op,
        program.about,
        program.program,
        program.args,
        needs(program.sizes, program.mib)
    )
}

/// Folio sizes in kB and the machine's memory.
fn needs(sizes: &[usize], mib: usize) -> String {
    format!(
        "\"folios\":{},\"sizes_kb\":{sizes:?},\"mem_mib\":{mib}",
        sizes.len() > 1
    )
}
