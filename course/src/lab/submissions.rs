//! Many students: `./run.sh lab collect` and `./run.sh lab grade`.
use super::grade::{self, Limits, Submission};
use super::handout::{self, OF};
use super::list::{self, FILES, Lab, WORDS};
use super::points::Grade;
use super::sandbox::Sandbox;
use super::seams::Files;
use super::source;
use anyhow::{Context, Result, anyhow, ensure};
use serde_json::Value;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use tools::args::{CollectArgs, GradeArgs};
use tools::host::errors::UsageError;
use tools::host::{install, workers, workspace};

/// Copies the files of a student out of each repository, and says what else was changed there: that
/// does not count.
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
                first_of(&changed)
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
    let place = dir.join(folder);
    ensure!(
        fs::canonicalize(&place)?.starts_with(fs::canonicalize(dir)?),
        "{} leads out of it",
        place.display()
    );
    let words = place.join(WORDS).exists().then_some(WORDS);
    for file in FILES.into_iter().chain(words) {
        let text = source::read(&place, file)?;
        let text = text.map_err(|why| anyhow!("cannot take {file}: {why}"))?;
        fs::write(into.join(file), text)?;
    }
    let theirs = |name: &str, most| source::regular(&dir.join(name), most).ok()?.ok();
    let numbers = String::from_utf8(theirs(OF, 1 << 10).unwrap_or_default()).unwrap_or_default();
    let numbers: Vec<u32> = numbers
        .lines()
        .filter_map(|line| line.parse().ok())
        .collect();
    let handed: Files = handout::files(&handout::chosen(&numbers)?)?;
    let own = FILES.into_iter().chain([WORDS]);
    let of_student = |name: &str| {
        name.starts_with("course/labs/") && own.clone().any(|file| name.ends_with(file))
    };
    let changed = handed.iter().filter(|(name, bytes)| {
        !of_student(name) && theirs(name, bytes.len() as u64).as_ref() != Some(bytes)
    });
    Ok(changed.map(|(name, _)| name.clone()).collect())
}

fn name(dir: &Path) -> Result<String> {
    let name = dir.file_name().context("a folder without a name")?;
    Ok(name.to_string_lossy().into_owned())
}

/// The first names of a list, and how many there are more.
fn first_of(names: &[String]) -> String {
    const SHOWN: usize = 10;
    let (shown, more) = names.split_at(names.len().min(SHOWN));
    match more.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
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
    let csv = workspace::writable("--csv", args.csv.as_deref())?;
    let arches = args.machines.arch.arches();
    install::ensure_qemu(arches, args.install.no_install)?;
    let sandbox = Sandbox::of(args.trust)?;
    let csv = csv.map(csv::Writer::from_path).transpose()?;
    let table = Table::new(dirs.len(), csv, args.json.as_deref())?;
    let written = workers::map(&dirs, workers::cpus(), |dir| {
        let grade = grade::grade(&Submission {
            lab,
            from: dir,
            sandbox,
            arches,
            seed: args.seed,
            bless: false,
            live: false,
            limits: Limits::OF_GRADES,
        });
        table.add(&Row::new(name(dir)?, grade))
    });
    written.into_iter().collect::<Result<()>>()?;
    Ok(0)
}

/// Where each line goes as soon as it is known.
struct Table<'a> {
    all: usize,
    json: Option<&'a Path>,
    /// How many are done, and the file for them.
    done: Mutex<(usize, Option<csv::Writer<File>>)>,
}

impl<'a> Table<'a> {
    fn new(
        all: usize,
        mut csv: Option<csv::Writer<File>>,
        json: Option<&'a Path>,
    ) -> Result<Table<'a>> {
        if let Some(csv) = &mut csv {
            csv.write_record(["submission", "points", "of", "first loss"])?;
            csv.flush()?;
        }
        if let Some(folder) = json {
            fs::create_dir_all(folder)?;
        }
        eprintln!("run.sh: {all} submissions; a line for each as it ends");
        Ok(Table {
            all,
            json,
            done: Mutex::new((0, csv)),
        })
    }

    fn add(&self, row: &Row) -> Result<()> {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, csv) = &mut *done;
        *count += 1;
        println!("{:>5.1}  {}: {}", row.points, row.name, row.words);
        eprintln!("run.sh: {count} of {} graded", self.all);
        if let Some(csv) = csv {
            let (points, most) = (row.points.to_string(), row.most.to_string());
            csv.write_record([&row.name, &points, &most, &row.words])?;
            csv.flush()?;
        }
        if let Some(folder) = self.json {
            let text = serde_json::to_string_pretty(&row.json)?;
            let path = folder.join(format!("{}.json", row.name));
            workspace::replace(&path, |new| Ok(fs::write(new, text + "\n")?))?;
        }
        Ok(())
    }
}

/// A line of the table.
struct Row {
    name: String,
    points: f64,
    most: f64,
    /// The first part that went wrong, and why.
    words: String,
    json: Value,
}

impl Row {
    fn new(name: String, grade: Result<Grade>) -> Row {
        let grade = grade.unwrap_or_else(|error| {
            let mut none = Grade::default();
            none.add("not graded", (0.0, 0.0), format!("{error:#}"));
            none
        });
        let (points, most) = grade.total();
        let words = grade.first_loss();
        Row {
            name,
            points: (points * 10.0).round() / 10.0,
            most,
            json: grade.json(&words),
            words,
        }
    }
}
