//! mmap and munmap: what they give, where, and what they refuse.
use userland::harness::{Outcome, Stop, need};
use userland::sys::fault::{self, Trap};
use userland::sys::mem::{ANON, PAGE, RW, anon, load, mmap, mprotect, munmap, store};
use userland::{check, check_eq, check_err, counters};

userland::tests![
    map_reads_zero,
    map_keeps_a_free_hint,
    map_refuses_bad_arguments,
    map_bad_descriptor_first,
    map_refuses_too_much,
    map_fixed_replaces,
    map_fixed_noreplace,
    map_rights_are_kept,
    map_hole_is_maperr,
    map_kernel_addresses,
    map_null_page,
    map_neighbours_become_one,
    map_a_thousand_pieces,
    map_large_and_sparse,
    unmap_middle,
    unmap_refuses_bad_arguments,
    unmap_hole_is_fine,
    unmap_forgets,
];

/// The trap of touching `at`, or a failure.
fn trap<T>(result: fault::Probe<T>) -> Result<Trap, Stop> {
    result.map_or_else(Ok, |_| Err(Stop::Fail("the access did not trap".into())))
}

fn map_reads_zero() -> Outcome {
    let at = anon(16)?;
    for n in 0..16 * PAGE / 8 {
        check_eq!(load(at + n * 8), 0);
    }
    for n in 0..16 {
        store(at + n * PAGE + 8, n as u64 + 1);
    }
    for n in 0..16 {
        check_eq!(load(at + n * PAGE + 8), n as u64 + 1);
        check_eq!(load(at + n * PAGE), 0);
    }
    Ok(munmap(at, 16 * PAGE)?)
}

fn map_keeps_a_free_hint() -> Outcome {
    let at = anon(8)?;
    munmap(at, 8 * PAGE)?;
    check_eq!(mmap(at, PAGE, RW, ANON, -1, 0)?, at);
    // An occupied hint is only a hint.
    let other = mmap(at, PAGE, RW, ANON, -1, 0)?;
    check!(other != at && other % PAGE == 0);
    Ok(())
}

fn map_refuses_bad_arguments() -> Outcome {
    let at = anon(1)?;
    check_err!(mmap(0, 0, RW, ANON, -1, 0), EINVAL);
    check_err!(mmap(0, PAGE, RW, libc::MAP_ANONYMOUS, -1, 0), EINVAL);
    check_err!(
        mmap(at + 1, PAGE, RW, ANON | libc::MAP_FIXED, -1, 0),
        EINVAL
    );
    check_err!(mmap(0, PAGE, RW, libc::MAP_PRIVATE, -1, 0), EBADF);
    check_err!(mmap(0, PAGE, RW, libc::MAP_PRIVATE, 0, 1), EINVAL);
    let dir = userland::sys::file::open(".", libc::O_RDONLY, 0)?;
    check_err!(
        mmap(0, PAGE, libc::PROT_READ, libc::MAP_PRIVATE, dir, 0),
        ENODEV
    );
    Ok(())
}

fn map_refuses_too_much() -> Outcome {
    check_err!(mmap(0, usize::MAX & !(PAGE - 1), RW, ANON, -1, 0), ENOMEM);
    check_err!(mmap(0, 1 << 60, RW, ANON, -1, 0), ENOMEM);
    // The length that wraps to nothing when it is rounded up.
    check_err!(mmap(0, usize::MAX, RW, ANON, -1, 0), ENOMEM);
    check_err!(
        mmap(1 << 60, PAGE, RW, ANON | libc::MAP_FIXED, -1, 0),
        ENOMEM
    );
    Ok(())
}

fn map_fixed_replaces() -> Outcome {
    let at = anon(4)?;
    (0..4).for_each(|n| store(at + n * PAGE, 7));
    check_eq!(
        mmap(at + PAGE, 2 * PAGE, RW, ANON | libc::MAP_FIXED, -1, 0)?,
        at + PAGE
    );
    check_eq!([0, 1, 2, 3].map(|n| load(at + n * PAGE)), [7, 0, 0, 7]);
    Ok(())
}

fn map_fixed_noreplace() -> Outcome {
    let at = anon(4)?;
    store(at, 7);
    let flags = ANON | libc::MAP_FIXED_NOREPLACE;
    check_err!(mmap(at + 3 * PAGE, 2 * PAGE, RW, flags, -1, 0), EEXIST);
    check_err!(mmap(at, PAGE, RW, flags, -1, 0), EEXIST);
    check_eq!(load(at), 7);
    munmap(at + PAGE, PAGE)?;
    check_eq!(mmap(at + PAGE, PAGE, RW, flags, -1, 0)?, at + PAGE);
    Ok(())
}

