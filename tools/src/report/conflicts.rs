//! Which operations of two CPUs touch the same: a matrix for each place, machine and kernel.
//!
//! A line is a cell: `{"conflicts":["fault","munmap"],"place":"same folio","arch":"x86_64",
//! "kernel":"quire","objects":["zone lock"]}`; without objects the two are free of each other.
use super::data::{Data, arch};
use super::html;
use crate::arch::Arch;
use anyhow::{Context, Result};
use serde_json::Value;
use std::fmt::Write;

/// A cell of the matrix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The operations of the two CPUs.
    pub ops: [String; 2],
    /// Where they work, relative to each other.
    pub place: String,
    /// The machine.
    pub arch: Arch,
    /// The kernel, as lines call it.
    pub kernel: String,
    /// What both touch and at least one writes.
    pub objects: Vec<String>,
}

impl Conflict {
    /// From its line.
    pub fn read(line: &Value) -> Result<Conflict> {
        let words = |name: &str| -> Vec<String> {
            let all = line[name].as_array().into_iter().flatten();
            all.map(|word| {
                word.as_str()
                    .map_or_else(|| word.to_string(), str::to_owned)
            })
            .collect()
        };
        let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
        Ok(Conflict {
            ops: words("conflicts")
                .try_into()
                .ok()
                .context("conflicts of two operations")?,
            place: text("place"),
            arch: arch(line)?,
            kernel: text("kernel"),
            objects: words("objects"),
        })
    }

    fn matrix(&self) -> (Arch, &str, &str) {
        (self.arch, &self.kernel, &self.place)
    }
}

/// The section.
pub fn section(data: &Data) -> String {
    if data.conflicts.is_empty() {
        return html::missing("./run.sh conflicts --json FILE");
    }
    let mut matrices: Vec<(Arch, &str, &str)> = Vec::new();
    for conflict in &data.conflicts {
        if !matrices.contains(&conflict.matrix()) {
            matrices.push(conflict.matrix());
        }
    }
    let mut text = String::from(
        "<p>Two CPUs work at the same time. A cell says how many objects both touch and at least one of \
         them writes; an empty one that they are free of each other. The objects stand below each matrix.</p>\n",
    );
    text += &html::commands(&["./run.sh conflicts --json FILE".to_owned()]);
    for which in matrices {
        let cells = data.conflicts.iter().filter(|cell| cell.matrix() == which);
        text += &matrix(which, &cells.collect::<Vec<_>>());
    }
    text
}

fn matrix((arch, kernel, place): (Arch, &str, &str), cells: &[&Conflict]) -> String {
    let mut ops: Vec<&str> = Vec::new();
    for op in cells.iter().flat_map(|cell| &cell.ops) {
        if !ops.contains(&op.as_str()) {
            ops.push(op);
        }
    }
    let find = |a: &str, b: &str| {
        let same = |cell: &&&Conflict| cell.ops == [a, b] || cell.ops == [b, a];
        cells.iter().rev().find(same)
    };
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
            text += &match find(a, b) {
                None => "<td class=\"unknown\">?</td>".to_owned(),
                Some(cell) if cell.objects.is_empty() => "<td class=\"free\"></td>".to_owned(),
                Some(cell) => format!(
                    "<td class=\"shared\" title=\"{}\">{}</td>",
                    html::escape(&cell.objects.join(", ")),
                    cell.objects.len()
                ),
            };
        }
        text += "</tr>\n";
    }
    text += "</tbody></table></div>\n";
    let rows: Vec<Vec<String>> = cells
        .iter()
        .filter(|cell| !cell.objects.is_empty())
        .map(|cell| vec![cell.ops.join(", "), cell.objects.join(", ")])
        .collect();
    if rows.is_empty() {
        return text;
    }
    let heads = ["operations", "objects"].map(str::to_owned);
    text + &html::details("The objects", &html::table(&heads, &rows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_cell_is_free_or_has_objects() {
        let mut data = Data::default();
        let line = |ops: [&str; 2], objects: &[&str]| json!({"conflicts": ops, "place": "same folio", "arch": "x86_64", "kernel": "quire", "objects": objects});
        for line in [
            line(["fault", "fault"], &["zone lock"]),
            line(["fault", "fork"], &[]),
        ] {
            data.conflicts.push(Conflict::read(&line).unwrap());
        }
        let text = section(&data);
        assert!(
            text.contains(
                "<td class=\"shared\" title=\"zone lock\">1</td><td class=\"free\"></td>"
            )
        );
        // The same from the other side; what was not measured is not free.
        assert!(
            text.contains("<td class=\"free\"></td><td class=\"unknown\">?</td>"),
            "{text}"
        );
        assert!(Conflict::read(&json!({"conflicts": ["a"], "arch": "x86_64"})).is_err());
    }
}
