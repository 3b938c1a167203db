//! What may happen, at random: processes, pages, CPUs and objects are small numbers.

use crate::common::RW;
use mm::Advice;
use mm::addr::Order;
use mm::fault::Access;
use mm::switch::Switch;
use mm::vma::Prot;
use proptest::prelude::*;

/// Pages of an object at most.
const OBJECT_PAGES: u64 = 20;
/// What a contiguous block has of pages, and 2 MiB of the pages of [`LARGE`].
const BLOCK: u64 = 16;

/// The part of the address space that the processes play with.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// What the steps call a page: so many real ones, of which the model knows one byte.
    pub unit: u64,
    /// How many of them; some straddle the end of a page table.
    pub pages: u64,
    /// How many a verb takes at most.
    pub most: u64,
    /// Whether all memory is of huge pages (hugetlb), one for each.
    pub huge: bool,
}

/// Single pages.
pub const SMALL: Shape = Shape {
    unit: 1,
    pages: 12,
    most: 6,
    huge: false,
};
/// Room for folios of 16 to 128 KiB.
pub const MIDDLE: Shape = Shape {
    unit: 1,
    pages: 64,
    most: 36,
    huge: false,
};
/// Room for folios of 2 MiB, in steps of 128 KiB.
pub const LARGE: Shape = Shape {
    unit: 32,
    pages: 48,
    most: 36,
    huge: false,
};
/// Huge pages of 2 MiB.
pub const HUGE: Shape = Shape {
    unit: 512,
    pages: 6,
    most: 4,
    huge: true,
};
/// Huge pages of 64 KiB.
pub const SMALL_HUGE: Shape = Shape { unit: 16, ..HUGE };
/// Huge pages of 32 MiB.
pub const LARGE_HUGE: Shape = Shape {
    unit: 16 * 512,
    pages: 4,
    most: 3,
    ..HUGE
};

impl Shape {
    /// How many of them an object has at most: there is memory for two objects, and for private
    /// pages.
    fn object_pages(&self) -> u64 {
        match self.unit {
            0..=512 => OBJECT_PAGES,
            _ => OBJECT_PAGES / 2,
        }
    }
    /// The order of what the steps call a page.
    pub fn order(&self) -> Order {
        Order(self.unit.ilog2() as u8)
    }
}

/// Where a mapping's pages come from.
#[derive(Clone, Copy, Debug)]
pub enum What {
    Anon,
    /// Private memory that grows downwards.
    Stack,
    Private(u8),
    Shared(u8),
}

/// An mremap.
#[derive(Clone, Copy, Debug)]
pub struct Remap {
    pub from: u64,
    pub len: u64,
    pub new_len: u64,
    /// MREMAP_FIXED; else it stays where it is.
    pub to: Option<u64>,
    /// MREMAP_DONTUNMAP.
    pub keep: bool,
}

#[derive(Clone, Debug)]
pub enum Step {
    Map(u8, u64, u64, Prot, What, bool),
    Unmap(u8, u64, u64),
    Protect(u8, u64, u64, Prot),
    /// pkey_mprotect(2), with the number of the key.
    ProtectWithKey(u8, u64, u64, Prot, u8),
    Load(u8, u8, u64),
    Store(u8, u8, u64, u8),
    Fetch(u8, u8, u64),
    KernelWrite(u8, u64, u8),
    Fork(u8),
    Exit(u8),
    Remap(u8, Remap),
    DontNeed(u8, u64, u64),
    Truncate(u8, u64),
    Write(u8, u64, u8),
    Punch(u8, u64),
    /// A store to each of several pages.
    Fill(u8, u8, u64, u64, u8),
    /// A store next to what the model knows.
    Poke(u8, u8, u64, u64),
    Advise(u8, u64, u64, Advice),
    /// mlock2(2), on fault or not.
    Lock(u8, u64, u64, bool),
    Unlock(u8, u64, u64),
    /// MADV_GUARD_INSTALL, or MADV_GUARD_REMOVE.
    Guard(u8, u64, u64, bool),
    /// A userfaultfd write-protects pages asynchronously, or watches them no more.
    Watch(u8, u64, u64, bool),
    /// What was written must say so; then 4 is written to clear_refs.
    ClearDirty(u8),
    /// A page is dropped and written again while only frames at one end of a part of RAM are free.
    Edge(u8, u8, u64, u8),
    /// The 2 MiB around a page, by MADV_COLLAPSE or as khugepaged does.
    Collapse(u8, u64, bool),
    SplitDeferred(u8),
    /// MADV_SOFT_OFFLINE of a page.
    SoftOffline(u8, u64),
    /// A page is pinned for long, for such accesses, or as by a pipe.
    Pin(u8, u64, Option<Access>),
    /// One of the pins goes.
    Unpin(usize),
    Split(u8, u64, u64),
    /// Cold private pages are stored, so many if there are.
    Reclaim(u64),
    /// Memory is compacted.
    Compact,
    /// The sizes that folios may have, one bit for each order.
    Sizes(u32),
    /// A switch to one of its words, by number.
    Turn(Switch, u32),
}

