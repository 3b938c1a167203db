//! mremap(2): every error, with nothing changed, and limits.
use crate::areas::{areas, put, room, since};
use crate::remap::{FIXED, KEEP, MAY, READ, number, numbered};
use userland::harness::{Outcome, in_child, skip};
use userland::sys::mem::{PAGE, RW, mlock, mremap};
use userland::sys::proc::{self, Status};
use userland::sys::{Errno, call};
use userland::{check, check_eq, check_err};

userland::tests![
    remap_several_are_not_resized,
    remap_errors_change_nothing,
    remap_sizes_out_of_all_bounds,
    remap_limit_of_address_space,
    remap_limit_of_locked,
];

fn remap_several_are_not_resized() -> Outcome {
    let at = room(32)?;
    put(at, 0, 2, RW)?;
    put(at, 2, 4, READ)?;
    let before = areas(at, 32)?;
    let to = at + 16 * PAGE;
    check_err!(mremap(at, 4 * PAGE, 5 * PAGE, FIXED, to), EFAULT);
    check_err!(mremap(at, 4 * PAGE, 5 * PAGE, MAY, 0), EFAULT);
    check_eq!(areas(at, 32)?, before);
    Ok(())
}

fn remap_errors_change_nothing() -> Outcome {
    let at = room(32)?;
    put(at, 0, 4, RW)?;
    put(at, 6, 8, RW)?;
    number(at, 4, 1);
    let (to, before) = (at + 16 * PAGE, areas(at, 32)?);
    let (one, two) = (PAGE, 2 * PAGE);
    let last = usize::MAX / 2 + 1 - 16 * PAGE;
    let inval = [
        (at + 1, one, two, MAY, 0),
        (at, one, 0, MAY, 0),
        (at, one, one, 8, 0),
        (at, one, one, MAY | 0x1000, 0),
        (at, one, one, libc::MREMAP_FIXED, to),
        (at, one, one, libc::MREMAP_DONTUNMAP, 0),
        (at, one, two, KEEP, 0),
        (at, two, one, KEEP | FIXED, to),
        (at, one, one, FIXED, to + 8),
        (at, one, one, FIXED, last),
        (at, two, two, FIXED, at + PAGE),
        (at + PAGE, two, two, FIXED, at),
        (at, 0, one, MAY, 0),
    ];
    for (old, old_len, new_len, flags, new) in inval {
        let got = mremap(old, old_len, new_len, flags, new);
        check!(
            got == Err(Errno(libc::EINVAL)),
            "{old_len:#x} {new_len:#x} {flags:#x} {new:#x}: {got:?}"
        );
    }
    let fault = [
        (at + 4 * PAGE, one, one, MAY, 0),
        (at + 4 * PAGE, one, two, FIXED, to),
        (at + 2 * PAGE, 3 * PAGE, 4 * PAGE, MAY, 0),
    ];
    for (old, old_len, new_len, flags, new) in fault {
        let got = mremap(old, old_len, new_len, flags, new);
        check!(
            got == Err(Errno(libc::EFAULT)),
            "{old_len:#x} {new_len:#x} {flags:#x}: {got:?}"
        );
    }
    check_err!(mremap(at, 4 * PAGE, 7 * PAGE, 0, 0), ENOMEM);
    check_err!(mremap(at, 2 * PAGE, 3 * PAGE, 0, 0), ENOMEM);
    check_eq!(areas(at, 32)?, before);
    check!(numbered(at, 4, 1));
    Ok(())
}

