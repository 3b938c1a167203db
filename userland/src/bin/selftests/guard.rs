//! MADV_GUARD_INSTALL and MADV_GUARD_REMOVE: pages that refuse every access.
use crate::areas::since;
use userland::harness::{Outcome, Stop, in_child};
use userland::sys::fault::{self, Probe};
use userland::sys::mem::{
    ANON, MADV_GUARD_INSTALL, MADV_GUARD_REMOVE, PAGE, RW, anon, load, madvise, mincore, mlock,
    mmap, mprotect, mremap, munlock, munmap, pagemap, store,
};
use userland::sys::{Errno, file, proc};
use userland::{check, check_eq, check_err};

userland::tests![
    guard_refuses_access,
    guard_drops_and_comes_back_empty,
    guard_stays_when_pages_go,
    guard_stays_when_rights_change,
    guard_moves,
    guard_is_inherited,
    guard_is_wiped_in_a_child,
    guard_goes_with_its_mapping,
    guard_of_a_part_of_a_folio,
    guard_of_shared_memory,
    guard_of_a_file,
    guard_refuses_bad_arguments,
    guard_is_not_populated,
    guard_refuses_the_kernel,
    guard_is_shown,
];

const FIXED: i32 = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;

fn install(at: usize, pages: usize) -> userland::sys::Result<()> {
    madvise(at, pages * PAGE, MADV_GUARD_INSTALL)
}

fn remove(at: usize, pages: usize) -> userland::sys::Result<()> {
    madvise(at, pages * PAGE, MADV_GUARD_REMOVE)
}

/// Pages with their number in each, guards at `first..end`. Skips the test before Linux 6.13.
fn guarded(pages: usize, first: usize, end: usize) -> Result<usize, Stop> {
    fault::arm();
    let at = anon(pages)?;
    for n in 0..pages {
        store(at + n * PAGE, 1 + n as u64);
    }
    match install(at + first * PAGE, end - first) {
        Err(Errno(libc::EINVAL)) => Err(Stop::Skip("no MADV_GUARD_INSTALL here".into())),
        other => Ok(other.map(|()| at)?),
    }
}

/// The access met a guard.
fn refused<T>(result: Probe<T>) -> Outcome {
    match result {
        Err(t) if t.signal == libc::SIGSEGV && t.code == 1 => Ok(()),
        Err(t) => Err(Stop::Fail(format!("{t:x?} instead of SEGV_MAPERR"))),
        Ok(_) => Err(Stop::Fail("the access did not trap".into())),
    }
}

/// Which of the pages refuse access.
fn guards(at: usize, pages: usize) -> Vec<usize> {
    let shut = |n: &usize| fault::read(at + n * PAGE).is_err();
    (0..pages).filter(shut).collect()
}

fn guard_refuses_access() -> Outcome {
    let at = guarded(4, 1, 3)?;
    refused(fault::read(at + PAGE))?;
    refused(fault::write(at + PAGE, 1))?;
    refused(fault::read(at + 3 * PAGE - 1))?;
    refused(fault::write(at + 2 * PAGE, 1))?;
    check_eq!(load(at), 1);
    check_eq!(load(at + 3 * PAGE), 4);
    // Once more changes nothing.
    install(at + PAGE, 2)?;
    check_eq!(guards(at, 4), [1, 2]);
    Ok(())
}

fn guard_drops_and_comes_back_empty() -> Outcome {
    let at = guarded(4, 1, 3)?;
    remove(at + 2 * PAGE, 1)?;
    check_eq!(guards(at, 4), [1]);
    check_eq!(load(at + 2 * PAGE), 0);
    store(at + 2 * PAGE, 7);
    // What is no guard stays.
    remove(at, 4)?;
    check_eq!(load(at), 1);
    check_eq!(load(at + PAGE), 0);
    check_eq!(load(at + 2 * PAGE), 7);
    Ok(())
}

fn guard_stays_when_pages_go() -> Outcome {
    let at = guarded(4, 1, 2)?;
    for advice in [libc::MADV_DONTNEED, libc::MADV_FREE, libc::MADV_COLD] {
        madvise(at, 4 * PAGE, advice)?;
        check_eq!(guards(at, 4), [1]);
        madvise(at + PAGE, PAGE, advice)?;
        check_eq!(guards(at, 4), [1]);
    }
    Ok(())
}