fn map_rights_are_kept() -> Outcome {
    fault::arm();
    let at = mmap(0, 3 * PAGE, libc::PROT_NONE, ANON, -1, 0)?;
    let denied = |addr| Trap {
        signal: libc::SIGSEGV,
        code: 2,
        addr,
    };
    check_eq!(trap(fault::read(at + 5))?, denied(at + 5));
    check_eq!(trap(fault::write(at + 6, 1))?, denied(at + 6));
    mprotect(at, PAGE, libc::PROT_READ)?;
    check_eq!(fault::read(at)?, 0);
    check_eq!(trap(fault::write(at, 1))?, denied(at));
    mprotect(at + PAGE, PAGE, RW)?;
    fault::write(at + PAGE, 9)?;
    check_eq!(trap(fault::execute(at + PAGE))?, denied(at + PAGE));
    Ok(())
}

fn map_hole_is_maperr() -> Outcome {
    fault::arm();
    let at = anon(3)?;
    munmap(at + PAGE, PAGE)?;
    let nothing = |addr| Trap {
        signal: libc::SIGSEGV,
        code: 1,
        addr,
    };
    check_eq!(
        trap(fault::read(at + PAGE + 123))?,
        nothing(at + PAGE + 123)
    );
    check_eq!(trap(fault::write(at + PAGE, 1))?, nothing(at + PAGE));
    check_eq!(trap(fault::execute(at + PAGE + 8))?, nothing(at + PAGE + 8));
    fault::write(at + 2 * PAGE, 1)?;
    Ok(())
}

fn map_kernel_addresses() -> Outcome {
    fault::arm();
    for at in [
        0xffff_8000_0000_0000usize,
        0xffff_ffff_8020_0000,
        0xffff_c000_0000_0000,
        usize::MAX,
    ] {
        check_eq!(trap(fault::read(at))?.signal, libc::SIGSEGV);
        check_eq!(trap(fault::write(at, 0))?.signal, libc::SIGSEGV);
        check_eq!(trap(fault::execute(at & !3))?.signal, libc::SIGSEGV);
    }
    // Addresses no machine of ours has: between the halves.
    for at in [
        0x0008_0000_0000_0000usize,
        0x8000_0000_0000_0000,
        0xfff0_0000_0000_0000,
    ] {
        let signal = trap(fault::read(at))?.signal;
        check!(
            signal == libc::SIGSEGV || signal == libc::SIGBUS,
            "{at:#x}: signal {signal}"
        );
        let signal = trap(fault::execute(at))?.signal;
        check!(
            signal == libc::SIGSEGV || signal == libc::SIGBUS,
            "{at:#x}: signal {signal}"
        );
    }
    Ok(())
}

fn map_null_page() -> Outcome {
    fault::arm();
    let nothing = |addr| Trap {
        signal: libc::SIGSEGV,
        code: 1,
        addr,
    };
    check_eq!(trap(fault::read(0))?, nothing(0));
    check_eq!(trap(fault::write(8, 0))?, nothing(8));
    check_eq!(trap(fault::execute(0))?, nothing(0));
    Ok(())
}

fn map_neighbours_become_one() -> Outcome {
    let at = mmap(0, 6 * PAGE, libc::PROT_NONE, ANON, -1, 0)?;
    mprotect(at + PAGE, 4 * PAGE, RW)?;
    munmap(at + 2 * PAGE, 2 * PAGE)?;
    mmap(at + 2 * PAGE, 2 * PAGE, RW, ANON | libc::MAP_FIXED, -1, 0)?;
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let line = format!("{:08x}-{:08x} rw-p", at + PAGE, at + 5 * PAGE);
    check!(
        maps.lines().any(|l| l.starts_with(&line)),
        "no line {line} in\n{maps}"
    );
    Ok(())
}

