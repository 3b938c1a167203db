//! The floor: what an operation of the bench costs at least, on any kernel, in guest instructions.
//! `docs/floor.md` argues each part.

pub mod parts;

use super::cells::Key;
use super::plan::BASELINE;
use crate::markdown;
use parts::Parts;
use tools::host::arch::Arch;

/// Pages of the region: 64 MiB.
const PAGES: f64 = 16384.0;
/// Pages that a table of PTEs maps.
const TABLE: f64 = 512.0;
/// Tables of the region.
const TABLES: f64 = PAGES / TABLE;

/// The floor of a cell of the baseline's operations: per 4 KiB page, of mremap the whole call.
pub fn floor(arch: Arch, key: &Key) -> Option<f64> {
    if key.vmas != 0 {
        return None;
    }
    of(arch, &key.op, key.kb)
}

/// The floor of an operation on folios of `kb` kB.
pub fn of(arch: Arch, op: &str, kb: u64) -> Option<f64> {
    let folio = Folio {
        parts: parts::of(arch),
        pages: kb as f64 / 4.0,
    };
    Some(match op {
        "fault" => folio.fault(),
        "remap" => folio.remap(),
        "munmap" => folio.munmap(),
        "fork" => folio.fork(),
        "cow" => folio.parts.fill + folio.copy(),
        "cow-byte" => folio.parts.dot + folio.copy(),
        "reuse" => folio.parts.fill + folio.reuse(),
        "reuse-byte" => folio.parts.dot + folio.reuse(),
        "dontneed" => folio.dontneed(),
        "mremap" => folio.mremap(),
        _ => return None,
    })
}

/// A region of folios of one size on one machine.
struct Folio {
    parts: &'static Parts,
    pages: f64,
}

impl Folio {
    /// One fault for each folio, which is cleared and mapped whole: by one entry if it fills a
    /// table.
    fn fault(&self) -> f64 {
        let p = self.parts;
        let entries = if self.pages == TABLE { 1.0 } else { self.pages };
        let fault = p.trap + p.walk + p.lock + p.take + p.account + entries * p.entry;
        p.dot + (fault + p.clear.of(self.pages)) / self.pages
    }

    /// One call for each table. The VMA becomes three; a leaf that fills the table becomes entries.
    fn remap(&self) -> f64 {
        let p = self.parts;
        let entries = if self.pages == TABLE {
            p.take + TABLE * p.entry
        } else {
            p.entry
        };
        (p.of_call() + 2.0 * p.area + p.walk + entries + p.flush_page) / TABLE
    }

    /// One call. Each entry is read, as any may be another than expected; each folio is found by
    /// one, and given back; each table is taken out whole.
    fn munmap(&self) -> f64 {
        let p = self.parts;
        let folios = (p.find + p.account + p.give) / self.pages;
        p.read + folios + (1.0 + p.give) / TABLE + (p.of_call() + p.flush) / PAGES
    }

    /// One call. Each table is shared: a store in the parent's PMD table, one in the child's, and
    /// the count of its sharers.
    fn fork(&self) -> f64 {
        let p = self.parts;
        let tables = 3.0 * p.clear.of(1.0) + 3.0 * p.take + 3.0 * TABLES;
        (p.of_call() + p.task + p.area + tables + p.flush) / PAGES
    }

    /// One fault for each folio: another one is filled by a copy and mapped in its place.
    fn copy(&self) -> f64 {
        let p = self.parts;
        let fault = p.trap + p.walk + p.lock + p.take + 2.0 * p.account + p.flush_page;
        let folio = fault + self.pages * p.entry + p.clear.of(self.pages);
        folio / self.pages + (p.take + 1.0 + p.flush) / TABLE
    }

    /// One fault for each table, which is the process's own again as it is.
    fn reuse(&self) -> f64 {
        let p = self.parts;
        (p.trap + p.walk + p.lock + 1.0 + p.flush) / TABLE
    }

    /// One call for each page.
    fn dontneed(&self) -> f64 {
        let p = self.parts;
        let page = p.walk + p.find + 1.0 + p.flush_page + p.account;
        p.arguments + p.of_call() + page + p.give / self.pages
    }

    /// One call. The VMA is taken out and put in elsewhere; each table's entry is moved: read,
    /// written, cleared.
    fn mremap(&self) -> f64 {
        let p = self.parts;
        p.of_call() + 2.0 * p.area + 3.0 * TABLES + p.flush
    }
}

/// The floors as a table for `docs/floor.md`: a row for each operation, at three sizes.
pub fn table() -> String {
    const SIZES: [u64; 3] = [4, 64, 2048];
    let columns = Arch::ALL.map(|arch| SIZES.map(|kb| (arch, kb))).concat();
    let heads = columns.iter().map(|(arch, kb)| format!("{arch} {kb} kB"));
    let mut text = markdown::heading(["operation".to_owned()].into_iter().chain(heads));
    for op in BASELINE {
        let floors = columns.iter().filter_map(|(arch, kb)| of(*arch, op, *kb));
        let first = [format!("`{op}`")].into_iter();
        text += &markdown::row(first.chain(floors.map(shown)));
    }
    text
}

/// A floor in a few digits: many are far below one instruction for each page.
pub fn shown(floor: f64) -> String {
    let digits = if floor < 1.0 { 3 } else { 1 };
    format!("{floor:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::plan::SIZES;

    #[test]
    fn each_operation_of_the_baseline_has_one() {
        for arch in Arch::ALL {
            for op in BASELINE {
                for kb in SIZES {
                    let floor = of(arch, op, kb.into()).unwrap();
                    assert!(floor > 0.0 && floor < 2000.0, "{arch} {op} {kb}: {floor}");
                }
            }
            assert_eq!(of(arch, "gcflip", 64), None);
        }
    }

    #[test]
    fn larger_folios_never_cost_more_but_where_a_leaf_is_split() {
        for arch in Arch::ALL {
            for op in BASELINE.iter().filter(|op| **op != "remap") {
                let floors: Vec<f64> = SIZES
                    .iter()
                    .filter_map(|kb| of(arch, op, (*kb).into()))
                    .collect();
                assert!(
                    floors.is_sorted_by(|a, b| a >= b),
                    "{arch} {op}: {floors:?}"
                );
            }
        }
    }

    #[test]
    fn by_hand() {
        // 22 + 12 + 2 + 3 + 1 + 2 for the fault, 4 by the program, 512 words.
        assert_eq!(of(Arch::X86_64, "fault", 4), Some(558.0));
        // 23 + 4 + 2 for the call, two VMAs of 2, 96 for the tables, 3 for the flush.
        assert_eq!(of(Arch::Aarch64, "mremap", 64), Some(132.0));
    }
}
