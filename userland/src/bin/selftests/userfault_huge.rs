//! userfaultfd(2) of huge pages (hugetlb).
use crate::hugetlb::{HUGE, Pool, SHARED_HUGE, SIZE, left, map};
use crate::userfault::{
    CONTINUE, COPY, MISSING, Monitor, POISON, WP, WRITEPROTECT, ZEROPAGE, byte_of, is_protected,
};
use userland::harness::{Outcome, in_child};
use userland::sys::mem::{PAGE, load, madvise, munmap, store};
use userland::sys::{Result, fault, file, proc};
use userland::{check, check_eq, check_err};

userland::tests![
    userfault_huge_pages_are_filled,
    userfault_huge_pages_keep_from_writing,
    userfault_huge_pages_are_poisoned,
    userfault_huge_pages_are_whole,
];

const HUGETLBFS: u64 = 1 << 4;
const WP_HUGETLBFS: u64 = 1 << 12;
const FEATURE_POISON: u64 = 1 << 14;
const WP_ASYNC: u64 = 1 << 15;

/// The ioctls of what is not a huge page, by the numbers of their bits.
const ZEROPAGE_BIT: u64 = 1 << 4;
const MOVE_BIT: u64 = 1 << 5;

/// How many small pages huge ones are.
fn pages(huge: usize) -> usize {
    huge * SIZE / PAGE
}

/// Copies a huge page of this byte; how many bytes were copied.
fn copy(monitor: Monitor, at: usize, byte: u8) -> Result<u64> {
    let page = vec![byte; SIZE];
    let mut words = [at as u64, page.as_ptr() as u64, SIZE as u64, 0, 0];
    monitor.ioctl(COPY, &mut words)?;
    Ok(words[4])
}

fn userfault_huge_pages_are_filled() -> Outcome {
    for flags in [HUGE, SHARED_HUGE] {
        let _pool = Pool::of(2)?;
        let monitor = Monitor::new(HUGETLBFS)?;
        let at = map(2, flags)?;
        let ioctls = monitor.register(at, pages(2), MISSING)?;
        check_eq!(ioctls & (ZEROPAGE_BIT | MOVE_BIT), 0);
        let seen = monitor.serve(
            || load(at + PAGE + 8),
            |(_, page, _)| {
                check_eq!(page, at);
                check_err!(copy(monitor, at + PAGE, 1), EINVAL);
                check_eq!(copy(monitor, at, 7)?, SIZE as u64);
                Ok(())
            },
        )?;
        check_eq!(seen, byte_of(7));
        check_eq!(load(at + SIZE - 8), byte_of(7));
        check_err!(copy(monitor, at, 8), EEXIST);
        check_err!(monitor.fill_bytes(ZEROPAGE, at + SIZE, SIZE), EINVAL);
        check_eq!(left()?, (1, 1));
        file::close(monitor.0)?;
        store(at + SIZE, 1);
        munmap(at, 2 * SIZE)?;
    }
    Ok(())
}

fn userfault_huge_pages_keep_from_writing() -> Outcome {
    for flags in [HUGE, SHARED_HUGE] {
        let _pool = Pool::of(2)?;
        let monitor = Monitor::new(WP_HUGETLBFS | WP_ASYNC)?;
        let at = map(2, flags)?;
        store(at, 1);
        monitor.register(at, pages(2), WP)?;
        monitor.protect(at, pages(2), 1)?;
        for n in [0, 1] {
            let page = at + n * SIZE;
            load(page + PAGE);
            check!(is_protected(page)? && is_protected(page + SIZE - PAGE)?);
            store(page + PAGE, 2);
            check!(!is_protected(page)?);
        }
        monitor.protect(at, pages(1), 1)?;
        madvise(at, SIZE, libc::MADV_DONTNEED)?;
        check!(is_protected(at + PAGE)?);
        let child = in_child(|| {
            check!(!is_protected(at)?);
            Ok(0)
        })?;
        check_eq!(child, proc::Status::Exited(0));
        file::close(monitor.0)?;
        check!(!is_protected(at)?);
        munmap(at, 2 * SIZE)?;
    }
    Ok(())
}

fn userfault_huge_pages_are_poisoned() -> Outcome {
    let _pool = Pool::of(1)?;
    let monitor = Monitor::new(HUGETLBFS | FEATURE_POISON)?;
    let at = map(1, HUGE)?;
    monitor.register(at, pages(1), MISSING)?;
    check_eq!(monitor.fill_bytes(POISON, at, SIZE)?, SIZE as u64);
    for at in [at, at + SIZE - 1] {
        check!(fault::read(at).is_err_and(|trap| trap.signal == libc::SIGBUS));
    }
    file::close(monitor.0)?;
    munmap(at, SIZE)?;
    check_eq!(left()?, (1, 0));
    Ok(())
}

fn userfault_huge_pages_are_whole() -> Outcome {
    let _pool = Pool::of(1)?;
    let monitor = Monitor::new(WP_HUGETLBFS)?;
    let at = map(1, HUGE)?;
    check_err!(monitor.register(at, 1, WP), EINVAL);
    monitor.register(at, pages(1), WP)?;
    let mut part = [at as u64, PAGE as u64, 1];
    check_err!(monitor.ioctl(WRITEPROTECT, &mut part), EINVAL);
    let no_minor = monitor.fill_bytes(CONTINUE, at, SIZE);
    check!(no_minor.is_err());
    file::close(monitor.0)?;
    munmap(at, SIZE)?;
    Ok(())
}
