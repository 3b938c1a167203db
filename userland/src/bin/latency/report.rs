//! What is said of the samples.
use crate::times::Summary;
use std::fmt::Write;

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

/// All of them, for people.
pub fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "\n{:22}{:>8}{:>10}{:>10}{:>10}{:>9}{:>8}\n",
        "event", "folio", "smallest", "median", "largest", "samples", "faults"
    );
    for row in rows {
        let s = &row.summary;
        let folio = match row.kb {
            0 => String::new(),
            kb => format!("{kb} kB"),
        };
        let _ = writeln!(
            text,
            "{:22}{folio:>8}{:>10}{:>10}{:>10}{:>9}{:>8}",
            row.event, s.smallest, s.median, s.largest, s.samples, s.faults
        );
    }
    text
}
