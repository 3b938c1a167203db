//! mremap(2): its flags, several mappings at once, and large moves. Its errors and limits are in
//! `remap_errors`.
use crate::areas::{areas, put, room, since};
use userland::harness::{Outcome, Stop, skip};
use userland::sys::mem::{ANON, PAGE, RW, load, mmap, mremap, munmap, store};
use userland::sys::{Errno, fault};
use userland::{check, check_eq, check_err};

userland::tests![
    remap_grows_in_place,
    remap_shrinks_over_several,
    remap_leaves_the_rest,
    remap_keeps_the_old_place,
    remap_keeps_a_part,
    remap_shared_keeps_both,
    remap_duplicates_what_is_shared,
    remap_several_at_once,
    remap_several_keep_what_gaps_meet,
    remap_several_are_kept,
    remap_of_no_other_size,
    remap_kept_goes_where_it_likes,
    remap_in_every_step,
    remap_a_gigabyte,
    remap_half_a_terabyte,
];

pub const MAY: i32 = libc::MREMAP_MAYMOVE;
pub const FIXED: i32 = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
pub const KEEP: i32 = libc::MREMAP_MAYMOVE | libc::MREMAP_DONTUNMAP;
pub const READ: i32 = libc::PROT_READ;

/// Writes `first`, `first + 1` .. into so many pages.
pub fn number(at: usize, pages: usize, first: u64) {
    (0..pages).for_each(|n| store(at + n * PAGE, first + n as u64));
}

/// Whether so many pages hold what [`number`] wrote.
pub fn numbered(at: usize, pages: usize, first: u64) -> bool {
    (0..pages).all(|n| load(at + n * PAGE) == first + n as u64)
}

fn gone(at: usize) -> bool {
    matches!(fault::read(at), Err(trap) if trap.code == 1)
}

fn remap_grows_in_place() -> Outcome {
    let at = room(8)?;
    put(at, 0, 2, RW)?;
    number(at, 2, 1);
    check_eq!(mremap(at, 2 * PAGE, 5 * PAGE, 0, 0)?, at);
    check_eq!(areas(at, 8)?, "0-5 rw-p");
    check!(numbered(at, 2, 1) && load(at + 4 * PAGE) == 0);
    // Its last part grows as well; one in the middle has no room.
    check_eq!(mremap(at + 4 * PAGE, PAGE, 2 * PAGE, 0, 0)?, at + 4 * PAGE);
    check_eq!(areas(at, 8)?, "0-6 rw-p");
    check_err!(mremap(at, PAGE, 2 * PAGE, 0, 0), ENOMEM);
    check_eq!(mremap(at, 6 * PAGE, 6 * PAGE, 0, 0)?, at);
    check_eq!(areas(at, 8)?, "0-6 rw-p");
    Ok(())
}

fn remap_shrinks_over_several() -> Outcome {
    let at = room(8)?;
    put(at, 0, 4, RW)?;
    put(at, 5, 7, READ)?;
    number(at, 4, 1);
    check_eq!(mremap(at, 8 * PAGE, 3 * PAGE, 0, 0)?, at);
    check_eq!(areas(at, 8)?, "0-3 rw-p");
    check!(numbered(at, 3, 1));
    Ok(())
}

fn remap_leaves_the_rest() -> Outcome {
    fault::arm();
    let at = room(16)?;
    put(at, 0, 6, RW)?;
    number(at, 6, 1);
    check_eq!(
        mremap(at + 2 * PAGE, 2 * PAGE, 3 * PAGE, FIXED, at + 8 * PAGE)?,
        at + 8 * PAGE
    );
    check_eq!(areas(at, 16)?, "0-2 rw-p, 4-6 rw-p, 8-11 rw-p");
    check!(numbered(at, 2, 1) && numbered(at + 4 * PAGE, 2, 5));
    check!(numbered(at + 8 * PAGE, 2, 3) && load(at + 10 * PAGE) == 0);
    check!(gone(at + 2 * PAGE) && gone(at + 3 * PAGE));
    // The other way round, shorter than before, and over what was mapped there.
    check_eq!(
        mremap(at + 8 * PAGE, 3 * PAGE, 2 * PAGE, FIXED, at + 2 * PAGE)?,
        at + 2 * PAGE
    );
    check_eq!(areas(at, 16)?, "0-6 rw-p");
    check!(numbered(at, 6, 1));
    check_eq!(
        mremap(at, 2 * PAGE, 2 * PAGE, FIXED, at + 3 * PAGE)?,
        at + 3 * PAGE
    );
    check!(load(at + 2 * PAGE) == 3 && numbered(at + 3 * PAGE, 2, 1) && load(at + 5 * PAGE) == 6);
    Ok(())
}

