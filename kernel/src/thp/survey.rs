//! The folios of all processes: `/sys/kernel/mm/quire/folios` shows them, `/sys/kernel/debug/split_huge_pages` splits them.

use crate::errno::{Errno, Result};
use crate::fs::path::{self, Last};
use crate::fs::pseudo::Text;
use crate::machine::{AddressSpace, mm};
use crate::sched;
use crate::task::{self, Pid};
use crate::thp::spaces;
use alloc::sync::Weak;
use alloc::vec::Vec;
use mm::addr::{Order, VirtAddr, VirtRange};
use mm::space::{FOLIO_ORDERS, FolioUse};
use mm::thp::ORDERS;
use mm::thp::stats::Stat;

/// One line a size: private folios that there are, those of which a part is not mapped any more,
/// and as in smaps how many are mapped whole, in part, and by contiguous entries, summed over all
/// areas (a folio that two processes map counts twice). ENOMEM, EINTR.
pub fn folios(out: &mut Text) -> Result {
    let mut mapped = [FolioUse::default(); FOLIO_ORDERS];
    for space in spaces::all()?.values() {
        spaces::each_area(space, |_, figures| {
            for (sum, n) in mapped.iter_mut().zip(figures.folios) {
                *sum += n;
            }
        })?;
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
    Ok(())
}

/// What was written to split_huge_pages, transhuge.rst: `1` for all large folios there are, or
/// those of a range of one process, `PID,START,END[,ORDER]` (hexadecimal addresses), or of one
/// file, `PATH,FIRST,END[,ORDER]` (hexadecimal page numbers). They become parts of 2^ORDER pages,
/// without it single pages. EINVAL, ESRCH.
pub fn split(text: &str) -> Result {
    let mut counts = Counts::default();
    match Wanted::parse(text)? {
        Wanted::All => {
            let everything = VirtRange::new(VirtAddr(0), VirtAddr(u64::MAX));
            for space in spaces::all()?.values().filter_map(Weak::upgrade) {
                counts.add(split_in(&space, everything, Order(0)));
            }
        }
        Wanted::Of { process, part } => {
            let space = task::find(process).and_then(|process| process.space());
            let space = space.ok_or(Errno::ESRCH)?;
            let range = VirtRange::new(VirtAddr(part.start), VirtAddr(part.end));
            counts = split_in(&space, range, part.largest);
        }
        // Files are in single pages: there is nothing to split once the file is found.
        Wanted::File { path } => {
            let context = task::current().fs();
            path::resolve(&context, context.cwd(), path.as_bytes(), Last::Follow)
                .map_err(|_| Errno::EINVAL)?;
        }
    }
    let Counts { split, failed } = counts;
    log::info!("{split} of {} large folios split", split + failed);
    Ok(())
}

/// Whose folios are to be split.
enum Wanted<'a> {
    All,
    Of { process: Pid, part: Part },
    File { path: &'a str },
}

/// A range and the order of what its folios are split into.
struct Part {
    start: u64,
    end: u64,
    largest: Order,
}

impl Part {
    fn parse(words: &[&str]) -> Result<Part> {
        let (start, end, order) = match *words {
            [start, end] => (start, end, "0"),
            [start, end, order] => (start, end, order),
            _ => return Err(Errno::EINVAL),
        };
        let part = Part {
            start: hexadecimal(start)?,
            end: hexadecimal(end)?,
            largest: Order(order.parse().map_err(|_| Errno::EINVAL)?),
        };
        if part.start >= part.end {
            return Err(Errno::EINVAL);
        }
        Ok(part)
    }
}

impl Wanted<'_> {
    fn parse(text: &str) -> Result<Wanted<'_>> {
        if text == "1" {
            return Ok(Wanted::All);
        }
        // One more than there may be.
        let words: Vec<&str> = text.split(',').map(str::trim).take(5).collect();
        let (subject, rest) = words.split_first().ok_or(Errno::EINVAL)?;
        let part = Part::parse(rest)?;
        match subject.parse() {
            Ok(process) => Ok(Wanted::Of { process, part }),
            Err(_) if subject.starts_with('/') => Ok(Wanted::File { path: subject }),
            Err(_) => Err(Errno::EINVAL),
        }
    }
}

fn hexadecimal(text: &str) -> Result<u64> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u64::from_str_radix(digits, 16).map_err(|_| Errno::EINVAL)
}

/// How many folios were split, and how many could not be.
#[derive(Default)]
struct Counts {
    split: u64,
    failed: u64,
}

impl Counts {
    fn add(&mut self, other: Counts) {
        self.split += other.split;
        self.failed += other.failed;
    }
}

/// Splits what is mapped in a range of a space. Stops early when the thread is to end.
fn split_in(space: &AddressSpace, range: VirtRange, largest: Order) -> Counts {
    space.split_deferred();
    let (mut at, mut counts) = (range.start, Counts::default());
    while let Some(vma) = space.vma_from(at)
        && let Some(part) = vma.range.intersection(&VirtRange::new(at, range.end))
    {
        at = part.end;
        let (split, failed) = space.split_range(part, largest);
        counts.add(Counts { split, failed });
        if sched::breathe() {
            break;
        }
    }
    counts
}
