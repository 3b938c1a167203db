//! `./run.sh lab handout`: a students' repository, which is this one without the answers.
//!
//! The folders `answer` are left out. In the kernel's source, what a lab is about stands between
//! two lines, and the first says what comes in its place; further ones may follow it. What is
//! longer has a file of its own:
//!
//! ```text
//! // In handouts of lab 1: let _ = facts;
//! // In handouts of lab 1: Order(0)
//! // End of lab 1.
//! // In handouts of lab 6: course/labs/06-owner/instead/unified.rs
//! // End of lab 6.
//! ```
use super::list::{self, LABS, Lab};
use anyhow::{Context, Result, bail};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use tools::args::HandoutArgs;
use tools::host::errors::UsageError;
use tools::host::workspace;

/// The contents of a repository by path.
pub type Files = BTreeMap<String, Vec<u8>>;

/// Which labs a handout is of, in a file of its own.
pub const OF: &str = "course/labs/handout";

/// Writes one.
pub fn handout(args: &HandoutArgs) -> Result<u8> {
    let labs = chosen(&args.labs)?;
    let dir = workspace::user_path(&args.dir);
    if dir.exists() {
        return Err(UsageError(format!("{} is there already", dir.display())).into());
    }
    let count = write(&dir, &labs)?;
    let numbers: Vec<String> = labs.iter().map(|lab| lab.number.to_string()).collect();
    println!(
        "{}: {} files, without the answers of labs {}",
        dir.display(),
        count,
        numbers.join(", ")
    );
    Ok(0)
}

/// The labs of these numbers, or all.
pub fn chosen(numbers: &[u32]) -> Result<Vec<&'static Lab>, UsageError> {
    match numbers.is_empty() {
        true => Ok(LABS.iter().collect()),
        false => numbers
            .iter()
            .map(|number| list::by_number(*number))
            .collect(),
    }
}

/// What a handout of these labs has.
pub fn files(labs: &[&Lab]) -> Result<Files> {
    let root = workspace::root();
    let mut git = Command::new("git");
    let output = git.current_dir(root).args(["ls-files", "-z"]).output();
    let output = output.context("cannot start git")?;
    if !output.status.success() {
        bail!("git does not know the files here: a handout is made from a clone");
    }
    let names = String::from_utf8(output.stdout).context("a file's name is not UTF-8")?;
    let mut files = Files::new();
    for name in names
        .split('\0')
        .filter(|name| !name.is_empty() && !is_left_out(name))
    {
        let path = root.join(name);
        let mut bytes =
            fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        if let Some(text) = name
            .ends_with(".rs")
            .then(|| str::from_utf8(&bytes).ok())
            .flatten()
        {
            bytes = without(text, labs)
                .with_context(|| name.to_owned())?
                .into_bytes();
        }
        files.insert(name.to_owned(), bytes);
    }
    let numbers = labs.iter().map(|lab| format!("{}\n", lab.number));
    files.insert(OF.to_owned(), numbers.collect::<String>().into_bytes());
    Ok(files)
}

fn is_left_out(name: &str) -> bool {
    let folders = ["/answer/", "/instead/"];
    name.starts_with("course/labs/") && folders.iter().any(|folder| name.contains(folder))
}

/// A source file with what is to be written by students replaced.
fn without(text: &str, labs: &[&Lab]) -> Result<String> {
    // The lab that a line is about, and what it puts in place of what follows.
    let instead = |line: &str| -> Option<Result<(u32, String)>> {
        let words = line.trim().strip_prefix("// In handouts of lab ")?;
        let (number, instead) = words.split_once(": ")?;
        let number = number.parse::<u32>().ok()?;
        let chosen = labs.iter().any(|lab| lab.number == number);
        let indent = &line[..line.len() - line.trim_start().len()];
        chosen.then(|| Ok((number, indented(&text_of(instead)?, indent))))
    };
    let mut new = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some((number, first)) = instead(line).transpose()? else {
            new += line;
            new += "\n";
            continue;
        };
        new += &first;
        let end = format!("// End of lab {number}.");
        let mut ended = false;
        for line in lines.by_ref().take_while(|line| {
            ended = line.trim() == end;
            !ended
        }) {
            if let Some((_, more)) = instead(line).transpose()? {
                new += &more;
            }
        }
        if !ended {
            bail!("lab {number} has no end");
        }
    }
    Ok(new)
}

/// What comes in a region's place: the words themselves, or what the file has that they name.
fn text_of(words: &str) -> Result<Cow<'_, str>> {
    if !words.starts_with("course/labs/") {
        return Ok(words.into());
    }
    let text = fs::read_to_string(workspace::root().join(words));
    Ok(text.with_context(|| format!("cannot read {words}"))?.into())
}

