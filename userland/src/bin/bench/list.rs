//! `bench --list`: what there is to measure, and what that needs, as JSON lines.
use crate::table::OPS;
use userland::measuring::SIZES;

/// A measurement by a program of its own, for which the options of the bench are not enough.
struct Beside {
    program: &'static str,
    about: &'static str,
    args: &'static str,
    sizes: &'static [usize],
    mib: usize,
}

/// They take `--marks`, too, and `--size` where there is more than one.
const BESIDE: [Beside; 3] = [
    Beside {
        program: "snapshot",
        about: "a hash table of 256 MiB is saved by fork while it is written to",
        args: "--table 256 --fork kernel",
        sizes: &SIZES,
        mib: 1024,
    },
    Beside {
        program: "gcflip",
        about: "the pause of a collector that moves its heap by mremap",
        args: "256 1024",
        sizes: &[64],
        mib: 3072,
    },
    Beside {
        program: "latency",
        about: "the distribution of single faults, forks and switches",
        args: "",
        sizes: &SIZES,
        mib: 1024,
    },
];

/// Prints a line for each.
pub fn print() {
    for op in &OPS {
        let mapped: &[&str] = match op.by_mapping {
            true => &["pte", "pmd"],
            false => &[],
        };
        let args = format!("--op {}", op.name);
        let begins = begins([op.name, op.about, "bench", &args], op.sizes, op.mib);
        let (cpus, default, swaps) = (op.cpus, op.by_default, op.swaps);
        println!(
            "{begins},\"mapped\":{mapped:?},\"cpus\":{cpus:?},\"default\":{default},\"swaps\":{swaps}}}"
        );
    }
    for it in BESIDE {
        let begins = begins(
            [it.program, it.about, it.program, it.args],
            it.sizes,
            it.mib,
        );
        println!("{begins},\"mapped\":[],\"cpus\":[1],\"default\":false,\"swaps\":false}}");
    }
}

/// The beginning of a line: what is measured, how, and the memory of the machine.
fn begins([op, about, program, args]: [&str; 4], sizes: &[usize], mib: usize) -> String {
    format!(
        "{{\"op\":\"{op}\",\"about\":\"{about}\",\"program\":\"{program}\",\"args\":\"{args}\",\
         \"folios\":{},\"sizes_kb\":{sizes:?},\"mem_mib\":{mib}",
        sizes.len() > 1
    )
}
