//! A map of physical memory: each frame by whose it is and by the size of its folio, from the lines
//! of the program `frames`.
use super::html::{self, distinct};
use crate::lines::objects;
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use tools::host::arch::Arch;

/// Frames in a row of the map: a MiB.
const ROW: u64 = 256;

/// Frames side by side that are alike.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Run {
    /// The first frame's number.
    pub first: u64,
    /// How many.
    pub frames: u64,
    /// The size of their folios in kB.
    pub kb: u64,
    /// What they are used for.
    pub state: String,
}

/// What one run of the program said.
#[derive(Clone, Debug)]
pub struct Frames {
    /// The machine.
    pub arch: Arch,
    /// The kernel and its version.
    pub kernel: String,
    /// In order.
    pub runs: Vec<Run>,
}

impl Frames {
    /// Takes a line of the program; whether it is one.
    pub fn take(all: &mut Vec<Frames>, line: &Value) -> Result<bool> {
        let text = |name: &str| line[name].as_str().unwrap_or_default();
        if line["begin"] == "frames" {
            all.push(Frames {
                arch: Arch::of_line(line)?,
                kernel: format!("{} {}", text("kernel"), text("version")),
                runs: Vec::new(),
            });
        } else if line["frames"].is_u64() {
            let last = all.last_mut();
            let last = last.context("a run of frames before its beginning")?;
            last.runs.push(Run::deserialize(line).context("a run")?);
        } else {
            return Ok(false);
        }
        Ok(true)
    }
}

/// Frames by what they are used for and the size of their folios in kB.
pub struct Sums {
    sums: BTreeMap<(String, u64), u64>,
    /// What MemFree says, in frames.
    pub free: u64,
}

impl Sums {
    fn of(runs: &[Run], free: u64) -> Sums {
        let mut sums = BTreeMap::new();
        for run in runs {
            *sums.entry((run.state.clone(), run.kb)).or_default() += run.frames;
        }
        Sums { sums, free }
    }

    /// Of a console on which the program ran.
    ///
    /// # Errors
    ///
    /// When the program did not get to its end.
    pub fn of_console(text: &str) -> Result<Sums> {
        let end = objects(text).find(|line| line["done"] == true);
        let end = end.with_context(|| format!("frames did not get to its end\n{text}"))?;
        let mut all = Vec::new();
        for line in objects(text) {
            Frames::take(&mut all, &line)?;
        }
        let frames = all.pop().context("frames did not begin")?;
        let is_whole = end["runs"] == frames.runs.len();
        ensure!(is_whole, "lines of frames are missing\n{text}");
        let free = end["mem_free"].as_u64().unwrap_or(0);
        Ok(Sums::of(&frames.runs, free))
    }

    /// In one state, in folios of one size.
    pub fn frames(&self, state: &str, kb: u64) -> u64 {
        self.sums.get(&(state.to_owned(), kb)).copied().unwrap_or(0)
    }

    /// In one state.
    pub fn all(&self, state: &str) -> u64 {
        let all = self.sums.iter().filter(|((name, _), _)| name == state);
        all.map(|(_, frames)| frames).sum()
    }
}

/// The states, what they are called, and their classes.
const STATES: [(&str, &str, &str); 9] = [
    ("first", "first process", "o1"),
    ("second", "second process", "o2"),
    ("both", "both of them", "o3"),
    ("unmapped", "in a folio of theirs, mapped by none", "o4"),
    ("other", "other processes", "o5"),
    ("file", "files in memory", "o6"),
    ("table", "page tables", "o7"),
    ("kernel", "the kernel", "o8"),
    ("free", "free", "o9"),
];

/// Whether single folios are to be seen in a state.
fn by_folio(state: &str) -> bool {
    STATES[..5].iter().any(|(name, ..)| *name == state)
}

/// The section.
pub fn section(pictures: &[Frames]) -> String {
    if pictures.is_empty() {
        return html::missing("./run.sh --mem 128M --append 'quiet -- frames' > FILE");
    }
    let mut text = String::from(
        "<p>Two processes took turns to touch 4 MiB each in folios of each size and have 2 MiB of each in common; \
         then the second one gave back three of four pages in a part of its memory. A row is 1 MiB, a cell \
         a frame of 4 KiB; gaps are the bounds of folios, and larger folios have the stronger colour. /proc/kpageflags marks the first frame of a \
         free block only: the frames without a flag behind it count as free, all others without one as the kernel's.</p>\n",
    );
    text += &html::legend(&STATES.map(|(_, title, class)| (class, title)));
    for frames in pictures {
        let arch = frames.arch;
        let _ = writeln!(text, "<h3>{} on {arch}</h3>", html::escape(&frames.kernel));
        let command = format!("./run.sh --arch {arch} --mem 128M --append 'quiet -- frames'");
        text += &html::commands(&[command]);
        let _ = writeln!(text, "<figure class=\"map\">{}</figure>", map(frames));
        text += &html::details("MiB by owner and folio size", &table(frames));
    }
    text
}

