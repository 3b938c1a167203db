//! Memory that was changed after it was touched: parts unmapped, moved, protected, dropped, or not
//! for the child.
use super::area::{Area, LEN, PAGES, PARTS, Size, inside};
use super::family::child;
use crate::harness::Outcome;
use crate::sys::mem::{PAGE, RW, madvise, mprotect, mremap, munmap};

/// Calls `f` with the address and the length of each part.
fn each_part(area: &Area, mut f: impl FnMut(usize, usize) -> crate::sys::Result<()>) -> Outcome {
    for (first, pages) in PARTS {
        f(area.page(first), pages * PAGE)?;
    }
    Ok(())
}

/// Some pages of the folios are unmapped before the fork.
pub fn partial_munmap(size: Size) -> Outcome {
    let area = Area::new(size)?;
    each_part(&area, munmap)?;
    let left = |version| move |page: usize| (!inside(page)).then_some(version);
    let write = |version| {
        (0..PAGES)
            .filter(|page| !inside(*page))
            .for_each(|page| area.write(page, version))
    };
    let kid = child(|turn| {
        for (first, pages) in PARTS {
            area.is_hole(first, pages)?;
        }
        area.check(left(1))?;
        write(2);
        turn.next()?;
        area.check(left(2))
    })?;
    kid.step()?;
    area.check(left(1))?;
    write(3);
    area.check(left(3))?;
    kid.end()?;
    area.check(left(3))
}

/// Some pages of the folios are elsewhere before the fork.
pub fn partial_mremap(size: Size) -> Outcome {
    let (area, other) = (Area::new(size)?, Area::empty(size)?);
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    for (first, pages) in PARTS {
        let len = pages * PAGE;
        mremap(area.page(first), len, len, flags, other.page(first))?;
    }
    let place = |page: usize| if inside(page) { &other } else { &area };
    let write = |version| (0..PAGES).for_each(|page| place(page).write(page, version));
    let holds = |version| -> Outcome {
        area.check(|page| (!inside(page)).then_some(version))?;
        other.check(|page| inside(page).then_some(version))
    };
    holds(1)?;
    let kid = child(|turn| {
        holds(1)?;
        write(2);
        turn.next()?;
        // Back to where it was: the copies, not the parent's.
        for (first, pages) in PARTS {
            let len = pages * PAGE;
            mremap(other.page(first), len, len, flags, area.page(first))?;
        }
        area.holds(2)
    })?;
    kid.step()?;
    holds(1)?;
    write(3);
    holds(3)?;
    kid.end()?;
    holds(3)
}

/// Read-only and back, all and parts, before the fork.
pub fn protect_before(size: Size) -> Outcome {
    let area = Area::new(size)?;
    mprotect(area.at, LEN, libc::PROT_READ)?;
    mprotect(area.at, LEN, RW)?;
    each_part(&area, |at, len| mprotect(at, len, libc::PROT_READ))?;
    let kid = child(|turn| {
        area.holds(1)?;
        mprotect(area.at, LEN, RW)?;
        area.write_all(2);
        turn.next()?;
        area.holds(2)
    })?;
    kid.step()?;
    area.holds(1)?;
    mprotect(area.at, LEN, RW)?;
    area.write_all(3);
    area.holds(3)?;
    kid.end()?;
    area.holds(3)
}

/// Read-only and back while parent and child share: memory that may be written again is still not
/// the other's.
pub fn protect_after(size: Size) -> Outcome {
    let area = Area::new(size)?;
    let round_trip = || -> Outcome {
        mprotect(area.at, LEN, libc::PROT_READ)?;
        each_part(&area, |at, len| mprotect(at, len, libc::PROT_NONE))?;
        mprotect(area.at, LEN, RW)?;
        Ok(())
    };
    let kid = child(|turn| {
        round_trip()?;
        area.holds(1)?;
        turn.next()?;
        area.holds(1)?;
        area.write_all(3);
        turn.next()?;
        area.holds(3)
    })?;
    kid.step()?;
    round_trip()?;
    area.write_all(2);
    area.holds(2)?;
    kid.step()?;
    area.holds(2)?;
    kid.end()?;
    round_trip()?;
    area.holds(2)?;
    area.write_all(4);
    area.holds(4)
}

