//! Raspberry Pis with what their firmware passes or does not, entry at EL3, and device trees that
//! are damaged.
use super::super::job::Job;
use super::Way;
use super::cpus;
use super::expect::{ends, shell};
use anyhow::{Result, ensure};
use tools::host::outcome::Outcome;
use tools::host::workspace::Temporary;
use tools::machine::qemu::Machine;
use tools::machine::raspi::{Board, Chosen};
use tools::machine::session::{PROMPT, Session};

/// The cases of one way, an aarch64 one.
pub fn run(job: &Job<'_>, way: &Way, machine: &Machine) {
    let name = |case: &str| format!("way.{}.boot.{case}", way.name);
    if let Some(board) = machine.board() {
        job.case(name("no_device_tree"), || built_in(machine, board));
        job.case(name("initramfs_where_no_memory_is"), || {
            nowhere(machine, board)
        });
        job.case(name("mini_uart"), || {
            let mut machine = machine.clone();
            machine.mini_uart = true;
            shell(&machine)
        });
    }
    if way.name == "raspi3b" {
        job.case(name("from_el3"), || {
            let mut machine = machine.clone();
            machine.raw = Some(0);
            machine.device_tree = false;
            built_in(&machine, Board::Pi3)
        });
        // The loader that stands in for the firmware lets the others wait for nothing.
        job.case(name("cpus_that_stay_away"), || {
            let mut machine = machine.clone();
            machine.raw = Some(0);
            machine.device_tree = false;
            let mut session = Session::start(&machine)?;
            session.expect(cpus::SILENT)?;
            session.expect("CPUs: 4, of which 1 run")?;
            session.expect("/init starts after")?;
            Ok(Outcome::Passed)
        });
        job.case(name("damaged_device_tree"), || {
            let (machine, _tree) = damaged(machine, DAMAGED_AT_PI)?;
            built_in(&machine, Board::Pi3)
        });
    }
    if way.name == "virt-uefi" {
        job.case(name("device_tree"), || {
            let mut machine = machine.clone();
            // Else UEFI passes ACPI's tables.
            machine.machine = Some("virt,acpi=off".to_owned());
            shell(&machine)
        });
    }
    if way.name == "virt" {
        for (case, options) in FROM_EL3 {
            job.case(name(case), || from_el3(machine, options));
        }
        job.case(name("damaged_device_tree"), || {
            let (machine, _tree) = damaged(machine, DAMAGED_AT_VIRT)?;
            ends(
                &machine,
                None,
                &["no device tree and no ACPI tables that can be read"],
                101,
            )
        });
    }
}

/// A Raspberry Pi whose firmware passes no device tree: no command line, no initramfs, but the
/// built-in ones. It reports the size of memory on request; part of it is the GPU's.
fn built_in(machine: &Machine, board: Board) -> Result<Outcome> {
    let mut machine = machine.clone();
    machine.device_tree = false;
    let mut session = Session::start(&machine)?;
    session.expect("(no device tree)")?;
    session.expect("memory: ")?;
    let said = session.expect(" MiB,")?;
    let mebibytes: u64 = said.parse()?;
    let most = board.mebibytes();
    ensure!(
        (most * 9 / 10..most).contains(&mebibytes),
        "{mebibytes} MiB of {most}"
    );
    session.expect(PROMPT)?;
    session.send("exit 9\n")?;
    session.ends_with(9)?;
    Ok(Outcome::Passed)
}

/// A device tree that has an initramfs behind the end of memory.
fn nowhere(machine: &Machine, board: Board) -> Result<Outcome> {
    let tree = board.device_tree(Chosen {
        initramfs: Some((0xe000_0000, 0xe010_0000)),
        ..Chosen::default()
    });
    let file = Temporary::file("dtb", &tree)?;
    let mut machine = machine.clone();
    machine.device_tree = false;
    machine.extra = vec!["-dtb".to_owned(), file.path().display().to_string()];
    let says = "cannot unpack the initramfs: the loader says that it is at 0xe0000000 to 0xe0100000, where there is no RAM";
    ends(&machine, None, &[says], 101)
}

/// `virt` as it starts at EL3; with an EL2 below it or none.
const FROM_EL3: [(&str, &str); 2] = [
    ("from_el3", "secure=on,virtualization=on"),
    ("from_el3_without_el2", "secure=on"),
];

/// The kernel comes from EL3 to /init. No further: the interrupts would have to be given away by a
/// firmware at EL3.
fn from_el3(machine: &Machine, options: &str) -> Result<Outcome> {
    let mut machine = machine.clone();
    machine.machine = Some(format!("virt,{options}"));
    // Where QEMU puts the device tree when there is no kernel.
    machine.raw = Some(0x4000_0000);
    Session::start(&machine)?.expect("/init starts after")?;
    Ok(Outcome::Passed)
}

/// Unused RAM.
const DAMAGED_AT_PI: u32 = 0x0900_0000;
const DAMAGED_AT_VIRT: u32 = 0x4900_0000;

/// The machine with a device tree at `at` whose second half was lost, and the file that it is in.
fn damaged(machine: &Machine, at: u32) -> Result<(Machine, Temporary)> {
    let tree = Board::Pi3.device_tree(Chosen::default());
    let file = Temporary::file("dtb", &tree[..tree.len() / 2])?;
    let mut machine = machine.clone();
    machine.device_tree = false;
    machine.raw = Some(at);
    let path = file.path().display();
    machine.extra = vec![
        "-device".to_owned(),
        format!("loader,file={path},addr={at:#x},force-raw=on"),
    ];
    Ok((machine, file))
}
