//! The seams of the labs: what makes a student's code part of the memory manager. They are applied
//! to a copy of this workspace, in which all that a lab needs is built; the product itself has no
//! line of a lab.
//!
//! A seam is a unified diff without numbers of lines: a hunk applies where its lines are, which
//! must be one place.
//!
//! ```text
//! +++ kernel/mm/src/thp/lab.rs = seam.rs    a whole file, from the folder of the diff
//! +++ kernel/mm/src/thp/mod.rs
//! @@
//!  pub mod khugepaged;                      stays
//! -pub mod permit;                          goes
//! ~                                         goes, too: all lines up to the next one, or to the end
//! +pub(crate) mod lab;                      is new
//! ```
use super::list::LABS;
use anyhow::{Context, Result, anyhow, ensure};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use tools::host::workspace;
use tools::machine::build;

/// The contents of a repository by path.
pub type Files = BTreeMap<String, Vec<u8>>;

/// The seam of a lab, in its folder; in that of the labs, what all of them need.
const SEAM: &str = "seam.diff";

/// A build with the code of labs: in the copy, into a folder of its own, as two workspaces whose
/// packages have the same names would replace each other's.
pub fn cargo() -> Result<Command> {
    let mut command = Command::new("cargo");
    command.current_dir(copy()?);
    command.env("CARGO_TARGET_DIR", builds());
    // Each submission changes a file or two, also where the caller builds once only.
    command.env("CARGO_PROFILE_DEV_INCREMENTAL", "true");
    Ok(command)
}

/// Where such a build writes.
pub fn builds() -> PathBuf {
    folder().join("build")
}

/// Where all is that is made for labs.
pub fn folder() -> PathBuf {
    workspace::target().join("labs")
}

/// The copy, which is brought up to date once in a run of this program: submissions are graded
/// beside each other. Only what differs is written, so that cargo builds no more than that again.
pub fn copy() -> Result<PathBuf> {
    static UP_TO_DATE: Mutex<bool> = Mutex::new(false);
    let copy = folder().join("copy");
    let mut up_to_date = UP_TO_DATE.lock().unwrap_or_else(PoisonError::into_inner);
    if !*up_to_date {
        let _alone = workspace::lock(&folder().join("copy.lock"))?;
        let mut files = Files::new();
        read(workspace::root(), "", &mut files)?;
        apply_all(&mut files)?;
        for (name, bytes) in &files {
            let path = copy.join(name);
            fs::create_dir_all(path.parent().context("a file is in a folder")?)?;
            build::replace(&path, bytes)?;
        }
        let mut old = Files::new();
        read(&copy, "", &mut old)?;
        for name in old.keys().filter(|name| !files.contains_key(*name)) {
            fs::remove_file(copy.join(name))?;
        }
        fs::create_dir_all(builds())?;
        *up_to_date = true;
    }
    Ok(copy)
}

/// The files below a folder, but for what is built, and for `.cargo`: cargo finds that of this
/// checkout above the copy.
fn read(root: &Path, folder: &str, files: &mut Files) -> Result<()> {
    let path = root.join(folder);
    let about = || format!("cannot read {}", path.display());
    for entry in fs::read_dir(&path).with_context(about)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // Also where CARGO_TARGET_DIR names another folder now.
        let built = [workspace::target(), root.join("target")].contains(&entry.path());
        if name.starts_with('.') || built {
            continue;
        }
        let name = if folder.is_empty() {
            name
        } else {
            format!("{folder}/{name}")
        };
        let kind = entry.file_type()?;
        if kind.is_dir() {
            read(root, &name, files)?;
        } else if kind.is_file() {
            files.insert(name, fs::read(entry.path()).with_context(about)?);
        }
    }
    Ok(())
}

/// Applies the seams of all labs to the files of this workspace, or of a handout: features of the
/// crates choose among them.
pub fn apply_all(files: &mut Files) -> Result<()> {
    apply(files, &workspace::root().join("course/labs").join(SEAM))?;
    LABS.iter()
        .try_for_each(|lab| apply(files, &lab.folder().join(SEAM)))
}

/// Applies one diff.
pub fn apply(files: &mut Files, diff: &Path) -> Result<()> {
    let about = || {
        diff.strip_prefix(workspace::root())
            .unwrap_or(diff)
            .display()
    };
    let text = fs::read_to_string(diff).with_context(|| format!("cannot read {}", about()))?;
    let lines: Vec<&str> = text.lines().collect();
    let mut file = "";
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        at += 1;
        if let Some(name) = line.strip_prefix("+++ ") {
            file = name;
            if let Some((name, source)) = name.split_once(" = ") {
                files.insert(name.to_owned(), fs::read(diff.with_file_name(source))?);
            }
            continue;
        }
        ensure!(line.starts_with("@@"), "{}:{at}: no hunk: {line}", about());
        let hunk = lines[at..].iter();
        let hunk = hunk.take_while(|line| !line.starts_with("@@") && !line.starts_with("+++ "));
        let hunk: Vec<&str> = hunk.copied().collect();
        let changed = files
            .get(file)
            .ok_or_else(|| "there is no such file".to_owned())
            .and_then(|old| change(&String::from_utf8_lossy(old), &hunk));
        let changed = changed.map_err(|why| {
            let hunk = hunk.join("\n");
            anyhow!(
                "{}:{at} does not fit {file} any longer: {why}:\n{hunk}",
                about()
            )
        })?;
        files.insert(file.to_owned(), changed.into_bytes());
        at += hunk.len();
    }
    Ok(())
}

