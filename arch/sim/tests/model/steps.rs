//! What may happen, at random: processes, pages, CPUs and objects are small numbers.

use crate::common::RW;
use mm::vma::Prot;
use proptest::prelude::*;

/// Pages that the processes play with; some straddle the end of a page table.
pub const PAGES: u64 = 12;
const OBJECT_PAGES: u64 = 8;

/// Where a mapping's pages come from.
#[derive(Clone, Copy, Debug)]
pub enum What {
    Anon,
    Private(u8),
    Shared(u8),
}

#[derive(Clone, Debug)]
pub enum Step {
    Map(u8, u64, u64, Prot, What, bool),
    Unmap(u8, u64, u64),
    Protect(u8, u64, u64, Prot),
    Load(u8, u8, u64),
    Store(u8, u8, u64, u8),
    Fetch(u8, u8, u64),
    KernelWrite(u8, u64, u8),
    Fork(u8),
    Exit(u8),
    Remap(u8, u64, u64, u64),
    DontNeed(u8, u64, u64),
    Truncate(u8, u64),
    Write(u8, u64, u8),
    Punch(u8, u64),
}

fn prot() -> impl Strategy<Value = Prot> {
    prop_oneof![4 => Just(RW), 2 => Just(Prot::READ), 1 => Just(Prot::empty()), 1 => Just(RW | Prot::EXEC)]
}

pub fn step() -> impl Strategy<Value = Step> {
    let (p, at, len, cpu, o) = (0..3u8, 0..PAGES, 1..6u64, 0..2u8, 0..2u8);
    let what = prop_oneof![3 => Just(What::Anon), 2 => o.clone().prop_map(What::Private), 2 => o.clone().prop_map(What::Shared)];
    prop_oneof![
        4 => (p.clone(), at.clone(), len.clone(), prot(), what, any::<bool>()).prop_map(|(p, a, n, r, w, f)| Step::Map(p, a, n, r, w, f)),
        2 => (p.clone(), at.clone(), len.clone()).prop_map(|(p, a, n)| Step::Unmap(p, a, n)),
        2 => (p.clone(), at.clone(), len.clone(), prot()).prop_map(|(p, a, n, r)| Step::Protect(p, a, n, r)),
        8 => (p.clone(), cpu.clone(), at.clone()).prop_map(|(p, c, a)| Step::Load(p, c, a)),
        12 => (p.clone(), cpu.clone(), at.clone(), 1..255u8).prop_map(|(p, c, a, b)| Step::Store(p, c, a, b)),
        1 => (p.clone(), cpu, at.clone()).prop_map(|(p, c, a)| Step::Fetch(p, c, a)),
        2 => (p.clone(), at.clone(), 1..255u8).prop_map(|(p, a, b)| Step::KernelWrite(p, a, b)),
        2 => p.clone().prop_map(Step::Fork),
        1 => p.clone().prop_map(Step::Exit),
        2 => (p.clone(), at.clone(), len.clone(), at.clone()).prop_map(|(p, a, n, t)| Step::Remap(p, a, n, t)),
        2 => (p, at, len).prop_map(|(p, a, n)| Step::DontNeed(p, a, n)),
        1 => (o.clone(), 0..=OBJECT_PAGES).prop_map(|(o, n)| Step::Truncate(o, n)),
        2 => (o.clone(), 0..OBJECT_PAGES, 1..255u8).prop_map(|(o, n, b)| Step::Write(o, n, b)),
        1 => (o, 0..OBJECT_PAGES).prop_map(|(o, n)| Step::Punch(o, n)),
    ]
}