/// The map: a path for each state and size.
fn map(frames: &Frames) -> String {
    let first = frames.runs.first().map_or(0, |run| run.first / ROW * ROW);
    let end = frames.runs.last().map_or(0, |run| run.first + run.frames);
    let rows = (end - first).div_ceil(ROW);
    let mut paths: BTreeMap<(String, u64), String> = BTreeMap::new();
    for run in &frames.runs {
        let path = paths.entry((run.state.clone(), run.kb)).or_default();
        let folio = by_folio(&run.state).then_some(run.kb / 4);
        let mut at = run.first;
        while at < run.first + run.frames {
            let end = piece_end(at, folio).min(run.first + run.frames);
            piece(path, at - first, end - at, folio.is_some());
            at = end;
        }
    }
    let mut svg = format!(
        "<svg viewBox=\"0 0 {ROW} {rows}\" role=\"img\" aria-label=\"map of {rows} MiB of memory\">\n"
    );
    for ((state, kb), path) in &paths {
        let class = STATES
            .iter()
            .find(|(name, ..)| name == state)
            .map_or("o8", |(.., class)| class);
        let shade = match (by_folio(state), kb) {
            (false, _) => "",
            (true, 0..16) => " z1",
            (true, 16..64) => " z2",
            (true, 64..256) => " z3",
            (true, 256..2048) => " z4",
            (true, _) => " z5",
        };
        let _ = writeln!(svg, "<path class=\"{class}{shade}\" d=\"{path}\"/>");
    }
    svg + "</svg>"
}

/// Where the rectangle that begins at a frame ends: with its folio, and with its row if it does not
/// begin one and fill it.
fn piece_end(at: u64, folio: Option<u64>) -> u64 {
    let row = (at / ROW + 1) * ROW;
    match folio {
        None => row,
        Some(folio) if folio > ROW && at.is_multiple_of(folio) => at + folio,
        Some(folio) => row.min((at / folio + 1) * folio),
    }
}

/// A rectangle, in tenths of a frame's side less where there is a gap.
fn piece(path: &mut String, at: u64, frames: u64, gap: bool) {
    let (x, y) = (at % ROW, at / ROW);
    let (wide, high) = match frames {
        0..=ROW => (frames, 1),
        more => (ROW, more.div_ceil(ROW)),
    };
    let less = |side: u64| match gap {
        false => side.to_string(),
        true => format!("{}.8", side - 1),
    };
    let _ = write!(path, "M{x} {y}h{0}v{1}h-{0}z", less(wide), less(high));
}

fn table(frames: &Frames) -> String {
    let sums = Sums::of(&frames.runs, 0);
    let folios = frames.runs.iter().filter(|run| by_folio(&run.state));
    let sizes = distinct(folios.map(|run| run.kb));
    let mib = |frames| match frames {
        0 => "-".to_owned(),
        frames => html::number(frames as f64 / 256.0),
    };
    let mut heads = vec!["owner".to_owned(), "all".to_owned()];
    heads.extend(sizes.iter().map(|kb| html::size(*kb)));
    let row = |(state, title, _): &(&str, &str, &str)| {
        let of = |kb: &u64| match by_folio(state) {
            true => mib(sums.frames(state, *kb)),
            false => String::new(),
        };
        let first = [(*title).to_owned(), mib(sums.all(state))];
        first.into_iter().chain(sizes.iter().map(of)).collect()
    };
    html::table(heads, &STATES.iter().map(row).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::has;

    fn frames(runs: &[(u64, u64, u64, &str)]) -> Frames {
        let run = |&(first, frames, kb, state): &(u64, u64, u64, &str)| Run {
            first,
            frames,
            kb,
            state: state.to_owned(),
        };
        Frames {
            arch: Arch::X86_64,
            kernel: "quire 0.1".to_owned(),
            runs: runs.iter().map(run).collect(),
        }
    }

    #[test]
    fn folios_are_rectangles_of_their_own() {
        let two = frames(&[(512, 512, 2048, "first"), (1024, 8, 16, "second")]);
        let svg = map(&two);
        has(&svg, "viewBox=\"0 0 256 3\"");
        has(&svg, "class=\"o1 z5\" d=\"M0 0h255.8v1.8h-255.8z\"");
        has(
            &svg,
            "class=\"o2 z2\" d=\"M0 2h3.8v0.8h-3.8zM4 2h3.8v0.8h-3.8z\"",
        );
    }

    #[test]
    fn what_is_no_folio_runs_on_to_the_end_of_its_row() {
        let svg = map(&frames(&[(250, 10, 4, "free")]));
        has(&svg, "d=\"M250 0h6v1h-6zM0 1h4v1h-4z\"");
    }

    #[test]
    fn a_part_of_a_folio_ends_with_it() {
        for (at, folio, end) in [(2, 4, 4), (512, 512, 1024), (513, 512, 768), (255, 64, 256)] {
            assert_eq!(piece_end(at, Some(folio)), end);
        }
    }

    #[test]
    fn a_console_that_lost_a_line_is_an_error() {
        let begin = r#"{"begin":"frames","kernel":"quire","version":"1","arch":"x86_64"}"#;
        let run = r#"{"frames":8,"first":0,"kb":4,"state":"free"}"#;
        let done = r#"{"done":true,"runs":1,"free":8,"mem_free":7}"#;
        let sums = Sums::of_console(&format!("boot\n{begin}\n{run}\n{done}\n")).unwrap();
        assert_eq!(
            (sums.frames("free", 4), sums.all("free"), sums.free),
            (8, 8, 7)
        );
        assert!(Sums::of_console(&format!("{begin}\n{done}\n")).is_err());
        assert!(Sums::of_console(&format!("{begin}\n{run}\n")).is_err());
    }

    #[test]
    fn sums_by_owner_and_size() {
        let text = table(&frames(&[
            (0, 512, 2048, "first"),
            (512, 128, 4, "first"),
            (640, 256, 4, "free"),
        ]));
        has(
            &text,
            "<th scope=\"row\">first process</th><td>2.5</td><td>0.5</td><td>2</td>",
        );
        has(
            &text,
            "<th scope=\"row\">free</th><td>1</td><td></td><td></td>",
        );
    }
}
