//! PAGEMAP_SCAN of /proc/self/pagemap: ranges of pages by what they are.
use crate::areas::{put, room, since};
use userland::harness::{Outcome, Stop};
use userland::sys::mem::{MADV_GUARD_INSTALL, PAGE, RW, load, madvise, mmap, munmap, store};
use userland::sys::{Result, call, file};
use userland::{check_eq, check_err};

userland::tests![
    scan_finds_what_is_present,
    scan_ends_where_there_is_no_room,
    scan_ends_after_so_many_pages,
    scan_asks_for_categories,
    scan_of_guards_and_zeros,
    scan_of_files,
    scan_of_sparse_memory,
    scan_refuses_bad_arguments,
];

/// `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: usize = 0xc060_6610;

const WPALLOWED: u64 = 1 << 0;
const WRITTEN: u64 = 1 << 1;
const FILE: u64 = 1 << 2;
const PRESENT: u64 = 1 << 3;
const PFNZERO: u64 = 1 << 5;
const GUARD: u64 = 1 << 8;
/// All but soft-dirty, which not every kernel has.
const ALL: u64 = 0x1ff & !(1 << 7);

const WP_MATCHING: u64 = 1;
const CHECK_WPASYNC: u64 = 2;

/// `struct pm_scan_arg`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    inverted: u64,
    all_of: u64,
    any_of: u64,
    shown: u64,
}

/// A scan of so many pages of a room that shows everything.
fn of(room: usize, pages: usize) -> Scan {
    Scan {
        size: size_of::<Scan>() as u64,
        start: room as u64,
        end: (room + pages * PAGE) as u64,
        shown: ALL,
        ..Scan::default()
    }
}

fn ask(scan: &mut Scan) -> Result<usize> {
    let fd = file::open("/proc/self/pagemap", libc::O_RDONLY, 0)?;
    let argument = scan as *mut Scan as usize;
    let result = call(
        libc::SYS_ioctl,
        [fd as usize, PAGEMAP_SCAN, argument, 0, 0, 0],
    );
    file::close(fd)?;
    result
}

/// First page, end, categories.
type Region = (u64, u64, u64);

/// The regions found, with room for so many, and the page where the scan ended.
fn scan(mut scan: Scan, room: usize) -> Result<(Vec<Region>, u64)> {
    let mut regions = vec![[0u64; 3]; room.max(1)];
    scan.vec = regions.as_mut_ptr() as u64;
    scan.vec_len = room as u64;
    let found = ask(&mut scan)?;
    let page = |at: u64| (at - scan.start) / PAGE as u64;
    let regions = regions[..found].iter();
    let regions = regions.map(|[start, end, what]| (page(*start), page(*end), *what));
    Ok((regions.collect(), page(scan.walk_end)))
}

/// A room of 16 pages in one table: all but 10 and 11 are mapped, and 1, 2, 5 and 13 are present,
/// with any setting of THP. Skips the test before Linux 6.7.
fn begin() -> std::result::Result<usize, Stop> {
    since(6, 7)?;
    let at = room(16)?;
    put(at, 0, 16, RW)?;
    // A kernel without THP refuses this: its pages are small anyway.
    let _ = madvise(at, 16 * PAGE, libc::MADV_NOHUGEPAGE);
    for n in [1, 2, 5, 13] {
        store(at + n * PAGE, 1);
    }
    munmap(at + 10 * PAGE, 2 * PAGE)?;
    Ok(at)
}

fn scan_finds_what_is_present() -> Outcome {
    let at = begin()?;
    let there = PRESENT | WRITTEN;
    let all = [(1, 3, there), (5, 6, there), (13, 14, there)];
    let present = Scan {
        all_of: PRESENT,
        ..of(at, 16)
    };
    check_eq!(scan(present, 32)?, (all.to_vec(), 16));
    // From and to the middle of what is there.
    let part = Scan {
        start: (at + 2 * PAGE) as u64,
        end: (at + 5 * PAGE + 1) as u64,
        ..present
    };
    let expected = vec![(0, 1, there), (3, 4, there)];
    check_eq!(scan(part, 32)?, (expected, 4));
    Ok(())
}

