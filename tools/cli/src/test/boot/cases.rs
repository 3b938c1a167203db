//! The boot cases, by theme.
use super::Case;
use anyhow::Result;
use tools::host::arch::Arch;
use tools::machine::inputs;
use tools::machine::tinyelf::{self, Sin, sinner};

/// The kernel's exit status when there is nothing to run.
const NOTHING_TO_RUN: u8 = 101;

/// All cases of one architecture; their names are different.
pub fn all(arch: Arch) -> Result<Vec<Case>> {
    let sound = inputs::with_init(&tinyelf::exit(arch, 3))?;
    let mut cases = ends(arch, &sound)?;
    cases.extend(words(&sound));
    cases.extend(bad_programs(arch)?);
    cases.extend(archives(arch, &sound)?);
    cases.extend(crashes());
    cases.extend(hangs());
    cases.extend(own_programs());
    cases.extend(machines(arch, &sound));
    cases.extend(sins(arch)?);
    Ok(cases)
}

/// A case in which the kernel has nothing to run, and prints why.
fn refused(name: &'static str, archive: Vec<u8>, says: &[&'static str]) -> Case {
    Case::new(name, Some(archive), says, NOTHING_TO_RUN)
}

/// A program ends, or turns the machine off.
fn ends(arch: Arch, sound: &[u8]) -> Result<Vec<Case>> {
    let large = inputs::with_init(&tinyelf::exit(arch, 200))?;
    let mut cases = vec![
        Case::new("status", Some(sound.to_vec()), &[], 3),
        Case::new("status_large", Some(large), &[], 200),
        Case::new("script", Some(inputs::script(arch)?), &[], 42),
    ];
    for (name, command) in [
        ("power_off", 0x4321_fedc),
        ("restart", 0x0123_4567),
        ("halt", 0xcdef_0123),
    ] {
        let init = tinyelf::reboot(arch, command);
        cases.push(Case::new(name, Some(inputs::with_init(&init)?), &[], 0));
    }
    Ok(cases)
}

/// Unknown words of the kernel's command line, and words with wrong values.
fn words(sound: &[u8]) -> [Case; 2] {
    let with = |name, words, says: &[&'static str]| Case {
        words,
        ..Case::new(name, Some(sound.to_vec()), says, 3)
    };
    [
        with(
            "unknown_word",
            "nonsense=1 quire.nonsense",
            &["nonsense=1", "quire.nonsense"],
        ),
        with(
            "bad_memory_words",
            "thp_anon=64K:maybe transparent_hugepage=on contpte=perhaps",
            &[
                "thp_anon=64K:maybe ignored",
                "transparent_hugepage=on ignored",
                "contpte=perhaps ignored: not one of off, on",
            ],
        ),
    ]
}

/// An /init that is missing or no program for this machine.
fn bad_programs(arch: Arch) -> Result<Vec<Case>> {
    let bad = |name, init: &[u8], more: &[&'static str]| -> Result<Case> {
        let says = [&["cannot start /init"], more].concat();
        Ok(refused(name, inputs::with_init(init)?, &says))
    };
    let exit = tinyelf::exit(arch, 0);
    Ok(vec![
        refused("no_init", inputs::without_init()?, &["cannot start /init"]),
        bad(
            "not_elf",
            b"\x01\x02no program at all",
            &["not an ELF program"],
        )?,
        bad("empty_init", b"", &[])?,
        bad(
            "other_architecture",
            &tinyelf::exit(arch.other(), 0),
            &["run with --arch"],
        )?,
        bad("dynamic", &inputs::dynamic(arch), &["/lib/ld-nowhere.so.1"])?,
        bad("cut_program", &inputs::cut(arch), &["truncated"])?,
        bad("cut_header", &exit[..80], &[])?,
        bad(
            "overlap",
            &inputs::with_segment(arch, 0x40_0000),
            &["overlap"],
        )?,
        bad(
            "kernel_segment",
            &inputs::with_segment(arch, 0xffff_ffff_8020_0000),
            &["outside user space"],
        )?,
        bad("script_without_interpreter", b"#!/bin/nowhere\n", &[])?,
    ])
}

