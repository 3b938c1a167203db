//! The cache lines that a CPU touched, by physical address, and those that two CPUs contend for.
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// The size of a line in bytes.
pub const LINE: u64 = 64;

/// An access, by which a line can be named later: what is at the address, and what touched it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(Hex, Hex)", into = "(Hex, Hex)")]
pub struct Place {
    /// The virtual address that was touched.
    pub address: u64,
    /// The address of the instruction.
    pub pc: u64,
}

impl From<Place> for (Hex, Hex) {
    fn from(place: Place) -> (Hex, Hex) {
        (Hex(place.address), Hex(place.pc))
    }
}

impl From<(Hex, Hex)> for Place {
    fn from((Hex(address), Hex(pc)): (Hex, Hex)) -> Place {
        Place { address, pc }
    }
}

/// A number as text, since not all readers of JSON have 64 bits.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
struct Hex(u64);

impl From<Hex> for String {
    fn from(Hex(number): Hex) -> String {
        format!("{number:#x}")
    }
}

impl TryFrom<String> for Hex {
    type Error = String;

    fn try_from(text: String) -> Result<Hex, String> {
        let digits = text.strip_prefix("0x");
        let number = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        number.map(Hex).ok_or(format!("no number: {text}"))
    }
}

/// What was done with a line: the first of its reads and the first of its writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Use {
    /// The first read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read: Option<Place>,
    /// The first write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written: Option<Place>,
}

impl Use {
    /// Whether two uses of one line by two CPUs make them wait for each other.
    pub fn conflicts(&self, other: &Use) -> bool {
        self.written.is_some() || other.written.is_some()
    }
}

/// The lines that one CPU touched.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Line>", into = "Vec<Line>")]
pub struct Lines(FxHashMap<u64, Use>);

/// One of them, in a record.
#[derive(Serialize, Deserialize)]
struct Line {
    line: Hex,
    #[serde(flatten)]
    used: Use,
}

impl From<Lines> for Vec<Line> {
    fn from(lines: Lines) -> Vec<Line> {
        let line = |(line, used)| Line {
            line: Hex(line),
            used,
        };
        lines.sorted().into_iter().map(line).collect()
    }
}

impl From<Vec<Line>> for Lines {
    fn from(lines: Vec<Line>) -> Lines {
        Lines(lines.into_iter().map(|it| (it.line.0, it.used)).collect())
    }
}

impl Lines {
    /// Adds a line as it was used.
    pub fn insert(&mut self, line: u64, used: Use) {
        self.0.insert(line, used);
    }

    /// Adds an access, of which the first of its kind is kept.
    fn add(&mut self, line: u64, is_store: bool, place: Place) {
        let used = self.0.entry(line).or_default();
        let first = if is_store {
            &mut used.written
        } else {
            &mut used.read
        };
        first.get_or_insert(place);
    }

    /// How many they are.
    pub fn figures(&self) -> Touched {
        let count = |is: fn(&Use) -> bool| self.0.values().filter(|used| is(used)).count() as u64;
        Touched {
            all: self.0.len() as u64,
            read: count(|used| used.read.is_some()),
            written: count(|used| used.written.is_some()),
        }
    }

    /// All, by physical address.
    pub fn sorted(&self) -> Vec<(u64, Use)> {
        let mut lines: Vec<_> = self.0.iter().map(|(line, used)| (*line, *used)).collect();
        lines.sort_unstable_by_key(|(line, _)| *line);
        lines
    }

    /// The use of a line, by the physical address of its first byte.
    pub fn get(&self, line: u64) -> Option<&Use> {
        self.0.get(&line)
    }
}

/// How many lines were touched; some were both read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Touched {
    /// All.
    pub all: u64,
    /// Those that were read.
    pub read: u64,
    /// Those that were written.
    pub written: u64,
}

/// How many lines [`Recorder`] recalls: a power of two.
const RECENT: usize = 256;

/// The lines that a CPU touches, while it does. Most accesses are to lines that were touched the
/// same way before, and cost no more than a look at a small table.
#[derive(Clone, Debug)]
pub struct Recorder {
    lines: Lines,
    /// For each place one line, with a bit for each kind of use that is in `lines`.
    recent: [u64; RECENT],
}

impl Default for Recorder {
    fn default() -> Self {
        Recorder {
            lines: Lines::default(),
            recent: [0; RECENT],
        }
    }
}