/// A text with a hunk applied, or why it does not apply.
fn change(text: &str, hunk: &[&str]) -> Result<String, String> {
    let old: Vec<&str> = text.lines().collect();
    // What is there, in pieces between which all lines go.
    let pieces = hunk.split(|line| *line == "~").map(|piece| {
        let old = piece.iter().filter(|line| !line.starts_with('+'));
        old.map(|line| line.get(1..).unwrap_or_default()).collect()
    });
    let mut pieces = pieces.collect::<Vec<Vec<&str>>>().into_iter();
    let first = pieces.next().unwrap_or_default();
    let mut found = places(&old, &first);
    let mut at = found.next().ok_or("its lines are not there")?;
    if found.next().is_some() {
        return Err("its lines are there more than once".to_owned());
    }
    let mut new = old[..at].to_vec();
    for line in hunk {
        match line.as_bytes().first() {
            Some(b'+') => new.push(&line[1..]),
            Some(b'-') => at += 1,
            Some(b'~') => {
                at += match pieces.next().unwrap_or_default() {
                    end if end.is_empty() => old.len() - at,
                    next => {
                        let next = places(&old[at..], &next).next();
                        next.ok_or("the lines after `~` are not there")?
                    }
                }
            }
            _ => {
                new.push(old[at]);
                at += 1;
            }
        }
    }
    new.extend(&old[at..]);
    Ok(new.join("\n") + "\n")
}

/// Where these lines, one at least, stand in a text.
fn places<'a>(text: &'a [&str], lines: &'a [&str]) -> impl Iterator<Item = usize> + 'a {
    let windows = text.windows(lines.len().max(1)).enumerate();
    windows.filter_map(move |(at, window)| (window == lines).then_some(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hunk_applies_where_its_lines_are() {
        let text = "fn f() {\n    a();\n}\n\nfn g() {\n    a();\n    b();\n}\n";
        let new = change(text, &[" fn g() {", "+    c();", "     a();"]).unwrap();
        assert_eq!(new, text.replace("fn g() {\n", "fn g() {\n    c();\n"));
        let new = change(text, &["-    b();", "+    c();", "+", " }"]).unwrap();
        assert_eq!(new, text.replace("    b();\n", "    c();\n\n"));
        for (hunk, why) in [
            (&["     a();", "+    c();"][..], "more than once"),
            (&["     d();", "+    c();"], "not there"),
            (&[" fn f() {", "     b();"], "not there"),
            (&["+    c();"], "not there"),
        ] {
            let error = change(text, hunk).unwrap_err();
            assert!(error.contains(why), "{hunk:?}: {error}");
        }
    }

    #[test]
    fn lines_go_up_to_the_next_one_or_to_the_end() {
        let text = "fn f() {\n    a();\n}\n\nfn g() {\n    a();\n    b();\n}\n";
        let new = change(text, &[" fn f() {", "~", "+    c();", " }"]).unwrap();
        assert_eq!(new, text.replacen("a()", "c()", 1));
        let new = change(text, &[" fn g() {", "~", "+}"]).unwrap();
        assert_eq!(new, "fn f() {\n    a();\n}\n\nfn g() {\n}\n");
        let error = change(text, &[" fn g() {", "~", " fn f() {"]).unwrap_err();
        assert!(error.contains("after `~`"), "{error}");
    }

    #[test]
    fn a_diff_names_whole_files_and_places_in_others() {
        let folder = workspace::Temporary::folder("seams").unwrap();
        let diff = folder.path().join(SEAM);
        let text =
            "+++ a/new.rs = new.rs\n+++ a/old.rs\n@@\n mod a;\n+mod b;\n@@\n mod c;\n+mod d;\n";
        fs::write(&diff, text).unwrap();
        fs::write(folder.path().join("new.rs"), "fn f() {}\n").unwrap();
        let mut files = Files::new();
        files.insert("a/old.rs".to_owned(), b"mod a;\nmod c;\n".to_vec());
        apply(&mut files, &diff).unwrap();
        assert_eq!(files["a/new.rs"], b"fn f() {}\n");
        assert_eq!(files["a/old.rs"], b"mod a;\nmod b;\nmod c;\nmod d;\n");
        let error = apply(&mut Files::new(), &diff).unwrap_err().to_string();
        assert!(
            error.contains("a/old.rs any longer: there is no such file"),
            "{error}"
        );
    }

    #[test]
    fn a_hunk_that_does_not_apply_is_named() {
        let mut files = Files::new();
        read(workspace::root(), "", &mut files).unwrap();
        let name = "kernel/mm/src/thp/mod.rs";
        files.insert(name.to_owned(), b"// Nothing.\n".to_vec());
        let error = apply_all(&mut files).unwrap_err().to_string();
        assert!(
            error.starts_with("course/labs/01-order/seam.diff:"),
            "{error}"
        );
        assert!(error.contains("kernel/mm/src/thp/mod.rs"), "{error}");
        assert!(error.contains("+pub(crate) mod lab;"), "{error}");
    }
}
