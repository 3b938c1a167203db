//! What each operation costs by the size of folios, on both kernels and machines.
use super::chart::{self, Ink, Line, Scale};
use super::data::{Data, Figure};
use super::html::{self, distinct, number, number_or_dash};
use crate::bench::floor;
use crate::bench::plan::OPS;
use anyhow::Result;
use std::fmt::Write;
use tools::args::Side;
use tools::host::arch::Arch;
use tools::host::words;

/// What is counted.
pub struct Metric {
    /// The place in the page.
    pub id: &'static str,
    /// The heading.
    pub title: &'static str,
    /// What it is.
    about: &'static str,
    /// Its name in lines; empty for instructions, which each line has.
    count: &'static str,
    /// Whether a model of a core counts it, not QEMU.
    modelled: bool,
}

/// In the order of the page.
pub const METRICS: [Metric; 4] = [
    Metric {
        id: "instructions",
        title: "Instructions",
        about: "Guest instructions for each page of 4 KiB, user and kernel mode. The floor is what \
                any kernel needs, argued from parts in docs/floor.md.",
        count: "",
        modelled: false,
    },
    Metric {
        id: "lines",
        title: "Cache lines touched",
        about: "Different lines of 64 bytes, by physical address, that an operation reads or \
                writes, for each page. Of its 64 lines a page that is cleared or copied touches \
                all.",
        count: "lines_touched",
        modelled: false,
    },
    Metric {
        id: "misses",
        title: "Misses of the first-level data cache",
        about: "Loads and stores that the first level of a modelled core's caches does not serve, \
                for each page.",
        count: "l1d_misses",
        modelled: true,
    },
    Metric {
        id: "cycles",
        title: "Estimated cycles",
        about: "Instructions at the width of a modelled core, and the latency of each miss, one \
                after the other: for comparing estimates with each other, not with a measured \
                time.",
        count: "cycles_estimated",
        modelled: true,
    },
];

impl Metric {
    /// Whether it is what each line has, also without the plugin.
    pub fn is_instructions(&self) -> bool {
        self.count.is_empty()
    }

    /// The count of a measurement; an operation that is measured by subtraction has instructions
    /// only.
    fn of(&self, figure: &Figure) -> Option<f64> {
        match self.is_instructions() {
            true => Some(figure.instructions),
            false => figure.count(self.count).filter(|_| figure.key.op != "exit"),
        }
    }
}

/// The operations of the page, in the order of the bench's.
fn ops(data: &Data, arch: Arch) -> Vec<&'static str> {
    // Those that are about other questions have sections of their own, or none.
    const OTHERS: [&str; 10] = [
        "reach",
        "updates",
        "survivor",
        "touch1g",
        "reach1g",
        "beside",
        "maps",
        "smaps",
        "vmas",
        "exit-bare",
    ];
    let there = |op: &str| {
        let of = |figure: &Figure| figure.arch == arch && figure.key.op == op;
        let mut figures = data.figures.iter();
        figures.any(|figure| figure.is_usual() && of(figure))
    };
    let ops = OPS.into_iter().filter(|op| !OTHERS.contains(op));
    ops.filter(|op| there(op)).collect()
}

/// The sizes at which any of the operations has such a count.
fn sizes(data: &Data, metric: &Metric, arch: Arch, ops: &[&str]) -> Vec<u64> {
    let of = |figure: &&Figure| {
        figure.is_usual()
            && figure.arch == arch
            && ops.contains(&figure.key.op.as_str())
            && metric.of(figure).is_some()
    };
    distinct(data.figures.iter().filter(of).map(|figure| figure.key.kb))
}

/// The section of one metric.
pub fn section(data: &Data, metric: &Metric) -> Result<String> {
    let mut text = format!("<p>{}</p>\n", metric.about);
    let mut any = false;
    for arch in Arch::ALL {
        let part = machine(data, metric, arch)?;
        any |= part.is_some();
        text += &part.unwrap_or_default();
    }
    Ok(match any {
        true => text,
        false => text + &html::missing(&command(Arch::X86_64, metric, "zen4", &[], &[])),
    })
}

