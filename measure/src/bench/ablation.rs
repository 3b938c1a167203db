//! The benefit of each mechanism: the stages of the series that brought rmap ids to Linux's list,
//! and each switch of the kernel off against all on, for the eight operations of that series.
//!
//! Source of stages and operations: "mm: precise 'mapped shared' vs. 'mapped exclusively' detection
//! for PTE-mapped THP", sections 7.1 and 7.2, 24 November 2023.
use super::cells::{Cells, Key};
use super::plan::OPS;
use super::{BenchArgs, json_lines, measure};
use crate::markdown;
use anyhow::Result;
use std::fmt::Write;
use tools::host::arch::Arch;
use tools::machine::build::Built;

/// The operations of the series, which are in its order among all.
fn ops() -> &'static [&'static str] {
    let place = |name| OPS.iter().position(|op| *op == name);
    let (first, last) = (place("remap"), place("dontneed"));
    &OPS[first.expect("an operation")..=last.expect("an operation")]
}

/// 2 MiB folios, mapped by PTEs.
const SIZE: u32 = 2048;

/// A row: its name and the words of the kernel's command line.
type Setting = (&'static str, &'static str);

/// Declares the rows. What all stages have in common: entries, references and mappings go one by
/// one, and a write fault is about one page. This kernel's own do not share tables at a fork, which
/// would leave the account out of the comparison, and copy whole folios, which show it best.
macro_rules! settings {
    (
        stages: $($stage:literal: $words:literal, split=$split:literal;)*
        own: $($own:literal: $own_words:literal;)*
    ) => {
        &[
            $((
                $stage,
                concat!(
                    $words,
                    " fork=per-pte zap=per-pte refs=per-pte rmap=per-pte cow=page reuse=page split=",
                    $split
                ),
            ),)*
            $(($own, concat!("fork=batch cow=around ", $own_words)),)*
        ]
    };
}

/// How many of the rows are stages of the series.
pub const STAGES: usize = 8;

/// First the stages of the series, one on top of the other, with what each of them has; then this
/// kernel's own.
pub const SETTINGS: &[Setting] = settings! {
    stages:
        "baseline": "account=per-page", split="per-pte";
        "mapcount": "account=total mapcounts=atomic", split="per-pte";
        "rmap-id": "account=digits mapcounts=atomic subids=lookup writer=shared seq=cmpxchg", split="per-pte";
        "123": "account=digits mapcounts=atomic subids=stored writer=shared seq=cmpxchg", split="per-pte";
        "batch": "account=digits mapcounts=atomic subids=stored writer=shared seq=cmpxchg", split="batch";
        "exclusive": "account=digits mapcounts=atomic subids=stored writer=exclusive seq=cmpxchg", split="batch";
        "nocmpxchg": "account=digits mapcounts=atomic subids=stored writer=exclusive seq=add", split="batch";
        "all": "account=digits mapcounts=seqcount subids=stored writer=exclusive seq=add", split="batch";
    own:
        "per-page": "account=per-page";
        "total": "account=total";
        "digits": "account=digits";
        "two-slot": "account=two-slot";
        "owner": "account=owner";
        "unified": "account=unified";
        "unified, per-page": "mapcounts=atomic";
        "rmap=per-pte": "account=digits rmap=per-pte";
        "refs=per-pte": "account=digits refs=per-pte rmap=per-pte";
        "fork=per-pte": "fork=per-pte";
        "fork=share": "fork=share";
        "zap=per-pte": "zap=per-pte";
        "split=per-pte": "split=per-pte";
        "cow=page": "cow=page";
        "reuse=page": "reuse=page";
        "contpte=off": "contpte=off";
};

/// Measures every setting and returns the table of one machine for each folio size, and the lines
/// for `--json`.
pub fn run(arch: Arch, built: &Built, args: &BenchArgs) -> Result<(String, String)> {
    let (mut text, mut lines) = (String::new(), String::new());
    let sizes = match args.size.as_slice() {
        [] => &[SIZE],
        sizes => sizes,
    };
    for &kb in sizes {
        let mut rows = Vec::new();
        for &(name, words) in SETTINGS {
            if name.starts_with("contpte") && arch == Arch::X86_64 {
                continue;
            }
            eprintln!("run.sh: measuring {name} at {kb} kB on {arch}");
            let program = format!("bench --op {} --size {kb}", ops().join(","));
            let cells = measure(arch, built, words, &program)?;
            lines += &json_lines(arch, name, Some(words), &cells);
            rows.push((name, words, cells));
        }
        text += &render(arch, kb, &rows);
    }
    Ok((text, lines))
}

/// Instructions and, in brackets, counted atomic read-modify-writes of the account, both per 4 KiB
/// page.
fn render(arch: Arch, kb: u32, rows: &[(&str, &str, Cells)]) -> String {
    let mut text = format!(
        "{arch}, folios of {kb} kB: instructions per 4 KiB page (atomic read-modify-writes of the account)\n\n"
    );
    text += &markdown::heading(["setting"].iter().chain(ops()));
    for (name, _, cells) in rows {
        let figures = ops().iter().map(|op| figure(cells, op, kb));
        text += &markdown::row([(*name).to_owned()].into_iter().chain(figures));
    }
    let _ = writeln!(text);
    for (name, words, _) in rows.iter().filter(|(name, words, _)| name != words) {
        let _ = writeln!(text, "- `{name}`: {words}");
    }
    text.push('\n');
    text
}

fn figure(cells: &Cells, op: &str, kb: u32) -> String {
    match cells.get(&Key::new(op, kb.into())) {
        Some(cell) => {
            let atomics = cell.counter("account_atomics") as f64;
            let pages = cell.counter("pages").max(1) as f64;
            format!("{:.1} ({:.2})", cell.figure, atomics / pages)
        }
        None => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::cells::Cell;
    use crate::testing::{has, lacks};
    use serde_json::json;

    #[test]
    fn a_row_for_each_setting() {
        let cell = Cell {
            figure: 12.34,
            line: json!({"pages": 16384, "account_atomics": 1024}),
        };
        let cells: Cells = [(Key::new("fork", 64), cell)].into();
        let text = render(
            Arch::X86_64,
            64,
            &[
                ("unified", "fork=batch", cells.clone()),
                ("cow=page", "cow=page", cells),
            ],
        );
        has(&text, "| unified | - | - | 12.3 (0.06) | - |");
        has(&text, "- `unified`: fork=batch\n");
        lacks(&text, "- `cow=page`");
    }

    #[test]
    fn rows_have_names_of_their_own() {
        let mut names: Vec<&str> = SETTINGS.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), SETTINGS.len());
    }
}
