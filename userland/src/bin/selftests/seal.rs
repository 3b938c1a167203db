//! mseal: what is sealed stays mapped, where it is, with the rights it has.
use crate::areas::{areas, put, room, since};
use userland::harness::{Outcome, Stop, in_child, need};
use userland::sys::mem::{
    ANON, PAGE, RW, load, madvise, mlock, mmap, mprotect, mremap, mseal, munlock, munmap, store,
};
use userland::sys::{file, proc};
use userland::{check, check_eq, check_err};

userland::tests![
    seal_refuses_bad_arguments,
    seal_keeps_from_unmapping,
    seal_keeps_the_rights,
    seal_keeps_the_place,
    seal_keeps_what_cannot_be_written,
    seal_is_of_a_part,
    seal_is_shown,
    seal_is_inherited,
    seal_of_the_heap,
];

const READ: i32 = libc::PROT_READ;
const MOVE: i32 = libc::MREMAP_MAYMOVE;
const FIXED: i32 = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;

/// A sealed page between two that are not, with a value in each.
fn sealed() -> Result<usize, Stop> {
    let at = room(3)?;
    put(at, 0, 3, RW)?;
    for n in 0..3 {
        store(at + n * PAGE, 7 + n as u64);
    }
    need(mseal(at + PAGE, PAGE, 0), "mseal")?;
    Ok(at)
}

/// Nothing has changed since [`sealed`].
fn check_kept(at: usize) -> Outcome {
    check_eq!(areas(at, 3)?, "0-1 rw-p, 1-2 rw-p, 2-3 rw-p");
    for n in 0..3 {
        check_eq!(load(at + n * PAGE), 7 + n as u64);
    }
    Ok(())
}

fn seal_refuses_bad_arguments() -> Outcome {
    let at = room(4)?;
    put(at, 0, 1, RW)?;
    put(at, 2, 3, RW)?;
    need(mseal(at, 0, 0), "mseal")?;
    check_err!(mseal(at, PAGE, 1), EINVAL);
    check_err!(mseal(at + 1, PAGE, 0), EINVAL);
    check_err!(mseal(at, usize::MAX - PAGE, 0), EINVAL);
    check_err!(mseal(at, usize::MAX, 0), EINVAL);
    check_err!(mseal(at + PAGE, PAGE, 0), ENOMEM);
    // A hole: nothing is sealed.
    check_err!(mseal(at, 3 * PAGE, 0), ENOMEM);
    check_err!(mseal(at + 2 * PAGE, 2 * PAGE, 0), ENOMEM);
    munmap(at, 4 * PAGE)?;
    // An empty range need not be mapped.
    mseal(at, 0, 0)?;
    Ok(())
}

fn seal_keeps_from_unmapping() -> Outcome {
    let at = sealed()?;
    check_err!(munmap(at + PAGE, PAGE), EPERM);
    check_err!(munmap(at, 2 * PAGE), EPERM);
    check_err!(munmap(at, 3 * PAGE), EPERM);
    let over = ANON | libc::MAP_FIXED;
    check_err!(mmap(at, 3 * PAGE, RW, over, -1, 0), EPERM);
    let beside = ANON | libc::MAP_FIXED_NOREPLACE;
    check_err!(mmap(at, 3 * PAGE, RW, beside, -1, 0), EEXIST);
    check_kept(at)?;
    // Twice is as good as once.
    mseal(at + PAGE, PAGE, 0)?;
    check_kept(at)?;
    munmap(at, PAGE)?;
    munmap(at + 2 * PAGE, PAGE)?;
    Ok(())
}

fn seal_keeps_the_rights() -> Outcome {
    let at = sealed()?;
    check_err!(mprotect(at + PAGE, PAGE, READ), EPERM);
    check_err!(mprotect(at + PAGE, PAGE, RW), EPERM);
    check_kept(at)?;
    // What lies before it changes, as before a hole.
    check_err!(mprotect(at, 3 * PAGE, READ), EPERM);
    check_eq!(areas(at, 3)?, "0-1 r--p, 1-2 rw-p, 2-3 rw-p");
    store(at + PAGE, 9);
    Ok(())
}

