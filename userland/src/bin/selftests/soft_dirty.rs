//! Soft-dirty: /proc/PID/clear_refs and bit 55 of pagemap, soft-dirty.rst.
use std::fs;
use userland::counters::smaps_of;
use userland::harness::{Outcome, Stop, in_child};
use userland::sys::mem::{
    ANON, PAGE, RW, anon, load, madvise, mmap, mprotect, mremap, munmap, pagemap, store,
};
use userland::sys::proc::Status;
use userland::sys::{Errno, call, file};
use userland::{check, check_eq};

userland::tests![
    soft_dirty_by_the_page,
    soft_dirty_of_the_kernels_writes,
    soft_dirty_of_new_memory,
    soft_dirty_after_protect,
    soft_dirty_after_move,
    soft_dirty_after_fork,
    soft_dirty_of_shared_memory,
    soft_dirty_in_folios,
    soft_dirty_vm_flag,
    clear_refs_refuses,
    clear_refs_clears_referenced,
];

const BIT: u64 = 55;

/// Which of the pages count as written.
fn written(at: usize, pages: usize) -> Result<Vec<usize>, Stop> {
    let entries = pagemap(at, pages)?;
    Ok((0..pages).filter(|n| entries[*n] >> BIT & 1 == 1).collect())
}

fn clear() -> Outcome {
    Ok(fs::write("/proc/self/clear_refs", "4")?)
}

/// Skips where the kernel does not track: what is new would count as written.
fn need_soft_dirty() -> Outcome {
    let at = anon(1)?;
    store(at, 1);
    match written(at, 1)?.is_empty() {
        true => Err(Stop::Skip("no soft-dirty bits here".into())),
        false => Ok(munmap(at, PAGE)?),
    }
}

/// `n` pages that were written, and cleared since. Apart from other mappings, with which they could
/// become one.
fn clean(n: usize) -> Result<usize, Stop> {
    need_soft_dirty()?;
    let at = mmap(0, (n + 2) * PAGE, libc::PROT_NONE, ANON, -1, 0)? + PAGE;
    mprotect(at, n * PAGE, RW)?;
    let _ = madvise(at, n * PAGE, libc::MADV_NOHUGEPAGE);
    (0..n).for_each(|page| store(at + page * PAGE, page as u64));
    clear()?;
    check_eq!(written(at, n)?, []);
    Ok(at)
}

fn soft_dirty_by_the_page() -> Outcome {
    let at = clean(16)?;
    check_eq!(load(at + 3 * PAGE), 3);
    check_eq!(written(at, 16)?, []);
    for page in [5, 0, 15] {
        store(at + page * PAGE, 100);
    }
    check_eq!(written(at, 16)?, [0, 5, 15]);
    check!((1..5).all(|page| load(at + page * PAGE) == page as u64));
    clear()?;
    check_eq!(written(at, 16)?, []);
    store(at + 5 * PAGE, 101);
    check_eq!(written(at, 16)?, [5]);
    Ok(())
}

fn soft_dirty_of_the_kernels_writes() -> Outcome {
    let at = clean(4)?;
    let (hear, tell) = file::pipe(0)?;
    file::write(tell, &[7; 16])?;
    call(
        libc::SYS_read,
        [hear as usize, at + 2 * PAGE - 8, 16, 0, 0, 0],
    )?;
    check_eq!(written(at, 4)?, [1, 2]);
    // Reading it is no write.
    call(libc::SYS_write, [tell as usize, at, 16, 0, 0, 0])?;
    check_eq!(written(at, 4)?, [1, 2]);
    Ok(())
}

fn soft_dirty_of_new_memory() -> Outcome {
    let at = clean(4)?;
    // The same place, but not the same memory.
    munmap(at + PAGE, PAGE)?;
    let flags = ANON | libc::MAP_FIXED;
    mmap(at + PAGE, PAGE, libc::PROT_READ, flags, -1, 0)?;
    check_eq!(written(at, 4)?, [1]);
    Ok(())
}

fn soft_dirty_after_protect() -> Outcome {
    let at = clean(8)?;
    store(at + PAGE, 1);
    for prot in [libc::PROT_READ, libc::PROT_NONE, RW] {
        mprotect(at, 8 * PAGE, prot)?;
        check_eq!(written(at, 8)?, [1]);
    }
    store(at + 6 * PAGE, 1);
    check_eq!(written(at, 8)?, [1, 6]);
    Ok(())
}

fn soft_dirty_after_move() -> Outcome {
    let at = clean(8)?;
    let to = mmap(0, 6 * PAGE, libc::PROT_NONE, ANON, -1, 0)? + PAGE;
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    mremap(at + 2 * PAGE, 4 * PAGE, 4 * PAGE, flags, to)?;
    check_eq!(written(to, 4)?, [0, 1, 2, 3]);
    check!((0..4).all(|page| load(to + page * PAGE) == page as u64 + 2));
    check_eq!(written(at, 2)?, []);
    clear()?;
    check_eq!(written(to, 4)?, []);
    store(to, 1);
    check_eq!(written(to, 4)?, [0]);
    Ok(())
}

