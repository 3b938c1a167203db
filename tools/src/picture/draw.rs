//! A state as one picture: the tables of each process, and the memory that they lead to.
use super::memory::{self, Memory};
use super::state::State;
use super::tree;
use std::fmt::Write;

/// The picture's width, and the space around things.
pub const WIDTH: u64 = 900;
pub const GAP: u64 = 12;
/// The side of a cell, for an entry or a frame.
pub const CELL: u64 = 6;
/// Entries or frames in a row: 64, so that a row of 16 cells four times.
pub const ROW: u64 = 64;

/// Colours for light and dark; what belongs to whom.
const STYLE: &str = "\
text { font: 12px system-ui, sans-serif; fill: #22252b } .soft { fill: #5c6370 }
.paper { fill: #fbfaf7 } .box { fill: #f1efe8; stroke: #d9d6cc } .none { fill: #e4e1d7 }
.first { fill: #0b63b5 } .second { fill: #c2500a } .both { fill: #6b3fa0 } .zero { fill: #9a9a92 } .table { fill: #c4265e }
.frozen { fill-opacity: .45 } .edge { fill: none; stroke: #22252b; stroke-width: 1.4 }
@media (prefers-color-scheme: dark) { text { fill: #e4e2dc } .soft { fill: #a2a7b0 }
.paper { fill: #16181c } .box { fill: #20232a; stroke: #3a3e46 } .none { fill: #2c3038 }
.first { fill: #62acf0 } .second { fill: #f2934f } .both { fill: #b48be6 } .zero { fill: #7b7f88 } .table { fill: #f0608f }
.edge { stroke: #e4e2dc } }";

/// An empty cell, again and again.
const CELLS: &str = "<pattern id=\"cell\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">\
    <rect width=\"5\" height=\"5\" class=\"none\"/></pattern>";

/// The colours and what they mean.
const LEGEND: [(&str, &str); 6] = [
    ("first", "first process"),
    ("second", "second process"),
    ("both", "both"),
    ("both frozen", "paler: read-only"),
    ("zero", "zeros"),
    ("table", "page table"),
];

/// A drawing that grows downwards.
#[derive(Default)]
pub struct Drawing {
    text: String,
    /// Where the next thing begins.
    pub y: u64,
}

impl Drawing {
    /// A line of text, which then stands above `y`.
    pub fn words(&mut self, x: u64, class: &str, words: &str) {
        self.y += 16;
        let words = words.replace('&', "&amp;").replace('<', "&lt;");
        let y = self.y - 4;
        let _ = writeln!(
            self.text,
            "<text x=\"{x}\" y=\"{y}\" class=\"{class}\">{words}</text>"
        );
    }

    /// A text in lines that fit.
    fn lines(&mut self, x: u64, class: &str, text: &str) {
        const LETTERS: usize = 130;
        let mut line = String::new();
        for word in text.split(' ') {
            if line.len() + word.len() > LETTERS {
                self.words(x, class, &line);
                line.clear();
            }
            line += word;
            line += " ";
        }
        self.words(x, class, line.trim_end());
    }

    /// A rectangle anywhere.
    pub fn rectangle(&mut self, (x, y): (u64, u64), (wide, high): (u64, u64), class: &str) {
        let _ = writeln!(
            self.text,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{wide}\" height=\"{high}\" class=\"{class}\"/>"
        );
    }

    /// So many empty cells at this corner, whole rows.
    pub fn grid(&mut self, (x, y): (u64, u64), cells: u64) {
        let (wide, high) = (ROW * CELL, cells / ROW * CELL);
        let _ = writeln!(
            self.text,
            "<svg x=\"{x}\" y=\"{y}\" width=\"{wide}\" height=\"{high}\">\
             <rect width=\"{wide}\" height=\"{high}\" fill=\"url(#cell)\"/></svg>"
        );
    }

    /// Cells `first` to `first + count` of a grid at this corner, each a little smaller than its
    /// place.
    pub fn cells(&mut self, (x, y): (u64, u64), first: u64, count: u64, class: &str) {
        let mut path = String::new();
        for cell in first..first + count {
            let (column, row) = (cell % ROW, cell / ROW);
            let side = CELL - 1;
            let _ = write!(
                path,
                "M{} {}h{side}v{side}h-{side}z",
                x + column * CELL,
                y + row * CELL
            );
        }
        let _ = writeln!(self.text, "<path d=\"{path}\" class=\"{class}\"/>");
    }

    /// Frames around cells, one for each row of the grid; whole rows have one.
    pub fn edge(&mut self, (x, y): (u64, u64), first: u64, count: u64) {
        let mut at = first;
        let end = first + count;
        while at < end {
            let (column, row) = (at % ROW, at / ROW);
            let rows = if column == 0 { (end - at) / ROW } else { 0 };
            let wide = (end - at).min(ROW - column);
            let place = (x + column * CELL - 1, y + row * CELL - 1);
            let size = (wide * CELL + 1, rows.max(1) * CELL + 1);
            self.rectangle(place, size, "edge");
            at += wide.max(rows * ROW);
        }
    }

    fn finish(self) -> String {
        let (width, height) = (WIDTH, self.y + GAP);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\">\n\
             <style>{STYLE}</style>\n{CELLS}\n<rect width=\"{width}\" height=\"{height}\" class=\"paper\"/>\n{}</svg>\n",
            self.text
        )
    }
}

/// The picture of a state.
pub fn picture(state: &State) -> String {
    let mut drawing = Drawing::default();
    drawing.words(GAP, "", &state.step);
    drawing.lines(GAP, "soft", &state.summary());
    legend(&mut drawing);
    let columns = [GAP, WIDTH / 2 + GAP / 2];
    let memory = Memory::of(state);
    let top = drawing.y;
    let mut end = top;
    for (process, x) in (0..state.processes.len()).zip(columns) {
        drawing.y = top;
        tree::draw(&mut drawing, state, &memory, process, x);
        end = end.max(drawing.y);
    }
    drawing.y = end + GAP;
    memory::draw(&mut drawing, &memory);
    drawing.finish()
}

fn legend(drawing: &mut Drawing) {
    drawing.y += 4;
    let y = drawing.y;
    for (at, (class, name)) in LEGEND.iter().enumerate() {
        let x = GAP + 145 * at as u64;
        drawing.y = y;
        drawing.rectangle((x, y + 4), (10, 10), class);
        drawing.words(x + 16, "soft", name);
    }
    drawing.y += GAP;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picture::state::tests::sample;

    #[test]
    fn everything_is_in_the_picture() {
        let svg = picture(&sample());
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
        assert!(svg.contains(">write 0-15<"));
        assert!(svg.contains(">900 instructions, 1 fault, 16 entries written<"));
        // A folio is one edge in the table and in memory; two tables have an edge of their own.
        assert!(svg.matches("class=\"edge\"").count() >= 3, "{svg}");
        assert!(
            svg.contains("class=\"both") && svg.contains("class=\"zero"),
            "{svg}"
        );
    }
}
