//! What was measured so far: both kernels' figures by place, and what a kernel does not have.
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use tools::args::Side;
use tools::host::arch::Arch;

/// Which measurement. Both kernels have a figure for each.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// On which machine.
    pub arch: Arch,
    /// Where the operation stands in the program's list.
    pub row: usize,
    /// The operation, as the program's line calls it.
    pub op: String,
    /// CPUs of the machine.
    pub cpus: u32,
    /// Folios of 2 MiB are mapped by PMDs.
    pub by_pmd: bool,
    /// Folio size in kB.
    pub kb: u64,
    /// VMAs or threads where that is the question, or 0.
    pub vmas: u64,
}

impl Place {
    /// The operation with everything that is not as usual.
    pub fn name(&self) -> String {
        let mut name = self.op.clone();
        if self.vmas > 0 {
            name += &format!(" {}", self.vmas);
        }
        if self.by_pmd {
            name += " pmd";
        }
        if self.cpus > 1 {
            name += &format!(" {} CPUs", self.cpus);
        }
        name
    }
}

/// The figures of one place.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pair {
    /// Instructions per page or for the whole call: Quire's, Linux's.
    pub figures: [Option<f64>; 2],
    /// They are of the whole call.
    pub whole: bool,
}

impl Pair {
    /// Quire's part of Linux's figure.
    pub fn ratio(&self) -> Option<f64> {
        let [Some(quire), Some(linux)] = self.figures else {
            return None;
        };
        (linux > 0.0).then_some(quire / linux)
    }
}

/// What the plugin for QEMU counts that has a table of its own: the name in a line, and the title.
pub const COUNTED: [(&str, &str); 2] = [
    ("lines_touched", "cache lines touched"),
    ("cycles_estimated", "estimated cycles"),
];

/// What is said before the operations of a kernel for which [`is_blind`] holds.
const BLIND: &str =
    "the model does not read this kernel's page tables, and counts no misses and cycles of";

/// Whether more than one in a hundred walks of the plugin's model found no translation, although
/// the access was made: tables of a format that it does not read. Lines and misses of such accesses
/// are not counted, and what is counted says nothing.
pub fn is_blind(line: &Value) -> bool {
    let of = |name: &str| line[name].as_f64().unwrap_or(0.0);
    of("unresolved") * 100.0 > of("walks")
}

/// The pages or reads that a line's counts are divided by; none for a whole call.
fn pages(line: &Value) -> Option<f64> {
    line["pages"].as_f64().filter(|pages| *pages > 0.0)
}

/// A count of the plugin in a line, for each page or the whole call; none where it needs the
/// kernel's tables, and the model did not read them. QEMU says which lines an access touches, but
/// on aarch64 not those of DC ZVA.
pub fn counted(line: &Value, arch: Arch, name: &str) -> Option<f64> {
    let by_qemu = name == "lines_touched" && arch == Arch::X86_64;
    let is_known = by_qemu || !is_blind(line);
    let count = line[name].as_f64().filter(|_| is_known)?;
    Some(count / pages(line).unwrap_or(1.0))
}

/// Of one run.
#[derive(Debug, Default)]
pub struct Results {
    /// By place, in the order of the table.
    pub pairs: BTreeMap<Place, Pair>,
    /// The same of each of [`COUNTED`], where it was counted.
    pub counted: [BTreeMap<Place, Pair>; COUNTED.len()],
    /// What a kernel does not have, and why: operations and their folio sizes in kB.
    pub absent: BTreeMap<(Arch, Side, String), BTreeMap<String, BTreeSet<u64>>>,
    /// What each kernel calls itself.
    pub releases: BTreeMap<(Arch, Side), String>,
    /// What each kernel swaps to, where it says so.
    pub swaps: BTreeMap<(Arch, Side), String>,
    /// Boots that did not get to their end, each with how.
    pub failures: Vec<String>,
}

impl Results {
    /// Keeps a figure.
    pub fn add(&mut self, place: Place, side: Side, figure: f64, whole: bool) {
        let pair = self.pairs.entry(place).or_default();
        pair.figures[side as usize] = Some(figure);
        pair.whole = whole;
    }

    /// Keeps what the plugin added to a line, or that its model was blind.
    pub fn add_counted(&mut self, place: &Place, side: Side, line: &Value) {
        if is_blind(line) {
            self.lacks(place.arch, side, BLIND, &place.op, place.kb);
        }
        for ((name, _), pairs) in COUNTED.iter().zip(&mut self.counted) {
            if let Some(count) = counted(line, place.arch, name) {
                let pair = pairs.entry(place.clone()).or_default();
                pair.figures[side as usize] = Some(count);
                pair.whole = pages(line).is_none();
            }
        }
    }

    /// Keeps that a kernel does not have this.
    pub fn lacks(&mut self, arch: Arch, side: Side, why: &str, op: &str, kb: u64) {
        let key = (arch, side, why.to_owned());
        let ops = self.absent.entry(key).or_default();
        ops.entry(op.to_owned()).or_default().insert(kb);
    }
}