fn scan_ends_where_there_is_no_room() -> Outcome {
    let at = begin()?;
    let there = PRESENT | WRITTEN;
    let present = Scan {
        all_of: PRESENT,
        ..of(at, 16)
    };
    check_eq!(scan(present, 1)?, (vec![(1, 3, there)], 5));
    check_eq!(scan(present, 2)?.1, 13);
    check_eq!(scan(present, 3)?.1, 16);
    // Without room for any the pages are only walked.
    check_eq!(scan(present, 0)?, (vec![], 16));
    Ok(())
}

fn scan_ends_after_so_many_pages() -> Outcome {
    let at = begin()?;
    let there = PRESENT | WRITTEN;
    let most = |max_pages| Scan {
        all_of: PRESENT,
        max_pages,
        ..of(at, 16)
    };
    check_eq!(scan(most(1), 32)?, (vec![(1, 2, there)], 2));
    check_eq!(scan(most(2), 32)?, (vec![(1, 3, there)], 5));
    check_eq!(scan(most(3), 32)?.1, 13);
    check_eq!(scan(most(4), 32)?.1, 16);
    check_eq!(scan(most(9), 32)?.1, 16);
    check_eq!(scan(most(3), 1)?.1, 5);
    Ok(())
}

fn scan_asks_for_categories() -> Outcome {
    let at = begin()?;
    let there = PRESENT | WRITTEN;
    let absent = Scan {
        all_of: PRESENT,
        inverted: PRESENT,
        shown: PRESENT,
        ..of(at, 16)
    };
    let expected = vec![(0, 1, 0), (3, 5, 0), (6, 10, 0), (12, 13, 0), (14, 16, 0)];
    check_eq!(scan(absent, 32)?.0, expected);
    let any = Scan {
        any_of: PRESENT | FILE,
        ..of(at, 16)
    };
    check_eq!(scan(any, 32)?.0.len(), 3);
    let both = Scan {
        all_of: PRESENT | FILE,
        ..of(at, 16)
    };
    check_eq!(scan(both, 32)?.0, []);
    let none = Scan {
        all_of: WPALLOWED,
        ..of(at, 16)
    };
    check_eq!(scan(none, 32)?, (vec![], 16));
    // What is shown decides what is one region.
    let written = Scan {
        all_of: WRITTEN,
        shown: WRITTEN,
        ..of(at, 16)
    };
    check_eq!(scan(written, 32)?.0, [(0, 10, WRITTEN), (12, 16, WRITTEN)]);
    check_eq!(scan(of(at + PAGE, 2), 32)?.0, [(0, 2, there)]);
    Ok(())
}

fn scan_of_guards_and_zeros() -> Outcome {
    let at = begin()?;
    since(6, 16)?;
    load(at + 7 * PAGE);
    madvise(at + 8 * PAGE, PAGE, MADV_GUARD_INSTALL)?;
    let wanted = |all_of| Scan {
        all_of,
        shown: GUARD | PFNZERO | PRESENT,
        ..of(at, 16)
    };
    check_eq!(scan(wanted(GUARD), 32)?.0, [(8, 9, GUARD)]);
    check_eq!(scan(wanted(PFNZERO), 32)?.0, [(7, 8, PFNZERO | PRESENT)]);
    Ok(())
}

fn scan_of_files() -> Outcome {
    begin()?;
    let fd = file::open("scanned", libc::O_RDWR | libc::O_CREAT, 0o600)?;
    file::write_all(fd, &[1; 4 * PAGE])?;
    let at = mmap(0, 4 * PAGE, RW, libc::MAP_PRIVATE, fd, 0)?;
    store(at, 2);
    load(at + 2 * PAGE);
    let there = Scan {
        all_of: PRESENT,
        shown: FILE | PRESENT,
        ..of(at, 3)
    };
    let (regions, _) = scan(there, 32)?;
    check_eq!(regions.first(), Some(&(0, 1, PRESENT)));
    check_eq!(
        regions.last().map(|r| (r.1, r.2)),
        Some((3, FILE | PRESENT))
    );
    Ok(())
}

