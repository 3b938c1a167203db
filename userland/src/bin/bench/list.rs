//! `bench --list`: what there is to measure, and what that needs, as JSON lines.
use crate::table::OPS;
use userland::measuring::SIZES;

/// Measurements by programs of their own, for which the options of the bench are not enough: what
/// each is, the program, which is the operation, its arguments, sizes, and MiB of the machine. They
/// take `--marks`, too, and `--size` where there is more than one.
const BESIDE: [([&str; 3], &[usize], usize); 3] = [
    (
        [
            "a hash table of 256 MiB is saved by fork while it is written to",
            "snapshot",
            "--table 256 --fork kernel",
        ],
        &SIZES,
        1024,
    ),
    (
        [
            "the pause of a collector that moves its heap by mremap",
            "gcflip",
            "256 1024",
        ],
        &[64],
        3072,
    ),
    (
        [
            "the distribution of single faults, forks and switches",
            "latency",
            "",
        ],
        &SIZES,
        1024,
    ),
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
        let (cpus, default) = (op.cpus, op.by_default);
        println!("{begins},\"mapped\":{mapped:?},\"cpus\":{cpus:?},\"default\":{default}}}");
    }
    for ([about, program, args], sizes, mib) in BESIDE {
        let begins = begins([program, about, program, args], sizes, mib);
        println!("{begins},\"mapped\":[],\"cpus\":[1],\"default\":false}}");
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
