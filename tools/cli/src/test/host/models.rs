//! Models of what runs on many CPUs, with the atomics and threads of loom or shuttle in the place
//! of the real ones.
use super::{cargo, programs, targets, tests_of};
use crate::test::job::Job;
use anyhow::Result;
use std::collections::BTreeSet;
use std::process::Command;

/// Runs the models of the lock and of the account with loom's atomics in the place of the real
/// ones: `host.loom.FILE.TEST`. A build of its own, with its own folder, so that it does not undo
/// the other one.
pub fn run_loom(job: &Job<'_>) -> Result<()> {
    let full = |target: &str| format!("host.loom.{target}");
    let mut models = BTreeSet::from([
        "--features=own/mutants".to_owned(),
        "--package=own".to_owned(),
    ]);
    let mut some = false;
    for target in targets()? {
        let is_loom = target.is_model() && target.name.starts_with("loom");
        if is_loom && job.may_want(&format!("{}.", full(&target.name))) {
            models.insert(format!("--package={}", target.package));
            models.insert(target.argument());
            some = true;
        }
    }
    if some {
        let models: Vec<String> = models.into_iter().collect();
        for program in programs("building the models", &mut with_cfg("loom", &models))? {
            tests_of(job, &program, &full(&program.target))?;
        }
    }
    Ok(())
}

/// Runs the models of the memory manager on the simulated machine, with shuttle's atomics and
/// threads: `host.shuttle.TEST`. A build of its own, too.
pub fn run_shuttle(job: &Job<'_>) -> Result<()> {
    let models = ["--package=arch-sim", "--test=shuttle"];
    let mut build = with_cfg("shuttle", &models);
    for program in programs("building the models of the memory manager", &mut build)? {
        tests_of(job, &program, "host.shuttle")?;
    }
    Ok(())
}

/// A `cargo test` with `--cfg NAME`, in a folder of its own.
pub fn with_cfg(name: &str, arguments: &[impl AsRef<std::ffi::OsStr>]) -> Command {
    let mut build = cargo(&["test"]);
    build
        .args(arguments)
        .args(["--target-dir", &format!("target/{name}")])
        .env("RUSTFLAGS", format!("--cfg {name}"));
    build
}
