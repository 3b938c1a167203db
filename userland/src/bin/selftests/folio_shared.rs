//! Large folios of shared memory: what `shmem_enabled` brings, and what becomes of a folio of which
//! a part goes.
use crate::folio::{PMD, fill, stat, value, wrong};
use crate::thp::{chosen, only_here, write};
use userland::harness::{Outcome, Stop, in_child};
use userland::sys::mem::{PAGE, RW, load, madvise, mmap, mprotect, munmap, store};
use userland::sys::{call, file, proc::Status};
use userland::{check, check_eq};

userland::tests![
    folio_shared_by_the_files,
    folio_shared_hole,
    folio_shared_end,
    folio_shared_leaf,
];

/// Does `f` with `always` for shared memory in folios of `kb`.
fn with_shared(kb: usize, f: impl FnOnce() -> Outcome) -> Outcome {
    only_here()?;
    let path = format!("hugepages-{kb}kB/shmem_enabled");
    let before = chosen(&path)?;
    write(&path, "always")?;
    let outcome = f();
    write(&path, &before)?;
    outcome
}

/// Shared memory of `len` bytes at a multiple of 2 MiB, of a file or of none.
fn shared(len: usize, file: i32) -> Result<usize, Stop> {
    let none = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let at = mmap(0, len + PMD, libc::PROT_NONE, none, -1, 0)?;
    let start = at.next_multiple_of(PMD);
    munmap(at, len + PMD)?;
    let kind = match file {
        -1 => libc::MAP_SHARED | libc::MAP_ANONYMOUS,
        _ => libc::MAP_SHARED,
    };
    Ok(mmap(start, len, RW, kind | libc::MAP_FIXED, file, 0)?)
}

fn mapped(at: usize, pages: usize) -> Result<usize, Stop> {
    let words = userland::sys::mem::pagemap(at, pages)?;
    Ok(words.iter().filter(|word| *word >> 63 == 1).count())
}

fn folio_shared_by_the_files() -> Outcome {
    only_here()?;
    check_eq!(chosen("shmem_enabled")?, "never");
    check_eq!(chosen("hugepages-2048kB/shmem_enabled")?, "inherit");
    check_eq!(chosen("hugepages-64kB/shmem_enabled")?, "never");
    let at = shared(PMD, -1)?;
    store(at, 1);
    check_eq!(mapped(at, 32)?, 1);
    munmap(at, PMD)?;
    with_shared(64, || {
        let before = stat(64, "shmem_alloc")?;
        let at = shared(PMD, -1)?;
        store(at + 5 * PAGE, 7);
        check_eq!(
            (mapped(at, 32)?, stat(64, "shmem_alloc")? - before),
            (16, 1)
        );
        let status = in_child(|| {
            let saw = load(at + 5 * PAGE) == 7 && mapped(at, 32)? == 16;
            store(at + 6 * PAGE, 8);
            Ok(i32::from(saw))
        })?;
        check_eq!(status, Status::Exited(1));
        check_eq!(load(at + 6 * PAGE), 8);
        Ok(munmap(at, PMD)?)
    })
}

fn folio_shared_hole() -> Outcome {
    with_shared(64, || {
        let at = shared(PMD, -1)?;
        fill(at, PMD);
        let splits = stat(64, "split")?;
        madvise(at + 3 * PAGE, 20 * PAGE, libc::MADV_REMOVE)?;
        check_eq!(stat(64, "split")?, splits + 2);
        let gone = |page: usize| (at + 3 * PAGE..at + 23 * PAGE).contains(&page);
        let left = |page| if gone(page) { 0 } else { value(page) };
        check_eq!(wrong(at, PMD, left), 0);
        Ok(munmap(at, PMD)?)
    })
}

fn folio_shared_end() -> Outcome {
    with_shared(64, || {
        let fd = file::memfd(0)?;
        let resize = |len: usize| file::ftruncate(fd, len as i64);
        resize(PMD)?;
        let at = shared(PMD, fd)?;
        fill(at, PMD);
        resize(37 * PAGE)?;
        check_eq!(wrong(at, 37 * PAGE, value), 0);
        resize(PMD)?;
        let left = |page: usize| {
            if page < at + 37 * PAGE {
                value(page)
            } else {
                0
            }
        };
        check_eq!(wrong(at, PMD, left), 0);
        call(libc::SYS_close, [fd as usize, 0, 0, 0, 0, 0])?;
        Ok(munmap(at, PMD)?)
    })
}

fn folio_shared_leaf() -> Outcome {
    with_shared(2048, || {
        let at = shared(2 * PMD, -1)?;
        let leaves = || userland::counters::figure("/proc/meminfo", "ShmemPmdMapped");
        let before = leaves()?;
        fill(at, 2 * PMD);
        check_eq!(leaves()? - before, 4096);
        mprotect(at, PAGE, libc::PROT_READ)?;
        check_eq!((leaves()? - before, mapped(at, 512)?), (2048, 512));
        madvise(at + PMD + 9 * PAGE, 3 * PAGE, libc::MADV_REMOVE)?;
        check_eq!(leaves()? - before, 0);
        let hole = at + PMD + 9 * PAGE..at + PMD + 12 * PAGE;
        let left = |page| if hole.contains(&page) { 0 } else { value(page) };
        check_eq!(wrong(at, 2 * PMD, left), 0);
        check!(mapped(at + PMD, 512)? == 512);
        Ok(munmap(at, 2 * PMD)?)
    })
}
