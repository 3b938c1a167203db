//! Four CPUs on every way to boot, and lists of CPUs that are wrong.
use super::super::job::Job;
use super::Way;
use super::expect::ends;
use anyhow::Result;
use tools::host::arch::Arch;
use tools::host::outcome::Outcome;
use tools::host::workspace::Temporary;
use tools::machine::qemu::{Loader, Machine};
use tools::machine::raspi::{Board, Chosen};

/// What boot says of four CPUs that are all up.
const ALL_FOUR: &str = "CPUs: 4, of which 4 run";
/// The same when one more is listed.
const FOUR_OF_FIVE: &str = "CPUs: 5, of which 4 run";
/// What boot says when one has fewer features.
const NOT_ALIKE: &str = "CPUs: not alike; AT_HWCAP of what all have: ";
/// Why that one is left out.
pub const SILENT: &str = "is left out: it has not come up within a second";

/// The cases of one way.
pub fn run(job: &Job<'_>, way: &Way, machine: &Machine) {
    let name = |case: &str| format!("way.{}.boot.{case}", way.name);
    let with = |words: &str| {
        let mut machine = machine.clone();
        machine.smp = 4;
        machine.command_line = words.to_owned();
        machine
    };
    job.case(name("four_cpus"), || {
        let passed = "# Totals: pass:6 fail:0 skip:0";
        ends(&with("quire.test=*.cpus.*"), None, &[ALL_FOUR, passed], 0)
    });
    if machine.loader == Loader::Direct {
        job.case(name("cpus_not_alike"), || {
            let passed = "# Totals: pass:6 fail:0 skip:0";
            let machine = with("quire.least_cpu=2 quire.test=*.cpus.*");
            ends(&machine, None, &[NOT_ALIKE, ALL_FOUR, passed], 0)
        });
        job.case(name("cpus_show_the_least"), || {
            // With none between: what all but CPU 1 have.
            let features = match machine.arch {
                Arch::X86_64 => "xsave hypervisor",
                Arch::Aarch64 => "fp asimd cpuid",
            };
            let machine = with("quiet quire.least_cpu=1 -- sh -c \"cat /proc/cpuinfo\"");
            ends(&machine, None, &[features], 0)
        });
    }
    job.case(name("cpus_stop_for_a_panic"), || {
        let says = [ALL_FOUR, "on CPU 0, ", "CPU 3, task none"];
        ends(&with("quire.crash=panic"), None, &says, 101)
    });
    job.case(name("cpus_stop_with_the_machine"), || {
        ends(&with("quiet -- sh -c \"exit 9\""), None, &[], 9)
    });
    if let Some(board) = machine.board() {
        job.case(name("cpu_that_is_not_there"), || {
            beside_four(with("quire.test=*.cpus.one*"), board)
        });
    } else if way.machine == "q35" && machine.loader == Loader::Direct {
        job.case(name("cpu_that_is_not_there"), || {
            in_madt(with("quire.test=*.cpus.one*"))
        });
    }
}

/// A device tree with a fifth CPU, whose spin table no CPU reads.
fn beside_four(mut machine: Machine, board: Board) -> Result<Outcome> {
    let tree = board.device_tree(Chosen {
        missing_cpus: 1,
        ..Chosen::default()
    });
    let file = Temporary::file("dtb", &tree)?;
    machine.device_tree = false;
    machine.extra = vec!["-dtb".to_owned(), file.path().display().to_string()];
    let left_out = format!("CPU 4 (ID 0x4) {SILENT}");
    ends(&machine, None, &[&left_out, FOUR_OF_FIVE, "ok 1 "], 0)
}

/// A second MADT with the first CPU again, and one whose ID no local APIC has.
fn in_madt(mut machine: Machine) -> Result<Outcome> {
    let mut madt = [0xfee0_0000u32, 1].map(u32::to_le_bytes).concat();
    for id in [0, 9] {
        madt.extend([0, 8, id, id, 1, 0, 0, 0]);
    }
    let file = Temporary::file("madt", &madt)?;
    let table = format!("sig=APIC,data={}", file.path().display());
    machine.extra = vec!["-acpitable".to_owned(), table];
    let left_out = format!("(ID 0x9) {SILENT}");
    ends(&machine, None, &[&left_out, FOUR_OF_FIVE, "ok 1 "], 0)
}