/// MREMAP_DONTUNMAP came with 5.7.
fn kept<T>(result: userland::sys::Result<T>) -> Result<T, Stop> {
    match result {
        Err(Errno(libc::EINVAL)) if !userland::counters::on_quire() => {
            Err(Stop::Skip("no MREMAP_DONTUNMAP here".into()))
        }
        other => Ok(other?),
    }
}

fn remap_keeps_the_old_place() -> Outcome {
    let at = room(16)?;
    put(at, 0, 4, RW)?;
    number(at, 4, 1);
    let to = at + 8 * PAGE;
    check_eq!(kept(mremap(at, 4 * PAGE, 4 * PAGE, KEEP | FIXED, to))?, to);
    check_eq!(areas(at, 16)?, "0-4 rw-p, 8-12 rw-p");
    check!(numbered(to, 4, 1));
    check!((0..4).all(|n| load(at + n * PAGE) == 0));
    number(at, 4, 100);
    check!(numbered(to, 4, 1) && numbered(at, 4, 100));
    // Anywhere.
    let new = mremap(to, 4 * PAGE, 4 * PAGE, KEEP, 0)?;
    check!(numbered(new, 4, 1) && load(to) == 0);
    Ok(munmap(new, 4 * PAGE)?)
}

fn remap_keeps_a_part() -> Outcome {
    let at = room(16)?;
    put(at, 0, 4, RW)?;
    number(at, 4, 1);
    let to = at + 8 * PAGE;
    check_eq!(
        kept(mremap(at + PAGE, 2 * PAGE, 2 * PAGE, KEEP | FIXED, to))?,
        to
    );
    check!(numbered(to, 2, 2));
    check_eq!([0, 1, 2, 3].map(|n| load(at + n * PAGE)), [1, 0, 0, 4]);
    Ok(())
}

/// Shared zeros of so many pages in a room.
fn shared(at: usize, pages: usize) -> Outcome {
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    mmap(at, pages * PAGE, RW, flags, -1, 0)?;
    Ok(())
}

fn remap_shared_keeps_both() -> Outcome {
    since(5, 13)?;
    let at = room(16)?;
    shared(at, 4)?;
    number(at, 4, 1);
    let to = at + 8 * PAGE;
    check_eq!(mremap(at, 4 * PAGE, 4 * PAGE, KEEP | FIXED, to)?, to);
    // What is shared is the object's: both places show it.
    check!(numbered(to, 4, 1) && numbered(at, 4, 1));
    store(to, 9);
    check_eq!(load(at), 9);
    Ok(())
}

fn remap_duplicates_what_is_shared() -> Outcome {
    let at = room(16)?;
    shared(at, 4)?;
    number(at, 4, 1);
    let to = at + 8 * PAGE;
    check_eq!(mremap(at + PAGE, 0, 2 * PAGE, FIXED, to)?, to);
    check!(numbered(to, 2, 2));
    store(to, 77);
    check_eq!(load(at + PAGE), 77);
    let new = mremap(at, 0, 4 * PAGE, MAY, 0)?;
    check_eq!(load(new + PAGE), 77);
    munmap(new, 4 * PAGE)?;
    // Without leave to move, and of private memory, there is no second one. For the first the man
    // page says EINVAL, Linux ENOMEM.
    check_err!(mremap(at, 0, PAGE, 0, 0), ENOMEM);
    put(at, 4, 5, RW)?;
    check_err!(mremap(at + 4 * PAGE, 0, PAGE, MAY, 0), EINVAL);
    Ok(())
}

