//! Which operations of two CPUs touch the same: a matrix for each place, machine and kernel.
//!
//! A line is a cell: `{"first":"read","second":"munmap","place":"folio","arch":"x86_64",
//! "kernel":"quire","lines":[{"object":"zone"}]}`; without lines the two are free of each other. In
//! place of `lines` there may be `absent` or `failed`, with the reason.
use super::html::{self, each_once};
use anyhow::Result;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use tools::host::arch::Arch;

/// A cell of the matrix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The operations of the two CPUs.
    pub ops: [String; 2],
    /// Where the second is, seen from the first.
    pub place: String,
    /// The machine.
    pub arch: Arch,
    /// The kernel, as lines call it.
    pub kernel: String,
    /// The object of each cache line that both use and at least one writes; else why there are
    /// none to see.
    pub objects: Result<Vec<String>, String>,
}

impl Conflict {
    /// Whether a line is a cell.
    pub fn is(line: &Value) -> bool {
        line["first"].is_string() && line["second"].is_string() && line["place"].is_string()
    }

    /// From its line.
    pub fn read(line: &Value) -> Result<Conflict> {
        let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
        let objects = line["lines"].as_array().map(|lines| {
            let name = |line: &Value| line["object"].as_str().unwrap_or("?").to_owned();
            lines.iter().map(name).collect()
        });
        let why = line["absent"].as_str().or(line["failed"].as_str());
        let why = why.unwrap_or("no lines");
        Ok(Conflict {
            ops: [text("first"), text("second")],
            place: text("place"),
            arch: Arch::of_line(line)?,
            kernel: text("kernel"),
            objects: objects.ok_or_else(|| why.to_owned()),
        })
    }

    /// Its objects, each with the number of its lines.
    fn named(&self) -> Vec<String> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for object in self.objects.iter().flatten() {
            *counts.entry(object).or_default() += 1;
        }
        let name = |(object, lines): (&str, usize)| match lines {
            1 => object.to_owned(),
            more => format!("{object} ({more} lines)"),
        };
        counts.into_iter().map(name).collect()
    }

    fn matrix(&self) -> (Arch, &str, &str) {
        (self.arch, &self.kernel, &self.place)
    }
}

/// The section.
pub fn section(conflicts: &[Conflict]) -> String {
    if conflicts.is_empty() {
        return html::missing("./run.sh conflicts --json FILE");
    }
    let mut text = String::from(
        "<p>One CPU does the operation of the row, another one that of the column. A number says how many cache lines both use \
         and at least one of them writes: what they contend for. Green cells have none; a dash means that one of the two \
         needs no kernel there. The objects in these lines stand below each matrix.</p>\n",
    );
    text += &html::commands(&["./run.sh conflicts --json FILE".to_owned()]);
    for which in each_once(conflicts.iter().map(Conflict::matrix)) {
        let cells = conflicts.iter().filter(|cell| cell.matrix() == which);
        text += &matrix(which, &cells.collect::<Vec<_>>());
    }
    text
}

fn matrix((arch, kernel, place): (Arch, &str, &str), cells: &[&Conflict]) -> String {
    let ops = cells.iter().flat_map(|cell| &cell.ops);
    let ops: Vec<&str> = each_once(ops.map(String::as_str));
    let find = |ops: [&str; 2]| cells.iter().rev().find(|cell| cell.ops == ops);
    let mut text = format!(
        "<h3>{} on {arch}: {}</h3>\n<div class=\"wide\"><table class=\"matrix\">\n<thead><tr><td></td>",
        html::escape(kernel),
        html::escape(place)
    );
    for op in &ops {
        let _ = write!(
            text,
            "<th scope=\"col\"><span>{}</span></th>",
            html::escape(op)
        );
    }
    text += "</tr></thead>\n<tbody>\n";
    for a in &ops {
        let _ = write!(text, "<tr><th scope=\"row\">{}</th>", html::escape(a));
        for b in &ops {
            let cell = find([a, b]).or_else(|| find([b, a]));
            text += &match cell.map(|cell| (cell, &cell.objects)) {
                None => "<td class=\"unknown\"></td>".to_owned(),
                Some((_, Err(why))) => format!(
                    "<td class=\"unknown\" title=\"{}\">\u{2013}</td>",
                    html::escape(why)
                ),
                Some((_, Ok(objects))) if objects.is_empty() => {
                    "<td class=\"free\">0</td>".to_owned()
                }
                Some((cell, Ok(objects))) => format!(
                    "<td class=\"shared\" title=\"{}\">{}</td>",
                    html::escape(&cell.named().join(", ")),
                    objects.len()
                ),
            };
        }
        text += "</tr>\n";
    }
    text += "</tbody></table></div>\n";
    let rows: Vec<Vec<String>> = cells
        .iter()
        .filter(|cell| !cell.named().is_empty())
        .map(|cell| vec![cell.ops.join(", "), cell.named().join(", ")])
        .collect();
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
    use serde_json::json;

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
            assert!(Conflict::is(&line));
            conflicts.push(Conflict::read(&line).unwrap());
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
        assert!(!Conflict::is(&json!({"first": 1, "frames": 2})));
    }
}
