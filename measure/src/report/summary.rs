//! The plot of README.md: of each operation, the part of Linux's instructions that Quire needs.
use super::chart::{self, Bar, Ink};
use anyhow::{Context, Result};

/// The column of each machine's mean over the sizes in the table of docs/compare.md.
const MACHINES: [(usize, &str, Ink); 2] = [(1, "x86_64", Ink::QUIRE), (5, "aarch64", Ink::FLOOR)];
/// The row of the mean over the operations, which ends those of the baseline.
const MEAN: &str = "all ten";
/// Room for names of operations, in CSS pixels.
const NAMES: u32 = 120;
/// A page that is an image has no other style.
const STYLE: &str = "<style>text { font-family: sans-serif } .paper { fill: #fbfaf7 } \
    .f0 { fill: #22252b } .f1 { fill: #0b63b5 } .f2 { fill: #c2500a } .f3 { fill: #3f7d2a } \
    @media (prefers-color-scheme: dark) { .paper { fill: #16181c } \
    .f0 { fill: #e4e2dc } .f1 { fill: #62acf0 } .f2 { fill: #f2934f } .f3 { fill: #84c46c } }</style>\n\
    <rect width=\"100%\" height=\"100%\" class=\"paper\"/>";

/// An SVG file from docs/compare.md.
pub fn summary(page: &str) -> Result<String> {
    let table = page.split_once("| operation | x86_64 |");
    let (_, table) = table.context("docs/compare.md has no table of operations")?;
    let mut bars = vec![Bar::new("Linux", 1.0, Ink::LINUX)];
    let mut ops = Vec::new();
    for row in table.lines().skip(2) {
        let cells: Vec<&str> = row
            .split('|')
            .skip(1)
            .map(|cell| cell.trim_matches([' ', '*']))
            .collect();
        let op = *cells.first().context("the table ends before the mean")?;
        for (column, machine, ink) in MACHINES {
            let value = cells.get(column).and_then(|cell| cell.parse().ok());
            let value = value.with_context(|| format!("{op} has no figure of {machine}"))?;
            match (op == MEAN, ink) {
                (true, _) => bars.push(Bar::new(&format!("Quire, {machine}"), value, ink)),
                (false, Ink::QUIRE) => ops.push(Bar::new(op, value, ink)),
                (false, _) => ops.push(Bar::new("", value, ink)),
            }
        }
        if op == MEAN {
            break;
        }
    }
    bars.extend(ops);
    let about = "Instructions that ten operations on memory need, Linux's as 1";
    let svg = chart::bars(about, &bars, NAMES)?;
    let svg = svg.replacen(
        "<svg ",
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"480\" ",
        1,
    );
    Ok(svg.replacen(">\n", &format!(">\n{STYLE}\n"), 1))
}
