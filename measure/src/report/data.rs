//! What the report is made of: the JSON lines of `compare`, `bench`, `conflicts` and `frames`, the
//! CSV of `reclaim`.
use super::frames::Frames;
use super::reclaim;
use crate::bench::cells::{Key, cell};
use crate::compare;
use crate::conflicts::Cell;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use tools::args::Side;
use tools::host::arch::Arch;

/// A measurement of one operation.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Of which kernel.
    pub side: Side,
    /// On which machine.
    pub arch: Arch,
    /// Operation, folio size in kB, and threads or VMAs where that is the question.
    pub key: Key,
    /// CPUs of the machine.
    pub cpus: u64,
    /// Folios of 2 MiB are mapped by PMDs.
    pub by_pmd: bool,
    /// Words on Quire's command line beyond the usual.
    pub words: String,
    /// Instructions for each page, or of the whole call.
    pub instructions: f64,
    /// The whole line.
    pub line: Value,
}

impl Figure {
    /// A count of the plugin, for each page or the whole call, if its model was not blind.
    pub fn count(&self, name: &str) -> Option<f64> {
        compare::counted(&self.line, self.arch, name)
    }

    /// Whether the plugin's model was.
    pub fn is_blind(&self) -> bool {
        compare::is_blind(&self.line)
    }

    /// The name of its row in an ablation.
    pub fn setting(&self) -> &str {
        self.line["run"].as_str().unwrap_or(&self.words)
    }

    /// One CPU, PTEs, and no number of threads or VMAs.
    pub fn is_usual(&self) -> bool {
        self.cpus == 1 && !self.by_pmd && self.key.vmas == 0
    }
}

/// Everything that was read.
#[derive(Debug, Default)]
pub struct Data {
    /// In the order of the lines; of two for the same place, the later one counts.
    pub figures: Vec<Figure>,
    /// What a kernel does not have: machine, kernel, operation, and why.
    pub absent: BTreeSet<(Arch, Side, String, String)>,
    /// The ablation, in the order of its rows.
    pub ablation: Vec<Figure>,
    /// Cells of the matrix of conflicts.
    pub conflicts: Vec<Cell>,
    /// Pictures of physical memory.
    pub frames: Vec<Frames>,
    /// What policies of reclaim do with streams.
    pub reclaim: Vec<reclaim::Row>,
    /// By machine and kernel, what it calls itself, and by that the commits or packages that it is
    /// from.
    pub kernels: BTreeMap<(Arch, Side), BTreeMap<String, BTreeSet<String>>>,
    /// By machine, what QEMU calls itself.
    pub emulators: BTreeMap<Arch, BTreeSet<String>>,
    /// By machine, the core that was modelled.
    pub models: BTreeMap<Arch, BTreeSet<String>>,
}

/// What the first line of a comparison says about the lines after it.
#[derive(Default)]
struct Header {
    words: String,
    from: BTreeMap<(Arch, Side), String>,
}

impl Data {
    /// Adds the lines of one file. What does not begin with `{` is a console's.
    ///
    /// # Errors
    ///
    /// A file in which there is nothing for the report.
    pub fn read(&mut self, name: &str, text: &str) -> Result<()> {
        if text.starts_with(reclaim::BEGINS) {
            self.reclaim = reclaim::rows(text).context(name.to_owned())?;
            return Ok(());
        }
        let mut header = Header::default();
        let mut known = 0;
        for (at, line) in text.lines().enumerate() {
            if !line.starts_with('{') {
                continue;
            }
            // The last line of a run that was interrupted may be cut.
            let Ok(line) = serde_json::from_str::<Value>(line) else {
                continue;
            };
            let taken = self.line(&mut header, line);
            known += usize::from(taken.with_context(|| format!("{name}:{}", at + 1))?);
        }
        if known == 0 {
            bail!("{name} has no line of compare, bench, conflicts, frames or reclaim");
        }
        Ok(())
    }

