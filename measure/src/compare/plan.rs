//! From operations to boots: what can share a machine does, one folio size at a time, so that both
//! kernels and all sizes get their turn early.
use super::list::Op;
use crate::bench::plan::{BASELINE, SIZES};
use tools::args::{Choice, Set};
use tools::host::errors::UsageError;
use tools::host::words;

/// The sizes that come first: the ends, and the contiguous block of aarch64. Also those of a quick
/// look.
const FIRST: [u32; 3] = [4, 64, 2048];

/// What one boot measures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The program and its arguments.
    pub line: String,
    /// MiB of the machine.
    pub mib: u64,
    /// CPUs of the machine.
    pub cpus: u32,
    /// Whether the kernel has a swap area.
    pub swaps: bool,
    /// The operations, by their names in the list.
    pub ops: Vec<String>,
    /// How many steps of progress it makes: the program prints a line for each.
    pub steps: u64,
}

/// What operations must have in common to share a machine.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Needs {
    mib: u64,
    cpus: u32,
    swaps: bool,
    by_pmd: bool,
    kb: u32,
}

/// The boots for what was chosen, in order.
pub fn groups(ops: &[Op], choice: &Choice) -> Result<Vec<Group>, UsageError> {
    check(ops, choice)?;
    let chosen: Vec<&Op> = ops.iter().filter(|op| is_chosen(op, choice)).collect();
    let (shared, alone): (Vec<&Op>, Vec<&Op>) = chosen.into_iter().partition(|op| shares(op));
    let mut groups: Vec<Group> = Vec::new();
    for needs in all_needs(&shared, choice) {
        let fits = |op: &&&Op| {
            let by_pmd = !needs.by_pmd || op.by_pmd();
            by_pmd
                && op.mib == needs.mib
                && op.swaps == needs.swaps
                && op.cpus.contains(&needs.cpus)
                && op.sizes.contains(&needs.kb)
        };
        let ops: Vec<String> = shared
            .iter()
            .filter(fits)
            .map(|op| op.name.clone())
            .collect();
        if !ops.is_empty() {
            groups.push(together(needs, ops));
        }
    }
    groups.extend(alone.into_iter().filter_map(|op| by_itself(op, choice)));
    match groups.is_empty() {
        true => Err(UsageError(
            "none of these operations is measured at any of these sizes with so many CPUs"
                .to_owned(),
        )),
        false => Ok(groups),
    }
}

fn check(ops: &[Op], choice: &Choice) -> Result<(), UsageError> {
    let known: Vec<&str> = ops.iter().map(|op| op.name.as_str()).collect();
    words::check("--op", choice.op.iter().map(String::as_str), &known)
}

fn is_chosen(op: &Op, choice: &Choice) -> bool {
    if !choice.op.is_empty() {
        return choice.op.contains(&op.name);
    }
    match choice.set {
        Set::Quick => BASELINE.contains(&op.name.as_str()),
        Set::Default => op.by_default,
        Set::All => true,
    }
}

/// Whether several such operations go into one run of the program.
fn shares(op: &Op) -> bool {
    op.args == format!("--op {}", op.name)
}

/// Whether a size was asked for.
fn wants(choice: &Choice, kb: u32) -> bool {
    match (choice.size.is_empty(), choice.set) {
        (false, _) => choice.size.contains(&kb),
        (true, Set::Quick) => FIRST.contains(&kb),
        (true, _) => true,
    }
}

/// The small machine first; in it, all sizes as far as they are mapped by PTEs.
fn all_needs(ops: &[&Op], choice: &Choice) -> Vec<Needs> {
    let sorted = |mut all: Vec<u64>| {
        all.sort_unstable();
        all.dedup();
        all
    };
    let mut sizes: Vec<u32> = SIZES.into_iter().filter(|kb| wants(choice, *kb)).collect();
    sizes.sort_by_key(|kb| !FIRST.contains(kb));
    let cpus = ops.iter().flat_map(|op| &op.cpus);
    let cpus = cpus.filter(|cpus| choice.smp.is_empty() || choice.smp.contains(cpus));
    let cpus = sorted(cpus.map(|cpus| u64::from(*cpus)).collect());
    let mut needs = Vec::new();
    let mut machines: Vec<_> = ops.iter().map(|op| (op.swaps, op.mib)).collect();
    machines.sort_unstable();
    machines.dedup();
    for (swaps, mib) in machines {
        for cpus in cpus.iter().map(|cpus| *cpus as u32) {
            let with = |kb, by_pmd| Needs {
                mib,
                cpus,
                swaps,
                by_pmd,
                kb,
            };
            needs.extend(sizes.iter().map(|kb| with(*kb, false)));
            let huge = sizes.iter().filter(|kb| **kb == 2048);
            // A quick look is at the baseline, which is mapped by PTEs.
            let huge = huge.filter(|_| choice.set != Set::Quick);
            needs.extend(huge.map(|kb| with(*kb, true)));
        }
    }
    needs
}

