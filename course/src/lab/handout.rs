//! `./run.sh lab handout`: a students' repository, which is this one without the answers.
//!
//! The folders `answer` and `instead` are left out. What is about a lab in the kernel's source has
//! a stand-in: `instead/handout.diff` in the lab's folder puts it there, in the form of a seam.
use super::list::{self, LABS, Lab};
use super::seams::{self, Files};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::Path;
use std::process::Command;
use tools::args::HandoutArgs;
use tools::host::errors::UsageError;
use tools::host::workspace;

/// What puts the stand-ins of a lab in the kernel's source, in its folder.
const STAND_INS: &str = "instead/handout.diff";

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
    let mut files = kept()?;
    put_stand_ins(&mut files, labs)?;
    let numbers = labs.iter().map(|lab| format!("{}\n", lab.number));
    files.insert(OF.to_owned(), numbers.collect::<String>().into_bytes());
    Ok(files)
}

/// What every handout has.
fn kept() -> Result<Files> {
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
        let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        files.insert(name.to_owned(), bytes);
    }
    Ok(files)
}

/// Puts stand-ins in the place of what these labs are about.
fn put_stand_ins(files: &mut Files, labs: &[&Lab]) -> Result<()> {
    labs.iter()
        .try_for_each(|lab| seams::apply(files, &lab.folder().join(STAND_INS)))
}

fn is_left_out(name: &str) -> bool {
    let folders = ["/answer/", "/instead/"];
    name.starts_with("course/labs/") && folders.iter().any(|folder| name.contains(folder))
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

    /// Whoever edits the memory manager where a lab has its seam, or a handout its stand-in, learns
    /// it here.
    #[test]
    fn seams_apply_to_this_source_and_to_each_handout() {
        let here = kept().unwrap();
        let each = LABS.iter();
        let each = each.filter(|lab| lab.folder().join(STAND_INS).exists());
        let alone = each.clone().map(|lab| vec![lab]);
        for labs in alone.chain([vec![], each.collect()]) {
            let mut handout = here.clone();
            put_stand_ins(&mut handout, &labs).unwrap();
            seams::apply_all(&mut handout).unwrap();
            let seamed = handout
                .iter()
                .filter(|(name, _)| name.starts_with("kernel/mm/src/"));
            let seamed: Vec<_> = seamed
                .map(|(_, file)| String::from_utf8_lossy(file))
                .collect();
            for lab in LABS {
                let asked = format!("#[cfg(feature = \"lab-{}\")]", lab.feature);
                assert!(seamed.iter().any(|file| file.contains(&asked)), "{asked}");
            }
        }
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
            assert!(secret.len() > before, "lab {} has no stand-in", lab.number);
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