/// Lengths that no address space has; those that wrap are short ones.
fn remap_sizes_out_of_all_bounds() -> Outcome {
    since(6, 17)?;
    let at = room(16)?;
    put(at, 0, 4, RW)?;
    let before = areas(at, 16)?;
    let (most, huge) = (usize::MAX, 1 << 60);
    let cases = [
        (4 * PAGE, huge, 0, libc::EINVAL),
        (4 * PAGE, huge, MAY, libc::EINVAL),
        (4 * PAGE, huge, FIXED, libc::EINVAL),
        (4 * PAGE, most, MAY, libc::EINVAL),
        (4 * PAGE, 1 << 46, 0, libc::ENOMEM),
        (huge, PAGE, 0, libc::EINVAL),
        (huge, huge, 0, libc::EINVAL),
        (huge, PAGE, FIXED, libc::EINVAL),
        (most, PAGE, MAY, libc::EINVAL),
    ];
    for (old_len, new_len, flags, error) in cases {
        let got = mremap(at, old_len, new_len, flags, at + 8 * PAGE);
        check!(
            got == Err(Errno(error)),
            "{old_len:#x} {new_len:#x} {flags}: {got:?}"
        );
    }
    check_err!(mremap(at + 8 * PAGE, huge, PAGE, 0, 0), EFAULT);
    // Flags have 64 bits.
    let wide = call(libc::SYS_mremap, [at, PAGE, PAGE, 1 << 32, 0, 0]);
    check_err!(wide, EINVAL);
    check_eq!(areas(at, 16)?, before);
    Ok(())
}

fn remap_limit_of_address_space() -> Outcome {
    let at = room(600)?;
    put(at, 0, 100, RW)?;
    number(at, 100, 1);
    let hard = proc::getrlimit(libc::RLIMIT_AS)?.1;
    let to = at + 300 * PAGE;
    let status = in_child(|| {
        let statm = std::fs::read_to_string("/proc/self/statm")?;
        let pages: u64 = statm
            .split(' ')
            .next()
            .and_then(|n| n.parse().ok())
            .unwrap_or(0);
        proc::setrlimit(libc::RLIMIT_AS, (pages + 50) * PAGE as u64, hard)?;
        let results = [
            mremap(at, 100 * PAGE, 200 * PAGE, 0, 0),
            mremap(at, 100 * PAGE, 200 * PAGE, MAY, 0),
            mremap(at, 100 * PAGE, 200 * PAGE, FIXED, to),
            mremap(at, 100 * PAGE, 100 * PAGE, KEEP | FIXED, to),
        ];
        let refused = results.iter().all(|r| *r == Err(Errno(libc::ENOMEM)));
        let kept = numbered(at, 100, 1);
        // What moves needs no more, and a little more is allowed.
        let moved = mremap(at, 100 * PAGE, 100 * PAGE, FIXED, to) == Ok(to);
        let grown = mremap(to, 100 * PAGE, 120 * PAGE, 0, 0) == Ok(to);
        Ok((refused && kept && moved && grown && numbered(to, 100, 1)) as i32)
    })?;
    check_eq!(status, Status::Exited(1));
    Ok(())
}

fn remap_limit_of_locked() -> Outcome {
    let at = room(32)?;
    put(at, 0, 4, RW)?;
    number(at, 4, 1);
    let status = in_child(|| {
        proc::setrlimit(libc::RLIMIT_MEMLOCK, 4 * PAGE as u64, 4 * PAGE as u64)?;
        if proc::geteuid() == 0 && proc::setuid(65534).is_err() {
            return Ok(2);
        }
        if mlock(at, 4 * PAGE).is_err() {
            return Ok(2);
        }
        let again = Err(Errno(libc::EAGAIN));
        let refused = mremap(at, 4 * PAGE, 6 * PAGE, 0, 0) == again
            && mremap(at, 4 * PAGE, 6 * PAGE, FIXED, at + 16 * PAGE) == again;
        let moved = mremap(at, 4 * PAGE, 4 * PAGE, FIXED, at + 16 * PAGE) == Ok(at + 16 * PAGE);
        Ok((refused && moved && numbered(at + 16 * PAGE, 4, 1)) as i32)
    })?;
    if status == Status::Exited(2) {
        return skip("no limit of locked memory can be tried here");
    }
    check_eq!(status, Status::Exited(1));
    Ok(())
}
