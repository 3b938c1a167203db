//! The results as files, written anew after each run: an interrupted sweep loses none of them.
use super::own::plain;
use super::row::{Row, columns};
use anyhow::{Context, Result};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use tools::host::errors::UsageError;
use tools::host::workspace;

/// What was asked for.
pub struct Files {
    csv: Option<PathBuf>,
    json: Option<PathBuf>,
}

impl Files {
    /// Errors when one cannot be written.
    pub fn of(csv: Option<&Path>, json: Option<&Path>) -> Result<Files, UsageError> {
        Ok(Files {
            csv: workspace::writable("--csv", csv)?,
            json: workspace::writable("--json", json)?,
        })
    }

    /// Writes all rows.
    pub fn write(&self, rows: &[Row]) -> Result<()> {
        if let Some(path) = &self.csv {
            put(path, csv(rows)?.as_bytes())?;
        }
        if let Some(path) = &self.json {
            put(path, json(rows).as_bytes())?;
        }
        Ok(())
    }
}

/// What is not a plain file, like /dev/stdout, is written to as it is.
fn put(path: &Path, bytes: &[u8]) -> Result<()> {
    let write = |path: &Path| {
        fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
    };
    match path.is_file() && !path.is_symlink() {
        true => workspace::replace(path, write),
        false => write(path),
    }
}

/// A line for each run.
fn json(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows {
        let _ = writeln!(text, "{}", row.json());
    }
    text
}

/// A heading, and a row for each run: the machine, the settings, CPUs, the number of the run, then
/// the columns of all runs. What a run does not have is empty.
fn csv(rows: &[Row]) -> Result<String> {
    let columns = columns(rows);
    let mut table = csv::Writer::from_writer(Vec::new());
    let settings = rows.first().map_or(&[][..], |row| &row.of.settings);
    let mut heading = vec!["arch"];
    heading.extend(settings.iter().map(|(name, _)| &**name));
    heading.extend(["smp", "repeat"]);
    heading.extend(columns.iter().map(|column| &*column.name));
    table.write_record(heading)?;
    for row in rows {
        let mut cells = vec![row.arch.name().to_owned()];
        cells.extend(row.of.settings.iter().map(|(_, value)| value.clone()));
        cells.extend([row.of.smp, row.repeat].map(|number| number.to_string()));
        let value = |column| row.value(column).as_ref().map(plain).unwrap_or_default();
        cells.extend(columns.iter().map(value));
        table.write_record(cells)?;
    }
    Ok(String::from_utf8(table.into_inner()?)?)
}

#[cfg(test)]
mod tests {
    use super::super::row::tests::{counted, row};
    use super::*;
    use tools::host::workspace::Temporary;
    use tools::machine::guest::End;

    fn rows() -> [Row; 3] {
        let odd = "{\"note\":\"a \\\"b\\\", c\",\"tail\":\"x\\ny\"}\n";
        [
            row(
                "batch",
                1,
                &(odd.to_owned() + &counted(0, 7, "\"forks\":2")),
                End::Status(0),
            ),
            row("share", 1, &counted(1, 8, ""), End::Status(0)),
            row("share", 2, "", End::Status(101)),
        ]
    }

    #[test]
    fn a_row_for_each_run_quoted_where_needed() {
        assert_eq!(
            csv(&rows()).unwrap(),
            "arch,fork,smp,repeat,status,ns,max_rss_kb,forks,own.note,own.tail\n\
             x86_64,batch,1,1,0,7,8,2,\"a \"\"b\"\", c\",\"x\ny\"\n\
             x86_64,share,1,1,1,8,8,0,,\n\
             x86_64,share,1,2,kernel panic,,,,,\n"
        );
    }

    #[test]
    fn files_are_whole_after_each_run() {
        let folder = Temporary::folder("sweep-files").unwrap();
        let path = |name: &str| folder.path().join(name);
        let files = Files::of(Some(&path("csv")), Some(&path("json"))).unwrap();
        for many in 1..=3 {
            files.write(&rows()[..many]).unwrap();
            let lines = fs::read_to_string(path("json")).unwrap();
            assert_eq!(lines.lines().count(), many);
            let table = fs::read_to_string(path("csv")).unwrap();
            assert!(table.starts_with("arch,fork,smp,repeat,status,"), "{table}");
        }
        let error = Files::of(Some(Path::new("/nowhere/x")), None)
            .err()
            .unwrap();
        assert!(error.0.starts_with("--csv /nowhere/x: No such"), "{error}");
    }
}