fn indented(text: &str, indent: &str) -> String {
    let line = |line: &str| match line {
        "" => "\n".to_owned(),
        _ => format!("{indent}{line}\n"),
    };
    text.lines().map(line).collect()
}

/// Writes the repository to a new folder; how many files it has.
pub fn write(dir: &Path, labs: &[&Lab]) -> Result<usize> {
    let files = files(labs)?;
    for (name, bytes) in &files {
        let path = dir.join(name);
        let folder = path.parent().map(Path::to_path_buf);
        fs::create_dir_all(folder.unwrap_or_default())?;
        fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
        copy_mode(&workspace::root().join(name), &path);
    }
    commit(dir)?;
    Ok(files.len())
}

/// Scripts stay executable.
fn copy_mode(from: &Path, to: &Path) {
    if let Ok(of) = fs::metadata(from) {
        let _ = fs::set_permissions(to, of.permissions());
    }
}

/// A history of one commit, in which there was never more.
fn commit(dir: &Path) -> Result<()> {
    let name = ["-c", "user.name=Quire", "-c", "user.email=labs@localhost"];
    for args in [
        &["init", "--quiet", "--initial-branch=main"][..],
        &["add", "--all"],
        &["commit", "--quiet", "--message=Labs"],
    ] {
        let mut git = Command::new("git");
        git.current_dir(dir).args(name).args(args);
        if !git.status().context("cannot start git")?.success() {
            bail!("git {} failed in {}", args[0], dir.display());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_replaced_where_its_lab_is_chosen() {
        let text = "fn f() {\n    // In handouts of lab 1: g();\n    // In handouts of lab 1: h()\n    \
                    secret();\n    // End of lab 1.\n}\n";
        let one = list::by_number(1).unwrap();
        let handed_out = "fn f() {\n    g();\n    h()\n}\n";
        assert_eq!(without(text, &[one]).unwrap(), handed_out);
        assert_eq!(without(text, &[]).unwrap(), text);
        assert!(without("// In handouts of lab 1: g()\n", &[one]).is_err());
    }

    #[test]
    fn a_region_may_name_a_file() {
        let six = list::by_number(6).unwrap();
        let region = |file| {
            let name = format!("course/labs/06-owner/instead/{file}");
            format!("    // In handouts of lab 6: {name}\n    secret();\n    // End of lab 6.\n")
        };
        let handed_out = without(&region("unified.rs"), &[six]).unwrap();
        let code = "\n\n    pub use crate::total::Total as Unified;\n";
        assert!(handed_out.contains(code), "{handed_out}");
        assert!(!handed_out.contains("secret"), "{handed_out}");
        let error = without(&region("nothing.rs"), &[six]).unwrap_err();
        assert!(error.to_string().contains("instead/nothing.rs"), "{error}");
    }

    /// No two lines that stand together in an answer, or in what the kernel has in its place, stand
    /// together anywhere in a handout.
    #[test]
    fn answers_are_nowhere_in_a_handout() {
        let labs = chosen(&[]).unwrap();
        let (all, handout) = (files(&[]).unwrap(), files(&labs).unwrap());
        let text = |files: &Files, name: &str| {
            files
                .get(name)
                .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
        };
        let mut secret = Vec::new();
        for lab in &labs {
            let answer = fs::read_to_string(lab.answer().join("solution.rs")).unwrap();
            secret.extend(pairs(&answer));
            let regions = all
                .keys()
                .filter(|name| text(&handout, name) != text(&all, name));
            let before = secret.len();
            for name in regions.filter(|name| *name != OF) {
                let kept: Vec<_> = pairs(&text(&handout, name).unwrap()).collect();
                let here = text(&all, name).unwrap();
                secret.extend(pairs(&here).filter(|pair| !kept.contains(pair)));
            }
            assert!(secret.len() > before, "lab {} has no region", lab.number);
        }
        assert!(secret.len() > 20 * labs.len());
        for (name, bytes) in &handout {
            let here: Vec<_> = pairs(&String::from_utf8_lossy(bytes)).collect();
            let told = secret.iter().find(|pair| here.contains(pair));
            assert_eq!(told, None, "{name} tells it");
        }
    }

    /// Each two lines that follow each other, of those that say something; imports do not.
    fn pairs(text: &str) -> impl Iterator<Item = (String, String)> + use<> {
        let lines = text
            .lines()
            .map(|line| line.trim().trim_start_matches('/').trim().to_owned());
        let says = |line: &String| line.len() > 12 && !line.starts_with("use ");
        let lines: Vec<String> = lines.filter(says).collect();
        let next = lines.clone().into_iter().skip(1);
        lines.into_iter().zip(next).collect::<Vec<_>>().into_iter()
    }
}