/// One machine's panels and table, if it has any.
fn machine(data: &Data, metric: &Metric, arch: Arch) -> Result<Option<String>> {
    let ops = ops(data, arch);
    let sizes = sizes(data, metric, arch, &ops);
    let (mut panels, mut rows, mut shown) = (Vec::new(), Vec::new(), Vec::new());
    let mut floor = false;
    for op in &ops {
        let lines = lines(data, metric, arch, op, &sizes);
        if lines.iter().all(|line| line.points.is_empty()) {
            continue;
        }
        floor |= lines.iter().any(|line| line.ink == Ink::FLOOR);
        let whole = data.figures.iter().any(|figure| {
            figure.key.op == *op && figure.arch == arch && figure.line["whole"].is_number()
        });
        let name = if whole {
            format!("{op}, the whole call")
        } else {
            (*op).to_owned()
        };
        let about = format!("{}: {name} on {arch}, by folio size", metric.title);
        let places = chart::sizes(&sizes);
        panels.push(html::panel(
            &name,
            &chart::lines(&about, &places, &lines, Scale::Log)?,
        ));
        rows.extend(table(&name, &lines, &sizes));
        shown.push(*op);
    }
    if panels.is_empty() {
        return Ok(None);
    }
    let model = data.models.get(&arch).and_then(|models| models.last());
    let model = model.map_or("zen4", String::as_str);
    let mut text = format!("<h3>{arch}");
    if metric.modelled {
        let _ = write!(text, ", {}", html::escape(model));
    }
    text += "</h3>\n";
    let mut legend = vec![("quire", "Quire"), ("linux", "Linux")];
    if floor {
        legend.push(("floor", "the floor"));
    }
    text += &html::legend(&legend);
    text += &html::panels(&panels);
    let by_qemu = !metric.modelled && arch == Arch::X86_64;
    if !metric.is_instructions() && !by_qemu {
        text += &blind(data, arch);
    }
    text += &html::commands(&[command(arch, metric, model, &shown, &sizes)]);
    let mut heads = vec!["operation".to_owned(), "kernel".to_owned()];
    heads.extend(chart::sizes(&sizes));
    Ok(Some(text + &html::numbers(heads, &rows)))
}

/// Which kernels are left out because the model did not read their tables.
fn blind(data: &Data, arch: Arch) -> String {
    let of = |side| {
        let mut figures = data
            .figures
            .iter()
            .filter(|figure| (figure.arch, figure.side) == (arch, side));
        let figure = figures.find(|figure| figure.is_blind())?;
        let count = |name: &str| number(figure.line[name].as_f64().unwrap_or(0.0));
        Some(format!(
            "<p class=\"missing\">{} on {arch} is left out: of the model's {} walks in {} at {} kB, {} found no translation. \
             It does not read tables of that kernel's format, and so misses what lies behind them.</p>\n",
            side.title(),
            count("walks"),
            html::escape(&figure.key.op),
            figure.key.kb,
            count("unresolved")
        ))
    };
    Side::ALL.into_iter().filter_map(of).collect()
}

/// Quire's line, Linux's, and the floor where the figures have one.
fn lines(data: &Data, metric: &Metric, arch: Arch, op: &str, sizes: &[u64]) -> Vec<Line> {
    let of = |side| move |kb| data.find((arch, side, ""), op, kb, |figure| metric.of(figure));
    let floor = |kb| floor::of(arch, op, kb).filter(|_| metric.is_instructions());
    let mut lines = vec![
        Line::over(Ink::LINUX, sizes, of(Side::Linux)),
        Line::over(Ink::QUIRE, sizes, of(Side::Quire)),
    ];
    let floor = Line::over(Ink::FLOOR, sizes, floor);
    if !floor.points.is_empty() {
        lines.push(floor);
    }
    lines
}

