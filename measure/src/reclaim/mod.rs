//! `./run.sh reclaim`: policies of reclaim over streams of accesses to pages, beside Belady's
//! optimum (`measure/trial`).
mod record;

use crate::{columns, trial};
use anyhow::Result;
use tools::args::ReclaimArgs;
use tools::host::arch::Arch;
use tools::host::install;

/// Records, or plays all streams and prints a table for each.
pub fn reclaim(args: &ReclaimArgs) -> Result<u8> {
    if !args.record.is_empty() {
        install::ensure_qemu(&[Arch::X86_64], args.install.no_install)?;
        args.record
            .iter()
            .try_for_each(|name| record::record(name))?;
        return Ok(0);
    }
    let words = ["measure/trial/streams", "--all"];
    let words = &words[..1 + usize::from(args.all)];
    let csv = args.csv.as_deref();
    trial::run("trial", words, csv, "playing streams", tables)
}

/// A table for each stream with each share of memory.
fn tables(text: &str) -> Result<String> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let cells = |record: &csv::StringRecord| {
        let cells = record
            .iter()
            .skip(4)
            .map(|cell| if cell.is_empty() { "-" } else { cell });
        (cells.map(str::to_owned).collect(), String::new())
    };
    let heading = cells(reader.headers()?);
    let (mut text, mut rows) = (String::new(), Vec::new());
    for record in reader.records() {
        let record = record?;
        // The first; each other way of the memory manager has as much memory as it uses.
        if record[4].ends_with(" 4 kB") {
            text += &columns::aligned(&rows);
            let [stream, accesses, pages, memory] = [0, 1, 2, 3].map(|at| &record[at]);
            text +=
                &format!("\n{stream}: {accesses} accesses to {pages} pages, {memory} in memory\n");
            rows = vec![heading.clone()];
        }
        rows.push(cells(&record));
    }
    Ok(text + &columns::aligned(&rows))
}
