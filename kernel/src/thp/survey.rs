//! The folios of all processes: `/sys/kernel/mm/quire/folios` shows them,
//! `/sys/kernel/debug/split_huge_pages` splits them.

use crate::base::errno::{Errno, Result};
use crate::base::machine::{AddressSpace, mm};
use crate::fs::kinds::pseudo::Text;
use crate::fs::kinds::pseudo_tree::Tree;
use crate::fs::tree::path::{self, Last};
use crate::process::task::{self, Pid};
use crate::sched;
use crate::thp::spaces;
use alloc::format;
use alloc::vec::Vec;
use mm::addr::{Order, VirtAddr, VirtRange};
use mm::thp::ORDERS;
use mm::thp::stats::Stat;
use mm::{FOLIO_ORDERS, FolioUse};

/// Private folios that there are.
pub fn private(order: Order) -> u64 {
    let stats = &mm().thp().stats;
    if is_large(order) {
        return stats.get(order, Stat::NrAnon);
    }
    let pages = |order: Order| stats.get(order, Stat::NrAnon) * order.pages();
    let in_large: u64 = ORDERS.map(Order).map(pages).sum();
    mm().counts().anon.saturating_sub(in_large)
}

/// The sizes that [`private`] knows.
pub fn private_orders() -> impl Iterator<Item = Order> {
    core::iter::once(0).chain(ORDERS).map(Order)
}

fn is_large(order: Order) -> bool {
    ORDERS.contains(&order.0)
}

/// How processes map folios, by their orders.
type ByOrder = [FolioUse; FOLIO_ORDERS];

/// As in smaps how many folios are mapped whole, in part, and by contiguous entries, summed over
/// all areas (a folio that two processes map counts twice). ENOMEM, EINTR.
fn mapped() -> Result<ByOrder> {
    let mut mapped = ByOrder::default();
    for space in spaces::all()?.values() {
        spaces::each_area(space, |_, figures| {
            for (sum, n) in mapped.iter_mut().zip(figures.folios) {
                *sum += n;
            }
        })?;
    }
    Ok(mapped)
}

/// Private folios of a size that there are.
fn exist(order: Order, mapped: &ByOrder) -> u64 {
    match order {
        order if order == Order(0) || is_large(order) => private(order),
        // There are no private folios of two pages; files may have blocks of other sizes.
        order => mapped[usize::from(order.0)].whole + mapped[usize::from(order.0)].part,
    }
}

/// Folios of a size of which a part is not mapped any more.
fn deferred(order: Order) -> u64 {
    match is_large(order) {
        true => mm().thp().stats.get(order, Stat::NrAnonPartiallyMapped),
        false => 0,
    }
}

/// One figure of a size.
type Figure = fn(Order, &ByOrder) -> u64;

/// The figures of each size, with the names of the columns.
const FIGURES: [(&str, Figure); 5] = [
    ("exist", exist),
    ("deferred", |order, _| deferred(order)),
    ("whole", |order, mapped| mapped[usize::from(order.0)].whole),
    ("part", |order, mapped| mapped[usize::from(order.0)].part),
    ("contpte", |order, mapped| {
        mapped[usize::from(order.0)].contpte
    }),
];

fn orders() -> impl Iterator<Item = Order> {
    (0..FOLIO_ORDERS as u8).map(Order)
}

/// The table of all figures, one line a size. ENOMEM, EINTR.
pub fn folios(out: &mut Text) -> Result {
    let mapped = mapped()?;
    out.line("   size   exist deferred   whole    part contpte");
    for order in orders() {
        let [exist, deferred, whole, part, contpte] =
            FIGURES.map(|(_, figure)| figure(order, &mapped));
        out.line(format_args!(
            "{:>5}kB {exist:>7} {deferred:>8} {whole:>7} {part:>7} {contpte:>7}",
            order.bytes() >> 10,
        ));
    }
    Ok(())
}

/// The same, one value a file: `folios-<size>kB/<column>` in a folder.
pub fn register(tree: &Tree, folder: &str) {
    for order in orders() {
        let kb = order.bytes() >> 10;
        for (name, figure) in FIGURES {
            tree.show(&format!("{folder}/folios-{kb}kB/{name}"), move |out| {
                out.is(figure(order, &mapped()?))
            });
        }
    }
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
            mm().for_each_space(&mut |space| counts.add(split_in(space, everything, Order(0))));
        }
        Wanted::Of { process, part } => {
            let space = task::find(process).and_then(|process| process.space.get());
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

/// Which folios are to be split.
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
