//! The folios of all processes: `/sys/kernel/mm/quire/folios` shows them, `/sys/kernel/debug/split_huge_pages` splits them.

use crate::errno::{Errno, Result};
use crate::fs::pseudo::Text;
use crate::machine::{AddressSpace, mm};
use crate::task;
use alloc::sync::Arc;
use alloc::vec::Vec;
use mm::addr::{Order, VirtAddr, VirtRange};
use mm::space::{FOLIO_ORDERS, FolioUse};
use mm::thp::ORDERS;
use mm::thp::stats::Stat;

/// Each address space once, whoever shares it.
fn spaces() -> Vec<Arc<AddressSpace>> {
    let mut spaces: Vec<Arc<AddressSpace>> = Vec::new();
    for space in task::processes().filter_map(|p| p.space()) {
        if !spaces.iter().any(|known| Arc::ptr_eq(known, &space)) {
            spaces.push(space);
        }
    }
    spaces
}

/// One line a size: private folios that there are, those of which a part is not mapped any more, and as in smaps how many
/// are mapped whole, in part, and by contiguous entries, summed over all areas (a folio that two processes map counts twice).
pub fn folios(out: &mut Text) {
    let mut mapped = [FolioUse::default(); FOLIO_ORDERS];
    for space in spaces() {
        space.for_each_vma(&mut |vma| {
            let figures = space.smaps(vma.range.start).unwrap_or_default();
            for (sum, n) in mapped.iter_mut().zip(figures.folios) {
                *sum += n;
            }
        });
    }
    out.line("   size   exist deferred   whole    part contpte");
    let stats = &mm().thp().stats;
    let large = |order: &Order| ORDERS.contains(&order.0);
    let in_large: u64 = ORDERS
        .map(Order)
        .map(|order| stats.get(order, Stat::NrAnon) * order.pages())
        .sum();
    for (order, n) in (0..).map(Order).zip(mapped) {
        let (exist, deferred) = match order {
            Order(0) => (mm().counts().anon.saturating_sub(in_large), 0),
            order if large(&order) => (
                stats.get(order, Stat::NrAnon),
                stats.get(order, Stat::NrAnonPartiallyMapped),
            ),
            // Memory has no folios of two pages, but for what a split leaves, which is counted where it is mapped.
            _ => (n.whole + n.part, 0),
        };
        out.line(format_args!(
            "{:>5}kB {exist:>7} {deferred:>8} {:>7} {:>7} {:>7}",
            order.bytes() >> 10,
            n.whole,
            n.part,
            n.contpte
        ));
    }
}

/// What was written to split_huge_pages: `1` for all large folios there are, `PID,START,END` (hexadecimal addresses) for
/// those of a range of one process; transhuge.rst. EINVAL, ESRCH.
pub fn split(text: &str) -> Result {
    if text == "1" {
        let everything = VirtRange::new(VirtAddr(0), VirtAddr(u64::MAX));
        let (mut split, mut failed) = (0, 0);
        for space in spaces() {
            let counts = split_in(&space, everything);
            (split, failed) = (split + counts.0, failed + counts.1);
        }
        log::info!("{split} of {} large folios split", split + failed);
        return Ok(());
    }
    let words: Vec<&str> = text.split(',').map(str::trim).collect();
    let &[pid, start, end] = words.as_slice() else {
        return Err(Errno::EINVAL);
    };
    let pid = pid.parse().map_err(|_| Errno::EINVAL)?;
    let (start, end) = (address(start)?, address(end)?);
    if start >= end {
        return Err(Errno::EINVAL);
    }
    let process = task::find(pid).ok_or(Errno::ESRCH)?;
    let space = process.space().ok_or(Errno::ESRCH)?;
    let (split, failed) = split_in(&space, VirtRange::new(start, end));
    log::info!("{split} of {} large folios split", split + failed);
    Ok(())
}

fn address(text: &str) -> Result<VirtAddr> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u64::from_str_radix(digits, 16)
        .map(VirtAddr)
        .map_err(|_| Errno::EINVAL)
}

/// Splits what is mapped in a range of a space: how many folios were split, and how many could not be.
fn split_in(space: &AddressSpace, range: VirtRange) -> (u64, u64) {
    space.split_deferred();
    let mut counts = (0, 0);
    space.for_each_vma(&mut |vma| {
        if let Some(part) = vma.range.intersection(&range) {
            let (split, failed) = space.split_range(part);
            counts = (counts.0 + split, counts.1 + failed);
        }
    });
    counts
}
