//! Many students: `./run.sh lab collect` and `./run.sh lab grade`.
use super::grade::{self, Limits, Submission};
use super::handout::{self, Files, OF};
use super::list::{self, FILES, Lab};
use super::points::Grade;
use crate::args::{CollectArgs, GradeArgs};
use crate::{UsageError, install, workers, workspace};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Copies each repository's two files, and says what else was changed there: that does not count.
pub fn collect(args: &CollectArgs) -> Result<u8> {
    let lab = list::by_number(args.number)?;
    let into = workspace::user_path(&args.into);
    let mut status = 0;
    for dir in &args.dirs {
        let dir = workspace::user_path(dir);
        let name = name(&dir)?;
        match one(lab, &dir, &into.join(&name)) {
            Ok(changed) if changed.is_empty() => println!("{name}: taken"),
            Ok(changed) => println!(
                "{name}: taken; also changed, and the original is used: {}",
                changed.join(", ")
            ),
            Err(error) => {
                println!("{name}: {error:#}");
                status = 1;
            }
        }
    }
    Ok(status)
}

/// Takes one; the other files that are not as they were handed out.
fn one(lab: &Lab, dir: &Path, into: &Path) -> Result<Vec<String>> {
    let folder = lab.folder();
    let folder = folder.strip_prefix(workspace::root())?;
    fs::create_dir_all(into).with_context(|| format!("cannot make {}", into.display()))?;
    for file in FILES {
        let from = dir.join(folder).join(file);
        fs::copy(&from, into.join(file))
            .with_context(|| format!("cannot take {}", from.display()))?;
    }
    let numbers = fs::read_to_string(dir.join(OF)).unwrap_or_default();
    let numbers: Vec<u32> = numbers
        .lines()
        .filter_map(|line| line.parse().ok())
        .collect();
    let handed: Files = handout::files(&handout::chosen(&numbers)?)?;
    let of_student =
        |name: &str| name.starts_with("labs/") && FILES.iter().any(|file| name.ends_with(file));
    let changed = handed.iter().filter(|(name, bytes)| {
        !of_student(name) && fs::read(dir.join(name)).ok().as_ref() != Some(bytes)
    });
    Ok(changed.map(|(name, _)| name.clone()).collect())
}

fn name(dir: &Path) -> Result<String> {
    let name = dir.file_name().context("a folder without a name")?;
    Ok(name.to_string_lossy().into_owned())
}

/// Grades many submissions, as many at a time as this computer has CPUs.
pub fn grade_all(args: &GradeArgs) -> Result<u8> {
    let lab = list::by_number(args.number)?;
    let dirs: Vec<PathBuf> = args
        .dirs
        .iter()
        .map(|dir| workspace::user_path(dir))
        .collect();
    for dir in &dirs {
        if !dir.is_dir() {
            return Err(UsageError(format!("{} is not a folder", dir.display())).into());
        }
    }
    let csv = args
        .csv
        .as_deref()
        .map(|path| workspace::writable("--csv", path))
        .transpose()?;
    let arches = args.machines.arch.arches();
    install::ensure_qemu(arches, args.install.no_install)?;
    let grades = workers::map(&dirs, workers::cpus(), |dir| {
        grade::grade(&Submission {
            lab,
            from: dir,
            arches,
            seed: args.seed,
            bless: false,
            live: false,
            limits: Limits::OF_GRADES,
        })
    });
    let mut rows = Vec::new();
    for (dir, grade) in dirs.iter().zip(grades) {
        let row = Row::new(name(dir)?, &grade);
        println!("{:>5.1}  {}: {}", row.points, row.name, row.words);
        if let (Some(folder), Ok(grade)) = (&args.json, &grade) {
            fs::create_dir_all(folder)?;
            let text = serde_json::to_string_pretty(&grade.json())?;
            fs::write(folder.join(format!("{}.json", row.name)), text + "\n")?;
        }
        rows.push(row);
    }
    if let Some(path) = csv {
        let mut file = csv::Writer::from_path(&path)?;
        file.write_record(["submission", "points", "of", "first loss"])?;
        for row in &rows {
            let (points, most) = (row.points.to_string(), row.most.to_string());
            file.write_record([&row.name, &points, &most, &row.words])?;
        }
        file.flush()?;
    }
    Ok(0)
}

/// A line of the table.
struct Row {
    name: String,
    points: f64,
    most: f64,
    /// The first part that lost points, and why.
    words: String,
}

impl Row {
    fn new(name: String, grade: &Result<Grade>) -> Row {
        let (points, most, words) = match grade {
            Ok(grade) => {
                let (points, most) = grade.total();
                let lost = grade
                    .parts
                    .iter()
                    .find(|part| part.points.1 - part.points.0 > 1e-9);
                let words = lost.map_or_else(
                    || "all".to_owned(),
                    |part| {
                        format!(
                            "{}: {}",
                            part.name,
                            part.words.lines().next().unwrap_or_default()
                        )
                    },
                );
                (points, most, words)
            }
            Err(error) => (0.0, 0.0, format!("not graded: {error:#}")),
        };
        Row {
            name,
            points: (points * 10.0).round() / 10.0,
            most,
            words,
        }
    }
}
