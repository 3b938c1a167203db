//! The program that makes a book of pages: found on this machine, or built by cargo at one version.
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use tools::host::workspace;

/// The version that is built and tested with.
const VERSION: &str = "0.5.4";

/// Makes sure that it is there, and says where; builds it below the output folder, or prints how.
pub fn ensure(no_install: bool) -> Result<PathBuf> {
    let folder = workspace::target().join("mdbook");
    let own = folder.join("bin/mdbook");
    if let Some(found) = [PathBuf::from("mdbook"), own.clone()]
        .into_iter()
        .find(|path| is_fit(path))
    {
        return Ok(found);
    }
    let arguments = ["install", "mdbook", "--version", VERSION, "--locked"];
    // A debug build is made in a third of the time, and is quick enough.
    let features = ["--no-default-features", "--features", "search", "--debug"];
    let mut cargo = Command::new("cargo");
    cargo.args(arguments).args(features);
    cargo.arg("--root").arg(&folder);
    // Not with this workspace's settings.
    cargo.current_dir(std::env::temp_dir());
    eprintln!(
        "run.sh: cargo {} {} --root {}",
        arguments.join(" "),
        features.join(" "),
        folder.display()
    );
    if no_install {
        bail!("mdBook is missing; the command above builds it (not run, because of --no-install)");
    }
    let status = cargo.status().context("cannot start cargo")?;
    ensure!(
        status.success() && is_fit(&own),
        "mdBook {VERSION} could not be built; without network, put an mdbook 0.5 into the PATH"
    );
    Ok(own)
}

/// Whether this runs, and writes the books that the pages are made for.
fn is_fit(program: &Path) -> bool {
    let output = Command::new(program).arg("--version").output();
    output.is_ok_and(|output| fits(&String::from_utf8_lossy(&output.stdout)))
}

fn fits(version: &str) -> bool {
    version.trim().starts_with("mdbook v0.5.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_ones_write_other_books() {
        assert!(fits("mdbook v0.5.4\n"));
        assert!(!fits("mdbook v0.4.52\n") && !fits(""));
    }
}
