//! The page tables of a process: the way down from the root in words, the PMD table as a row, and
//! each table of PTEs as a grid.
use super::canvas::{CELL, Drawing, ROW};
use super::memory::Memory;
use super::state::{Entry, State, To};

/// Entries of a table.
const ENTRIES: u64 = 512;
/// Of a PMD table so many are drawn: the scene has 32.
const PMDS: u64 = ROW;

/// Draws those of one process.
pub fn draw(drawing: &mut Drawing, state: &State, memory: &Memory, process: usize, x: u64) {
    let who = ["first", "second"][process];
    let entries = &state.processes[process].entries;
    drawing.words(x, "", &format!("Page tables of the {who} process"));
    for area in &state.processes[process].areas {
        let pages = |address: u64| address.saturating_sub(state.start) >> 12;
        let (first, last) = (pages(area.range.0), pages(area.range.1) - 1);
        let rights = &area.rights;
        drawing.words(
            x,
            "soft",
            &format!("area {rights}, pages {first} to {last}"),
        );
    }
    for entry in entries.iter().filter(|entry| entry.level >= 2) {
        let name = ["pud", "pgd"][entry.level as usize - 2];
        drawing.words(
            x,
            "soft",
            &format!("{name}[{}] {}", entry.first, leads(&entry.to)),
        );
    }
    if entries.is_empty() {
        drawing.words(x, "soft", "none yet");
        return;
    }
    pmds(drawing, memory, entries, x);
    for table in entries.iter().filter(|entry| entry.level == 1) {
        if !matches!(table.to, To::Memory { .. }) {
            ptes(drawing, memory, entries, table, x);
        }
    }
}

fn leads(to: &To) -> String {
    match to {
        To::Table(frame) => format!("leads to the table in frame {frame:#x}"),
        To::Shared(frame, 1) => format!(
            "leads to the table in frame {frame:#x}, which was shared and is this process's alone"
        ),
        To::Shared(frame, by) => {
            format!("leads to the table in frame {frame:#x}, which {by} processes share")
        }
        To::Memory { frame, .. } => format!("maps frame {frame:#x}"),
        To::Slots { slot, .. } => format!("names slot {slot:#x}"),
    }
}

/// The PMD table.
fn pmds(drawing: &mut Drawing, memory: &Memory, entries: &[Entry], x: u64) {
    let rest = ENTRIES - PMDS;
    drawing.words(
        x,
        "",
        &format!("pmd: 2 MiB each; the other {rest} entries are empty"),
    );
    let corner = (x, drawing.y);
    drawing.grid(corner, PMDS);
    for entry in entries.iter().filter(|entry| entry.level == 1) {
        let class = match &entry.to {
            To::Shared(_, 1) | To::Table(_) => "table",
            To::Shared(..) => "both",
            To::Memory { .. } | To::Slots { .. } => class(memory, entry),
        };
        drawing.cells(corner, entry.first, entry.count, class);
    }
    drawing.y += CELL + 4;
}

/// A table of PTEs.
fn ptes(drawing: &mut Drawing, memory: &Memory, entries: &[Entry], table: &Entry, x: u64) {
    let index = table.first;
    drawing.words(x, "", &format!("pmd[{index}] {}", leads(&table.to)));
    let corner = (x, drawing.y);
    drawing.grid(corner, ENTRIES);
    let inside = |entry: &&Entry| {
        entry.level == 0 && table.range.0 <= entry.range.0 && entry.range.0 < table.range.1
    };
    for entry in entries.iter().filter(inside) {
        let frozen = match &entry.to {
            To::Memory { flags, .. } => !flags.contains('w') || matches!(table.to, To::Shared(..)),
            To::Slots { .. } | To::Table(_) | To::Shared(..) => false,
        };
        let mut name = class(memory, entry).to_owned();
        if frozen {
            name += " frozen";
        }
        drawing.cells(corner, entry.first, entry.count, &name);
    }
    let inside: Vec<&Entry> = entries.iter().filter(inside).collect();
    for (first, count) in folios(&inside) {
        drawing.edge(corner, first, count);
    }
    drawing.y += ENTRIES / ROW * CELL + 4;
}

/// Where entries beside each other map one large folio, or name slots of one block: the first, and
/// how many.
fn folios(entries: &[&Entry]) -> Vec<(u64, u64)> {
    let mut found: Vec<(u64, u64, u64)> = Vec::new();
    for entry in entries {
        let (To::Memory { head, kb: 5.., .. } | To::Slots { head, kb: 5.., .. }) = entry.to else {
            continue;
        };
        match found.last_mut() {
            Some((of, first, count)) if *of == head && *first + *count == entry.first => {
                *count += entry.count;
            }
            _ => found.push((head, entry.first, entry.count)),
        }
    }
    let places = found.into_iter().map(|(_, first, count)| (first, count));
    places.collect()
}

/// The colour of memory: whose it is.
fn class(memory: &Memory, entry: &Entry) -> &'static str {
    match entry.to {
        To::Memory { zero: true, .. } => "zero",
        To::Memory { frame, .. } => memory.owner(frame),
        To::Slots {
            parked: Some(_), ..
        } => "slot",
        To::Slots { parked: None, .. } => "slot stored",
        To::Table(_) | To::Shared(..) => "table",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picture::state::entry;

    #[test]
    fn a_folio_has_one_edge_though_its_pages_differ() {
        let lines = [
            "200000000000-200000003000 pte 0-2 anon 400 400 64kB rw-a---",
            "200000003000-200000004000 pte 3-3 anon 403 400 64kB rw-ad--",
            "200000004000-200000008000 pte 4-7 anon 500 500 16kB rw-ad--",
            "200000008000-200000009000 pte 8-8 anon 600 600 4kB rw-ad--",
        ];
        let entries = lines.map(|line| entry(line).unwrap());
        let found = folios(&entries.each_ref());
        assert_eq!(found, [(0, 4), (4, 4)]);
    }
}
