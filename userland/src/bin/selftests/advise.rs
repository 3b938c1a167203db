//! madvise, mincore, mlock, pagemap, mremap, brk: calls that move, drop and report pages.
use userland::harness::{Outcome, in_child, need};
use userland::sys::fault;
use userland::sys::mem::{
    ANON, PAGE, RW, anon, brk, load, madvise, mincore, mlock, mmap, mprotect, mremap, munlock,
    munmap, pagemap, store,
};
use userland::sys::proc::Status;
use userland::{check, check_eq, check_err};

userland::tests![
    advise_dontneed_forgets,
    advise_dontneed_after_fork,
    advise_dontneed_shared_keeps,
    advise_refuses,
    mincore_tells_resident,
    mlock_brings_in,
    mlock_brings_in_what_may_be_written,
    populate_brings_in,
    populate_needs_rights,
    pagemap_present,
    pagemap_follows_advice,
    remap_grows_and_keeps,
    remap_shrinks,
    remap_needs_leave_to_move,
    remap_to_a_place,
    remap_moves_shared_frames,
    remap_refuses,
    brk_grows_and_shrinks,
    brk_refuses,
];

fn advise_dontneed_forgets() -> Outcome {
    let at = anon(8)?;
    (0..8).for_each(|n| store(at + n * PAGE, 1));
    madvise(at + 2 * PAGE, 3 * PAGE, libc::MADV_DONTNEED)?;
    check_eq!(
        [0, 1, 2, 3, 4, 5, 6, 7].map(|n| load(at + n * PAGE)),
        [1, 1, 0, 0, 0, 1, 1, 1]
    );
    (0..8).for_each(|n| store(at + n * PAGE, 2));
    check!((0..8).all(|n| load(at + n * PAGE) == 2));
    Ok(())
}

fn advise_dontneed_after_fork() -> Outcome {
    let at = anon(4)?;
    (0..4).for_each(|n| store(at + n * PAGE, 1));
    let status = in_child(|| {
        madvise(at, 4 * PAGE, libc::MADV_DONTNEED)?;
        Ok((0..4).all(|n| load(at + n * PAGE) == 0) as i32)
    })?;
    check_eq!(status, Status::Exited(1));
    check!((0..4).all(|n| load(at + n * PAGE) == 1));
    Ok(())
}

fn advise_dontneed_shared_keeps() -> Outcome {
    let at = mmap(
        0,
        2 * PAGE,
        RW,
        libc::MAP_SHARED | libc::MAP_ANONYMOUS,
        -1,
        0,
    )?;
    store(at, 1);
    madvise(at, 2 * PAGE, libc::MADV_DONTNEED)?;
    check_eq!([load(at), load(at + PAGE)], [1, 0]);
    Ok(())
}

fn advise_refuses() -> Outcome {
    let at = anon(3)?;
    check_err!(madvise(at + 1, PAGE, libc::MADV_DONTNEED), EINVAL);
    check_err!(madvise(at, PAGE, 12345), EINVAL);
    madvise(at, 0, libc::MADV_DONTNEED)?;
    madvise(at, PAGE, libc::MADV_NORMAL)?;
    madvise(at, 3 * PAGE, libc::MADV_WILLNEED)?;
    munmap(at + PAGE, PAGE)?;
    store(at + 2 * PAGE, 1);
    check_err!(madvise(at, 3 * PAGE, libc::MADV_DONTNEED), ENOMEM);
    // The hole is an error, but what is mapped on both sides was dropped.
    check_eq!(load(at + 2 * PAGE), 0);
    Ok(())
}

fn mincore_tells_resident() -> Outcome {
    let at = anon(4)?;
    store(at + PAGE, 1);
    store(at + 3 * PAGE, 1);
    let bits: Vec<u8> = need(mincore(at, 4), "mincore")?
        .iter()
        .map(|b| b & 1)
        .collect();
    check_eq!(bits, [0, 1, 0, 1]);
    check_err!(mincore(at + 1, 1), EINVAL);
    munmap(at + 2 * PAGE, PAGE)?;
    check_err!(mincore(at, 4), ENOMEM);
    Ok(())
}

fn mlock_brings_in() -> Outcome {
    let at = anon(4)?;
    need(mlock(at, 4 * PAGE), "mlock")?;
    check!(pagemap(at, 4)?.iter().all(|e| e >> 63 == 1));
    munlock(at, 4 * PAGE)?;
    munmap(at + PAGE, PAGE)?;
    check_err!(mlock(at, 4 * PAGE), ENOMEM);
    Ok(())
}