/// An initramfs that is compressed, cut, corrupt, or larger than memory when it is unpacked.
fn archives(arch: Arch, sound: &[u8]) -> Result<Vec<Case>> {
    let bad = |name, archive| refused(name, archive, &["cannot unpack the initramfs"]);
    let zipped = inputs::gzip(sound)?;
    let half = zipped.len() / 2;
    let mut broken = zipped.clone();
    broken[half] ^= 0x55;
    let garbage = [&sound[..100], b"garbage garbage garbage", &sound[123..]].concat();
    Ok(vec![
        Case::new("gzip", Some(zipped.clone()), &[], 3),
        bad("cut_archive", sound[..sound.len() * 2 / 3].to_vec()),
        bad("corrupt_archive", garbage),
        bad(
            "not_an_archive",
            b"this is a text, not an archive".repeat(20),
        ),
        bad("cut_gzip", zipped[..half].to_vec()),
        bad("corrupt_gzip", broken),
        Case {
            mem: "64M",
            ..bad("too_large", inputs::bomb(arch, 96)?)
        },
    ])
}

/// The kernel fails on purpose: the report names what happened, and the backtrace has names.
fn crashes() -> [Case; 3] {
    let crash = |name, words, says: &[&'static str]| Case {
        words,
        ..Case::new(name, None, &[says, &["quire::"]].concat(), 101)
    };
    [
        crash(
            "panic_report",
            "quire.crash=panic",
            &["asked for on the command line", "CPU"],
        ),
        crash("kernel_null_report", "quire.crash=null", &["CPU"]),
        crash("kernel_stack_report", "quire.crash=stack", &["stack"]),
    ]
}

/// Programs that wait for each other for ever end the machine at once, with the place where each
/// waits; a sleep, and a time-out of the kernel's own, come first or do not count.
fn hangs() -> [Case; 2] {
    let hang = |name, qemu| Case {
        words: "quiet quire.noinput -- sh -c \"echo always > /sys/kernel/mm/transparent_hugepage/hugepages-2048kB/enabled; \
                sleep 1; echo slept; sh -c 'kill -STOP $$' | cat\"",
        qemu,
        ..Case::new(
            name,
            None,
            &[
                "slept\n",
                "kernel panic: a hang: all threads wait",
                "(T) waits:",
                "(S) waits:",
                "quire::process::task::wait::wait_for_child",
                "quire::fs::kinds::pipe::",
            ],
            101,
        )
    };
    [hang("hang", &[]), hang("hang_of_4_cpus", &["-smp", "4"])]
}

/// The built-in programs, where they have little memory too.
fn own_programs() -> [Case; 9] {
    let run = |name, mem, words, says: &[&'static str]| Case {
        words,
        mem,
        ..Case::new(name, None, says, 0)
    };
    [
        run("default", "256M", "quire.noinput", &["quire# "]),
        run(
            "fuzz",
            "256M",
            "quiet quire.noinput -- fuzz --seed 2 --calls 30000",
            &["fuzz: done"],
        ),
        run(
            "out_of_memory",
            "48M",
            "quiet quire.noinput -- sh -c \"hog; hog --times 100; echo the shell lives on\"",
            &[
                "Out of memory: Killed process",
                "hog: 100 turns, 0 went wrong",
                "the shell lives on",
            ],
        ),
        run(
            "hoard",
            "48M",
            "quiet quire.noinput -- hoard",
            &[
                "hoard: file: Ok(Exited(0))",
                "hoard: files: Ok(Exited(0))",
                "hoard: long-names: Ok(Exited(0))",
                "hoard: done",
            ],
        ),
        run(
            "snapshot",
            "256M",
            "quiet quire.noinput -- snapshot --table 8 --size 4,64,2048",
            &["{\"done\":true,\"cells\":9}"],
        ),
        run(
            "snapshot_to_a_file",
            "256M",
            "quiet quire.noinput -- snapshot --table 8 --size 16 --seed 7 --to /tmp/snapshot",
            &["{\"done\":true,\"cells\":3}"],
        ),
        run(
            "latency",
            "256M",
            "quiet quire.noinput -- latency --size 4,2048 --samples 24",
            &["{\"done\":true,\"cells\":27}"],
        ),
        run(
            "heap_fail_of_pid_1",
            "256M",
            "quiet quire.noinput quire.heap_fail=100000 -- sh -c \"sh -c 'cat /sys/kernel/mm/quire/heap_fail'\"",
            &["100000\n"],
        ),
        run(
            "orders",
            "256M",
            "quiet quire.noinput -- sh -c \"cd /sys/kernel/mm/transparent_hugepage; echo always > hugepages-64kB/enabled; \
             orders 32kB-64kB folios 10; orders 16kB-64kB,2M; cat /proc/$$/thp_orders; orders 5kB || orders none no-program || echo neither\"",
            &[
                "Folios-64kB:         160",
                "16kB 32kB 64kB 2048kB",
                "orders: 5kB: Invalid argument",
                "orders: no-program: No such file or directory",
                "neither",
            ],
        ),
    ]
}