/// A row for each kernel, and their ratio.
fn table(name: &str, lines: &[Line], sizes: &[u64]) -> Vec<Vec<String>> {
    let value = |line: &Line, at| {
        line.points
            .iter()
            .find(|(place, _)| *place == at)
            .map(|at| at.1)
    };
    let row = |kernel: &str, cell: &dyn Fn(usize) -> Option<f64>| {
        let cells = (0..sizes.len()).map(|at| number_or_dash(cell(at)));
        let first = [name, kernel].map(str::to_owned);
        first.into_iter().chain(cells).collect()
    };
    let drawn = lines.iter().filter(|line| !line.points.is_empty());
    let of = |ink| drawn.clone().find(|line| line.ink == ink);
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (title, ink) in [
        ("Quire", Ink::QUIRE),
        ("Linux", Ink::LINUX),
        ("floor", Ink::FLOOR),
    ] {
        rows.extend(of(ink).map(|line| row(title, &|at| value(line, at))));
    }
    if let (Some(quire), Some(linux)) = (of(Ink::QUIRE), of(Ink::LINUX)) {
        let ratio = |at| Some(value(quire, at)? / value(linux, at).filter(|value| *value > 0.0)?);
        rows.push(row("ratio", &ratio));
    }
    rows
}

/// The command that prints what is shown.
fn command(arch: Arch, metric: &Metric, model: &str, ops: &[&str], sizes: &[u64]) -> String {
    let mut text = format!("./run.sh compare --arch {arch}");
    if metric.modelled {
        let _ = write!(text, " --model {model}");
    } else if !metric.is_instructions() {
        text += " --lines";
    }
    if !ops.is_empty() {
        let _ = write!(
            text,
            " --op {} --size {}",
            ops.join(","),
            words::list(sizes)
        );
    }
    text + " --json FILE"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{has, lacks};

    const FORK: &str = r#"{"op":"fork","folio_kb":4,"per_page":20,"pages":10,"lines_touched":30,"arch":"x86_64","kernel":"quire"}
{"op":"fork","folio_kb":4,"per_page":80,"pages":10,"lines_touched":60,"arch":"x86_64","kernel":"linux"}
{"op":"fork","folio_kb":64,"per_page":10,"pages":10,"lines_touched":20,"arch":"x86_64","kernel":"quire"}
"#;

    #[test]
    fn a_panel_and_rows_for_each_operation() {
        let text = section(&Data::of(FORK), &METRICS[0]).unwrap();
        has(&text, "<figcaption>fork</figcaption>");
        has(&text, "the floor</li>");
        has(&text, "class=\"s3\"");
        let row = "<th scope=\"row\">fork</th><td>ratio</td><td>0.25</td><td>-</td>";
        has(&text, row);
        assert!(text.contains("./run.sh compare --arch x86_64 --op fork --size 4,64 --json FILE"));
        lacks(&text, "aarch64");
    }

    #[test]
    fn counts_are_for_each_page() {
        let text = section(&Data::of(FORK), &METRICS[1]).unwrap();
        has(&text, "<td>Quire</td><td>3</td><td>2</td>");
    }

    #[test]
    fn counts_without_tables_are_said_to_be_none() {
        let blind = r#"{"op":"fork","folio_kb":4,"per_page":80,"pages":10,"lines_touched":60,"l1d_misses":40,"walks":9,"unresolved":9,"arch":"x86_64","kernel":"linux"}"#;
        let quire = FORK
            .lines()
            .next()
            .unwrap()
            .replace("\"pages\"", "\"l1d_misses\":20,\"pages\"");
        let data = Data::of(&format!("{quire}\n{blind}"));
        let text = section(&data, &METRICS[2]).unwrap();
        has(&text, "Linux on x86_64 is left out");
        has(&text, "<td>Quire</td><td>2</td>");
        lacks(&text, "<td>Linux</td>");
        // Lines need no tables here.
        let text = section(&data, &METRICS[1]).unwrap();
        has(&text, "<td>Linux</td><td>6</td>");
        lacks(&text, "left out");
    }

    #[test]
    fn what_was_not_counted_is_said() {
        let text = section(&Data::of(FORK), &METRICS[3]).unwrap();
        has(
            &text,
            "./run.sh compare --arch x86_64 --model zen4 --json FILE",
        );
        lacks(&text, "<svg");
    }
}
