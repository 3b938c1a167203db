//! `cow [--list] [--keep] [GLOB ...]`: the classic cases of copy-on-write, for every size of folio
//! that the kernel offers, as KTAP 1.
//!
//! Sets one size at a time in sysfs and puts all back. Where it may not, or with `--keep`, only the
//! size that is set is tried, and the others are skipped.
use userland::controls::Controls;
use userland::harness::{RunOptions, Test, run};
use userland::replay;
use userland::sh::expand::glob;

fn main() {
    let (mut list, mut keep, mut patterns) = (false, false, Vec::new());
    for arg in std::env::args().skip(1) {
        match arg.as_str() {
            "--list" => list = true,
            "--keep" => keep = true,
            a if a.starts_with('-') => {
                eprintln!("usage: cow [--list] [--keep] [GLOB ...]");
                std::process::exit(2);
            }
            _ => patterns.push(arg),
        }
    }
    let wanted = |name: &str| patterns.is_empty() || patterns.iter().any(|p| glob(p, name));
    let all = replay::TESTS.iter().copied().flatten();
    let tests: Vec<&Test> = all.filter(|t| wanted(t.name)).collect();
    if list {
        tests.iter().for_each(|t| println!("{}", t.name));
        return;
    }
    // Puts the sizes back also after a case that dies.
    let controls = Controls::take();
    if !keep && controls.may_set() {
        replay::may_set();
    }
    let options = RunOptions {
        timeout: 300,
        skip: &[],
        heap_fail: 0,
    };
    let failed = run(&tests, &options).failed;
    drop(controls);
    std::process::exit((failed > 0 || tests.is_empty()) as i32);
}