/// What boot says of four CPUs that are all up.
const ALL_FOUR: &str = "CPUs: 4, of which 4 run";

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
    several.says.push(ALL_FOUR);
    let mut fewer = on("maxcpus", &["-smp", "4"]);
    fewer.words = "maxcpus=2";
    fewer.says.push("CPUs: 4, of which 2 run");
    let mut alone = on("maxcpus_0", &["-smp", "4"]);
    alone.words = "maxcpus=0";
    alone.says.push("CPUs: 4, of which 1 run");
    let panic = Case {
        qemu: &["-smp", "4"],
        words: "quire.crash=panic",
        ..Case::new(
            "cpus_stop_for_a_panic",
            None,
            &["on CPU 0, ", "CPU 3, task none"],
            101,
        )
    };
    let leaf = |name, qemu| Case {
        mem: "5G",
        words: "quire.test=*largest_leaf*",
        qemu,
        ..Case::new(name, None, &["ok 1 "], 0)
    };
    let mut cases = vec![
        leaf("largest_leaf", &[]),
        with("memory_4g", "4G"),
        with("memory_64m", "64M"),
        several,
        fewer,
        alone,
        panic,
        Case {
            qemu: &["-smp", "4"],
            words: "quiet maxcpus=2 -- sh -c \"cat /sys/devices/system/cpu/present; cat /sys/devices/system/cpu/offline; selftests sys_cpus\"",
            ..Case::new(
                "cpus_not_started_are_offline",
                None,
                &["0-3", "2-3", "ok 1 "],
                0,
            )
        },
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
            leaf("largest_leaf_without_1g_pages", &["-cpu", "qemu64"]),
        ]);
    }
    // Lists of pages at their largest, for the most CPUs: the most that boot takes from the heap.
    let mut many_cpus = on("many_cpus", &["-smp", "140"]);
    many_cpus.mem = "4G";
    many_cpus
        .says
        .push("64 or more CPUs are left out: too many");
    many_cpus.says.push("CPUs: 64, of which 64 run");
    let mut pluggable = on("cpus_not_plugged_in", &["-smp", "2,maxcpus=4"]);
    pluggable.says.push("CPUs: 2, of which 2 run");
    let mut no_8254 = on("no_8254", &["-machine", "pit=off"]);
    no_8254.says.push("neither CPUID nor an 8254");
    cases.extend(match arch {
        Arch::X86_64 => vec![
            on(
                "microvm",
                &["-machine", "microvm,rtc=on,auto-kernel-cmdline=off"] as &[_],
            ),
            on("cpu_without_smap", &["-cpu", "qemu64"]),
            on("cpu_haswell", &["-cpu", "Haswell-noTSX"]),
            on("no_keyboard_controller", &["-machine", "i8042=off"]),
            no_8254,
            many_cpus,
            pluggable,
        ],
        Arch::Aarch64 => vec![
            on("gic_v3", &["-machine", "virt,gic-version=3"] as &[_]),
            on("cpu_cortex_a53", &["-cpu", "cortex-a53"]),
            on("started_in_el2", &["-machine", "virt,virtualization=on"]),
        ],
    });
    cases
}

/// Forbidden acts of user mode, and the signals that they end with.
fn sins(arch: Arch) -> Result<Vec<Case>> {
    let all = [
        ("illegal_instruction", Sin::Illegal),
        ("read_null", Sin::ReadNull),
        ("write_kernel", Sin::WriteKernel),
        ("jump_nowhere", Sin::JumpNowhere),
        ("privileged", Sin::Privileged),
        ("divide_by_zero", Sin::Divide),
        ("stack_overflow", Sin::StackOverflow),
        ("wild_return", Sin::WildReturn),
    ];
    let mut cases = Vec::new();
    for (name, sin) in all {
        if let Some((program, signal)) = sinner(arch, sin) {
            let archive = inputs::with_init(&program)?;
            cases.push(Case::new(name, Some(archive), &[], 128 + signal));
        }
    }
    Ok(cases)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_have_different_names() {
        for arch in Arch::ALL {
            let mut names: Vec<_> = all(arch).unwrap().iter().map(|case| case.name).collect();
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count);
        }
    }
}
