//! Dynamic programs: C of the project's own with glibc and with musl, interpreters that cannot be
//! used, and Debian's bash, perl, python3, sqlite3 and Redis as they are; a static program of Go's.
use crate::test::job::Job;
use anyhow::Result;
use tools::host::arch::Arch;
use tools::host::compilers;
use tools::machine::qemu::Machine;

mod debian;
mod dynamic;
pub mod elf;
mod go;

/// Runs the cases; with several CPUs only those that have threads.
pub fn run(job: &Job<'_>, name: &dyn Fn(&str) -> String, machine: &Machine) {
    for (library, compiler) in compilers::of(machine.arch) {
        for (how, flags) in dynamic::KINDS {
            job.case(name(&format!("{library}_{how}")), || {
                dynamic::check(machine.clone(), compiler, how, flags)
            });
        }
    }
    job.case(name("go"), || go::check(machine.clone()));
    if machine.smp > 1 {
        return;
    }
    let glibc = compiler_of_glibc(machine.arch);
    job.case(name("missing_library"), || {
        dynamic::without_library(machine.clone(), glibc)
    });
    for flaw in dynamic::Flaw::ALL {
        job.case(name(&format!("interpreter_{}", flaw.name())), || {
            dynamic::bad_interpreter(machine.clone(), glibc, flaw)
        });
    }
    for case in debian::CASES {
        job.case(name(case.name), || case.check(machine.clone()));
    }
}

/// Downloads the packages of the cases.
pub fn bring(arch: Arch) -> Result<()> {
    go::compiler()?;
    let mut cases = debian::CASES.iter();
    cases.try_for_each(|case| case.bring(arch).map(drop))
}

fn compiler_of_glibc(arch: Arch) -> &'static str {
    compilers::of(arch)[0].1
}
