//! Lab 4: an answer.

use super::{Block, Change, ENTRIES, Entry, Used};

/// Most blocks that may not fold are told by their first entry, or by their last.
pub fn may_fold(block: &dyn Block) -> bool {
    let Some(first) = block.read(0) else {
        return false;
    };
    let end = first.frame + ENTRIES as u64;
    if !first.frame.is_multiple_of(ENTRIES as u64) || block.folio(first.frame).end < end {
        return false;
    }
    let follows = |index: usize| {
        let entry = block.read(index);
        entry.is_some_and(|entry| {
            entry.frame == first.frame + index as u64 && entry.rights == first.rights
        })
    };
    follows(ENTRIES - 1) && (1..ENTRIES - 1).all(follows)
}

/// Break, flush, make.
pub fn fold(block: &mut dyn Change) {
    remake(block, true);
}

/// The same back.
pub fn unfold(block: &mut dyn Change) {
    remake(block, false);
}

fn remake(block: &mut dyn Change, contiguous: bool) {
    let (mut first, mut sum) = (None, Used::default());
    for index in 0..ENTRIES {
        if let Some(last) = block.take(index) {
            first.get_or_insert(last);
            sum = sum.or(last.used);
        }
    }
    block.flush();
    let Some(first) = first else { return };
    for index in 0..ENTRIES {
        let frame = first.frame + index as u64;
        block.write(
            index,
            Entry {
                frame,
                contiguous,
                used: sum,
                ..first
            },
        );
    }
}

/// Of all 16, until nothing is left to learn.
pub fn used(block: &dyn Block) -> Used {
    let mut sum = Used::default();
    for index in 0..ENTRIES {
        if sum.dirty && sum.accessed {
            break;
        }
        if let Some(entry) = block.read(index) {
            sum = sum.or(entry.used);
        }
    }
    sum
}