fn guard_stays_when_rights_change() -> Outcome {
    let at = guarded(4, 1, 3)?;
    for prot in [libc::PROT_READ, libc::PROT_NONE, RW, libc::PROT_READ, RW] {
        mprotect(at, 4 * PAGE, prot)?;
    }
    check_eq!(guards(at, 4), [1, 2]);
    // Rights are asked first.
    mprotect(at + PAGE, PAGE, libc::PROT_READ)?;
    match fault::write(at + PAGE, 1) {
        Err(t) => check_eq!(t.code, 2),
        Ok(_) => check!(false, "a guard was written"),
    }
    Ok(())
}

fn guard_moves() -> Outcome {
    let at = guarded(4, 1, 3)?;
    let to = mmap(0, 8 * PAGE, libc::PROT_NONE, ANON, -1, 0)?;
    mremap(at, 4 * PAGE, 6 * PAGE, FIXED, to)?;
    check_eq!(guards(to, 6), [1, 2]);
    check_eq!(load(to + 3 * PAGE), 4);
    let back = mmap(0, 8 * PAGE, libc::PROT_NONE, ANON, -1, 0)?;
    let kept = FIXED | libc::MREMAP_DONTUNMAP;
    mremap(to, 6 * PAGE, 6 * PAGE, kept, back)?;
    check_eq!(guards(back, 6), [1, 2]);
    check_eq!(guards(to, 6), []);
    Ok(())
}

fn guard_is_inherited() -> Outcome {
    let at = guarded(4, 1, 3)?;
    let child = in_child(|| {
        check_eq!(guards(at, 4), [1, 2]);
        check_eq!(load(at + 3 * PAGE), 4);
        remove(at + PAGE, 1)?;
        store(at + PAGE, 5);
        Ok(0)
    })?;
    check_eq!(child, proc::Status::Exited(0));
    check_eq!(guards(at, 4), [1, 2]);
    // Also where nothing was ever written.
    let fresh = anon(4)?;
    install(fresh, 2)?;
    let child = in_child(|| {
        check_eq!(guards(fresh, 4), [0, 1]);
        Ok(0)
    })?;
    check_eq!(child, proc::Status::Exited(0));
    Ok(())
}

fn guard_is_wiped_in_a_child() -> Outcome {
    let at = guarded(4, 1, 3)?;
    madvise(at, 4 * PAGE, libc::MADV_WIPEONFORK)?;
    let child = in_child(|| {
        check_eq!(guards(at, 4), []);
        check_eq!(load(at), 0);
        Ok(0)
    })?;
    check_eq!(child, proc::Status::Exited(0));
    check_eq!(guards(at, 4), [1, 2]);
    Ok(())
}

fn guard_goes_with_its_mapping() -> Outcome {
    let at = guarded(4, 0, 4)?;
    munmap(at + PAGE, PAGE)?;
    mmap(at + PAGE, PAGE, RW, ANON | libc::MAP_FIXED, -1, 0)?;
    mmap(at + 2 * PAGE, PAGE, RW, ANON | libc::MAP_FIXED, -1, 0)?;
    check_eq!(guards(at, 4), [0, 3]);
    Ok(())
}

fn guard_of_a_part_of_a_folio() -> Outcome {
    const HUGE: usize = 512;
    let at = guarded(1, 0, 1).and_then(|_| Ok(mmap(0, 2 * HUGE * PAGE, RW, ANON, -1, 0)?))?;
    let at = at.next_multiple_of(HUGE * PAGE);
    // A kernel without huge pages refuses, and that is as good.
    let _ = madvise(at, HUGE * PAGE, libc::MADV_HUGEPAGE);
    for n in 0..HUGE {
        store(at + n * PAGE, 1 + n as u64);
    }
    install(at + 3 * PAGE, 2)?;
    check_eq!(guards(at, HUGE), [3, 4]);
    check_eq!(load(at + 5 * PAGE), 6);
    install(at, HUGE)?;
    check_eq!(guards(at, HUGE).len(), HUGE);
    remove(at, HUGE)?;
    check_eq!(load(at + 5 * PAGE), 0);
    Ok(())
}

