//! A shell, wrong input and little and much memory, on every way to boot.
use super::super::job::Job;
use super::expect::{ends, shell};
use super::{BIOS, UEFI, Way, board, cpus, screen};
use anyhow::Result;
use tools::host::arch::Arch;
use tools::host::outcome::Outcome;
use tools::host::workspace::Temporary;
use tools::machine::limine;
use tools::machine::qemu::{Loader, Machine};
use tools::machine::session::Session;
use tools::machine::{inputs, tinyelf};

/// The tool's own cases on one way.
pub fn run(job: &Job<'_>, way: &Way, machine: &Machine) -> Result<()> {
    let name = |case: &str| format!("way.{}.boot.{case}", way.name);
    job.case(name("shell"), || shell(machine));
    let sound = inputs::with_init(&tinyelf::exit(way.arch, 3))?;
    job.case(name("initramfs"), || ends(machine, Some(&sound), &[], 3));
    job.case(name("cut_initramfs"), || {
        ends(
            machine,
            Some(&sound[..sound.len() * 2 / 3]),
            &["cannot unpack the initramfs"],
            101,
        )
    });
    let larger = || larger_than_memory(way.arch, machine);
    job.case(name("initramfs_larger_than_memory"), larger);
    job.case(name("no_init"), || {
        ends(
            machine,
            Some(&inputs::without_init()?),
            &["cannot start /init"],
            101,
        )
    });
    job.case(name("long_command_line"), || {
        let mut machine = machine.clone();
        machine.command_line = format!("{} quire.last", "w".repeat(4096 - " quire.last".len()));
        let last = "unknown command-line word \"quire.last\"";
        ends(&machine, Some(&sound), &[last], 3)
    });
    job.case(name("command_line_of_short_words"), || {
        let mut machine = machine.clone();
        machine.command_line = format!("quiet {}", "w ".repeat(2045));
        ends(&machine, Some(&sound), &[], 3)
    });
    job.case(name("panic_report"), || {
        let mut machine = machine.clone();
        machine.command_line = "quire.crash=panic".to_owned();
        ends(
            &machine,
            None,
            &["asked for on the command line", "quire::"],
            101,
        )
    });
    job.case(name("no_serial_port"), || {
        let mut machine = machine.clone();
        machine.serial = false;
        ends(&machine, Some(&sound), &[], 3)
    });
    job.case(name("panic_stays"), || screen::panic_stays(machine));
    cpus::run(job, way, machine);
    if way.arch == Arch::Aarch64 {
        board::run(job, way, machine);
    }
    if way.arch == Arch::X86_64 {
        job.case(name("keyboard"), || screen::keyboard(machine));
        job.case(name("machine_check"), || screen::machine_check(machine));
    }
    if machine.loader != Loader::Direct || machine.board().is_some() {
        job.case(name("screen"), || screen::screen(machine));
    }
    if machine.loader == BIOS {
        job.case(name("too_little_memory_for_limine"), || {
            let mut machine = machine.clone();
            machine.mem = "16M".to_owned();
            Session::start(&machine)?.expect("PANIC: ")?;
            Ok(Outcome::Passed)
        });
    }
    if machine.loader != Loader::Direct {
        job.case(name("usb_stick"), || {
            if let (BIOS, Err(why)) = (machine.loader, limine::installer()) {
                return Ok(Outcome::Skipped(format!("{why:#}")));
            }
            let mut machine = machine.clone();
            machine.stick = true;
            shell(&machine)
        });
    }
    if machine.board().is_none() {
        for mem in [least(machine), "4G"] {
            job.case(name(&format!("memory_{}", mem.to_lowercase())), || {
                let mut machine = machine.clone();
                machine.mem = mem.to_owned();
                ends(&machine, Some(&sound), &[], 3)
            });
        }
        job.case(name("memory_64g"), || much_memory(machine, &sound));
    }
    Ok(())
}

/// UEFI and Limine do not get along with 128 MiB themselves: Limine says "High memory allocator:
/// Out of memory".
fn least(machine: &Machine) -> &'static str {
    match machine.loader {
        UEFI => "256M",
        _ => "128M",
    }
}

/// A small file that unpacks to more than there is.
fn larger_than_memory(arch: Arch, machine: &Machine) -> Result<Outcome> {
    let mut machine = machine.clone();
    machine.mem = least(&machine).to_owned();
    let memory = machine
        .board()
        .map_or(256, |board| board.mebibytes() as usize);
    let bomb = inputs::bomb(arch, memory + 64)?;
    ends(
        &machine,
        Some(&bomb),
        &["cannot unpack the initramfs: "],
        101,
    )
}

/// 64 GiB that QEMU takes from a file with nothing in it.
fn much_memory(machine: &Machine, initramfs: &[u8]) -> Result<Outcome> {
    let file = Temporary::name("memory");
    std::fs::File::create(file.path())?.set_len(64 << 30)?;
    let mut machine = machine.clone();
    machine.mem = "64G".to_owned();
    let path = file.path().display();
    machine.extra = vec![
        "-object".to_owned(),
        format!("memory-backend-file,id=ram,size=64G,mem-path={path},share=on"),
        "-machine".to_owned(),
        "memory-backend=ram".to_owned(),
    ];
    ends(&machine, Some(initramfs), &[], 3)
}
