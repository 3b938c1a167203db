//! What is tried out on this host: programs of the package `trial`, built optimised.
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::process::Command;
use tools::host::{progress, workspace};

/// Runs a program that prints CSV, prints what `tables` makes of that, and writes it to `csv`, if
/// that is given.
pub fn run(
    program: &str,
    words: &[&str],
    csv: Option<&Path>,
    step: &str,
    tables: fn(&str) -> Result<String>,
) -> Result<u8> {
    let csv = workspace::writable("--csv", csv)?;
    let mut command = Command::new("cargo");
    command.current_dir(workspace::root());
    command.args(["run", "--quiet", "--release", "--package=trial"]);
    command.args(["--bin", program, "--"]).args(words);
    let text = String::from_utf8(progress::step(step, &mut command)?)?;
    print!("{}", tables(&text)?);
    if let Some(path) = csv {
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(0)
}