fn scan_of_sparse_memory() -> Outcome {
    begin()?;
    const PAGES: usize = 1 << 24;
    let flags = userland::sys::mem::ANON | libc::MAP_NORESERVE;
    let at = mmap(0, PAGES * PAGE, RW, flags, -1, 0)?;
    let near = [3, PAGES / 2, PAGES - 1];
    near.iter().for_each(|n| store(at + n * PAGE, 1));
    let present = Scan {
        all_of: PRESENT,
        shown: PRESENT,
        ..of(at, PAGES)
    };
    let (regions, end) = scan(present, 4)?;
    // A Linux with huge pages may have more there.
    let found = |n: &usize| regions.iter().any(|r| (r.0..r.1).contains(&(*n as u64)));
    check_eq!(near.iter().filter(|n| found(n)).count(), 3);
    check_eq!((regions.len(), end), (3, PAGES as u64));
    Ok(())
}

fn scan_refuses_bad_arguments() -> Outcome {
    let at = begin()?;
    let good = of(at, 16);
    check_eq!(ask(&mut { good })?, 0);
    check_err!(ask(&mut Scan { size: 90, ..good }), EINVAL);
    check_err!(ask(&mut Scan { flags: 4, ..good }), EINVAL);
    check_err!(
        ask(&mut Scan {
            start: good.start + 1,
            ..good
        }),
        EINVAL
    );
    check_err!(ask(&mut Scan { vec_len: 4, ..good }), EINVAL);
    for mask in [1 << 20, 1 << 63] {
        check_err!(
            ask(&mut Scan {
                all_of: mask,
                ..good
            }),
            EINVAL
        );
        check_err!(
            ask(&mut Scan {
                shown: mask,
                ..good
            }),
            EINVAL
        );
        check_err!(
            ask(&mut Scan {
                inverted: mask,
                ..good
            }),
            EINVAL
        );
    }
    check_err!(
        ask(&mut Scan {
            end: good.start - 1,
            ..good
        }),
        EFAULT
    );
    check_err!(
        ask(&mut Scan {
            end: u64::MAX,
            ..good
        }),
        EFAULT
    );
    check_eq!(
        ask(&mut Scan {
            end: good.start,
            ..good
        })?,
        0
    );
    // Nothing here is write-protected by userfaultfd.
    check_err!(
        ask(&mut Scan {
            flags: CHECK_WPASYNC,
            ..good
        }),
        EPERM
    );
    check_eq!(
        ask(&mut Scan {
            flags: WP_MATCHING,
            ..good
        })?,
        0
    );
    let bad = Scan {
        vec: PAGE as u64,
        vec_len: 4,
        ..good
    };
    check_err!(ask(&mut { bad }), EFAULT);
    Ok(())
}

/// Which of the pages, all of them protected asynchronously by userfaultfd, were written; with
/// `protect` they are protected again.
pub fn written(at: usize, pages: usize, protect: bool) -> std::result::Result<Vec<u64>, Stop> {
    let flags = CHECK_WPASYNC | if protect { WP_MATCHING } else { 0 };
    let wanted = Scan {
        flags,
        all_of: WRITTEN,
        ..of(at, pages)
    };
    let (found, end) = scan(wanted, pages)?;
    check_eq!(end, pages as u64);
    Ok(found.iter().flat_map(|it| it.0..it.1).collect())
}

/// Protects pages of `pages` that were written, `most` at most; returns how many, and where the
/// scan ended.
pub fn protect_some(at: usize, pages: usize, most: usize) -> Result<(u64, u64)> {
    let wanted = Scan {
        flags: WP_MATCHING,
        all_of: WRITTEN,
        max_pages: most as u64,
        ..of(at, pages)
    };
    let (found, end) = scan(wanted, pages)?;
    Ok((found.iter().map(|it| it.1 - it.0).sum(), end))
}
