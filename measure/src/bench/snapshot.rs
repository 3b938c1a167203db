//! The cost of a snapshot by fork while the memory is written to: the program `snapshot`, for each
//! setting of `fork=`.
use super::cells::{Cell, Key};
use super::column::Column;
use std::fmt::Write;

/// The operation that the program is.
const OP: &str = "snapshot";
/// The prefix of its lines.
const PREFIX: &str = "snapshot=";
/// The headings, and where the figures stand in a line.
const FIGURES: [(&str, &str); 7] = [
    ("fork call", "whole"),
    ("worst write", "longest"),
    ("median", "median"),
    ("all writes", "writing"),
    ("faults", "faults"),
    ("copied", "pages_copied"),
    ("memory kB", "memory_kb"),
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

/// The table of each run; empty without such cells.
pub fn render(columns: &[Column]) -> String {
    columns.iter().map(table).collect()
}

/// How fork goes, and the MiB of the table.
fn setting(key: &Key) -> Option<(&str, &str)> {
    key.op.strip_prefix(PREFIX)?.split_once('/')
}

fn table(column: &Column) -> String {
    let mut cells: Vec<(&Key, &Cell)> = column
        .cells
        .iter()
        .filter(|(key, _)| !is_other(key))
        .collect();
    // From the least mechanism to the most.
    let place = |key: &Key| {
        setting(key).map_or(0, |(fork, _)| {
            ["per-pte", "batch"]
                .iter()
                .position(|word| *word == fork)
                .unwrap_or(2)
        })
    };
    cells.sort_by_key(|(key, _)| (key.kb, place(key)));
    let mut text = String::new();
    let Some((first, cell)) = cells.first() else {
        return text;
    };
    let mib = setting(first).map_or("?", |(_, mib)| mib);
    let _ = write!(
        text,
        "\n{}: a table of {mib} MiB is saved by fork, and {} keys are written meanwhile: guest instructions of the parent\n{:>8} {:8}",
        column.label,
        cell.counter("writes"),
        "folio",
        "fork"
    );
    for (heading, _) in FIGURES {
        let _ = write!(text, "{heading:>12}");
    }
    text.push('\n');
    for (key, cell) in cells {
        text += &row(key, cell);
    }
    text
}

fn row(key: &Key, cell: &Cell) -> String {
    let mut text = format!(
        "{:>5} kB {:8}",
        key.kb,
        setting(key).map_or("?", |(fork, _)| fork)
    );
    for (_, name) in FIGURES {
        match cell.line[name].as_u64() {
            Some(figure) => _ = write!(text, "{figure:>12}"),
            None => _ = write!(text, "{:>12}", "-"),
        }
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::cells;

    #[test]
    fn a_row_for_each_size_and_setting() {
        let line = |fork: &str, kb: u64, copied: &str| {
            format!(
                "{{\"op\":\"snapshot={fork}/64\",\"folio_kb\":{kb},\"whole\":12,\"longest\":34,\"median\":5,\"writing\":678,\
                 \"writes\":4096,\"faults\":9,\"pages_copied\":{copied},\"memory_kb\":10}}\n"
            )
        };
        let lines = [
            ("share", 4, "1"),
            ("batch", 4, "2"),
            ("per-pte", 64, "3"),
            ("per-pte", 4, "null"),
        ];
        let lines: String = lines
            .map(|(fork, kb, copied)| line(fork, kb, copied))
            .concat();
        let text = format!(
            "{{\"begin\":true,\"instructions\":true}}\n{lines}{{\"done\":true,\"cells\":4}}\n"
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
            .skip(3)
            .map(|row| row.split_whitespace().collect())
            .collect();
        assert_eq!(rows.len(), 4, "{text}");
        assert_eq!(
            rows[0],
            ["4", "kB", "per-pte", "12", "34", "5", "678", "9", "-", "10"]
        );
        assert_eq!(
            [rows[1][2], rows[2][2], rows[3][0]],
            ["batch", "share", "64"]
        );
        assert_eq!(render(&[]), "");
    }

    #[test]
    fn only_when_it_was_asked_for() {
        assert!(program(&["fork".to_owned()]).is_none());
        assert_eq!(program(&[OP.to_owned()]), Some(("1G", OP.to_owned())));
    }
}
