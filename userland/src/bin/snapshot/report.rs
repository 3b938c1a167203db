//! What is said of a snapshot.
use std::fmt::Write;

/// One snapshot. Times are in nanoseconds of CPU time, memory in kB.
pub struct Row {
    pub fork: String,
    pub table: usize,
    pub folio_kb: usize,
    /// The fork call.
    pub forked: u64,
    /// Of the parent's writes: the longest, the median, all together, and how many.
    pub longest: u64,
    pub median: u64,
    pub total: u64,
    pub writes: usize,
    /// Of the parent during its writes.
    pub faults: u64,
    /// Pages copied from the fork on by all, where the kernel says so.
    pub copies: Option<u64>,
    /// What the snapshot needed at the end of the writes, when it was the most.
    pub memory: u64,
}

impl Row {
    /// As JSON, the fork call as the figure of the cell.
    pub fn json(&self) -> String {
        let copies = self
            .copies
            .map_or("null".to_owned(), |copies| copies.to_string());
        format!(
            "{{\"op\":\"snapshot={}/{}\",\"folio_kb\":{},\"whole\":{},\"longest\":{},\"median\":{},\"writing\":{},\"writes\":{},\
             \"faults\":{},\"pages_copied\":{copies},\"memory_kb\":{}}}",
            self.fork,
            self.table,
            self.folio_kb,
            self.forked,
            self.longest,
            self.median,
            self.total,
            self.writes,
            self.faults,
            self.memory
        )
    }
}

/// All of them, for people, in a unit of time.
pub fn table(rows: &[Row], unit: &str) -> String {
    let mut text = String::new();
    let Some(first) = rows.first() else {
        return text;
    };
    let _ = writeln!(
        text,
        "\na table of {} MiB is saved by fork, and {} keys are written meanwhile: {unit} of the parent\n\
         {:>8} {:8}{:>12}{:>12}{:>12}{:>12}{:>12}{:>12}{:>12}",
        first.table,
        first.writes,
        "folio",
        "fork",
        "fork call",
        "worst write",
        "median",
        "all writes",
        "faults",
        "copied",
        "memory kB"
    );
    for row in rows {
        let copies = row.copies.map_or("-".to_owned(), |n| n.to_string());
        let _ = writeln!(
            text,
            "{:>5} kB {:8}{:>12}{:>12}{:>12}{:>12}{:>12}{copies:>12}{:>12}",
            row.folio_kb,
            row.fork,
            row.forked,
            row.longest,
            row.median,
            row.total,
            row.faults,
            row.memory
        );
    }
    text
}
