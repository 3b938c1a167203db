//! A few programs for the test suite: what passes must go on to pass.
use super::boot;
use super::make;
use super::results::{Ran, Verdict};
use super::suite::Suite;
use anyhow::Result;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tools::host::arch::Arch;
use tools::host::outcome::Outcome;
use tools::machine::build::Built;
use tools::machine::linux;

/// Programs of which no test fails on Quire.
const PROGRAMS: &str = "\
    cow droppable get_syscall_info gup_longterm gup_test hugetlb-madvise hugetlb-mmap \
    hugetlb-read-hwpoison hugetlb-shm hugetlb-soft-offline hugetlb_dio hugetlb_fault_after_madv \
    hugetlb_madv_vs_map madv_populate map_fixed_noreplace map_populate mdwe_test mkdirty \
    mlock2-tests mrelease_test mremap_dontunmap mseal_test peeksiginfo prctl_thp_disable \
    process_madv set_syscall_info uffd-stress";

const LIMIT: Duration = Duration::from_secs(120);

/// Runs them on Quire. Without the tests' source it is skipped.
pub fn small_set(arch: Arch, built: &Built) -> Result<Outcome> {
    let tests = match tests(arch) {
        Ok(tests) => tests,
        Err(why) => return Ok(Outcome::Skipped(format!("{why:#}"))),
    };
    let mut failed = String::new();
    for program in PROGRAMS.split_whitespace() {
        // Older kernels' tests have fewer programs.
        let Some(program) = tests.programs.iter().find(|it| it.name == program) else {
            continue;
        };
        let ran = boot::on_quire(built, arch, program, LIMIT)?;
        if !passes(&ran) {
            failed += &format!("{}: {ran:#?}\n", program.name);
        }
    }
    Ok(match failed.is_empty() {
        true => Outcome::Passed,
        false => Outcome::Failed(failed),
    })
}

/// Both machines' are built from the same folder, which keeps the configuration of one.
fn tests(arch: Arch) -> Result<Suite> {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    make::build(&linux::tests(false)?, arch)
}

/// It came to its end, something passed, nothing failed.
fn passes(ran: &Ran) -> bool {
    ran.cut.is_none() && ran.count(Verdict::Failed) == 0 && ran.count(Verdict::Ok) > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes() {
        let ran = |verdicts: &[Verdict], cut: Option<&str>| Ran {
            tests: verdicts.iter().map(|it| (String::new(), *it)).collect(),
            cut: cut.map(str::to_owned),
        };
        assert!(passes(&ran(&[Verdict::Ok, Verdict::Skipped], None)));
        assert!(!passes(&ran(&[Verdict::Skipped], None)));
        assert!(!passes(&ran(&[Verdict::Ok, Verdict::Failed], None)));
        assert!(!passes(&ran(&[Verdict::Ok], Some("PANIC: no"))));
    }
}
