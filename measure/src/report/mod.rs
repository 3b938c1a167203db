//! `./run.sh report`: one page that shows all figures, with plots, tables and the command that
//! measures each. It loads nothing and runs no script.
mod ablation;
#[cfg(test)]
mod browser;
mod chart;
mod conflicts;
mod contpte;
mod cost;
mod data;
mod date;
pub mod frames;
mod gather;
mod html;
mod page;
mod reclaim;
mod scaling;
mod summary;

use anyhow::{Context, Result};
use data::Data;
pub use html::grouped;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
pub use summary::summary;
use tools::args::ReportArgs;
use tools::host::workspace;

/// Reads or measures, and writes the page; the exit status is 1 when something could not be
/// measured, and 130 after ctrl-c: the page then has what was measured until that.
pub fn report(args: &ReportArgs) -> Result<u8> {
    let out = match &args.out {
        Some(folder) => workspace::user_path(folder),
        None => workspace::target().join("report"),
    };
    fs::create_dir_all(&out).with_context(|| format!("--out {}", out.display()))?;
    let (files, ended) = match args.from.is_empty() {
        false => (
            args.from
                .iter()
                .map(|file| workspace::user_path(file))
                .collect(),
            0,
        ),
        true => gather::gather(args, &workspace::target().join("report/data"))?,
    };
    let index = out.join("index.html");
    let text = page_of(&files, args)?;
    workspace::replace(&index, |new| Ok(fs::write(new, &text)?))?;
    println!("{}", index.display());
    Ok(ended)
}

/// The page for these files.
fn page_of(files: &[PathBuf], args: &ReportArgs) -> Result<String> {
    let mut data = Data::default();
    let mut newest = None;
    for file in files {
        let name = file.display().to_string();
        let text = fs::read(file).with_context(|| format!("cannot read {name}"))?;
        data.read(&name, &String::from_utf8_lossy(&text))?;
        newest = newest.max(fs::metadata(file)?.modified().ok());
    }
    data.only(args.machines.arch.arches());
    let names: Vec<String> = match args.from.is_empty() {
        true => Vec::new(),
        false => files.iter().map(|file| name(file)).collect(),
    };
    page::page(
        &data,
        &date::day(newest.unwrap_or_else(SystemTime::now)),
        &names,
    )
}

/// What the page calls a file: where it lies is nobody's business.
fn name(file: &Path) -> String {
    file.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tools::args::{ReportArgs, options};
    use tools::host::workspace::Temporary;

    #[test]
    fn a_page_from_files() {
        let folder = Temporary::folder("report").unwrap();
        let file = folder.path().join("figures.jsonl");
        let line = r#"{"op":"fork","folio_kb":64,"per_page":2.5,"arch":"x86_64","kernel":"quire"}"#;
        fs::write(&file, line).unwrap();
        let out = folder.path().join("new/out");
        let line = format!(
            "run.sh report --from {} --out {}",
            file.display(),
            out.display()
        );
        assert_eq!(report(&options::<ReportArgs>(&line)).unwrap(), 0);
        let page = fs::read_to_string(out.join("index.html")).unwrap();
        assert!(page.contains("./run.sh report --from figures.jsonl"));
        assert!(!page.contains(&folder.path().display().to_string()));
        assert!(page.contains("<figcaption>fork</figcaption>"));
        let line = format!("run.sh report --from {}.not", file.display());
        assert!(report(&options::<ReportArgs>(&line)).is_err());
    }
}
