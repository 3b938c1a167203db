//! What was changed since the last landing, and whether each landing raises the number of the slice
//! that CI runs.
use anyhow::{Context, Result};
use std::process::Command;
use tools::host::workspace;

/// The number of the slice that CI runs; each landing raises it by one.
const SLICE: &str = ".ci/slice";

/// Lines that a git command prints; `None` where there is no git, no history, or it fails.
fn git(args: &[&str]) -> Option<Vec<String>> {
    let mut command = Command::new("git");
    let output = command
        .current_dir(workspace::root())
        .args(args)
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    output
        .status
        .success()
        .then(|| text.lines().map(str::to_owned).collect())
}

/// Files that differ from a commit, and new ones.
pub fn since(commit: &str) -> Result<Vec<String>> {
    let differ = git(&["diff", "--name-only", commit, "--"]);
    let mut files = differ.with_context(|| format!("git knows no commit {commit}"))?;
    files.extend(git(&["ls-files", "--others", "--exclude-standard"]).unwrap_or_default());
    Ok(files)
}

/// The commits that raised the number of the slice, the newest first.
fn landings() -> Option<Vec<String>> {
    git(&["log", "--format=%H", "--", SLICE])
}

/// The commit at which this branch left `origin/main`.
pub fn left() -> Option<String> {
    git(&["merge-base", "HEAD", "origin/main"])?.pop()
}

/// The commit that this change is based on: where it left `origin/main`; in a clone that is at
/// `origin/main` itself, what came before the landing, of which raising the number is the first
/// commit.
pub fn base() -> Option<String> {
    let head = git(&["rev-parse", "HEAD"])?.pop();
    match left() {
        left @ Some(_) if left != head => left,
        _ => Some(format!("{}^", landings()?.first()?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::ensure;

    /// Between the first and the last commit of a landing there are so many seconds at most: three
    /// hours of work and two of reading it again, less than until the last commit of the next.
    const LANDING: u64 = 5 * 3600;

    /// Whether the newest landing has raised the number: from which to which, and how many seconds
    /// before the newest commit.
    fn raised(before: Option<u32>, now: u32, age: u64) -> Result<()> {
        let expected = before.map_or(1, |before| before + 1);
        ensure!(now == expected, "{SLICE} has {now}, not {expected}");
        let next = now + 1;
        ensure!(
            age <= LANDING,
            "{SLICE} is of an earlier landing; this one raises it: echo {next} >{SLICE}"
        );
        Ok(())
    }

    #[test]
    fn each_landing_raises_the_number_of_the_slice() {
        let lines = |args: &[&str]| git(args).unwrap_or_default();
        let whole = lines(&["rev-parse", "--is-shallow-repository"]) == ["false"];
        let Some(landings) = landings().filter(|landings| whole && !landings.is_empty()) else {
            // A copy without its history, or before the first.
            return;
        };
        let number = |commit: &str| -> Option<u32> {
            lines(&["show", &format!("{commit}:{SLICE}")])
                .first()?
                .parse()
                .ok()
        };
        let date = |commit: &str| -> u64 {
            lines(&["log", "-1", "--format=%ct", commit])[0]
                .parse()
                .unwrap()
        };
        let before = landings.get(1).and_then(|commit| number(commit));
        let now = number(&landings[0]).expect("the number of the slice is one");
        let age = date("HEAD").saturating_sub(date(&landings[0]));
        raised(before, now, age).unwrap();
    }

    #[test]
    fn a_landing_that_raises_nothing_is_refused() {
        assert!(raised(Some(7), 8, 60).is_ok() && raised(None, 1, 0).is_ok());
        assert!(raised(Some(7), 7, 60).is_err() && raised(Some(7), 9, 60).is_err());
        let error = raised(Some(7), 8, LANDING + 1).unwrap_err().to_string();
        assert!(error.contains("echo 9 >.ci/slice"), "{error}");
    }
}