/// Parts that the child does not get.
pub fn dontfork(size: Size) -> Outcome {
    let area = Area::new(size)?;
    each_part(&area, |at, len| madvise(at, len, libc::MADV_DONTFORK))?;
    let write = |version| {
        (0..PAGES)
            .filter(|page| !inside(*page))
            .for_each(|page| area.write(page, version))
    };
    let kid = child(|turn| {
        for (first, pages) in PARTS {
            area.is_hole(first, pages)?;
        }
        area.check(|page| (!inside(page)).then_some(1))?;
        write(2);
        turn.next()?;
        area.check(|page| (!inside(page)).then_some(2))
    })?;
    // What is the parent's alone, then what it shares.
    (0..PAGES)
        .filter(|page| inside(*page))
        .for_each(|page| area.write(page, 5));
    kid.step()?;
    area.check(|page| Some(if inside(page) { 5 } else { 1 }))?;
    area.write_all(3);
    area.holds(3)?;
    kid.end()?;
    area.holds(3)
}

/// The child drops parts, which are zeros for it then, and for no other process.
pub fn dontneed_in_child(size: Size) -> Outcome {
    let area = Area::new(size)?;
    let kid = child(|turn| {
        each_part(&area, |at, len| madvise(at, len, libc::MADV_DONTNEED))?;
        area.check(|page| Some(if inside(page) { 0 } else { 1 }))?;
        turn.next()?;
        (0..PAGES)
            .filter(|page| inside(*page))
            .for_each(|page| area.write(page, 2));
        area.check(|page| Some(if inside(page) { 2 } else { 1 }))?;
        turn.next()?;
        area.check(|page| Some(if inside(page) { 2 } else { 1 }))?;
        area.write_all(6);
        area.holds(6)
    })?;
    kid.step()?;
    area.holds(1)?;
    kid.step()?;
    area.write_all(3);
    area.holds(3)?;
    kid.end()?;
    area.holds(3)
}

/// Folios that have holes: some pages were dropped, some of those read since.
pub fn partly_populated(size: Size) -> Outcome {
    let area = Area::new(size)?;
    let dropped = |page: usize| inside(page) || page % 7 == 3;
    for page in (0..PAGES).filter(|page| dropped(*page)) {
        madvise(area.page(page), PAGE, libc::MADV_DONTNEED)?;
    }
    // The page of zeros is mapped in some of the holes.
    let read = |page: &usize| dropped(*page) && page.is_multiple_of(2);
    (0..PAGES).filter(read).for_each(|page| {
        crate::sys::mem::load(area.page(page));
    });
    let then = move |page: usize| if dropped(page) { 0 } else { 1 };
    let kid = child(|turn| {
        area.check(|page| Some(then(page)))?;
        (0..PAGES)
            .filter(|page| page % 3 == 0)
            .for_each(|page| area.write(page, 2));
        area.check(|page| Some(if page % 3 == 0 { 2 } else { then(page) }))?;
        turn.next()?;
        area.check(|page| Some(if page % 3 == 0 { 2 } else { then(page) }))?;
        area.write_all(4);
        area.holds(4)
    })?;
    kid.step()?;
    area.check(|page| Some(then(page)))?;
    (0..PAGES)
        .filter(|page| page % 5 == 0)
        .for_each(|page| area.write(page, 3));
    area.check(|page| Some(if page % 5 == 0 { 3 } else { then(page) }))?;
    kid.end()?;
    area.check(|page| Some(if page % 5 == 0 { 3 } else { then(page) }))
}
