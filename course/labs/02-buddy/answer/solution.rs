//! Lab 2: an answer.

use super::{Cpu, Lists, MAX_ORDER, frames};

/// The smallest block that there is.
pub fn take(lists: &mut dyn Lists, order: u8) -> Option<u64> {
    let (frame, found) = smallest(lists, order)?;
    cut(lists, frame, found, order);
    Some(frame)
}

/// Takes out the smallest block of at least this order.
fn smallest(lists: &mut dyn Lists, order: u8) -> Option<(u64, u8)> {
    let fit = lists.orders() >> order << order;
    let found = fit.trailing_zeros() as u8;
    let frame = (fit != 0).then(|| lists.first(found))??;
    lists.remove(frame, found);
    Some((frame, found))
}

/// Keeps 2^order frames of a block and puts back the upper halves.
fn cut(lists: &mut dyn Lists, frame: u64, found: u8, order: u8) {
    for half in (order..found).rev() {
        lists.push(frame + frames(half), half);
    }
}

/// As long as the buddy is free and whole, the two are one.
pub fn give(lists: &mut dyn Lists, mut frame: u64, mut order: u8) {
    while order < MAX_ORDER && lists.order(frame ^ frames(order)) == Some(order) {
        lists.remove(frame ^ frames(order), order);
        frame &= !frames(order);
        order += 1;
    }
    lists.push(frame, order);
}

/// In pieces as large as there are and as may be kept: the lists change once for each.
pub fn refill(cpu: &mut dyn Cpu, order: u8, most: usize) {
    let mut left = most as u64;
    while left > 0
        && let Some((frame, found)) = smallest(cpu, order)
    {
        let piece = found.min(order + left.ilog2() as u8);
        cut(cpu, frame, found, piece);
        let blocks = frames(piece - order);
        // The lowest is handed out first: programs get memory that lies side by side.
        for block in (0..blocks).rev() {
            cpu.keep(frame + (block << order));
        }
        left -= blocks;
    }
}

/// The oldest blocks: what was freed last is still in the CPU's caches. Those that lie side by side
/// go as one.
pub fn drain(cpu: &mut dyn Cpu, order: u8) {
    let (mut run, batch) = (0..0, cpu.batch());
    for _ in 0..batch {
        let Some(frame) = cpu.oldest() else { break };
        if frame != run.end {
            give_run(cpu, run.start, run.end);
            run = frame..frame;
        }
        run.end += frames(order);
    }
    give_run(cpu, run.start, run.end);
}

fn give_run(cpu: &mut dyn Cpu, mut start: u64, end: u64) {
    while start < end {
        let fits = (end - start).ilog2().min(start.trailing_zeros());
        let order = fits.min(MAX_ORDER.into()) as u8;
        give(cpu, start, order);
        start += frames(order);
    }
}
