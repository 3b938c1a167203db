//! How long one event takes by the size of folios, smallest, median and largest: the program
//! `latency`.
use super::cells::{Cell, Key};
use super::column::Column;
use std::fmt::Write;

/// The operation that the program is.
const OP: &str = "latency";
/// The prefix of its lines.
const PREFIX: &str = "latency=";
/// Lines of sets of sizes.
const PERMITTED: &str = "permitted/";
/// The events, in tables of three or four, with what they are called there.
const TABLES: [&[(&str, &str)]; 3] = [
    &[
        ("first", "first touch"),
        ("copied", "copy after fork"),
        ("reused", "reuse after fork"),
        ("tracked", "soft-dirty"),
    ],
    &[
        ("signal", "SIGSEGV"),
        ("fork", "fork call"),
        ("life", "fork, exit, wait"),
    ],
    &[
        ("switch", "pipe, processes"),
        ("threads", "pipe, threads"),
        ("late", "timer signal late"),
    ],
];

/// The program, with the memory of its machine, when it was asked for.
pub fn program(ops: &[String]) -> Option<(&'static str, String)> {
    let wanted = ops.iter().any(|op| op == OP);
    wanted.then(|| ("1G", OP.to_owned()))
}

/// Whether a line of another program.
pub fn is_other(key: &Key) -> bool {
    !key.op.starts_with(PREFIX)
}

/// The tables of each run; empty without such cells.
pub fn render(columns: &[Column]) -> String {
    columns.iter().map(tables).collect()
}

/// An event's name and the size of the folios, and what was measured.
struct Row<'a> {
    event: &'a str,
    kb: u64,
    cell: &'a Cell,
}

/// Smallest, median, largest.
fn figures(cell: &Cell) -> [u64; 3] {
    ["smallest", "whole", "largest"].map(|name| cell.counter(name))
}

fn tables(column: &Column) -> String {
    let rows: Vec<Row> = column
        .cells
        .iter()
        .filter_map(|(key, cell)| {
            let event = key.op.strip_prefix(PREFIX)?;
            let kb = key.kb;
            Some(Row { event, kb, cell })
        })
        .collect();
    let mut text = String::new();
    if rows.is_empty() {
        return text;
    }
    let _ = write!(
        text,
        "\n{}: one event, in guest instructions: smallest, median, largest",
        column.label
    );
    if let Some(row) = rows.iter().find(|row| row.event == "clock") {
        let [smallest, median, largest] = figures(row.cell);
        let _ = write!(
            text,
            " of {}; reading the clock, which is in all of them: {smallest}, {median}, {largest}",
            row.cell.counter("samples")
        );
    }
    text.push('\n');
    for events in TABLES {
        text += &by_size(&rows, events);
    }
    text + &by_set(&rows)
}

/// A line for each size, three figures for each of these events.
fn by_size(rows: &[Row], events: &[(&str, &str)]) -> String {
    let known = |row: &&Row| events.iter().any(|(event, _)| *event == row.event);
    let mut sizes: Vec<u64> = rows.iter().filter(known).map(|row| row.kb).collect();
    sizes.sort_unstable();
    sizes.dedup();
    if sizes.is_empty() {
        return String::new();
    }
    let mut text = format!("{:>8}", "folio");
    for (_, heading) in events {
        let _ = write!(text, "{heading:>27}");
    }
    text.push('\n');
    for kb in sizes {
        let _ = write!(text, "{kb:>5} kB");
        for (event, _) in events {
            let found = rows.iter().find(|row| row.event == *event && row.kb == kb);
            match found {
                Some(row) => figures(row.cell)
                    .iter()
                    .for_each(|figure| _ = write!(text, "{figure:>9}")),
                None => _ = write!(text, "{:>27}", "-"),
            }
        }
        text.push('\n');
    }
    text
}

/// A line for each set of sizes that a process permitted itself.
fn by_set(rows: &[Row]) -> String {
    let mut sets: Vec<(&str, &Cell)> = rows
        .iter()
        .filter_map(|row| Some((row.event.strip_prefix(PERMITTED)?, row.cell)))
        .collect();
    // The smaller the folios, the more faults.
    sets.sort_by_key(|(_, cell)| std::cmp::Reverse(cell.counter("faults")));
    let mut text = String::new();
    if sets.is_empty() {
        return text;
    }
    let _ = writeln!(
        text,
        "{:16}{:>8}{:>9}{:>9}{:>9}{:>12}",
        "thp_orders", "faults", "smallest", "median", "largest", "all faults"
    );
    for (set, cell) in sets {
        let _ = write!(text, "{set:16}{:>8}", cell.counter("faults"));
        for figure in figures(cell) {
            let _ = write!(text, "{figure:>9}");
        }
        let _ = writeln!(text, "{:>12}", cell.counter("total"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::cells;

    #[test]
    fn three_figures_for_each_size_and_event() {
        let line = |event: &str, kb: u64, median: u64, faults: u64| {
            format!(
                "{{\"op\":\"latency={event}\",\"folio_kb\":{kb},\"whole\":{median},\"smallest\":1,\"largest\":99,\"total\":500,\
                 \"samples\":16,\"faults\":{faults}}}\n"
            )
        };
        let lines = [
            line("clock", 0, 30, 0),
            line("first", 64, 20, 16),
            line("first", 4, 10, 16),
            line("copied", 64, 40, 16),
            line("switch", 4, 50, 0),
            line("permitted/all", 0, 60, 2),
            line("permitted/none", 0, 5, 512),
        ]
        .concat();
        let text = format!(
            "{{\"begin\":true,\"instructions\":true}}\n{lines}{{\"done\":true,\"cells\":7}}\n"
        );
        let column = Column {
            label: "Quire".to_owned(),
            linux: false,
            cells: cells::parse(&text).unwrap(),
        };
        assert!(column.cells.keys().all(|key| !is_other(key)));
        let text = render(&[column]);
        let rows: Vec<Vec<&str>> = text
            .lines()
            .skip(1)
            .map(|row| row.split_whitespace().collect())
            .collect();
        assert!(
            rows[0].ends_with(&[
                "of", "16;", "reading", "the", "clock,", "which", "is", "in", "all", "of", "them:",
                "1,", "30,", "99"
            ]),
            "{text}"
        );
        assert_eq!(rows[2], ["4", "kB", "1", "10", "99", "-", "-", "-"]);
        assert_eq!(rows[3][..8], ["64", "kB", "1", "20", "99", "1", "40", "99"]);
        assert_eq!(rows[5], ["4", "kB", "1", "50", "99", "-", "-"]);
        assert_eq!(rows[7], ["none", "512", "1", "5", "99", "500"]);
        assert_eq!(rows[8][0], "all");
        assert_eq!(rows.len(), 9, "{text}");
        assert_eq!(render(&[]), "");
    }

    #[test]
    fn only_when_it_was_asked_for() {
        assert!(program(&["fork".to_owned()]).is_none());
        assert_eq!(program(&[OP.to_owned()]), Some(("1G", OP.to_owned())));
    }

    #[test]
    fn the_program_has_these_events() {
        let main = include_str!("../../../userland/src/bin/latency/main.rs");
        for (event, _) in TABLES.iter().flat_map(|events| events.iter()) {
            assert!(main.contains(&format!("    (\"{event}\", ")), "{event}");
        }
        let rooms = ["faults", "processes", "late"];
        let events: usize = rooms
            .iter()
            .map(|room| main.matches(&format!("\", {room}::")).count())
            .sum();
        assert_eq!(
            events,
            TABLES.iter().map(|events| events.len()).sum::<usize>()
        );
    }
}