impl Step {
    /// Whether huge pages can do it.
    pub fn is_for_huge_pages(&self) -> bool {
        use Advice::*;
        match self {
            Step::Write(..) | Step::Edge(..) | Step::Guard(..) | Step::Lock(..) => false,
            // Drawn by a shrinker only.
            Step::Map(_, _, _, _, What::Stack, _) => false,
            Step::Remap(_, remap) => !remap.keep && remap.new_len <= remap.len,
            Step::Advise(.., advice) => {
                matches!(advice, DontFork | DoFork | PopulateRead | PopulateWrite)
            }
            _ => true,
        }
    }
    /// The page that an access is to.
    pub fn page(&self) -> Option<u64> {
        match *self {
            Step::Load(_, _, n)
            | Step::Fetch(_, _, n)
            | Step::Store(_, _, n, _)
            | Step::Poke(_, _, n, _)
            | Step::KernelWrite(_, n, _) => Some(n),
            _ => None,
        }
    }
}

fn prot() -> impl Strategy<Value = Prot> {
    prop_oneof![4 => Just(RW), 2 => Just(Prot::READ), 1 => Just(Prot::empty()), 1 => Just(RW | Prot::EXEC)]
}

/// Sets of orders: none, each alone, all together, any.
pub fn sizes() -> impl Strategy<Value = u32> {
    prop_oneof![
        Just(0),
        (2..10u32).prop_map(|order| 1 << order),
        Just(0x3fc),
        any::<u32>()
    ]
}

fn access() -> impl Strategy<Value = Access> + Clone {
    prop::sample::select(vec![Access::Read, Access::Write])
}

fn advice() -> impl Strategy<Value = Advice> {
    use Advice::*;
    prop::sample::select(vec![
        Cold,
        PageOut,
        HugePage,
        NoHugePage,
        Free,
        DontFork,
        DoFork,
        WipeOnFork,
        KeepOnFork,
        PopulateRead,
        PopulateWrite,
    ])
}

/// Any switch that may be turned while memory is in use, to any of its words.
fn turn() -> impl Strategy<Value = Step> {
    let switches: Vec<Switch> = Switch::all().filter(|switch| !switch.boot()).collect();
    (prop::sample::select(switches), any::<u32>())
        .prop_map(|(switch, n)| Step::Turn(switch, n % switch.words().len() as u32))
}

/// Where a verb begins: anywhere, or where a folio could.
fn place(shape: Shape) -> impl Strategy<Value = u64> {
    prop_oneof![
        0..shape.pages,
        (0..shape.pages.div_ceil(BLOCK)).prop_map(|n| n * BLOCK)
    ]
}

/// How far it goes: a little, as far as a folio, or anything.
fn length(shape: Shape) -> impl Strategy<Value = u64> {
    let block = BLOCK.min(shape.most);
    prop_oneof![1..6u64, Just(block), Just(2 * block), 1..shape.most]
}

/// Mostly the first process: the others are not always there.
fn process() -> impl Strategy<Value = u8> {
    prop_oneof![2 => Just(0u8), 1 => Just(1), 1 => Just(2)]
}

/// Mostly a move that could do something: as long as before, longer or shorter, to somewhere else
/// or in place.
fn remap(shape: Shape) -> impl Strategy<Value = Remap> {
    let (at, len) = (place(shape).boxed(), length(shape).boxed());
    let new_len = prop_oneof![3 => Just(None), 1 => len.clone().prop_map(Some)];
    let to = prop_oneof![1 => Just(None), 4 => at.clone().prop_map(Some)];
    (at, len, new_len, to, prop::bool::weighted(0.2)).prop_map(|(from, len, new_len, to, keep)| {
        // What is kept is as long as before.
        let keep = keep && to.is_some();
        let new_len = new_len.filter(|_| !keep).unwrap_or(len);
        Remap {
            from,
            len,
            new_len,
            to,
            keep,
        }
    })
}

/// What a case begins with: all of it mapped, or nothing.
pub fn begin(shape: Shape) -> impl Strategy<Value = Option<Step>> {
    let all = Step::Map(0, 0, shape.pages, RW, What::Anon, false);
    prop_oneof![3 => Just(Some(all)), 1 => Just(None)]
}