fn remap_several_at_once() -> Outcome {
    let at = room(32)?;
    put(at, 0, 2, RW)?;
    put(at, 2, 3, READ)?;
    put(at, 5, 8, RW)?;
    number(at, 2, 1);
    number(at + 5 * PAGE, 3, 6);
    let to = at + 16 * PAGE;
    // Not all of the first and the last one.
    let moved = mremap(at + PAGE, 6 * PAGE, 6 * PAGE, FIXED, to);
    if moved == Err(Errno(libc::EFAULT)) && !userland::counters::on_quire() {
        return skip("one mapping at a time: Linux before 6.17");
    }
    check_eq!(moved?, to);
    check_eq!(
        areas(at, 32)?,
        "0-1 rw-p, 7-8 rw-p, 16-17 rw-p, 17-18 r--p, 20-22 rw-p"
    );
    check!(load(at) == 1 && load(to) == 2);
    check!(numbered(to + 4 * PAGE, 2, 6) && load(at + 7 * PAGE) == 8);
    Ok(())
}

/// What is mapped in the target where the old range has a gap stays.
fn remap_several_keep_what_gaps_meet() -> Outcome {
    since(6, 17)?;
    let at = room(32)?;
    put(at, 0, 2, RW)?;
    put(at, 4, 5, RW)?;
    put(at, 16, 22, READ)?;
    number(at, 2, 1);
    let to = at + 16 * PAGE;
    check_eq!(mremap(at, 6 * PAGE, 6 * PAGE, FIXED, to)?, to);
    check_eq!(
        areas(at, 32)?,
        "16-18 rw-p, 18-20 r--p, 20-21 rw-p, 21-22 r--p"
    );
    check!(numbered(to, 2, 1));
    Ok(())
}

/// All of the first mapping and a part of the last go and stay.
fn remap_several_are_kept() -> Outcome {
    since(6, 17)?;
    let at = room(32)?;
    put(at, 0, 2, RW)?;
    put(at, 2, 3, READ)?;
    put(at, 4, 8, RW)?;
    number(at, 2, 1);
    number(at + 4 * PAGE, 4, 5);
    let to = at + 16 * PAGE;
    check_eq!(mremap(at, 6 * PAGE, 6 * PAGE, KEEP | FIXED, to)?, to);
    check_eq!(
        areas(at, 32)?,
        "0-2 rw-p, 2-3 r--p, 4-8 rw-p, 16-18 rw-p, 18-19 r--p, 20-22 rw-p"
    );
    check!(numbered(to, 2, 1) && numbered(to + 4 * PAGE, 2, 5));
    check_eq!(
        [0, 1, 4, 5, 6, 7].map(|n| load(at + n * PAGE)),
        [0, 0, 0, 0, 7, 8]
    );
    Ok(())
}

/// Without a new size or place nothing is done, whatever follows the first mapping.
fn remap_of_no_other_size() -> Outcome {
    let at = room(16)?;
    put(at, 0, 2, RW)?;
    put(at, 3, 5, READ)?;
    let before = areas(at, 16)?;
    for flags in [0, MAY] {
        check_eq!(mremap(at, 9 * PAGE, 9 * PAGE, flags, 0)?, at);
        check_eq!(mremap(at + PAGE, PAGE - 5, 1, flags, 0)?, at + PAGE);
    }
    check_eq!(areas(at, 16)?, before);
    Ok(())
}

