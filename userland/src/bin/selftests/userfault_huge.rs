//! userfaultfd(2) of huge pages (hugetlb).
use crate::hugetlb::{HUGE, Pool, SHARED_HUGE, of_each_size};
use crate::scan::protect_some;
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
    userfault_huge_pages_are_scanned_whole,
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

impl Pool {
    /// How many small pages huge ones are.
    fn pages(&self, huge: usize) -> usize {
        huge * self.size / PAGE
    }
}

/// Copies a huge page of this byte; how many bytes were copied.
fn copy(monitor: Monitor, at: usize, byte: u8, size: usize) -> Result<u64> {
    let page = vec![byte; size];
    let mut words = [at as u64, page.as_ptr() as u64, size as u64, 0, 0];
    monitor.ioctl(COPY, &mut words)?;
    Ok(words[4])
}

fn userfault_huge_pages_are_filled() -> Outcome {
    of_each_size(2, |pool| {
        let size = pool.size;
        for flags in [HUGE, SHARED_HUGE] {
            let monitor = Monitor::new(HUGETLBFS)?;
            let at = pool.map(2, flags)?;
            let ioctls = monitor.register(at, pool.pages(2), MISSING)?;
            check_eq!(ioctls & (ZEROPAGE_BIT | MOVE_BIT), 0);
            let seen = monitor.serve(
                || load(at + PAGE + 8),
                |(_, page, _)| {
                    check_eq!(page, at);
                    check_err!(copy(monitor, at + PAGE, 1, size), EINVAL);
                    check_eq!(copy(monitor, at, 7, size)?, size as u64);
                    Ok(())
                },
            )?;
            check_eq!(seen, byte_of(7));
            check_eq!(load(at + size - 8), byte_of(7));
            check_err!(copy(monitor, at, 8, size), EEXIST);
            check_err!(monitor.fill_bytes(ZEROPAGE, at + size, size), EINVAL);
            check_eq!(pool.left()?, (1, 1));
            file::close(monitor.0)?;
            store(at + size, 1);
            munmap(at, 2 * size)?;
        }
        Ok(())
    })
}

fn userfault_huge_pages_keep_from_writing() -> Outcome {
    of_each_size(2, |pool| {
        let size = pool.size;
        for flags in [HUGE, SHARED_HUGE] {
            let monitor = Monitor::new(WP_HUGETLBFS | WP_ASYNC)?;
            let at = pool.map(2, flags)?;
            store(at, 1);
            monitor.register(at, pool.pages(2), WP)?;
            monitor.protect(at, pool.pages(2), 1)?;
            for n in [0, 1] {
                let page = at + n * size;
                load(page + PAGE);
                check!(is_protected(page)? && is_protected(page + size - PAGE)?);
                store(page + PAGE, 2);
                check!(!is_protected(page)?);
            }
            monitor.protect(at, pool.pages(1), 1)?;
            madvise(at, size, libc::MADV_DONTNEED)?;
            check!(is_protected(at + PAGE)?);
            let child = in_child(|| {
                check!(!is_protected(at)?);
                Ok(0)
            })?;
            check_eq!(child, proc::Status::Exited(0));
            file::close(monitor.0)?;
            check!(!is_protected(at)?);
            munmap(at, 2 * size)?;
        }
        Ok(())
    })
}

/// PAGEMAP_SCAN protects no part of a page: not at the end of a scan, nor for `max_pages`.
fn userfault_huge_pages_are_scanned_whole() -> Outcome {
    of_each_size(2, |pool| {
        let monitor = Monitor::new(WP_HUGETLBFS | WP_ASYNC)?;
        let (at, one) = (pool.map(2, SHARED_HUGE)?, pool.pages(1));
        monitor.register(at, 2 * one, WP)?;
        store(at, 1);
        store(at + pool.size, 1);
        check_eq!(protect_some(at, one - 1, 0)?.0, 0);
        check!(!is_protected(at)? && !is_protected(at + pool.size - PAGE)?);
        let pages = one as u64;
        check_eq!(protect_some(at, 2 * one, one + 1)?.0, pages);
        check!(is_protected(at + PAGE)? && !is_protected(at + pool.size)?);
        check_eq!(protect_some(at, 2 * one, 0)?, (pages, 2 * pages));
        store(at + pool.size, 1);
        check_eq!(protect_some(at, 2 * one, 0)?, (pages, 2 * pages));
        file::close(monitor.0)?;
        munmap(at, 2 * pool.size)?;
        Ok(())
    })
}

fn userfault_huge_pages_are_poisoned() -> Outcome {
    of_each_size(1, |pool| {
        let size = pool.size;
        let monitor = Monitor::new(HUGETLBFS | FEATURE_POISON)?;
        let at = pool.map(1, HUGE)?;
        monitor.register(at, pool.pages(1), MISSING)?;
        check_eq!(monitor.fill_bytes(POISON, at, size)?, size as u64);
        for at in [at, at + size - 1] {
            check!(fault::read(at).is_err_and(|trap| trap.signal == libc::SIGBUS));
        }
        file::close(monitor.0)?;
        munmap(at, size)?;
        check_eq!(pool.left()?, (1, 0));
        Ok(())
    })
}

fn userfault_huge_pages_are_whole() -> Outcome {
    of_each_size(1, |pool| {
        let size = pool.size;
        let monitor = Monitor::new(WP_HUGETLBFS)?;
        let at = pool.map(1, HUGE)?;
        check_err!(monitor.register(at, 1, WP), EINVAL);
        monitor.register(at, pool.pages(1), WP)?;
        let mut part = [at as u64, PAGE as u64, 1];
        check_err!(monitor.ioctl(WRITEPROTECT, &mut part), EINVAL);
        let no_minor = monitor.fill_bytes(CONTINUE, at, size);
        check!(no_minor.is_err());
        file::close(monitor.0)?;
        munmap(at, size)?;
        Ok(())
    })
}