pub fn step(shape: Shape) -> impl Strategy<Value = Step> {
    let (p, at, len) = (
        process().boxed(),
        place(shape).boxed(),
        length(shape).boxed(),
    );
    let (cpu, o) = (0..2u8, 0..2u8);
    // A part of a page cannot be told: a stack grows by real ones.
    let stacks = u32::from(shape.unit == 1);
    let what = prop_oneof![8 => Just(What::Anon), stacks => Just(What::Stack), 2 => o.clone().prop_map(What::Private), 2 => o.clone().prop_map(What::Shared)];
    prop_oneof![
        3 => (p.clone(), at.clone(), len.clone(), prot(), what, prop::bool::weighted(0.3)).prop_map(|(p, a, n, r, w, f)| Step::Map(p, a, n, r, w, f)),
        2 => (p.clone(), at.clone(), len.clone()).prop_map(|(p, a, n)| Step::Unmap(p, a, n)),
        3 => (p.clone(), at.clone(), len.clone(), prot()).prop_map(|(p, a, n, r)| Step::Protect(p, a, n, r)),
        3 => (p.clone(), at.clone(), len.clone(), prot(), 0..5u8).prop_map(|(p, a, n, r, k)| Step::ProtectWithKey(p, a, n, r, k)),
        8 => (p.clone(), cpu.clone(), at.clone()).prop_map(|(p, c, a)| Step::Load(p, c, a)),
        12 => (p.clone(), cpu.clone(), at.clone(), 1..255u8).prop_map(|(p, c, a, b)| Step::Store(p, c, a, b)),
        1 => (p.clone(), cpu.clone(), at.clone()).prop_map(|(p, c, a)| Step::Fetch(p, c, a)),
        4 => (p.clone(), cpu.clone(), at.clone(), len.clone(), 1..255u8).prop_map(|(p, c, a, n, b)| Step::Fill(p, c, a, n, b)),
        3 => (p.clone(), cpu.clone(), at.clone(), 1..255u8).prop_map(|(p, c, a, b)| Step::Edge(p, c, a, b)),
        4 => (p.clone(), cpu, at.clone(), 0..shape.unit).prop_map(|(p, c, a, s)| Step::Poke(p, c, a, s)),
        2 => (p.clone(), at.clone(), 1..255u8).prop_map(|(p, a, b)| Step::KernelWrite(p, a, b)),
        2 => p.clone().prop_map(Step::Fork),
        2 => p.clone().prop_map(Step::Exit),
        4 => (p.clone(), remap(shape)).prop_map(|(p, remap)| Step::Remap(p, remap)),
        2 => (p.clone(), at.clone(), len.clone()).prop_map(|(p, a, n)| Step::DontNeed(p, a, n)),
        2 => (p.clone(), at.clone(), any::<bool>()).prop_map(|(p, a, now)| Step::Collapse(p, a, now)),
        2 => p.clone().prop_map(Step::SplitDeferred),
        2 => (p.clone(), at.clone(), prop::option::weighted(0.8, access())).prop_map(|(p, a, l)| Step::Pin(p, a, l)),
        1 => any::<usize>().prop_map(Step::Unpin),
        1 => (p.clone(), at.clone(), len.clone()).prop_map(|(p, a, n)| Step::Split(p, a, n)),
        1 => (p.clone(), at.clone()).prop_map(|(p, a)| Step::SoftOffline(p, a)),
        2 => (1..64u64).prop_map(Step::Reclaim),
        1 => Just(Step::Compact),
        2 => p.clone().prop_map(Step::ClearDirty),
        1 => (p.clone(), at.clone(), len.clone(), any::<bool>()).prop_map(|(p, a, n, f)| Step::Lock(p, a, n, f)),
        1 => (p.clone(), at.clone(), len.clone()).prop_map(|(p, a, n)| Step::Unlock(p, a, n)),
        3 => (p.clone(), at.clone(), len.clone(), prop::bool::weighted(0.6)).prop_map(|(p, a, n, i)| Step::Guard(p, a, n, i)),
        4 => (p.clone(), at.clone(), len.clone(), prop::bool::weighted(0.8)).prop_map(|(p, a, n, on)| Step::Watch(p, a, n, on)),
        5 => (p, at, len, advice()).prop_map(|(p, a, n, v)| Step::Advise(p, a, n, v)),
        1 => sizes().prop_map(Step::Sizes),
        2 => turn(),
        1 => (o.clone(), 0..=shape.object_pages()).prop_map(|(o, n)| Step::Truncate(o, n)),
        2 => (o.clone(), 0..shape.object_pages(), 1..255u8).prop_map(|(o, n, b)| Step::Write(o, n, b)),
        1 => (o, 0..shape.object_pages()).prop_map(|(o, n)| Step::Punch(o, n)),
    ]
}