fn seal_keeps_the_place() -> Outcome {
    let at = sealed()?;
    let to = mmap(0, 2 * PAGE, RW, ANON, -1, 0)?;
    store(to, 1);
    check_err!(mremap(at + PAGE, PAGE, PAGE, 0, 0), EPERM);
    check_err!(mremap(at + PAGE, PAGE, 2 * PAGE, MOVE, 0), EPERM);
    check_err!(mremap(at + PAGE, PAGE, PAGE, FIXED, to), EPERM);
    let keep = FIXED | libc::MREMAP_DONTUNMAP;
    check_err!(mremap(at + PAGE, PAGE, PAGE, keep, to), EPERM);
    // It is the target, or the part that is cut off.
    check_err!(mremap(to, PAGE, PAGE, FIXED, at + PAGE), EPERM);
    check_err!(mremap(at, 2 * PAGE, PAGE, 0, 0), EPERM);
    check_kept(at)?;
    check_eq!(load(to), 1);
    Ok(())
}

fn seal_keeps_what_cannot_be_written() -> Outcome {
    let at = room(3)?;
    put(at, 0, 3, RW)?;
    store(at, 7);
    store(at + PAGE, 8);
    mprotect(at, PAGE, READ)?;
    need(mseal(at, 2 * PAGE, 0), "mseal")?;
    for advice in [
        libc::MADV_DONTNEED,
        libc::MADV_DONTNEED_LOCKED,
        libc::MADV_FREE,
        libc::MADV_REMOVE,
        libc::MADV_DONTFORK,
        libc::MADV_WIPEONFORK,
    ] {
        check_err!(madvise(at, PAGE, advice), EPERM);
    }
    check_eq!(load(at), 7);
    madvise(at, PAGE, libc::MADV_RANDOM)?;
    madvise(at, PAGE, libc::MADV_COLD)?;
    mlock(at, PAGE)?;
    munlock(at, PAGE)?;
    // What may be written may as well be dropped.
    madvise(at + PAGE, PAGE, libc::MADV_DONTNEED)?;
    check_eq!(load(at + PAGE), 0);
    // A file has what it maps.
    let fd = file::open("sealed", libc::O_RDWR | libc::O_CREAT, 0o600)?;
    file::write_all(fd, &[1; PAGE])?;
    let at = mmap(0, PAGE, READ, libc::MAP_PRIVATE, fd, 0)?;
    mseal(at, PAGE, 0)?;
    madvise(at, PAGE, libc::MADV_DONTNEED)?;
    Ok(())
}

fn seal_is_of_a_part() -> Outcome {
    let at = room(6)?;
    put(at, 0, 6, RW)?;
    need(mseal(at + PAGE, PAGE, 0), "mseal")?;
    mseal(at + 4 * PAGE, PAGE, 0)?;
    check_eq!(
        areas(at, 6)?,
        "0-1 rw-p, 1-2 rw-p, 2-4 rw-p, 4-5 rw-p, 5-6 rw-p"
    );
    // What is sealed joins what is sealed.
    mseal(at + 2 * PAGE, 2 * PAGE, 0)?;
    check_eq!(areas(at, 6)?, "0-1 rw-p, 1-5 rw-p, 5-6 rw-p");
    check_err!(munmap(at + 3 * PAGE, PAGE), EPERM);
    munmap(at, PAGE)?;
    munmap(at + 5 * PAGE, PAGE)?;
    check_eq!(areas(at, 6)?, "1-5 rw-p");
    Ok(())
}

fn seal_is_shown() -> Outcome {
    since(6, 13)?;
    let at = sealed()?;
    let smaps = std::fs::read_to_string("/proc/self/smaps")?;
    let of = |page: usize| {
        let header = format!("{:x}-", at + page * PAGE);
        let lines = smaps.lines().skip_while(|l| !l.starts_with(&header));
        let flags = lines.into_iter().find(|l| l.starts_with("VmFlags:"));
        flags.is_some_and(|l| l.split_whitespace().any(|word| word == "sl"))
    };
    check!(!of(0) && of(1) && !of(2), "{smaps}");
    Ok(())
}

fn seal_is_inherited() -> Outcome {
    let at = sealed()?;
    let child = in_child(|| {
        check_err!(munmap(at + PAGE, PAGE), EPERM);
        check_err!(mprotect(at + PAGE, PAGE, READ), EPERM);
        check_kept(at)?;
        Ok(0)
    })?;
    check_eq!(child, proc::Status::Exited(0));
    Ok(())
}

fn seal_of_the_heap() -> Outcome {
    use userland::sys::mem::brk;
    let end = brk(0).next_multiple_of(PAGE);
    check_eq!(brk(end + 4 * PAGE), end + 4 * PAGE);
    need(mseal(end + 2 * PAGE, PAGE, 0), "mseal")?;
    // What is sealed stays, and so does the break.
    check_eq!(brk(end + PAGE), end + 4 * PAGE);
    check_eq!(brk(end + 3 * PAGE), end + 3 * PAGE);
    store(end + 2 * PAGE, 5);
    Ok(())
}
