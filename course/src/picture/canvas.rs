//! The drawing of a picture: text, rectangles and cells in rows, as SVG.
use std::fmt::Write;

/// The picture's width.
pub const WIDTH: u64 = 900;
/// The space around things.
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
.slot { fill: #12805c } .slot.stored { fill: none; stroke: #12805c; stroke-width: 1 }
.frozen { fill-opacity: .45 } .edge { fill: none; stroke: #22252b; stroke-width: 1.4 }
@media (prefers-color-scheme: dark) { text { fill: #e4e2dc } .soft { fill: #a2a7b0 }
.paper { fill: #16181c } .box { fill: #20232a; stroke: #3a3e46 } .none { fill: #2c3038 }
.first { fill: #62acf0 } .second { fill: #f2934f } .both { fill: #b48be6 } .zero { fill: #7b7f88 } .table { fill: #f0608f }
.slot { fill: #45c796 } .slot.stored { fill: none; stroke: #45c796 }
.edge { stroke: #e4e2dc } }";

/// An empty cell, again and again.
const CELLS: &str = "<pattern id=\"cell\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">\
    <rect width=\"5\" height=\"5\" class=\"none\"/></pattern>";

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
    pub fn lines(&mut self, x: u64, class: &str, text: &str) {
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

    /// The picture as a file.
    pub fn finish(self) -> String {
        let (width, height) = (WIDTH, self.y + GAP);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\">\n\
             <style>{STYLE}</style>\n{CELLS}\n<rect width=\"{width}\" height=\"{height}\" class=\"paper\"/>\n{}</svg>\n",
            self.text
        )
    }
}