fn map_a_thousand_pieces() -> Outcome {
    let at = anon(2000)?;
    let count = || std::fs::read_to_string("/proc/self/maps").map(|m| m.lines().count());
    let stripes = || {
        (0..2000)
            .step_by(2)
            .try_for_each(|n| mprotect(at + n * PAGE, PAGE, libc::PROT_READ))
    };
    stripes()?;
    let many = count()?;
    check!(many >= 2000, "{many} mappings");
    // Neighbours that are the same again become one.
    mprotect(at, 2000 * PAGE, RW)?;
    check!(count()? < 200);
    stripes()?;
    for n in (1..2000).step_by(2) {
        store(at + n * PAGE, n as u64);
    }
    mprotect(at, 2000 * PAGE, RW)?;
    check!((0..2000).all(|n| load(at + n * PAGE) == if n % 2 == 1 { n as u64 } else { 0 }));
    Ok(munmap(at, 2000 * PAGE)?)
}

fn map_large_and_sparse() -> Outcome {
    // 64 GiB of addresses, eight pages of memory.
    let len = 64usize << 30;
    let at = mmap(0, len, RW, ANON | libc::MAP_NORESERVE, -1, 0)?;
    let spots = (0..8).map(|n| at + n * (len / 8));
    spots.clone().for_each(|a| store(a, a as u64));
    check!(spots.clone().all(|a| load(a) == a as u64));
    let entry = counters::smaps_of(at).ok_or(Stop::Fail("not in smaps".into()))?;
    // A Linux with huge pages may spend 2 MiB on each.
    let rss = entry.get("Rss")?;
    check!(rss <= 8 * 2048, "Rss is {rss}");
    Ok(munmap(at, len)?)
}

fn unmap_middle() -> Outcome {
    fault::arm();
    let at = anon(5)?;
    (0..5).for_each(|n| store(at + n * PAGE, n as u64 + 1));
    munmap(at + PAGE, 3 * PAGE)?;
    check_eq!(load(at), 1);
    check_eq!(load(at + 4 * PAGE), 5);
    for n in 1..4 {
        check_eq!(trap(fault::read(at + n * PAGE))?.code, 1);
    }
    Ok(())
}

fn unmap_refuses_bad_arguments() -> Outcome {
    let at = anon(2)?;
    check_err!(munmap(at + 1, PAGE), EINVAL);
    check_err!(munmap(at, 0), EINVAL);
    check_err!(munmap(at, usize::MAX), EINVAL);
    check_err!(munmap(usize::MAX & !(PAGE - 1), PAGE), EINVAL);
    check_eq!(load(at), 0);
    Ok(())
}

fn unmap_hole_is_fine() -> Outcome {
    let at = anon(4)?;
    munmap(at, 4 * PAGE)?;
    Ok(munmap(at, 4 * PAGE)?)
}

fn unmap_forgets() -> Outcome {
    let at = anon(1)?;
    for round in 1..=50 {
        store(at, round);
        munmap(at, PAGE)?;
        let again = need(
            mmap(at, PAGE, RW, ANON | libc::MAP_FIXED, -1, 0),
            "MAP_FIXED",
        )?;
        check_eq!(load(again), 0);
    }
    Ok(())
}

fn map_bad_descriptor_first() -> Outcome {
    use userland::sys::file;
    let (private, fixed) = (libc::MAP_PRIVATE, libc::MAP_FIXED);
    // Whatever else is wrong, but for the offset.
    for (addr, len, flags) in [
        (0, PAGE, private),
        (0, 0, private),
        (0, usize::MAX, private),
        (1, PAGE, private | fixed),
        (0, PAGE, 0),
        (0, PAGE, libc::MAP_SHARED_VALIDATE | 1 << 26),
    ] {
        check_err!(mmap(addr, len, RW, flags, 99, 0), EBADF);
    }
    check_err!(mmap(0, PAGE, RW, private, 99, 1), EINVAL);
    let place = file::open(".", libc::O_PATH, 0)?;
    check_err!(mmap(0, 0, RW, private, place, 0), EBADF);
    // Then lengths and kinds of mapping, then what the file may.
    let dir = file::open(".", libc::O_RDONLY, 0)?;
    check_err!(mmap(0, 0, RW, private, dir, 0), EINVAL);
    check_err!(mmap(0, PAGE, RW, 0, dir, 0), EINVAL);
    check_err!(mmap(0, PAGE, RW, private, dir, 0), ENODEV);
    let (hear, _) = file::pipe(0)?;
    check_err!(mmap(0, PAGE, RW, libc::MAP_SHARED, hear, 0), EACCES);
    check_err!(mmap(0, PAGE, RW, private, hear, 0), ENODEV);
    // The descriptor is not looked at.
    munmap(mmap(0, PAGE, RW, ANON, 99, 0)?, PAGE)?;
    Ok(())
}