/// What is locked is there again when mprotect lets it be written, and nothing between.
fn mlock_brings_in_what_may_be_written() -> Outcome {
    let at = anon(12)?;
    mprotect(at, 12 * PAGE, libc::PROT_READ)?;
    for n in [0, 11] {
        need(mlock(at + n * PAGE, PAGE), "mlock")?;
    }
    mprotect(at, 12 * PAGE, RW)?;
    let present = pagemap(at, 12)?;
    let present: Vec<_> = (0..12).filter(|n| present[*n] >> 63 == 1).collect();
    check_eq!(present, [0, 11]);
    Ok(())
}

fn populate_brings_in() -> Outcome {
    let at = mmap(0, 8 * PAGE, RW, ANON | libc::MAP_POPULATE, -1, 0)?;
    check!(pagemap(at, 8)?.iter().all(|e| e >> 63 == 1));
    check!((0..8).all(|n| load(at + n * PAGE) == 0));
    Ok(())
}

fn pagemap_present() -> Outcome {
    let at = anon(4)?;
    store(at, 1);
    load(at + PAGE);
    let present: Vec<u64> = pagemap(at, 4)?.iter().map(|e| e >> 63).collect();
    // The page of zeros is present too.
    check_eq!(present, [1, 1, 0, 0]);
    let shared = mmap(0, PAGE, RW, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1, 0)?;
    store(shared, 1);
    let bits = |e: u64| (e >> 63 & 1, e >> 61 & 1);
    check_eq!(bits(pagemap(shared, 1)?[0]), (1, 1));
    check_eq!(bits(pagemap(at, 1)?[0]), (1, 0));
    Ok(())
}

fn pagemap_follows_advice() -> Outcome {
    let at = anon(2)?;
    store(at, 1);
    store(at + PAGE, 1);
    madvise(at, PAGE, libc::MADV_DONTNEED)?;
    let present: Vec<u64> = pagemap(at, 2)?.iter().map(|e| e >> 63).collect();
    check_eq!(present, [0, 1]);
    Ok(())
}

fn remap_grows_and_keeps() -> Outcome {
    let at = anon(4)?;
    (0..4).for_each(|n| store(at + n * PAGE, n as u64 + 1));
    let new = mremap(at, 4 * PAGE, 64 * PAGE, libc::MREMAP_MAYMOVE, 0)?;
    check!((0..64).all(|n| load(new + n * PAGE) == if n < 4 { n as u64 + 1 } else { 0 }));
    store(new + 63 * PAGE, 9);
    Ok(munmap(new, 64 * PAGE)?)
}

fn remap_shrinks() -> Outcome {
    fault::arm();
    let at = anon(4)?;
    store(at, 1);
    store(at + 3 * PAGE, 1);
    check_eq!(mremap(at, 4 * PAGE, 2 * PAGE, 0, 0)?, at);
    check_eq!(load(at), 1);
    check_eq!(fault::read(at + 2 * PAGE).map_err(|t| t.code), Err(1));
    Ok(())
}

fn remap_needs_leave_to_move() -> Outcome {
    fault::arm();
    let at = anon(4)?;
    store(at, 5);
    // A neighbour with other rights stands in the way.
    mprotect(at + 2 * PAGE, 2 * PAGE, libc::PROT_READ)?;
    check_err!(mremap(at, 2 * PAGE, 3 * PAGE, 0, 0), ENOMEM);
    let new = mremap(at, 2 * PAGE, 3 * PAGE, libc::MREMAP_MAYMOVE, 0)?;
    check!(new != at);
    check_eq!(load(new), 5);
    check_eq!(fault::read(at).map_err(|t| t.code), Err(1));
    // With room behind it, a mapping grows where it is.
    let alone = anon(4)?;
    munmap(alone + PAGE, 3 * PAGE)?;
    check_eq!(mremap(alone, PAGE, 2 * PAGE, 0, 0)?, alone);
    Ok(())
}

