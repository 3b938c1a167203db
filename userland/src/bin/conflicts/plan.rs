//! Which pairs of operations there are at which places, and why some are none.
use crate::op::{Before, Op};

/// Where the second operation is, seen from the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In other 2 MiB of the same area: another page table.
    OtherTable,
    /// In another area of the same space.
    OtherArea,
    /// In another space.
    OtherSpace,
    /// At another page of the same folio.
    Folio,
    /// At the same page.
    Page,
}

impl Place {
    /// All, with their names in arguments and results.
    pub const ALL: [(Place, &str); 5] = [
        (Place::OtherTable, "other-2m"),
        (Place::OtherArea, "other-area"),
        (Place::OtherSpace, "other-space"),
        (Place::Folio, "folio"),
        (Place::Page, "page"),
    ];

    /// As in arguments and results.
    pub const fn name(self) -> &'static str {
        Place::ALL[self as usize].1
    }
}

/// One pair at one place; the first is done before the second.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// Both operations.
    pub ops: [Op; 2],
    /// Where.
    pub place: Place,
}

impl Cell {
    /// All pairs of `ops` at `places`; all that an operation has when it is alone.
    pub fn all(ops: &[Op], places: &[Place]) -> Vec<Cell> {
        let wanted = |pair: &[Op; 2]| match ops {
            [] => true,
            [one] => pair.contains(one),
            ops => pair.iter().all(|op| ops.contains(op)),
        };
        let all = Op::ALL.map(|(op, _)| op);
        let of_first = |first: Op| {
            let seconds = all.into_iter().filter(move |second| *second >= first);
            seconds.map(move |second| [first, second])
        };
        let pairs: Vec<_> = all.into_iter().flat_map(of_first).filter(wanted).collect();
        let chosen = |place: &Place| places.is_empty() || places.contains(place);
        let of_place = |place: Place| pairs.iter().map(move |ops| Cell { ops: *ops, place });
        let places = Place::ALL
            .into_iter()
            .map(|(place, _)| place)
            .filter(chosen);
        places.flat_map(of_place).collect()
    }

    /// Why the two cannot be done there one after the other, from one state; none when they can.
    pub fn why_not(&self) -> Option<&'static str> {
        let [first, second] = self.ops;
        if matches!(self.place, Place::OtherArea | Place::OtherSpace) {
            return None;
        }
        let (Some(one), Some(other)) = (first.before(), second.before()) else {
            return Some("an operation without a page is nowhere in an area");
        };
        match self.place {
            Place::Folio if [one, other].contains(&Before::Absent) => {
                Some("a page that is not there is of no folio")
            }
            Place::Page | Place::Folio if is_contradiction(one, other) => {
                Some("the page cannot be both of a child and not")
            }
            Place::Page => match (first, second) {
                (Op::Read, Op::Write) => None,
                (Op::Read | Op::Write, Op::Cow | Op::Reuse) => {
                    Some("the page cannot be both there and not")
                }
                _ if first.is_fault() && second.is_fault() => {
                    Some("the second finds the page, and does not fault")
                }
                (Op::Mremap, Op::Mremap) => Some("the second finds no page to move"),
                _ => None,
            },
            _ => None,
        }
    }

    /// The name of the measurement of one of its operations.
    pub fn mark(&self, which: usize) -> String {
        let [first, second] = self.ops.map(Op::name);
        format!("{first} {second} {} {which}", self.place.name())
    }
}

fn is_contradiction(one: Before, other: Before) -> bool {
    matches!(
        (one, other),
        (Before::Shared, Before::Alone) | (Before::Alone, Before::Shared)
    )
}