fn together(needs: Needs, ops: Vec<String>) -> Group {
    let mapped = if needs.by_pmd { " --mapped pmd" } else { "" };
    Group {
        line: format!("bench --op {} --size {}{mapped}", ops.join(","), needs.kb),
        mib: needs.mib,
        cpus: needs.cpus,
        swaps: needs.swaps,
        // A line before the first pass of each, and its figure.
        steps: 2 * ops.len() as u64,
        ops,
    }
}

/// A program with options of its own.
fn by_itself(op: &Op, choice: &Choice) -> Option<Group> {
    let sizes: Vec<u32> = op
        .sizes
        .iter()
        .copied()
        .filter(|kb| wants(choice, *kb))
        .collect();
    let cpus = op
        .cpus
        .iter()
        .find(|cpus| choice.smp.is_empty() || choice.smp.contains(cpus))?;
    let mut line = format!("{} {}", op.program, op.args).trim_end().to_owned();
    if op.folios {
        line += &format!(" --size {}", words::list(&sizes));
    }
    (!sizes.is_empty()).then(|| Group {
        line,
        mib: op.mib,
        cpus: *cpus,
        swaps: op.swaps,
        ops: vec![op.name.clone()],
        // It prints more lines than that; the rest counts when it ends.
        steps: 4 * sizes.len() as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::super::list::sample;
    use super::*;
    use tools::args::{CompareArgs, options};

    fn lines(line: &str) -> Vec<String> {
        let groups = groups(&sample(), &options::<CompareArgs>(line).choice).unwrap();
        groups
            .iter()
            .map(|group| {
                let swaps = if group.swaps { " swaps" } else { "" };
                format!("{}M/{}{swaps} {}", group.mib, group.cpus, group.line)
            })
            .collect()
    }

    #[test]
    fn one_size_at_a_time() {
        assert_eq!(
            lines("run.sh compare"),
            [
                "1024M/1 bench --op fault,fork --size 4",
                "1024M/1 bench --op fault,fork --size 64",
                "1024M/1 bench --op fault,fork --size 2048",
                "1024M/1 bench --op fork --size 2048 --mapped pmd",
            ]
        );
        assert_eq!(lines("run.sh compare --set quick").len(), 3);
        assert_eq!(
            lines("run.sh compare --size 64,16"),
            ["1024M/1 bench --op fault,fork --size 64"]
        );
    }

    #[test]
    fn machines_as_the_operations_need() {
        assert_eq!(
            lines("run.sh compare --op cow-seq,gcflip --size 4,64"),
            [
                "1024M/1 bench --op cow-seq --size 4",
                "1024M/1 bench --op cow-seq --size 64",
                "1024M/4 bench --op cow-seq --size 4",
                "1024M/4 bench --op cow-seq --size 64",
                "3072M/1 gcflip 256",
            ]
        );
        assert_eq!(
            lines("run.sh compare --op fault,pageout --size 4"),
            [
                "1024M/1 bench --op fault --size 4",
                "1024M/1 swaps bench --op pageout --size 4",
            ]
        );
        assert_eq!(
            lines("run.sh compare --op cow-seq --smp 4,8 --size 64"),
            ["1024M/4 bench --op cow-seq --size 64"]
        );
        assert_eq!(lines("run.sh compare --set all --size 64").len(), 3);
    }

    #[test]
    fn what_there_is_not() {
        let refused = |line: &str| {
            groups(&sample(), &options::<CompareArgs>(line).choice)
                .unwrap_err()
                .0
        };
        assert!(refused("run.sh compare --op frok").ends_with("did you mean fork?"));
        assert!(refused("run.sh compare --op gcflip --size 4").starts_with("none of these"));
    }
}
