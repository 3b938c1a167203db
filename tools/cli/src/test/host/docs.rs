//! The examples in the documentation.
use super::{Verdict, cargo, failure, libtest, run_to_end};
use crate::test::job::Job;
use anyhow::Result;
use std::collections::BTreeMap;
use tools::host::outcome::Outcome;
use tools::host::progress;

/// Examples in documentation; cargo runs them crate by crate.
pub fn doc_tests(job: &Job<'_>) -> Result<()> {
    if !job.may_want("host.doc.") {
        return Ok(());
    }
    job.report.begins();
    let listed = progress::step(
        "listing examples",
        &mut cargo(&["test", "--doc", "--", "--list"]),
    )?;
    let listed = String::from_utf8_lossy(&listed).into_owned();
    let names = listed
        .lines()
        .filter_map(|line| line.strip_suffix(": test"));
    let wanted: Vec<(String, String)> = examples(names.map(str::to_owned).collect())
        .into_iter()
        .filter(|(_, full)| job.wants(full))
        .collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let mut command = cargo(&["test", "--quiet", "--no-fail-fast", "--doc"]);
    command.args(["--", "--format=pretty"]);
    let (output, took) = progress::during("testing the examples of the documentation", || {
        run_to_end(&mut command)
    })?;
    let results = libtest(&output);
    if results.is_empty() && output.contains("error") {
        job.report
            .add("host.doc", Outcome::Failed(output), Some(took));
        return Ok(());
    }
    for (test, full) in wanted {
        let outcome = match results.iter().find(|(name, _)| *name == test) {
            Some((_, Verdict::Ok)) => Outcome::Passed,
            Some((_, Verdict::Ignored(why))) => Outcome::Skipped(why.clone()),
            Some((_, Verdict::Failed)) => Outcome::Failed(failure(&output, &test)),
            None => Outcome::Failed(output.clone()),
        };
        job.add(full, outcome, None);
    }
    Ok(())
}

/// Examples as libtest names them, `FILE - ITEM (line N)`, each with its full name, in which a
/// number tells those of one item apart: lines change with every edit.
fn examples(names: Vec<String>) -> Vec<(String, String)> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let full = |name: String| {
        let head = name
            .rsplit_once(" (line ")
            .map_or(name.as_str(), |(head, _)| head);
        let head = head.trim_end_matches(" -").replace(" - ", ":");
        let full = format!("host.doc.{}", head.replace("::", "."));
        let number = seen.entry(full.clone()).or_default();
        *number += 1;
        match *number {
            1 => (name, full),
            number => (name, format!("{full}#{number}")),
        }
    };
    names.into_iter().map(full).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_of_one_item_are_numbered() {
        let named = [
            "a/b.rs - b::C (line 3)",
            "a/b.rs - b::C (line 9)",
            "a/b.rs - (line 1)",
        ];
        let full = examples(named.map(str::to_owned).to_vec());
        let full: Vec<&str> = full.iter().map(|(_, full)| full.as_str()).collect();
        assert_eq!(
            full,
            [
                "host.doc.a/b.rs:b.C",
                "host.doc.a/b.rs:b.C#2",
                "host.doc.a/b.rs"
            ]
        );
    }
}
