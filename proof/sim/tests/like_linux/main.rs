//! Random sequences of calls, done by the host's Linux and by the memory manager: the same results,
//! and the same VMAs with the same flags in /proc/self/smaps after each step. Needs a Linux since
//! 6.16, where VMAs are joined as today.
#![cfg(target_os = "linux")]

mod linux;
mod ours;
#[path = "../common/seeds.rs"]
mod seeds;

use proptest::prelude::*;

/// Pages that the calls play with.
pub(crate) const PAGES: u64 = 24;

/// What to map.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Private,
    Shared,
    NoReserve,
    Stack,
    Locked,
    Populated,
}

/// One call; addresses and lengths in pages, protections and advice in Linux's numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Map(u64, u64, i32, Kind),
    MapNoReplace(u64, u64),
    Unmap(u64, u64),
    Protect(u64, u64, i32),
    /// pkey_mprotect, with this key.
    ProtectWithKey(u64, u64, i32, i32),
    AllocateKey,
    FreeKey(i32),
    Advise(u64, u64, i32),
    Lock(u64, u64, bool),
    Unlock(u64, u64),
    /// mseal, in a child only: what is sealed cannot be unmapped for the next test.
    Seal(u64, u64),
    Read(u64),
    Write(u64, u8),
    Remap(Remap),
    InMemory(u64, u64),
    /// The rest happens in a child.
    Fork,
}

/// mremap from one page to another. What a free choice moved elsewhere is then brought to `to` by a
/// second call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Remap {
    pub at: u64,
    pub old_len: u64,
    pub new_len: u64,
    pub flags: i32,
    pub to: u64,
}

/// A VMA: first page, pages, "rwxp", VmFlags without those that are about the machine and, where
/// the host has keys, the protection key.
pub(crate) type Area = (u64, u64, String, String);

/// Any call of mremap: mostly one that could do something.
fn remap() -> impl Strategy<Value = Step> {
    const MAY: i32 = libc::MREMAP_MAYMOVE;
    const FIXED: i32 = libc::MREMAP_FIXED;
    const KEEP: i32 = libc::MREMAP_DONTUNMAP;
    let flags = prop_oneof![
        1 => prop::sample::select(vec![FIXED, KEEP, FIXED | KEEP]),
        2 => Just(0),
        3 => Just(MAY),
        6 => Just(MAY | FIXED),
        1 => Just(MAY | KEEP),
        2 => Just(MAY | FIXED | KEEP),
    ];
    let old_len = prop_oneof![1 => Just(0), 15 => 1..9u64];
    let new_len = prop_oneof![8 => Just(None), 8 => (1..9u64).prop_map(Some), 1 => Just(Some(0))];
    let place = 0..PAGES - 8;
    (place.clone(), old_len, new_len, flags, place).prop_map(|(at, old_len, new_len, flags, to)| {
        let new_len = new_len.unwrap_or(old_len);
        Step::Remap(Remap {
            at,
            old_len,
            new_len,
            flags,
            to,
        })
    })
}

fn step(remaps: u32) -> impl Strategy<Value = Step> {
    let (at, len) = (1..PAGES - 6, 1..6u64);
    let rw = libc::PROT_READ | libc::PROT_WRITE;
    let prot = prop_oneof![
        1 => Just(libc::PROT_NONE),
        2 => Just(libc::PROT_READ),
        4 => Just(rw),
        1 => Just(libc::PROT_READ | libc::PROT_EXEC),
    ];
    let kind = prop_oneof![
        6 => Just(Kind::Private),
        1 => Just(Kind::Shared),
        1 => Just(Kind::NoReserve),
        1 => Just(Kind::Stack),
        1 => Just(Kind::Locked),
        1 => Just(Kind::Populated),
    ];
    let advice = prop::sample::select(vec![
        libc::MADV_NORMAL,
        libc::MADV_RANDOM,
        libc::MADV_SEQUENTIAL,
        libc::MADV_WILLNEED,
        libc::MADV_DONTNEED,
        libc::MADV_DONTNEED_LOCKED,
        libc::MADV_FREE,
        libc::MADV_REMOVE,
        libc::MADV_DONTFORK,
        libc::MADV_DOFORK,
        libc::MADV_WIPEONFORK,
        libc::MADV_KEEPONFORK,
        libc::MADV_DONTDUMP,
        libc::MADV_DODUMP,
        libc::MADV_HUGEPAGE,
        libc::MADV_NOHUGEPAGE,
        libc::MADV_COLD,
        libc::MADV_PAGEOUT,
        libc::MADV_POPULATE_READ,
        libc::MADV_POPULATE_WRITE,
    ]);
    prop_oneof![
        8 => (at.clone(), len.clone(), prot.clone(), kind).prop_map(|(a, n, p, k)| Step::Map(a, n, p, k)),
        1 => (at.clone(), len.clone()).prop_map(|(a, n)| Step::MapNoReplace(a, n)),
        3 => (at.clone(), len.clone()).prop_map(|(a, n)| Step::Unmap(a, n)),
        6 => (at.clone(), len.clone(), prot.clone()).prop_map(|(a, n, p)| Step::Protect(a, n, p)),
        2 => (at.clone(), len.clone(), prot, -1..4).prop_map(|(a, n, p, k)| Step::ProtectWithKey(a, n, p, k)),
        1 => Just(Step::AllocateKey),
        1 => (0..4).prop_map(Step::FreeKey),
        4 => (at.clone(), len.clone(), advice).prop_map(|(a, n, v)| Step::Advise(a, n, v)),
        1 => (at.clone(), len.clone(), any::<bool>()).prop_map(|(a, n, f)| Step::Lock(a, n, f)),
        1 => (at.clone(), len.clone()).prop_map(|(a, n)| Step::Unlock(a, n)),
        1 => (at.clone(), len.clone()).prop_map(|(a, n)| Step::Seal(a, n)),
        2 => at.clone().prop_map(Step::Read),
        6 => (at.clone(), 1..255u8).prop_map(|(a, b)| Step::Write(a, b)),
        remaps => remap(),
        1 => (at, len).prop_map(|(a, n)| Step::InMemory(a, n)),
        1 => Just(Step::Fork),
    ]
}