impl Recorder {
    /// Notes an access of `bytes` (at least 1) at a physical address. Of an access that goes on in
    /// the next page the rest is not noted: its physical address is not known.
    #[inline]
    pub fn touch(&mut self, physical: u64, bytes: u64, is_store: bool, place: Place) {
        let last = (physical + bytes - 1).min(physical | 0xfff);
        for line in physical / LINE..=last / LINE {
            let kind = 1 << u32::from(is_store);
            let recent = &mut self.recent[line as usize % RECENT];
            if *recent & !3 != line * LINE {
                *recent = line * LINE;
            } else if *recent & kind != 0 {
                continue;
            }
            *recent |= kind;
            self.lines.add(line * LINE, is_store, place);
        }
    }

    /// What was touched; begins anew.
    pub fn take(&mut self) -> Lines {
        std::mem::take(self).lines
    }
}

/// A line that one of two CPUs writes and the other one touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Physical address of the line.
    pub line: u64,
    /// What both did with it.
    pub uses: [Use; 2],
}

/// The lines of two CPUs that conflict, by physical address. None: what they did commutes in the
/// sense of Clements et al., "The Scalable Commutativity Rule" (SOSP 2013), 3.2: the one scales
/// beside the other.
pub fn conflicts(first: &Lines, second: &Lines) -> Vec<Conflict> {
    let both = |(line, one): (u64, Use)| {
        let other = *second.get(line)?;
        let uses = [one, other];
        one.conflicts(&other).then_some(Conflict { line, uses })
    };
    first.sorted().into_iter().filter_map(both).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(address: u64) -> Place {
        let pc = 0xffff_ffff_8020_0000 + address;
        Place { address, pc }
    }

    fn lines(reads: &[u64], writes: &[u64]) -> Lines {
        let mut recorder = Recorder::default();
        let mut touch = |at: u64, is_store| recorder.touch(at, 8, is_store, place(at));
        reads.iter().for_each(|at| touch(*at, false));
        writes.iter().for_each(|at| touch(*at, true));
        recorder.take()
    }

    fn counts(lines: &Lines) -> [u64; 2] {
        let Touched { read, written, .. } = lines.figures();
        [read, written]
    }

    fn conflicting(first: &Lines, second: &Lines) -> Vec<u64> {
        let lines = |a, b| -> Vec<u64> { conflicts(a, b).iter().map(|one| one.line).collect() };
        let found = lines(first, second);
        assert_eq!(found, lines(second, first), "the order of the two matters");
        found
    }

    #[test]
    fn readers_do_not_conflict() {
        assert!(conflicting(&lines(&[0, 64], &[]), &lines(&[0, 64], &[])).is_empty());
    }

    #[test]
    fn a_write_conflicts_with_each_use_of_its_line() {
        let writer = lines(&[256], &[0, 128, 512]);
        // Its own line, another one, the same line from another word, a line that both write.
        let other = lines(&[8, 64, 256], &[184]);
        assert_eq!(conflicting(&writer, &other), [0, 128]);
    }

    #[test]
    fn an_access_across_lines_touches_both() {
        let crossing = lines(&[], &[60]);
        assert_eq!(conflicting(&crossing, &lines(&[64], &[])), [64]);
        assert_eq!(counts(&crossing), [0, 2]);
        assert_eq!(counts(&lines(&[0x1ffc], &[])), [1, 0], "the next page");
    }

    #[test]
    fn the_first_access_of_each_kind_is_kept() {
        let lines = lines(&[8, 16], &[24, 32]);
        let used = lines.get(0).unwrap();
        assert_eq!(used.read, Some(place(8)));
        assert_eq!(used.written, Some(place(24)));
        let once = Touched {
            all: 1,
            read: 1,
            written: 1,
        };
        assert_eq!(lines.figures(), once);
    }

    #[test]
    fn lines_that_share_a_place_of_the_table_are_all_kept() {
        let stride = LINE * RECENT as u64;
        let many: Vec<u64> = (0..64).chain(0..64).map(|at| at * stride).collect();
        assert_eq!(counts(&lines(&many, &many[..32])), [64, 32]);
        // Nothing of one measurement is recalled in the next one.
        let mut recorder = Recorder::default();
        for _ in 0..2 {
            recorder.touch(0x40, 8, true, place(0));
            assert_eq!(counts(&recorder.take()), [0, 1]);
        }
    }
}