    /// Adds a line; whether it is one that is known.
    fn line(&mut self, header: &mut Header, line: Value) -> Result<bool> {
        if line["compare"].is_object() {
            *header = self.header(&line["compare"]);
        } else if Frames::take(&mut self.frames, &line)? {
            return Ok(true);
        } else if let Some(cell) = Cell::of_value(&line)? {
            self.conflicts.push(cell);
        } else if let Some((key, instructions)) = cell(&line) {
            let is_ablation = line["words"].is_string();
            let figure = self.figure(header, key, instructions, line)?;
            match is_ablation {
                true => self.ablation.push(figure),
                false => self.figures.push(figure),
            }
        } else if let (Some(op), Some(why)) = (line["op"].as_str(), line["absent"].as_str()) {
            let (arch, side) = (Arch::of_line(&line)?, Side::of_line(&line)?);
            let absent = (arch, side, op.to_owned(), why.to_owned());
            self.absent.insert(absent);
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn header(&mut self, line: &Value) -> Header {
        let mut header = Header {
            words: line["words"].as_str().unwrap_or_default().to_owned(),
            ..Header::default()
        };
        for machine in line["machines"].as_array().into_iter().flatten() {
            let Ok(arch) = Arch::of_line(machine) else {
                continue;
            };
            if let Some(qemu) = machine["qemu"].as_str() {
                let known = self.emulators.entry(arch).or_default();
                known.insert(qemu.to_owned());
            }
            if let Some(model) = line["counting"]["model"].as_str() {
                let known = self.models.entry(arch).or_default();
                known.insert(model.to_owned());
            }
            for side in Side::ALL {
                if let Some(from) = machine[side.name()]["from"].as_str() {
                    header.from.insert((arch, side), from.to_owned());
                }
            }
        }
        header
    }

    fn figure(
        &mut self,
        header: &Header,
        key: Key,
        instructions: f64,
        line: Value,
    ) -> Result<Figure> {
        let arch = Arch::of_line(&line)?;
        let run = line["run"].as_str().unwrap_or_default();
        let side = match line["kernel"] == "linux" || run == "Linux" {
            true => Side::Linux,
            false => Side::Quire,
        };
        if let Some(version) = line["version"].as_str() {
            let kernels = self.kernels.entry((arch, side)).or_default();
            let from = kernels.entry(version.to_owned()).or_default();
            from.extend(header.from.get(&(arch, side)).cloned());
        }
        let words = match (side, line["words"].as_str()) {
            (Side::Linux, _) => "",
            (Side::Quire, Some(words)) => words,
            (Side::Quire, None) if run.contains('=') => run,
            (Side::Quire, None) => &header.words,
        };
        Ok(Figure {
            side,
            arch,
            cpus: line["cpus"].as_u64().unwrap_or(1),
            by_pmd: line["mapped"] == "pmd",
            words: words.to_owned(),
            key,
            instructions,
            line,
        })
    }

    /// What `value` finds in the last figure of a place that has it, with one CPU and PTEs: a place
    /// may have been measured with different counts.
    pub fn find<'a, T>(
        &'a self,
        (arch, side, words): (Arch, Side, &str),
        op: &str,
        kb: u64,
        value: impl Fn(&'a Figure) -> Option<T>,
    ) -> Option<T> {
        let here = |figure: &&Figure| {
            figure.is_usual()
                && (figure.arch, figure.side) == (arch, side)
                && figure.words == words
                && (figure.key.op.as_str(), figure.key.kb) == (op, kb)
        };
        self.figures.iter().rev().filter(here).find_map(value)
    }

    /// A kernel with its versions and where they are from: `Quire 0.1.0 (abc123)`.
    pub fn kernel(&self, arch: Arch, side: Side) -> String {
        let mut text = side.title().to_owned();
        for (version, from) in self.kernels.get(&(arch, side)).into_iter().flatten() {
            let from: Vec<&str> = from.iter().map(String::as_str).collect();
            text += &format!(" {version}");
            if !from.is_empty() {
                text += &format!(" ({})", from.join(", "));
            }
        }
        text
    }

    /// Leaves out what was measured on other machines.
    pub fn only(&mut self, arches: &[Arch]) {
        let is = |arch| arches.contains(&arch);
        self.figures.retain(|figure| is(figure.arch));
        self.ablation.retain(|cell| is(cell.arch));
        self.conflicts.retain(|cell| is(cell.arch));
        self.frames.retain(|frames| is(frames.arch));
        self.kernels.retain(|(arch, _), _| is(*arch));
        self.emulators.retain(|arch, _| is(*arch));
        self.models.retain(|arch, _| is(*arch));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Data {
        /// Of the lines of one file.
        pub fn of(lines: &str) -> Data {
            let mut data = Data::default();
            data.read("f", lines).unwrap();
            data
        }
    }

    #[test]
    fn lines_of_a_comparison() {
        let text = r#"{"compare":{"machines":[{"arch":"x86_64","qemu":"QEMU 10","quire":{"from":"abc"}}],"counting":{"model":"zen4"},"words":""}}
noise
{"op":"fork","folio_kb":64,"per_page":2.5,"pages":100,"walks":50,"arch":"x86_64","kernel":"quire","version":"0.1","cpus":1}
{"op":"fork","folio_kb":64,"per_page":9.0,"pages":100,"arch":"x86_64","kernel":"linux","version":"7.2","cpus":1}
{"op":"fork","folio_kb":64,"absent":"no fork","arch":"x86_64","kernel":"linux","cpus":1}
{"op":"fork","fol"#;
        let data = Data::of(text);
        assert_eq!(data.figures.len(), 2);
        let place = (Arch::X86_64, Side::Quire, "");
        let count = |name| data.find(place, "fork", 64, |figure| figure.count(name));
        assert_eq!((count("walks"), count("l1d_misses")), (Some(0.5), None));
        let instructions = data.find(place, "fork", 64, |figure| Some(figure.instructions));
        assert_eq!(instructions, Some(2.5));
        let names: Vec<String> = data
            .kernels
            .keys()
            .map(|(arch, side)| data.kernel(*arch, *side))
            .collect();
        assert_eq!(names, ["Quire 0.1 (abc)", "Linux 7.2"]);
        assert_eq!(data.models[&Arch::X86_64].first().unwrap(), "zen4");
    }

    #[test]
    fn the_words_of_a_comparison_are_those_of_its_lines() {
        let cell =
            r#"{"op":"fork","folio_kb":64,"per_page":2.5,"arch":"aarch64","kernel":"quire"}"#;
        let text = format!("{{\"compare\":{{\"words\":\"contpte=off\"}}}}\n{cell}\n");
        let data = Data::of(&text);
        let find = |words| data.find((Arch::Aarch64, Side::Quire, words), "fork", 64, Some);
        assert!(find("contpte=off").is_some() && find("").is_none());
    }

    #[test]
    fn other_machines_are_left_out() {
        let mut data = super::super::page::tests::sample();
        data.only(&[Arch::Aarch64]);
        assert!(
            data.figures
                .iter()
                .all(|figure| figure.arch == Arch::Aarch64)
        );
        assert!(!data.figures.is_empty() && data.frames.len() == 1);
    }

    #[test]
    fn counts_of_a_model_that_reads_no_tables_are_left_out() {
        let line = |unresolved: u32| {
            let text = format!(
                r#"{{"op":"fork","folio_kb":4,"per_page":1,"walks":1000,"unresolved":{unresolved},"lines_touched":5,"arch":"aarch64","kernel":"linux"}}"#
            );
            let data = Data::of(&text);
            let figure = &data.figures[0];
            (figure.count("lines_touched"), figure.is_blind())
        };
        assert_eq!(line(10), (Some(5.0), false));
        assert_eq!(line(11), (None, true));
    }

    #[test]
    fn lines_of_an_ablation() {
        let text = r#"{"op":"fork","folio_kb":2048,"per_page":2.5,"arch":"aarch64","run":"batch","words":"split=batch"}"#;
        let data = Data::of(text);
        assert_eq!(
            (data.ablation[0].setting(), data.figures.len()),
            ("batch", 0)
        );
    }

    #[test]
    fn a_file_of_something_else_is_an_error() {
        for text in ["", "{\"x\":1}\n", "text"] {
            assert!(Data::default().read("f", text).is_err(), "{text:?}");
        }
        let vax = r#"{"op":"fork","folio_kb":4,"per_page":1,"arch":"vax"}"#;
        let error = Data::default().read("f", vax).unwrap_err();
        assert!(format!("{error:#}").contains("f:1: no machine is called \"vax\""));
    }
}