fn remap_to_a_place() -> Outcome {
    fault::arm();
    let from = anon(4)?;
    let to = anon(4)?;
    (0..4).for_each(|n| store(from + n * PAGE, n as u64 + 1));
    (0..4).for_each(|n| store(to + n * PAGE, 100));
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    check_eq!(
        mremap(from + PAGE, 2 * PAGE, 2 * PAGE, flags, to + PAGE)?,
        to + PAGE
    );
    check_eq!([0, 1, 2, 3].map(|n| load(to + n * PAGE)), [100, 2, 3, 100]);
    check_eq!(fault::read(from + PAGE).map_err(|t| t.code), Err(1));
    check_eq!([load(from), load(from + 3 * PAGE)], [1, 4]);
    check_err!(mremap(to, 2 * PAGE, 2 * PAGE, flags, to + PAGE), EINVAL);
    check_err!(mremap(to, PAGE, PAGE, libc::MREMAP_FIXED, from), EINVAL);
    Ok(())
}

fn remap_moves_shared_frames() -> Outcome {
    let at = anon(16)?;
    (0..16).for_each(|n| store(at + n * PAGE, 1));
    let status = in_child(|| {
        let new = mremap(at, 16 * PAGE, 32 * PAGE, libc::MREMAP_MAYMOVE, 0)?;
        let kept = (0..16).all(|n| load(new + n * PAGE) == 1);
        (0..32).for_each(|n| store(new + n * PAGE, 2));
        Ok((kept && (0..32).all(|n| load(new + n * PAGE) == 2)) as i32)
    })?;
    check_eq!(status, Status::Exited(1));
    check!((0..16).all(|n| load(at + n * PAGE) == 1));
    Ok(())
}

fn remap_refuses() -> Outcome {
    let at = anon(4)?;
    check_err!(
        mremap(at + 1, PAGE, 2 * PAGE, libc::MREMAP_MAYMOVE, 0),
        EINVAL
    );
    check_err!(mremap(at, PAGE, 0, libc::MREMAP_MAYMOVE, 0), EINVAL);
    check_err!(mremap(at, PAGE, PAGE, 0x80, 0), EINVAL);
    munmap(at + PAGE, PAGE)?;
    check_err!(
        mremap(at + PAGE, PAGE, 2 * PAGE, libc::MREMAP_MAYMOVE, 0),
        EFAULT
    );
    check_err!(
        mremap(at, 4 * PAGE, 8 * PAGE, libc::MREMAP_MAYMOVE, 0),
        EFAULT
    );
    Ok(())
}

fn brk_grows_and_shrinks() -> Outcome {
    // This process's allocator must not move the break meanwhile: everything here is on the stack.
    let start = brk(0);
    let first = start.next_multiple_of(PAGE);
    check_eq!(brk(first + 8 * PAGE), first + 8 * PAGE);
    (0..8).for_each(|n| store(first + n * PAGE, 1));
    check_eq!(brk(first + PAGE), first + PAGE);
    check_eq!(brk(first + 8 * PAGE), first + 8 * PAGE);
    // What was given back comes again as zeros.
    check_eq!(
        [0, 1, 2, 3, 4, 5, 6, 7].map(|n| load(first + n * PAGE)),
        [1, 0, 0, 0, 0, 0, 0, 0]
    );
    check_eq!(brk(start), start);
    Ok(())
}

fn brk_refuses() -> Outcome {
    let start = brk(0);
    for wild in [1, PAGE, usize::MAX, 1 << 60, 0x7fff_ffff_f000] {
        check_eq!(brk(wild), start);
    }
    Ok(())
}

fn populate_needs_rights() -> Outcome {
    let shared = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    let (read, write) = (libc::MADV_POPULATE_READ, libc::MADV_POPULATE_WRITE);
    for flags in [ANON, shared] {
        let at = mmap(0, 2 * PAGE, libc::PROT_WRITE, flags, -1, 0)?;
        check_err!(madvise(at, 2 * PAGE, read), EINVAL);
        need(madvise(at, 2 * PAGE, write), "MADV_POPULATE_WRITE")?;
        // The pages are there; the right is not.
        check_err!(madvise(at, 2 * PAGE, read), EINVAL);
    }
    let at = mmap(0, PAGE, libc::PROT_READ, ANON, -1, 0)?;
    madvise(at, PAGE, read)?;
    check_err!(madvise(at, PAGE, write), EINVAL);
    for prot in [libc::PROT_NONE, libc::PROT_EXEC] {
        let at = mmap(0, PAGE, prot, ANON, -1, 0)?;
        check_err!(madvise(at, PAGE, read), EINVAL);
        check_err!(madvise(at, PAGE, write), EINVAL);
    }
    munmap(at, PAGE)?;
    check_err!(madvise(at, PAGE, read), ENOMEM);
    Ok(())
}