/// Runs what is left; an error says what was not alike.
fn alike(ours: &mut ours::Ours, linux: &linux::Linux, steps: &[Step]) -> Result<(), String> {
    for (n, step) in steps.iter().enumerate() {
        if matches!(step, Step::Fork) {
            return linux.in_child(|| {
                ours.fork();
                same_areas(ours, linux, step)?;
                alike(ours, linux, &steps[n + 1..])
            });
        }
        let (here, there) = (ours.run(step), linux.run(step));
        if there == Err(linux::JOINED_ELSEWHERE) {
            return Ok(());
        }
        if here != there {
            let before = ours.areas();
            return Err(format!(
                "{step:?} gives {here:?}, in Linux {there:?}; before: {before:x?}"
            ));
        }
        // Linux has split the first VMA by the time that it finds a later one sealed. Here a call
        // that is refused leaves all as it was, so that from there on the two are not alike.
        if here == Err(libc::EPERM) && ours.areas() != linux.areas() {
            return same(joined(ours.areas()), joined(linux.areas()), step);
        }
        same_areas(ours, linux, step)?;
    }
    Ok(())
}

/// Areas with those in one that follow each other and have the same flags.
fn joined(areas: Vec<Area>) -> Vec<Area> {
    let mut joined: Vec<Area> = Vec::new();
    for area in areas {
        match joined.last_mut() {
            Some(last) if last.0 + last.1 == area.0 && (&last.2, &last.3) == (&area.2, &area.3) => {
                last.1 += area.1;
            }
            _ => joined.push(area),
        }
    }
    joined
}

fn same_areas(ours: &ours::Ours, linux: &linux::Linux, step: &Step) -> Result<(), String> {
    same(ours.areas(), linux.areas(), step)
}

fn same(here: Vec<Area>, there: Vec<Area>, step: &Step) -> Result<(), String> {
    if here == there {
        return Ok(());
    }
    Err(format!(
        "after {step:?}\nhere     {here:x?}\nin Linux {there:x?}"
    ))
}

/// Plays the steps on both, and looks at what is in every page in the end.
fn play(steps: &[Step]) -> Result<(), String> {
    if !linux::joins_as_today() {
        return Ok(());
    }
    // MADV_FREE frees at once here, in Linux when memory is wanted: mincore shows it, and so does
    // what is in the pages.
    let free = steps
        .iter()
        .any(|s| matches!(s, Step::Advise(_, _, libc::MADV_FREE)));
    let (mut in_child, has_keys) = (false, linux::has_keys());
    let steps = steps.iter().filter_map(|step| match *step {
        Step::Fork => {
            in_child = true;
            Some(Step::Fork)
        }
        Step::Seal(..) if !in_child => None,
        Step::ProtectWithKey(..) | Step::AllocateKey | Step::FreeKey(_) if !has_keys => None,
        // A second mapping in the place of the first: Linux unmaps it and fails then, here it fails
        // and nothing is lost.
        Step::Remap(Remap {
            at, old_len: 0, to, ..
        }) if at == to => None,
        Step::InMemory(..) if free => None,
        Step::Write(page, _) if free => Some(Step::Write(page, 0)),
        step => Some(step),
    });
    let steps: Vec<Step> = steps.chain((0..PAGES).map(Step::Read)).collect();
    let linux = linux::Linux::new();
    alike(&mut ours::Ours::new(), &linux, &steps)
}

/// Sequences of calls, among them mremap with this weight, are alike on both.
fn compare(remaps: u32) {
    let steps = prop::collection::vec(step(remaps), 1..60);
    seeds::each(0x77, |seed| {
        seeds::run(150, seed, &steps, |steps| {
            play(&steps).unwrap_or_else(|why| panic!("not alike: {why}"));
        });
    });
}

#[test]
fn vmas_are_those_of_linux() {
    compare(3);
}

#[test]
fn mremap_does_what_that_of_linux_does() {
    compare(60);
}
