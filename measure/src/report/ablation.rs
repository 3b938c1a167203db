//! What each mechanism is worth: the cost of operations with the settings of the ablation.
use super::chart::{self, Bar, Ink};
use super::data::{Data, Figure};
use super::html::{self, distinct, each_once, number_or_dash};
use crate::bench::STAGES;
use crate::bench::plan::OPS;
use anyhow::Result;
use tools::host::arch::Arch;

/// Pixels for the names of settings.
const NAMES: u32 = 100;

/// The section.
pub fn section(data: &Data) -> Result<String> {
    if data.ablation.is_empty() {
        return Ok(html::missing("./run.sh bench --ablation --json FILE"));
    }
    let mut text = String::from(
        "<p>Instructions for each page of 4 KiB with one mechanism off, or one scheme of the account of references. \
         The upper bars are the stages of the series that brought rmap ids to Linux's list, one on top of the other; \
         the lower ones this kernel's own settings, beside <em>unified</em> with all mechanisms on.</p>\n",
    );
    text += &html::legend(&[
        ("f3", "stages of the series"),
        ("f1", "this kernel's settings"),
    ]);
    for arch in Arch::ALL {
        let here = data.ablation.iter().filter(|cell| cell.arch == arch);
        for kb in distinct(here.map(|cell| cell.key.kb)) {
            text += &machine(data, arch, kb)?;
        }
    }
    Ok(text)
}

fn machine(data: &Data, arch: Arch, kb: u64) -> Result<String> {
    let here = |cell: &&Figure| cell.arch == arch && cell.key.kb == kb;
    let cells: Vec<&Figure> = data.ablation.iter().filter(here).collect();
    let mut ops = each_once(cells.iter().map(|cell| cell.key.op.as_str()));
    let words = |name| {
        let of = cells.iter().find(|cell| cell.setting() == name);
        of.map_or("", |cell| &cell.words)
    };
    let names = each_once(cells.iter().map(|cell| cell.setting()));
    let settings: Vec<(&str, &str)> = names.into_iter().map(|of| (of, words(of))).collect();
    ops.sort_by_key(|op| OPS.iter().position(|known| known == op));
    let find = |op: &str, setting: &str| {
        let mut all = cells.iter().rev();
        all.find(|cell| cell.key.op == op && cell.setting() == setting)
            .map(|cell| cell.instructions)
    };
    let mut panels = Vec::new();
    for op in &ops {
        let bar = |(at, (setting, _)): (usize, &(&str, &str))| {
            let ink = if at < STAGES { Ink::FLOOR } else { Ink::QUIRE };
            Some(Bar::new(setting, find(op, setting)?, ink))
        };
        let bars: Vec<Bar> = settings.iter().enumerate().filter_map(bar).collect();
        let about = format!("instructions for each page: {op} on {arch}, by setting");
        panels.push(html::panel(op, &chart::bars(&about, &bars, NAMES)?));
    }
    let heads = [&["setting"], &ops[..], &["words"]].concat();
    let row = |(setting, words): &(&str, &str)| {
        let cells = ops.iter().map(|op| number_or_dash(find(op, setting)));
        let first = std::iter::once((*setting).to_owned());
        first.chain(cells).chain([(*words).to_owned()]).collect()
    };
    let rows: Vec<Vec<String>> = settings.iter().map(row).collect();
    let command = format!("./run.sh bench --ablation --arch {arch} --size {kb} --json FILE");
    Ok(format!(
        "<h3>{arch}, folios of {}</h3>\n{}{}{}",
        html::size(kb),
        html::panels(&panels),
        html::commands(&[command]),
        html::numbers(&heads, &rows)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::has;

    #[test]
    fn a_bar_for_each_setting() {
        let line = |run: &str, cost: u32| {
            format!(
                r#"{{"op":"fork","folio_kb":2048,"per_page":{cost},"arch":"x86_64","run":"{run}","words":"w={run}"}}"#
            )
        };
        let data = Data::of(&(line("baseline", 80) + "\n" + &line("unified", 20)));
        let text = section(&data).unwrap();
        has(&text, "<h3>x86_64, folios of 2M</h3>");
        assert_eq!(text.matches("class=\"f3\"").count(), 3, "{text}");
        has(
            &text,
            "<th scope=\"row\">unified</th><td>20</td><td>w=unified</td>",
        );
    }
}
