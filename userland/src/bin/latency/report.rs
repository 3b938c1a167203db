//! What is said of the samples.
use crate::times::Summary;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt::Write;

/// The event that is no more than two readings of the clock.
pub const CLOCK: &str = "clock";

/// One kind of event, with folios of one size; 0 where the size does not matter.
pub struct Row {
    event: String,
    kb: usize,
    summary: Summary,
}

impl Row {
    pub fn new(event: &str, kb: usize, summary: Summary) -> Row {
        let event = event.to_owned();
        Row { event, kb, summary }
    }

    /// As JSON, the median as the figure of the cell.
    pub fn json(&self) -> String {
        let s = &self.summary;
        format!(
            "{{\"op\":\"latency={}\",\"folio_kb\":{},\"whole\":{},\"smallest\":{},\"largest\":{},\"total\":{},\"samples\":{},\
             \"faults\":{}}}",
            self.event, self.kb, s.median, s.smallest, s.largest, s.total, s.samples, s.faults
        )
    }
}

/// The events that depend on the size of folios, in tables of three or four, with what they are
/// called there.
pub const TABLES: [&[(&str, &str)]; 3] = [
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

/// All of them, for people, in a unit of time.
pub fn table(rows: &[Row], unit: &str) -> String {
    let mut text = format!("\none event, in {unit}: smallest, median, largest");
    if let Some(Row { summary: s, .. }) = rows.iter().find(|row| row.event == CLOCK) {
        let _ = write!(
            text,
            " of {}; reading the clock, which is in all of them: {}, {}, {}",
            s.samples, s.smallest, s.median, s.largest
        );
    }
    text.push('\n');
    for events in TABLES {
        text += &by_size(rows, events);
    }
    text + &by_set(rows)
}

/// A line for each size, three figures for each of these events.
fn by_size(rows: &[Row], events: &[(&str, &str)]) -> String {
    let known = |row: &&Row| events.iter().any(|(event, _)| *event == row.event);
    let sizes: BTreeSet<usize> = rows.iter().filter(known).map(|row| row.kb).collect();
    let mut text = String::new();
    for kb in &sizes {
        if text.is_empty() {
            let headings = events.iter().map(|(_, heading)| format!("{heading:>27}"));
            let _ = writeln!(text, "{:>8}{}", "folio", headings.collect::<String>());
        }
        let _ = write!(text, "{kb:>5} kB");
        for (event, _) in events {
            let mut of_size = rows.iter().filter(|row| row.kb == *kb);
            match of_size.find(|row| row.event == *event) {
                Some(row) => text += &row.summary.figures(),
                None => _ = write!(text, "{:>27}", "-"),
            }
        }
        text.push('\n');
    }
    text
}

/// A line for each set of sizes that the process permitted itself, most faults first.
fn by_set(rows: &[Row]) -> String {
    let set = |row: &'_ Row| Some((row.event.split_once('/')?.1.to_owned(), row.summary));
    let mut sets: Vec<(String, Summary)> = rows.iter().filter_map(set).collect();
    sets.sort_by_key(|(_, summary)| Reverse(summary.faults));
    let mut text = String::new();
    for (set, summary) in sets {
        if text.is_empty() {
            text += "thp_orders        faults smallest   median  largest  all faults\n";
        }
        let (faults, total) = (summary.faults, summary.total);
        let _ = writeln!(text, "{set:16}{faults:>8}{}{total:>12}", summary.figures());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_figures_for_each_size_and_event() {
        let row = |event: &str, kb, median, faults| {
            let summary = Summary {
                smallest: 1,
                median,
                largest: 99,
                total: 500,
                samples: 16,
                faults,
            };
            Row::new(event, kb, summary)
        };
        let rows = [
            row(CLOCK, 0, 30, 0),
            row("first", 64, 20, 16),
            row("first", 4, 10, 16),
            row("copied", 64, 40, 16),
            row("switch", 4, 50, 0),
            row("permitted/all", 0, 60, 2),
            row("permitted/none", 0, 5, 512),
        ];
        let text = table(&rows, "apples");
        let mut lines = text.lines().skip(1);
        assert_eq!(
            lines.next(),
            Some(
                "one event, in apples: smallest, median, largest of 16; reading the clock, which is \
                 in all of them: 1, 30, 99"
            )
        );
        let rows: Vec<Vec<&str>> = lines.map(|row| row.split_whitespace().collect()).collect();
        assert_eq!(rows[1], ["4", "kB", "1", "10", "99", "-", "-", "-"]);
        assert_eq!(rows[2][..8], ["64", "kB", "1", "20", "99", "1", "40", "99"]);
        assert_eq!(rows[4], ["4", "kB", "1", "50", "99", "-", "-"]);
        assert_eq!(rows[6], ["none", "512", "1", "5", "99", "500"]);
        assert_eq!(rows[7][0], "all");
        assert_eq!(rows.len(), 8, "{text}");
    }
}
