//! What policies of reclaim bring back, by how much memory there is.
use super::chart::{self, Ink, Line, Scale};
use super::html;
use anyhow::{Context, Result};
use serde::Deserialize;

/// How the figures of `reclaim` begin.
pub const BEGINS: &str = "stream,";

/// A row of `reclaim --csv`, in pages.
#[derive(Clone, Debug, Deserialize)]
pub struct Row {
    stream: String,
    pages: u64,
    memory: u64,
    policy: String,
    brought: u64,
}

/// The rows of a file.
pub fn rows(text: &str) -> Result<Vec<Row>> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let rows = reader.deserialize().collect::<Result<_, _>>();
    rows.context("no figures of reclaim")
}

const LINES: [(&str, Ink); 3] = [
    ("Belady", Ink::FLOOR),
    ("built: 4 kB", Ink::LINUX),
    ("built: 64 kB adaptive", Ink::QUIRE),
];

/// The section.
pub fn section(rows: &[Row]) -> Result<String> {
    const COMMAND: &str = "./run.sh reclaim --csv FILE";
    if rows.is_empty() {
        return Ok(html::missing(COMMAND));
    }
    let mut text = String::from(
        "<p>Pages that are brought back, over the percentage of a program's pages that memory has \
         room for: with folios of 4 and of 64 kB, and Belady's optimum, by single pages. Streams \
         are of real programs, but for loop, fill and read, zipf, and hot set and scan.</p>\n",
    );
    text += &html::legend(&[("floor", "Belady"), ("linux", "4 kB"), ("quire", "64 kB")]);
    let streams = html::each_once(rows.iter().map(|row| &row.stream));
    let policies = html::each_once(rows.iter().map(|row| &row.policy));
    let (mut heads, mut panels, mut table) = (Vec::new(), Vec::new(), Vec::new());
    for stream in streams {
        let of = |policy: &str| {
            let mine = rows.iter().filter(|row| row.stream == *stream);
            Vec::from_iter(mine.filter(|row| row.policy == policy))
        };
        let percent = |row: &&Row| format!("{} %", row.memory * 100 / row.pages.max(1));
        let shares = Vec::from_iter(of(LINES[1].0).iter().map(percent));
        let lines = LINES.map(|(policy, ink)| {
            let rows = of(policy).into_iter().enumerate();
            let points = rows.map(|(at, row)| (at, row.brought as f64)).collect();
            Line { ink, points }
        });
        let about = format!("pages brought back of {stream}, by the share of pages in memory");
        let svg = chart::lines(&about, &shares, &lines, Scale::Linear)?;
        panels.push(html::panel(stream, &svg));
        for policy in &policies {
            let mut cells = vec![stream.clone(), (*policy).clone()];
            let brought = of(policy).into_iter().map(|row| row.brought.to_string());
            cells.extend(brought.map(|digits| html::grouped(&digits)));
            table.push(cells);
        }
        heads = [vec!["stream".to_owned(), "policy".to_owned()], shares].concat();
    }
    let figures = html::panels(&panels) + &html::commands(&[COMMAND.to_owned()]);
    Ok(text + &figures + &html::numbers(heads, &table))
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::testing::has;

    /// A stream with two shares of memory.
    pub const ROWS: &str = "stream,accesses,pages,memory,policy,again,brought
zipf,90,20,4,built: 4 kB,9,12
zipf,90,20,4,built: 64 kB adaptive,9,2000
zipf,90,20,4,Belady,9,7
zipf,90,20,8,built: 4 kB,9,6
zipf,90,20,8,built: 64 kB adaptive,9,16
zipf,90,20,8,Belady,9,3
";

    #[test]
    fn a_panel_for_each_stream() {
        let text = section(&rows(ROWS).unwrap()).unwrap();
        has(&text, "<figcaption>zipf</figcaption>");
        has(
            &text,
            "<td>built: 64 kB adaptive</td><td>2,000</td><td>16</td>",
        );
        for share in ["20 %", "40 %"] {
            has(&text, share);
        }
        assert!(rows("stream,pages\nx,many\n").is_err());
    }
}