/// MREMAP_DONTUNMAP without MREMAP_FIXED takes the new address as a wish.
fn remap_kept_goes_where_it_likes() -> Outcome {
    let at = room(32)?;
    put(at, 0, 2, RW)?;
    put(at, 20, 21, RW)?;
    number(at, 2, 1);
    let to = at + 10 * PAGE;
    check_eq!(kept(mremap(at, 2 * PAGE, 2 * PAGE, KEEP, to))?, to);
    check!(numbered(to, 2, 1));
    // What is mapped there is not replaced.
    let elsewhere = mremap(to, 2 * PAGE, 2 * PAGE, KEEP, at + 19 * PAGE)?;
    check!(numbered(elsewhere, 2, 1));
    check_eq!(areas(at, 32)?, "0-2 rw-p, 10-12 rw-p, 20-21 rw-p");
    check_err!(mremap(at, 2 * PAGE, 2 * PAGE, KEEP, at + PAGE), EINVAL);
    check_err!(
        mremap(at, 2 * PAGE, 2 * PAGE, KEEP, at + 5 * PAGE + 8),
        EINVAL
    );
    Ok(munmap(elsewhere, 2 * PAGE)?)
}

/// 5 MiB to where it is aligned alike to a page, to 64 KiB, to 2 MiB and back, each time with a
/// head and a tail.
fn remap_in_every_step() -> Outcome {
    const PAGES: usize = 1280;
    let at = room(16 * 512)?;
    put(at, 3, 3 + PAGES, RW)?;
    let mut from = at + 3 * PAGE;
    number(from, PAGES, 1);
    for page in [2048 + 4, 4096 + 20, 6144 + 20, 3, 2048 + 3] {
        let to = at + page * PAGE;
        check_eq!(mremap(from, PAGES * PAGE, PAGES * PAGE, FIXED, to)?, to);
        check!(numbered(to, PAGES, 1), "at page {page}");
        check_eq!(
            areas(at, 16 * 512)?,
            format!("{page}-{} rw-p", page + PAGES)
        );
        number(to, PAGES, 1);
        from = to;
    }
    Ok(munmap(from, PAGES * PAGE)?)
}

/// All of a PUD entry, of which few pages are there.
fn remap_a_gigabyte() -> Outcome {
    const GIB: usize = 1 << 30;
    let at = room(4 * GIB / PAGE)?;
    let flags = ANON | libc::MAP_FIXED | libc::MAP_NORESERVE;
    mmap(at, GIB, RW, flags, -1, 0)?;
    let places = [0, 5 * PAGE, 2 << 20, (77 << 20) + 8 * PAGE, GIB - PAGE];
    places.iter().for_each(|p| store(at + p, *p as u64 + 1));
    let mut from = at;
    for to in [at + GIB, at + 2 * GIB + (2 << 20), at] {
        check_eq!(mremap(from, GIB, GIB, FIXED, to)?, to);
        check!(places.iter().all(|p| load(to + p) == *p as u64 + 1));
        check_eq!(load(to + PAGE), 0);
        from = to;
    }
    Ok(munmap(at, GIB)?)
}

/// All of a PGD entry, with and without a head and a tail: half a terabyte, of which few pages are
/// there.
fn remap_half_a_terabyte() -> Outcome {
    const PGD: usize = 512 << 30;
    let at = room(5 * PGD / PAGE)?.next_multiple_of(PGD);
    let flags = ANON | libc::MAP_FIXED | libc::MAP_NORESERVE;
    for [head, tail] in [[0, 0], [PAGE, 2 << 20]] {
        let (start, len) = (at + PGD - head, head + PGD + tail);
        mmap(start, len, RW, flags, -1, 0)?;
        let places = [0, 5 << 30, PGD - PAGE, len - PAGE];
        places.iter().for_each(|p| store(start + p, *p as u64 + 1));
        // Aligned alike for a PGD entry, back, for a PMD entry, and back.
        let mut from = start;
        for to in [2 * PGD, 0, 2 * PGD - (6 << 20), 0].map(|by| start + by) {
            check_eq!(mremap(from, len, len, FIXED, to)?, to);
            check!(places.iter().all(|p| load(to + p) == *p as u64 + 1));
            check_eq!(load(to + (7 << 30)), 0);
            from = to;
        }
        munmap(from, len)?;
    }
    Ok(())
}
