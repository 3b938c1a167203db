//! `./run.sh proof`: checks the proofs in `proof/coq` with Coq, and prints the theorems and their
//! assumptions.
use crate::args::ProofArgs;
use crate::host::{install, progress, workspace};
use anyhow::{Context, Result, ensure};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// What was checked.
#[derive(Debug)]
pub struct Checked {
    /// The theorems as Coq prints them.
    pub theorems: String,
    /// How many of them there are.
    pub count: usize,
    /// How many statements lead to them: lemmas and examples.
    pub lemmas: usize,
}

/// Checks everything and returns the exit status.
pub fn proof(args: &ProofArgs) -> Result<u8> {
    install::ensure_coq(args.install.no_install)?;
    let started = Instant::now();
    let checked = check()?;
    println!("{}", checked.theorems);
    println!(
        "{} theorems and {} lemmas hold and rest on no axiom (Coq {}, {} s)",
        checked.count,
        checked.lemmas,
        install::coq_version().unwrap_or_default(),
        started.elapsed().as_secs()
    );
    Ok(0)
}

/// A statement of one of the files.
#[derive(Debug, PartialEq, Eq)]
struct Statement {
    /// `File.name`.
    name: String,
    /// A theorem or a corollary, and no step on the way.
    theorem: bool,
}

/// Compiles all files below `target/proofs`, so that nothing lies beside the sources, and makes Coq
/// print the assumptions of the statements.
pub fn check() -> Result<Checked> {
    let sources = workspace::root().join("proof/coq");
    let build = workspace::target().join("proofs");
    if build.exists() {
        fs::remove_dir_all(&build)?;
    }
    fs::create_dir_all(&build)?;
    let project = fs::read_to_string(sources.join("_CoqProject"))?;
    let mut statements = Vec::new();
    let files: Vec<&str> = project.lines().filter_map(module).collect();
    for file in &files {
        let text = fs::read_to_string(sources.join(format!("{file}.v")))
            .with_context(|| format!("proof/coq/{file}.v"))?;
        statements.extend(statements_of(file, &text));
        fs::write(build.join(format!("{file}.v")), text)?;
        compile(&build, file)?;
    }
    // All statements are printed, so that an unfinished one is found even if it is unused.
    fs::write(build.join("Summary.v"), summary(&files, &statements)?)?;
    let output = compile(&build, "Summary")?;
    let (theorems, rest) = output
        .split_once(MARK)
        .context("Coq's answer has no second part")?;
    ensure!(
        rest.contains(CLOSED) && !rest.contains("Axioms:"),
        "the proofs rest on something that was not proved:\n{rest}"
    );
    let count = statements.iter().filter(|one| one.theorem).count();
    ensure!(count > 0, "there are no theorems in proof/coq");
    Ok(Checked {
        theorems: theorems.trim_end().to_owned(),
        count,
        lemmas: statements.len() - count,
    })
}

/// Coq's output for "no axiom, no unfinished proof".
const CLOSED: &str = "Closed under the global context";
/// The separator between the theorems and their assumptions in Coq's output.
const MARK: &str = "assumptions\n";

/// The module in a line of `_CoqProject`.
fn module(line: &str) -> Option<&str> {
    line.trim().strip_suffix(".v")
}

/// All statements of a file, in order.
fn statements_of(file: &str, text: &str) -> Vec<Statement> {
    let parse = |line: &str| {
        let (kind, rest) = line.trim_start().split_once(' ')?;
        let theorem = match kind {
            "Theorem" | "Corollary" => true,
            "Lemma" | "Example" | "Fact" | "Remark" | "Proposition" => false,
            _ => return None,
        };
        let name = rest.split([' ', ':']).next()?;
        Some(Statement {
            name: format!("{file}.{name}"),
            theorem,
        })
    };
    text.lines().filter_map(parse).collect()
}

/// A last file that prints the theorems and the assumptions of all statements together: one
/// command, since each takes as long.
fn summary(files: &[&str], statements: &[Statement]) -> Result<String> {
    let mut text = format!(
        "From Coq Require Import ZArith List.\nFrom Quire Require Import {}.\nSet Printing Width 110.\n",
        files.join(" ")
    );
    for theorem in statements.iter().filter(|one| one.theorem) {
        writeln!(text, "Check {}.", theorem.name)?;
    }
    let all: Vec<String> = statements
        .iter()
        .map(|one| format!("@{}", one.name))
        .collect();
    writeln!(text, "Definition all := ({}).", all.join(", "))?;
    // idtac prints at once, in the order of the commands.
    writeln!(text, "Goal True. idtac \"{}\". Abort.", MARK.trim_end())?;
    writeln!(text, "Print Assumptions all.")?;
    Ok(text)
}

/// Compiles one file of the folder; what Coq printed.
fn compile(folder: &Path, file: &str) -> Result<String> {
    let mut command = Command::new("coqc");
    command
        .current_dir(folder)
        .args(["-q", "-Q", ".", "Quire"])
        .arg(format!("{file}.v"));
    let output = progress::step(&format!("checking proof/coq/{file}.v"), &mut command)?;
    Ok(String::from_utf8(output)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_statement_is_asked_about() {
        let text = "Section S.\nTheorem a x :\n  x = x.\n  Lemma b {A : Type} : True.\nDefinition c := 1.\nCorollary d: True.\n";
        let statements = statements_of("F", text);
        let names: Vec<_> = statements
            .iter()
            .map(|one| (one.name.as_str(), one.theorem))
            .collect();
        assert_eq!(names, [("F.a", true), ("F.b", false), ("F.d", true)]);
        let summary = summary(&["F"], &statements).unwrap();
        assert!(summary.contains("Check F.a.\nCheck F.d.\n"), "{summary}");
        assert!(summary.contains("(@F.a, @F.b, @F.d)"), "{summary}");
    }

    /// All files are in the project, so that none goes unchecked.
    #[test]
    fn every_file_is_checked() {
        let folder = workspace::root().join("proof/coq");
        let project = fs::read_to_string(folder.join("_CoqProject")).unwrap();
        let mut listed: Vec<_> = project.lines().filter_map(module).collect();
        let found = fs::read_dir(folder).unwrap().filter_map(|entry| {
            let name = entry.unwrap().file_name().into_string().unwrap();
            module(&name).map(str::to_owned)
        });
        let mut found: Vec<_> = found.collect();
        listed.sort_unstable();
        found.sort_unstable();
        assert_eq!(listed, found);
    }
}
