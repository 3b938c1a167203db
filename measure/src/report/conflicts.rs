//! Which operations of two CPUs touch the same: a matrix for each place, machine and kernel.
//!
//! A line is a cell: `{"first":"read","second":"munmap","place":"folio","arch":"x86_64",
//! "kernel":"quire","lines":[{"object":"zone"}]}`; without lines the two are free of each other. In
//! place of `lines` there may be `absent` or `failed`, with the reason.
use super::html::{self, each_once};
use crate::conflicts::Cell;
use std::collections::BTreeMap;
use std::fmt::Write;
use tools::args::Side;
use tools::host::arch::Arch;

/// Its objects, each with the number of its lines.
fn named(cell: &Cell) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for object in cell.objects().into_iter().flatten() {
        *counts.entry(object).or_default() += 1;
    }
    let name = |(object, lines): (&str, usize)| match lines {
        1 => object.to_owned(),
        more => format!("{object} ({more} lines)"),
    };
    counts.into_iter().map(name).collect::<Vec<_>>().join(", ")
}

fn which(cell: &Cell) -> (Arch, Side, &str) {
    (cell.arch, cell.side, &cell.place)
}

/// The section.
pub fn section(conflicts: &[Cell]) -> String {
    if conflicts.is_empty() {
        return html::missing("./run.sh conflicts --json FILE");
    }
    let mut text = String::from(
        "<p>One CPU does the operation of the row, another one that of the column. A number says how many cache lines both use \
         and at least one of them writes: what they contend for. Green cells have none; a dash means that one of the two \
         needs no kernel there. The objects in these lines stand below each matrix.</p>\n",
    );
    text += &html::commands(&["./run.sh conflicts --json FILE".to_owned()]);
    for one in each_once(conflicts.iter().map(which)) {
        let cells = conflicts.iter().filter(|cell| which(cell) == one);
        text += &matrix(&cells.collect::<Vec<_>>());
    }
    text
}

/// A table of cells, of which there are some, of one place on one machine.
fn matrix(cells: &[&Cell]) -> String {
    let one = cells[0];
    let ops = cells.iter().flat_map(|cell| &cell.ops);
    let ops: Vec<&str> = each_once(ops.map(String::as_str));
    let find = |ops: [&str; 2]| cells.iter().rev().find(|cell| cell.ops == ops);
    let mut text = format!(
        "<h3>{} on {}: {}</h3>\n<div class=\"wide\"><table class=\"matrix\">\n<thead><tr><td></td>",
        one.side.name(),
        one.arch,
        html::escape(&one.place)
    );
    for op in &ops {
        let op = html::escape(op);
        let _ = write!(text, "<th scope=\"col\"><span>{op}</span></th>");
    }
    text += "</tr></thead>\n<tbody>\n";
    for a in &ops {
        let _ = write!(text, "<tr><th scope=\"row\">{}</th>", html::escape(a));
        for b in &ops {
            let cell = find([a, b]).or_else(|| find([b, a]));
            let (class, title, shown) = match cell.map(|cell| (cell, cell.objects())) {
                None => ("unknown", String::new(), String::new()),
                Some((_, Err(why))) => ("unknown", why.to_owned(), "\u{2013}".to_owned()),
                Some((_, Ok(all))) if all.is_empty() => ("free", String::new(), "0".to_owned()),
                Some((cell, Ok(all))) => ("shared", named(cell), all.len().to_string()),
            };
            let title = match title.as_str() {
                "" => title,
                title => format!(" title=\"{}\"", html::escape(title)),
            };
            let _ = write!(text, "<td class=\"{class}\"{title}>{shown}</td>");
        }
        text += "</tr>\n";
    }
    text += "</tbody></table></div>\n";
    let row = |cell: &&Cell| vec![cell.ops.join(", "), named(cell)];
    let rows = cells.iter().map(row);
    let rows: Vec<Vec<String>> = rows.filter(|row| !row[1].is_empty()).collect();
    if rows.is_empty() {
        return text;
    }
    let table = html::table(["operations", "objects"], &rows);
    text + &html::details("The objects", &table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::has;
    use serde_json::{Value, json};

    #[test]
    fn a_cell_is_free_or_has_objects() {
        let mut conflicts = Vec::new();
        let line = |second: &str, lines: Value| {
            json!({"first": "read", "second": second, "place": "folio", "arch": "x86_64",
                "kernel": "quire", "lines": lines})
        };
        let zone = json!([{"object": "zone"}, {"object": "zone"}, {"object": "folio"}]);
        let mut absent = line("exit", Value::Null);
        absent["absent"] = "needs no kernel".into();
        for line in [line("read", zone), line("fork", json!([])), absent] {
            conflicts.extend(Cell::of_value(&line).unwrap());
        }
        let text = section(&conflicts);
        let row = "<th scope=\"row\">read</th><td class=\"shared\" title=\"folio, zone (2 lines)\">3</td>\
                   <td class=\"free\">0</td><td class=\"unknown\" title=\"needs no kernel\">\u{2013}</td>";
        has(&text, row);
        // The same from the other side; what was not measured is empty, not free.
        has(
            &text,
            "<td class=\"free\">0</td><td class=\"unknown\"></td>",
        );
        // A run of frames is no cell.
        let frames = Cell::of_value(&json!({"first": 1, "frames": 2}));
        assert!(frames.unwrap().is_none());
    }
}
