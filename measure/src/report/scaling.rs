//! What operations cost when several CPUs do them at the same time.
use super::chart::{self, Ink, Line, Scale};
use super::data::{Data, Figure};
use super::html::{self, distinct, number_or_dash};
use anyhow::Result;
use tools::args::Side;
use tools::host::arch::Arch;
use tools::host::words;

/// Operations that are measured so, and what is measured.
const OPS: [(&str, &str); 3] = [
    ("beside", "first writes by a thread on each CPU"),
    ("cow-seq", "copies by a process on each CPU, in order"),
    ("cow-rand", "copies by a process on each CPU, at random"),
];

/// The command.
fn command(arch: Option<Arch>, sizes: &[u64], cpus: &[u64]) -> String {
    let arch = arch.map_or(String::new(), |arch| format!(" --arch {arch}"));
    format!(
        "./run.sh compare{arch} --op beside,cow-seq,cow-rand --size {} --smp {} --json FILE",
        words::list(sizes),
        words::list(cpus)
    )
}

/// The section.
pub fn section(data: &Data) -> Result<String> {
    let of = |figure: &&Figure| OPS.iter().any(|(op, _)| *op == figure.key.op);
    let several = |figure: &&Figure| of(figure) && figure.cpus > 1;
    if !data.figures.iter().any(|figure| several(&figure)) {
        return Ok(html::missing(&command(None, &[4, 64], &[1, 2, 4, 8])));
    }
    let mut text = String::from(
        "<p>Each CPU does as much as one does alone, at the same time. The clock counts the instructions of all CPUs, \
         by turns: a line that stays level is work that the CPUs do not make for each other; one that rises is \
         waiting, retries and flushes.</p>\n",
    );
    text += &html::legend(&[("quire", "Quire"), ("linux", "Linux")]);
    for arch in Arch::ALL {
        let figures = data.figures.iter().filter(of);
        let figures: Vec<&Figure> = figures.filter(|figure| figure.arch == arch).collect();
        if figures.iter().any(|figure| figure.cpus > 1) {
            text += &machine(arch, &figures)?;
            text += &absent(data, arch);
        }
    }
    Ok(text)
}

/// Which kernels have no figures with several CPUs, and why.
fn absent(data: &Data, arch: Arch) -> String {
    let of = |op: &str| OPS.iter().any(|(known, _)| *known == op);
    let here = data
        .absent
        .iter()
        .filter(|(at, _, op, _)| *at == arch && of(op));
    let mut reasons: Vec<String> = here
        .map(|(_, side, _, why)| {
            format!(
                "<p class=\"missing\">Of {} some figures are missing: {}.</p>\n",
                side.title(),
                html::escape(why)
            )
        })
        .collect();
    reasons.dedup();
    reasons.concat()
}

fn machine(arch: Arch, figures: &[&Figure]) -> Result<String> {
    let cpus = distinct(figures.iter().map(|figure| figure.cpus));
    let sizes = distinct(figures.iter().map(|figure| figure.key.kb));
    let names: Vec<String> = cpus.iter().map(u64::to_string).collect();
    let (mut panels, mut rows) = (Vec::new(), Vec::new());
    for (op, title) in OPS {
        for &kb in &sizes {
            let find = |side, cpus| {
                // With as many threads as CPUs, where an operation has several numbers of them.
                let here = |figure: &&&Figure| {
                    figure.side == side
                        && figure.words.is_empty()
                        && !figure.by_pmd
                        && figure.cpus == cpus
                        && (figure.key.op.as_str(), figure.key.kb) == (op, kb)
                };
                let all = figures.iter().filter(here);
                all.max_by_key(|figure| figure.key.vmas)
                    .map(|figure| figure.instructions)
            };
            let line = |side, ink| Line::over(ink, &cpus, |cpus| find(side, cpus));
            let lines = [line(Side::Linux, Ink::LINUX), line(Side::Quire, Ink::QUIRE)];
            if lines.iter().all(|line| line.points.len() < 2) {
                continue;
            }
            let name = format!("{op}, folios of {}", html::size(kb));
            let about = format!("{title} on {arch}, folios of {kb} kB, by number of CPUs");
            panels.push(html::panel(
                &name,
                &chart::lines(&about, &names, &lines, Scale::Linear)?,
            ));
            for side in Side::ALL {
                let cells = cpus.iter().map(|cpus| number_or_dash(find(side, *cpus)));
                let first = [name.clone(), side.title().to_owned()];
                rows.push(first.into_iter().chain(cells).collect());
            }
        }
    }
    let mut heads = vec!["operation".to_owned(), "kernel".to_owned()];
    heads.extend(cpus.iter().map(|cpus| match cpus {
        1 => "1 CPU".to_owned(),
        more => format!("{more} CPUs"),
    }));
    Ok(format!(
        "<h3>{arch}</h3>\n<p class=\"axis\">Instructions for each page, over CPUs</p>\n{}{}{}",
        html::panels(&panels),
        html::commands(&[command(Some(arch), &sizes, &cpus)]),
        html::numbers(heads, &rows)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::has;

    #[test]
    fn a_line_over_cpus() {
        let line = |cpus: u32, kernel: &str, cost: u32| {
            format!(
                r#"{{"op":"cow-seq","folio_kb":64,"per_page":{cost},"arch":"x86_64","kernel":"{kernel}","cpus":{cpus}}}"#
            )
        };
        let mut data = Data::of(&line(1, "quire", 100));
        assert!(section(&data).unwrap().contains("--smp 1,2,4,8"));
        data.read("f", &line(4, "quire", 110)).unwrap();
        data.read("f", &line(4, "linux", 300)).unwrap();
        let absent =
            r#"{"op":"beside","folio_kb":4,"absent":"no clock","arch":"x86_64","kernel":"linux"}"#;
        data.read("f", absent).unwrap();
        let text = section(&data).unwrap();
        has(&text, "Of Linux some figures are missing: no clock.</p>");
        has(&text, "<td>Quire</td><td>100</td><td>110</td>");
        has(&text, "<td>Linux</td><td>-</td><td>300</td>");
        has(&text, "<figcaption>cow-seq, folios of 64k</figcaption>");
    }
}