fn guard_of_shared_memory() -> Outcome {
    since(6, 15)?;
    fault::arm();
    let at = mmap(
        0,
        4 * PAGE,
        RW,
        libc::MAP_SHARED | libc::MAP_ANONYMOUS,
        -1,
        0,
    )?;
    for n in 0..4 {
        store(at + n * PAGE, 1 + n as u64);
    }
    install(at + PAGE, 2)?;
    check_eq!(guards(at, 4), [1, 2]);
    let child = in_child(|| {
        check_eq!(guards(at, 4), [1, 2]);
        // Guards are of the mapping, and pages of the memory.
        remove(at + PAGE, 1)?;
        check_eq!(load(at + PAGE), 2);
        store(at + PAGE, 9);
        store(at, 10);
        Ok(0)
    })?;
    check_eq!(child, proc::Status::Exited(0));
    check_eq!(guards(at, 4), [1, 2]);
    check_eq!(load(at), 10);
    remove(at, 4)?;
    check_eq!(load(at + PAGE), 9);
    check_eq!(load(at + 2 * PAGE), 3);
    Ok(())
}

fn guard_of_a_file() -> Outcome {
    since(6, 15)?;
    fault::arm();
    let fd = file::open("guarded", libc::O_RDWR | libc::O_CREAT, 0o600)?;
    file::write_all(fd, &[b'x'; 4 * PAGE])?;
    let at = mmap(0, 4 * PAGE, RW, libc::MAP_PRIVATE, fd, 0)?;
    store(at + 2 * PAGE, 5);
    install(at + PAGE, 2)?;
    check_eq!(guards(at, 4), [1, 2]);
    // A file that becomes shorter takes its pages, but no guards.
    file::ftruncate(fd, 2 * PAGE as i64)?;
    refused(fault::read(at + PAGE))?;
    refused(fault::read(at + 2 * PAGE))?;
    remove(at, 4)?;
    check_eq!(load(at + PAGE) as u8, b'x');
    match fault::read(at + 2 * PAGE) {
        Err(t) => check_eq!(t.signal, libc::SIGBUS),
        Ok(_) => check!(false, "a page past the end of the file"),
    }
    Ok(())
}

fn guard_refuses_bad_arguments() -> Outcome {
    let at = guarded(5, 0, 0)?;
    check_err!(install(at + 1, 1), EINVAL);
    // Pages that are locked stay.
    mlock(at, PAGE)?;
    check_err!(install(at, 2), EINVAL);
    check_eq!(guards(at, 2), []);
    remove(at, 2)?;
    munlock(at, PAGE)?;
    // All but a hole.
    munmap(at + 2 * PAGE, PAGE)?;
    check_err!(install(at + PAGE, 4), ENOMEM);
    check_eq!(guards(at, 5), [1, 2, 3, 4]);
    check_err!(remove(at + PAGE, 4), ENOMEM);
    check_eq!(guards(at, 5), [2]);
    Ok(())
}

fn guard_is_not_populated() -> Outcome {
    let at = guarded(4, 1, 3)?;
    check_err!(madvise(at, 4 * PAGE, libc::MADV_POPULATE_READ), EFAULT);
    check_err!(madvise(at, 4 * PAGE, libc::MADV_POPULATE_WRITE), EFAULT);
    check_err!(mlock(at, 4 * PAGE), ENOMEM);
    check_eq!(guards(at, 4), [1, 2]);
    remove(at, 4)?;
    Ok(())
}

fn guard_refuses_the_kernel() -> Outcome {
    let at = guarded(2, 1, 2)?;
    let (hear, tell) = file::pipe(0)?;
    let write = |at, n| {
        let args = [tell as usize, at, n, 0, 0, 0];
        userland::sys::call(libc::SYS_write, args)
    };
    check_err!(write(at + PAGE, 8), EFAULT);
    file::write_all(tell, b"12345678")?;
    let args = [hear as usize, at + PAGE, 8, 0, 0, 0];
    check_err!(userland::sys::call(libc::SYS_read, args), EFAULT);
    Ok(())
}

fn guard_is_shown() -> Outcome {
    since(6, 15)?;
    let at = guarded(3, 1, 2)?;
    let guard = |n: usize| Ok::<_, Stop>(pagemap(at + n * PAGE, 1)?[0] >> 58 & 1 == 1);
    let present = |n: usize| Ok::<_, Stop>(pagemap(at + n * PAGE, 1)?[0] >> 63 == 1);
    check!(!guard(0)? && guard(1)? && !guard(2)?);
    check!(present(0)? && !present(1)? && present(2)?);
    check_eq!(mincore(at, 3)?, [1, 0, 1]);
    remove(at, 3)?;
    check!(!guard(1)?);
    Ok(())
}