fn soft_dirty_after_fork() -> Outcome {
    let at = clean(8)?;
    store(at + PAGE, 1);
    let status = in_child(|| {
        check_eq!(written(at, 8)?, [1]);
        store(at + 2 * PAGE, 1);
        check_eq!(written(at, 8)?, [1, 2]);
        clear()?;
        store(at + 3 * PAGE, 1);
        check_eq!(written(at, 8)?, [3]);
        Ok(1)
    })?;
    check_eq!(status, Status::Exited(1));
    // The child's are its own.
    check_eq!(written(at, 8)?, [1]);
    store(at + 4 * PAGE, 1);
    check_eq!(written(at, 8)?, [1, 4]);
    Ok(())
}

fn soft_dirty_of_shared_memory() -> Outcome {
    need_soft_dirty()?;
    let at = mmap(
        0,
        8 * PAGE,
        RW,
        libc::MAP_SHARED | libc::MAP_ANONYMOUS,
        -1,
        0,
    )?;
    store(at, 1);
    clear()?;
    check_eq!(load(at + PAGE), 0);
    check_eq!(written(at, 8)?, []);
    // What another writes is not ours.
    check_eq!(
        in_child(|| {
            store(at + PAGE, 5);
            Ok(0)
        })?,
        Status::Exited(0)
    );
    check_eq!((written(at, 8)?, load(at + PAGE)), (vec![], 5));
    store(at + PAGE, 6);
    store(at, 6);
    check_eq!(written(at, 8)?, [0, 1]);
    Ok(())
}

fn soft_dirty_in_folios() -> Outcome {
    need_soft_dirty()?;
    const PMD: usize = 2 << 20;
    let at = mmap(0, 2 * PMD, RW, ANON, -1, 0)?.next_multiple_of(PMD);
    let _ = madvise(at, PMD, libc::MADV_HUGEPAGE);
    (at..at + PMD).step_by(PAGE).for_each(|page| store(page, 1));
    // By pages, if it was by a PMD entry: that has one bit for all of them.
    mprotect(at + PAGE, PAGE, libc::PROT_READ)?;
    mprotect(at + PAGE, PAGE, RW)?;
    clear()?;
    check_eq!(written(at, 512)?, []);
    for page in [0, 17, 18, 500] {
        store(at + page * PAGE, 2);
    }
    check_eq!(written(at, 512)?, [0, 17, 18, 500]);
    let status = in_child(|| {
        store(at + 100 * PAGE, 3);
        check_eq!(written(at, 512)?, [0, 17, 18, 100, 500]);
        Ok(1)
    })?;
    check_eq!(status, Status::Exited(1));
    store(at + 200 * PAGE, 3);
    check_eq!(written(at, 512)?, [0, 17, 18, 200, 500]);
    Ok(())
}

fn soft_dirty_vm_flag() -> Outcome {
    let at = clean(4)?;
    let has_flag = |at: usize| -> Result<bool, Stop> {
        let text = fs::read_to_string("/proc/self/smaps")?;
        let entry = text
            .lines()
            .skip_while(|l| !l.starts_with(&format!("{at:08x}-")));
        let flags = entry.skip(1).find_map(|l| l.strip_prefix("VmFlags:"));
        let flags = flags.ok_or(Stop::Fail(format!("no flags of {at:x}")))?;
        Ok(flags.split_whitespace().any(|word| word == "sd"))
    };
    check_eq!(has_flag(at)?, false);
    let fresh = mmap(0, 3 * PAGE, libc::PROT_NONE, ANON, -1, 0)?;
    mprotect(fresh + PAGE, PAGE, RW)?;
    check_eq!(has_flag(fresh + PAGE)?, true);
    Ok(())
}

fn clear_refs_refuses() -> Outcome {
    for bad in ["0", "6", "x", "-1", "4 4"] {
        let got = fs::write("/proc/self/clear_refs", bad).map_err(Errno::from);
        check!(got == Err(Errno(libc::EINVAL)), "{bad}: {got:?}");
    }
    for good in ["1", "2\n", "3", "4\n", "5"] {
        fs::write("/proc/self/clear_refs", good)?;
    }
    let got = fs::read("/proc/self/clear_refs").map_err(Errno::from);
    check!(got.is_err(), "it can be read");
    Ok(())
}

fn clear_refs_clears_referenced() -> Outcome {
    let at = mmap(0, 66 * PAGE, libc::PROT_NONE, ANON, -1, 0)? + PAGE;
    mprotect(at, 64 * PAGE, RW)?;
    let _ = madvise(at, 64 * PAGE, libc::MADV_NOHUGEPAGE);
    (0..64).for_each(|page| store(at + page * PAGE, 1));
    let referenced = || smaps_of(at).and_then(|entry| entry.get("Referenced").ok());
    check_eq!(referenced(), Some(256));
    fs::write("/proc/self/clear_refs", "3")?;
    check_eq!(referenced(), Some(256));
    fs::write("/proc/self/clear_refs", "1")?;
    check_eq!(referenced(), Some(0));
    store(at, 1);
    check!(referenced().is_some_and(|kb| kb <= 4), "{:?}", referenced());
    Ok(())
}
