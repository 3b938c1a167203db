//! A state as one picture: the tables of each process, and the memory that they lead to.
use super::canvas::{Drawing, GAP, WIDTH};
use super::memory::{self, Memory};
use super::state::State;
use super::tree;

/// The colours and what they mean.
const LEGEND: [(&str, &str); 8] = [
    ("first", "first process"),
    ("second", "second process"),
    ("both", "both"),
    ("both frozen", "paler: read-only"),
    ("zero", "zeros"),
    ("table", "page table"),
    ("slot", "slot: parked"),
    ("slot stored", "slot: stored"),
];

/// More than the mean width of a letter.
const LETTER: u64 = 7;

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
    let (mut x, y) = (GAP, drawing.y);
    for (class, name) in LEGEND {
        drawing.y = y;
        drawing.rectangle((x, y + 4), (10, 10), class);
        drawing.words(x + 16, "soft", name);
        x += 36 + LETTER * name.len() as u64;
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
