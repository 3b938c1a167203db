//! Physical memory: the blocks of 2 MiB in which something of the scene lies, a cell for a frame.
use super::canvas::{CELL, Drawing, GAP, ROW, WIDTH};
use super::state::{Entry, State, To};
use std::collections::{BTreeMap, BTreeSet};

/// Frames of a block.
const FRAMES: u64 = 512;

/// The frames that an entry maps, but for zeros.
fn frames(entry: &Entry) -> Option<(u64, u64)> {
    match entry.to {
        To::Memory {
            zero: false, frame, ..
        } => Some((frame, frame + entry.count * (1 << (9 * entry.level)))),
        _ => None,
    }
}

/// What there is: frames by number, and slots.
#[derive(Default)]
pub struct Memory {
    /// Class of each frame that is used.
    used: BTreeMap<u64, &'static str>,
    /// First frames and sizes of folios in pages.
    folios: BTreeSet<(u64, u64)>,
    /// Slots that are named: whether each is parked.
    slots: BTreeMap<u64, bool>,
}

impl Memory {
    /// What a state has.
    pub fn of(state: &State) -> Memory {
        let mut memory = Memory::default();
        for (process, whose) in state.processes.iter().zip(["first", "second"]) {
            for entry in &process.entries {
                memory.add(entry, whose);
            }
        }
        let processes = state.processes.iter();
        processes
            .flat_map(|process| &process.entries)
            .for_each(|entry| memory.add_parked(entry));
        memory
    }

    fn add(&mut self, entry: &Entry, whose: &'static str) {
        match entry.to {
            To::Table(frame) | To::Shared(frame, _) => drop(self.used.insert(frame, "table")),
            To::Memory { head, kb, .. } => {
                let Some((first, end)) = frames(entry) else {
                    return;
                };
                for frame in first..end {
                    let class = self.used.entry(frame).or_insert(whose);
                    if *class != whose {
                        *class = "both";
                    }
                }
                self.folios.insert((head, kb / 4));
            }
            To::Slots { slot, parked, .. } => {
                let slots = slot..slot + entry.count;
                self.slots
                    .extend(slots.map(|slot| (slot, parked.is_some())));
            }
        }
    }

    /// The frames of a folio that is parked, which others may still map.
    fn add_parked(&mut self, entry: &Entry) {
        if let To::Slots {
            parked: Some((first, head, kb)),
            ..
        } = entry.to
        {
            for frame in first..first + entry.count {
                self.used.entry(frame).or_insert("slot");
            }
            self.folios.insert((head, kb / 4));
        }
    }

    /// Whose a frame is.
    pub fn owner(&self, frame: u64) -> &'static str {
        self.used.get(&frame).copied().unwrap_or("first")
    }

    /// How many folios of each size there are, in words.
    fn sizes(&self) -> String {
        let mut sizes: BTreeMap<u64, usize> = BTreeMap::new();
        for (_, pages) in &self.folios {
            *sizes.entry(pages * 4).or_default() += 1;
        }
        let words = sizes
            .iter()
            .map(|(kb, count)| format!("{count} of {kb} kB"));
        words.collect::<Vec<_>>().join(", ")
    }

    /// How many slots there are, in words.
    fn slots(&self) -> Option<String> {
        let parked = self.slots.values().filter(|parked| **parked).count();
        let stored = self.slots.len() - parked;
        (!self.slots.is_empty()).then(|| format!("swap slots: {parked} parked, {stored} stored"))
    }

    fn blocks(&self) -> BTreeSet<u64> {
        self.used.keys().map(|frame| frame / FRAMES).collect()
    }
}

/// Draws it, two blocks beside each other.
pub fn draw(drawing: &mut Drawing, memory: &Memory) {
    let blocks = memory.blocks();
    if blocks.is_empty() {
        return;
    }
    drawing.words(
        GAP,
        "",
        "Physical memory: a cell for a frame, and an edge around each large folio",
    );
    drawing.words(GAP, "soft", &format!("folios: {}", memory.sizes()));
    if let Some(slots) = memory.slots() {
        drawing.words(GAP, "soft", &slots);
    }
    let columns = [GAP, WIDTH / 2 + GAP / 2];
    let mut top = drawing.y;
    for (at, block) in blocks.into_iter().enumerate() {
        if at % 2 == 0 {
            top = drawing.y;
        }
        drawing.y = top;
        one(drawing, memory, block, columns[at % 2]);
    }
}

fn one(drawing: &mut Drawing, memory: &Memory, block: u64, x: u64) {
    let first = block * FRAMES;
    drawing.words(
        x,
        "soft",
        &format!("frames {first:#x} to {:#x}", first + FRAMES - 1),
    );
    let corner = (x, drawing.y);
    drawing.grid(corner, FRAMES);
    for (frame, class) in memory.used.range(first..first + FRAMES) {
        drawing.cells(corner, frame - first, 1, class);
    }
    let large = memory.folios.range((first, 0)..(first + FRAMES, 0));
    for (head, pages) in large.filter(|(_, pages)| *pages > 1) {
        drawing.edge(corner, head - first, (*pages).min(FRAMES));
    }
    drawing.y += FRAMES / ROW * CELL + 6;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picture::state::entry;
    use crate::picture::state::tests::sample;

    #[test]
    fn whose_a_frame_is() {
        let state = sample();
        let memory = Memory::of(&state);
        let owners = [0x400, 0x40f, 0x600, 0x7ff].map(|frame| memory.owner(frame));
        assert_eq!(owners, ["both", "both", "first", "first"]);
        // Tables, the folio of both and the large one; no zeros.
        assert_eq!(memory.used.len(), 3 + 16 + 512);
        assert_eq!(memory.blocks().len(), 3);
        assert_eq!(memory.folios.len(), 2);
    }

    #[test]
    fn slots_are_no_folios() {
        let mut state = sample();
        let swap = |rest: &str| {
            entry(&format!("200000010000-200000014000 pte 16-19 swap {rest}")).unwrap()
        };
        let lines = [
            "10000 10000 64kB stored",
            // The other process maps the folio, and nobody maps the last one.
            "10010 10010 64kB parked 400 400 64kB",
            "10020 10020 16kB parked 500 500 16kB",
        ];
        state.processes[0].entries = lines.map(swap).to_vec();
        let memory = Memory::of(&state);
        assert_eq!(memory.owner(0x400), "second");
        assert_eq!(memory.owner(0x503), "slot");
        assert!(memory.used.keys().all(|frame| *frame < 0x10000));
        assert_eq!(memory.sizes(), "1 of 16 kB, 1 of 64 kB");
        assert_eq!(memory.slots().unwrap(), "swap slots: 8 parked, 4 stored");
        assert_eq!(Memory::of(&sample()).slots(), None);
    }
}
