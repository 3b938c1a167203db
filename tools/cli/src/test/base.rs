//! A random test that fails tells nothing of the change yet: another seed is drawn in each run, and
//! the defect may be older. The same test with the same seed on what the change is based on tells
//! the two apart.
use super::changes;
use anyhow::{Context, Result, bail};
use std::fs;
use std::process::Command;
use tools::host::workspace::Temporary;
use tools::host::{progress, workspace};

/// Test programs whose tests draw more from SEED.
const RANDOM: [&str; 3] = [
    "host.arch-sim.model",
    "host.arch-sim.like_linux",
    "host.arch-sim.many",
];

/// Whether a seed has an influence on the tests of this program.
pub fn is_random(prefix: &str) -> bool {
    RANDOM.contains(&prefix)
}

/// A line on a failed test of a random program of arch-sim: whether it fails without the change,
/// too.
pub fn compare(program: &str, test: &str) -> String {
    let Some(base) = changes::base() else {
        return "there is no commit to compare with: it may be an older defect".to_owned();
    };
    match fails_on(&base, program, test) {
        Ok(true) => format!("it fails on {base}, too: an older defect, which this seed found"),
        Ok(false) => format!("it passes on {base}: the change made it fail"),
        Err(error) => format!("whether it fails on {base}, too, is not known: {error:#}"),
    }
}

/// Runs a test as a commit has it, with this program's own SEED; whether it fails. What is built
/// stays below target/ for the next one.
fn fails_on(commit: &str, program: &str, test: &str) -> Result<bool> {
    let source = Temporary::folder("base")?;
    let archive = source.path().join("source.tar");
    let archived = Command::new("git")
        .current_dir(workspace::root())
        .args(["archive", "--output"])
        .args([archive.as_os_str(), commit.as_ref()])
        .status()?;
    if !archived.success() {
        bail!("git archive failed");
    }
    // At one place: cargo builds anew what lies somewhere else.
    let checkout = workspace::target().join("base");
    if checkout.exists() {
        fs::remove_dir_all(&checkout)?;
    }
    fs::create_dir_all(&checkout)?;
    tar::Archive::new(fs::File::open(&archive)?)
        .unpack(&checkout)
        .context("cannot unpack the commit")?;
    let cargo = |more: &[&str]| {
        let mut command = Command::new("cargo");
        command.current_dir(&checkout);
        command.env("CARGO_TARGET_DIR", workspace::target().join("base-target"));
        command
            .args(["test", "--package=arch-sim", "--test", program])
            .args(more);
        command
    };
    let label = format!("building {program} of {commit}");
    progress::step(&label, &mut cargo(&["--no-run"]))?;
    let output = cargo(&["--", "--exact", test]).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    if text.contains("running 0 tests") {
        bail!("it has no test {test}");
    }
    Ok(!output.status.success())
}
