//! Boots with input that is wrong, or just on the edge; each says on the console what is the matter and ends with the right
//! status. User mode never panics the kernel, and neither does an archive.
use super::tinyelf::{self, Sin, sinner};
use super::{Job, console, inputs};
use crate::arch::Arch;
use crate::bench;
use crate::build::Built;
use crate::guest::End;
use crate::qemu::Machine;
use crate::report::Outcome;
use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);
/// What the kernel ends with when there is nothing to run.
const NOTHING_TO_RUN: u8 = 101;
/// At most so many guest instructions from reset to /init (the brief of this kernel).
const BOOT_BUDGET: u64 = 40_000_000;
/// And how many more for each further GiB.
const GIB_BUDGET: u64 = 1_000_000;

/// One boot and what it must do.
struct Case {
    name: &'static str,
    archive: Option<Vec<u8>>,
    words: &'static str,
    mem: &'static str,
    /// More arguments for QEMU.
    qemu: &'static [&'static str],
    /// All of these are on the console.
    says: Vec<&'static str>,
    status: u8,
}

impl Case {
    fn new(
        name: &'static str,
        archive: Option<Vec<u8>>,
        says: &[&'static str],
        status: u8,
    ) -> Self {
        Case {
            name,
            archive,
            words: "",
            mem: "256M",
            qemu: &[],
            says: says.to_vec(),
            status,
        }
    }
}

/// Runs the boot cases of one architecture.
pub fn run(job: &Job<'_>, arch: Arch, built: &Built) {
    match cases(arch) {
        Ok(cases) => {
            for case in cases {
                job.case(format!("user.{arch}.boot.{}", case.name), || {
                    check(arch, built, &case)
                });
            }
        }
        Err(error) => job.report.add(
            format!("user.{arch}.boot"),
            Outcome::Failed(format!("{error:#}")),
            None,
        ),
    }
    job.case(format!("user.{arch}.boot.same_figures_twice"), || {
        same_figures(arch, built)
    });
    job.case(format!("user.{arch}.boot.budget"), || {
        boot_budget(arch, built)
    });
    job.case(format!("user.{arch}.boot.costs"), || costs(arch, built));
    job.case(format!("user.{arch}.boot.allocator_cost"), || {
        allocator_cost(arch, built)
    });
    job.case(format!("user.{arch}.boot.bench_twice"), || {
        bench_twice(arch, built)
    });
}

fn cases(arch: Arch) -> Result<Vec<Case>> {
    let failed =
        |name, archive, says: &[&'static str]| Case::new(name, Some(archive), says, NOTHING_TO_RUN);
    let sound = inputs::with_init(&tinyelf::exit(arch, 3))?;
    let zipped = inputs::gzip(&sound)?;
    let mut broken = zipped.clone();
    let middle = broken.len() / 2;
    broken[middle] ^= 0x55;
    let start = ["cannot start /init"];
    let unpack = ["cannot unpack the initramfs"];
    let mut cases = vec![
        Case::new("status", Some(sound.clone()), &[], 3),
        Case::new(
            "status_large",
            Some(inputs::with_init(&tinyelf::exit(arch, 200))?),
            &[],
            200,
        ),
        Case::new("gzip", Some(zipped.clone()), &[], 3),
        Case::new("script", Some(inputs::script(arch)?), &[], 42),
        Case {
            words: "nonsense=1 quire.nonsense",
            ..Case::new(
                "unknown_word",
                Some(sound.clone()),
                &["nonsense=1", "quire.nonsense"],
                3,
            )
        },
        Case {
            words: "thp_anon=64K:maybe transparent_hugepage=on contpte=perhaps",
            ..Case::new(
                "bad_memory_words",
                Some(sound.clone()),
                &[
                    "thp_anon=64K:maybe ignored",
                    "transparent_hugepage=on ignored",
                    "contpte=perhaps ignored: not one of off, on",
                ],
                3,
            )
        },
        failed("no_init", inputs::without_init()?, &start),
        failed(
            "not_elf",
            inputs::with_init(b"\x01\x02no program at all")?,
            &["cannot start /init", "not an ELF program"],
        ),
        failed("empty_init", inputs::with_init(b"")?, &start),
        failed(
            "other_architecture",
            inputs::with_init(&tinyelf::exit(arch.other(), 0))?,
            &["cannot start /init", "run with --arch"],
        ),
        failed(
            "dynamic",
            inputs::with_init(&inputs::dynamic(arch))?,
            &["cannot start /init", "/lib/ld-nowhere.so.1"],
        ),
        failed(
            "cut_program",
            inputs::with_init(&inputs::cut(arch))?,
            &["cannot start /init", "truncated"],
        ),
        failed(
            "cut_header",
            inputs::with_init(&tinyelf::exit(arch, 0)[..80])?,
            &start,
        ),
        failed(
            "overlap",
            inputs::with_init(&inputs::with_segment(arch, 0x40_0000))?,
            &["cannot start /init", "overlap"],
        ),
        failed(
            "kernel_segment",
            inputs::with_init(&inputs::with_segment(arch, 0xffff_ffff_8020_0000))?,
            &["cannot start /init", "outside user space"],
        ),
        failed(
            "script_without_interpreter",
            inputs::with_init(b"#!/bin/nowhere\n")?,
            &start,
        ),
        failed(
            "cut_archive",
            sound[..sound.len() * 2 / 3].to_vec(),
            &unpack,
        ),
        failed(
            "corrupt_archive",
            [&sound[..100], b"garbage garbage garbage", &sound[123..]].concat(),
            &unpack,
        ),
        failed(
            "not_an_archive",
            b"this is a text, not an archive".repeat(20),
            &unpack,
        ),
        failed("cut_gzip", zipped[..zipped.len() / 2].to_vec(), &unpack),
        failed("corrupt_gzip", broken, &unpack),
        Case {
            mem: "64M",
            ..failed("too_large", inputs::bomb(arch, 96)?, &unpack)
        },
        crash("panic", &["asked for on the command line", "CPU"]),
        crash("null", &["CPU"]),
        crash("stack", &["stack"]),
    ];
    for (name, command) in [
        ("power_off", 0x4321_fedc),
        ("restart", 0x0123_4567),
        ("halt", 0xcdef_0123),
    ] {
        cases.push(Case::new(
            name,
            Some(inputs::with_init(&tinyelf::reboot(arch, command))?),
            &[],
            0,
        ));
    }
    for (name, words, says) in [
        ("default", "quire.noinput", ["quire# "].as_slice()),
        (
            "fuzz",
            "quiet quire.noinput -- fuzz --seed 2 --calls 30000",
            &["fuzz: done"],
        ),
    ] {
        cases.push(Case {
            words,
            ..Case::new(name, None, says, 0)
        });
    }
    cases.push(Case {
        words: "quiet quire.noinput -- sh -c \"hog; hog --times 100; echo the shell lives on\"",
        mem: "48M",
        ..Case::new(
            "out_of_memory",
            None,
            &[
                "Out of memory: Killed process",
                "hog: 100 turns, 0 went wrong",
                "the shell lives on",
            ],
            0,
        )
    });
    cases.push(Case {
        words: "quiet quire.noinput -- hoard",
        mem: "48M",
        ..Case::new("hoard", None, &["hoard: done"], 0)
    });
    cases.extend(machines(arch, &sound));
    for (name, sin) in [
        ("illegal_instruction", Sin::Illegal),
        ("read_null", Sin::ReadNull),
        ("write_kernel", Sin::WriteKernel),
        ("jump_nowhere", Sin::JumpNowhere),
        ("privileged", Sin::Privileged),
        ("divide_by_zero", Sin::Divide),
        ("stack_overflow", Sin::StackOverflow),
        ("wild_return", Sin::WildReturn),
    ] {
        if let Some((program, signal)) = sinner(arch, sin) {
            cases.push(Case::new(
                name,
                Some(inputs::with_init(&program)?),
                &[],
                128 + signal,
            ));
        }
    }
    Ok(cases)
}

/// Machines that are not the default one: other boards, older CPUs, much memory and little.
fn machines(arch: Arch, sound: &[u8]) -> Vec<Case> {
    let on = |name, qemu| Case {
        qemu,
        ..Case::new(name, Some(sound.to_vec()), &[], 3)
    };
    let with = |name, mem| Case {
        mem,
        ..Case::new(name, Some(sound.to_vec()), &[], 3)
    };
    let mut several = on("several_cpus", &["-smp", "4"]);
    several.says.push("CPUs: 4, of which 1 is used");
    let leaves = Case {
        mem: "5G",
        words: "quire.test=*largest_leaf*",
        ..Case::new("largest_leaf", None, &["ok 1 "], 0)
    };
    let mut cases = vec![
        leaves,
        with("memory_4g", "4G"),
        with("memory_64m", "64M"),
        several,
    ];
    if arch == Arch::X86_64 {
        let lacks = |name, qemu, says: &[&'static str]| Case {
            qemu,
            ..Case::new(name, Some(sound.to_vec()), says, NOTHING_TO_RUN)
        };
        cases.extend([
            lacks(
                "cpu_without_nx",
                &["-cpu", "qemu64,-nx"],
                &["this CPU has no long mode or no NX"],
            ),
            lacks(
                "cpu_without_cx16",
                &["-cpu", "qemu64,-cx16"],
                &["this CPU has no cmpxchg16b"],
            ),
            Case {
                mem: "5G",
                words: "quire.test=*largest_leaf*",
                qemu: &["-cpu", "qemu64"],
                ..Case::new("largest_leaf_without_1g_pages", None, &["ok 1 "], 0)
            },
        ]);
    }
    cases.extend(match arch {
        Arch::X86_64 => [
            on(
                "microvm",
                &["-machine", "microvm,rtc=on,auto-kernel-cmdline=off"] as &[_],
            ),
            on("cpu_without_smap", &["-cpu", "qemu64"]),
            on("cpu_haswell", &["-cpu", "Haswell-noTSX"]),
        ],
        Arch::Aarch64 => [
            on("gic_v3", &["-machine", "virt,gic-version=3"] as &[_]),
            on("cpu_cortex_a53", &["-cpu", "cortex-a53"]),
            on("started_in_el2", &["-machine", "virt,virtualization=on"]),
        ],
    });
    cases
}

/// The kernel fails on purpose: the report names what happened, and the backtrace has names.
fn crash(how: &'static str, says: &[&'static str]) -> Case {
    let (name, words) = match how {
        "panic" => ("panic_report", "quire.crash=panic"),
        "null" => ("kernel_null_report", "quire.crash=null"),
        _ => ("kernel_stack_report", "quire.crash=stack"),
    };
    let mut case = Case {
        words,
        ..Case::new(name, None, says, 101)
    };
    case.says.push("quire::");
    case
}

fn check(arch: Arch, built: &Built, case: &Case) -> Result<Outcome> {
    let mut machine = Machine::new(arch, built.image.clone());
    machine.mem = case.mem.to_owned();
    machine.command_line = case.words.to_owned();
    machine.extra = case.qemu.iter().map(|&word| word.to_owned()).collect();
    let file = case
        .archive
        .as_ref()
        .map(|bytes| TemporaryFile::new(arch, case.name, bytes))
        .transpose()?;
    machine.initramfs = file.as_ref().map(|file| file.0.clone());
    let boot = console::boot(&machine, LIMIT)?;
    if boot.end != End::Status(case.status) {
        let wanted = End::Status(case.status);
        return Ok(Outcome::Failed(format!(
            "ended with {:?}, not with {wanted:?}\n{}",
            boot.end, boot.text
        )));
    }
    match case.says.iter().find(|words| !boot.text.contains(**words)) {
        Some(missing) => Ok(Outcome::Failed(format!(
            "the console does not say {missing:?}\n{}",
            boot.text
        ))),
        None => Ok(Outcome::Passed),
    }
}

/// The default image under --icount, running one command.
fn counted(arch: Arch, built: &Built, words: &str) -> Result<console::Boot> {
    let mut machine = Machine::new(arch, built.image.clone());
    machine.icount = true;
    machine.command_line = format!("quire.noinput {words}");
    console::boot(&machine, LIMIT)
}

fn same_figures(arch: Arch, built: &Built) -> Result<Outcome> {
    let first = counted(arch, built, "quiet -- memtour")?;
    let second = counted(arch, built, "quiet -- memtour")?;
    if first.end != End::Status(0) || first.text.lines().count() < 5 {
        return Ok(Outcome::Failed(format!(
            "memtour ended with {:?}\n{}",
            first.end, first.text
        )));
    }
    if first.text == second.text {
        return Ok(Outcome::Passed);
    }
    let pairs = first.text.lines().zip(second.text.lines());
    let differing: String = pairs
        .filter(|(a, b)| a != b)
        .map(|(a, b)| format!("- {a}\n+ {b}\n"))
        .collect();
    Ok(Outcome::Failed(format!("two runs differ:\n{differing}")))
}

/// With 1 GiB, and from there to 5 GiB: a PC then has a hole of 2 GiB in its memory.
fn boot_budget(arch: Arch, built: &Built) -> Result<Outcome> {
    let start = |gib: u64| {
        let mut machine = Machine::new(arch, built.image.clone());
        machine.icount = true;
        machine.mem = format!("{gib}G");
        machine.command_line = "quire.noinput -- memtour".to_owned();
        let boot = console::boot(&machine, LIMIT)?;
        instructions(&boot.text).with_context(|| format!("no instruction count\n{}", boot.text))
    };
    let counts = [start(1)?, start(2)?, start(5)?];
    let allowed = [
        BOOT_BUDGET,
        counts[0] + GIB_BUDGET,
        counts[1] + 3 * GIB_BUDGET,
    ];
    if counts
        .iter()
        .zip(allowed)
        .any(|(count, most)| *count > most)
    {
        bail!(
            "/init starts after {counts:?} instructions with 1, 2 and 5 GiB, {allowed:?} are allowed"
        );
    }
    Ok(Outcome::Passed)
}

/// N in `/init starts after N ns`: with -icount, a nanosecond is an instruction.
fn instructions(text: &str) -> Option<u64> {
    let (_, rest) = text.split_once("/init starts after ")?;
    rest.split_once(" ns")?.0.trim().parse().ok()
}

fn costs(arch: Arch, built: &Built) -> Result<Outcome> {
    let boot = counted(arch, built, "quiet -- cost --check")?;
    Ok(match boot.end {
        End::Status(0) => Outcome::Passed,
        end => Outcome::Failed(format!("cost --check ended with {end:?}\n{}", boot.text)),
    })
}

/// The kernel's own measurement of its page allocator, which it skips where the clock counts no instructions.
fn allocator_cost(arch: Arch, built: &Built) -> Result<Outcome> {
    let boot = counted(arch, built, "quiet quire.test=*allocator_cost")?;
    if boot.end == End::Status(0) && boot.text.contains("order 0: allocate") {
        return Ok(Outcome::Passed);
    }
    Ok(Outcome::Failed(boot.text))
}

/// Two runs of the bench print the same figures, down to the counters.
fn bench_twice(arch: Arch, built: &Built) -> Result<Outcome> {
    let measure = || bench::measure(arch, built, "", "bench --op fault,munmap --size 4,64");
    let (first, second) = (measure()?, measure()?);
    let differing = bench::differences(&first, &second);
    if first.is_empty() || !differing.is_empty() {
        let count = first.len();
        bail!("{count} cells, differing:\n{}", differing.join("\n"));
    }
    Ok(Outcome::Passed)
}

/// A file that goes when it is no longer needed.
pub struct TemporaryFile(pub PathBuf);

impl TemporaryFile {
    /// A new file with this content.
    pub fn new(arch: Arch, name: &str, content: &[u8]) -> Result<Self> {
        let path = std::env::temp_dir().join(format!("quire-{}-{arch}-{name}", std::process::id()));
        std::fs::write(&path, content)
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(TemporaryFile(path))
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        // A leftover in the folder for temporary files harms nobody.
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instruction_count() {
        assert_eq!(
            instructions("[ 0.02] quire: /init starts after 1234567 ns\n"),
            Some(1_234_567)
        );
        assert_eq!(instructions("/init starts after many ns"), None);
    }

    #[test]
    fn cases_have_different_names() {
        for arch in Arch::ALL {
            let mut names: Vec<_> = cases(arch).unwrap().iter().map(|case| case.name).collect();
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count);
        }
    }
}
