//! The stack: it grows by itself, and its end is a signal.
use userland::harness::{Outcome, Stop, in_child, skip};
use userland::sys::mem::{ANON, PAGE, RW, mmap, munmap};
use userland::sys::proc::{self, Status};
use userland::sys::{fault, sig};
use userland::{check, check_eq};

userland::tests![
    stack_grows,
    stack_in_maps,
    stack_overflow_kills,
    stack_overflow_on_another_stack,
    stack_limit_is_kept,
    stack_of_a_thread_has_no_huge_pages,
];

/// Uses 1 kB a level and adds up the levels.
#[inline(never)]
fn deep(levels: u64) -> u64 {
    let mut local = [levels; 128];
    std::hint::black_box(&mut local);
    if levels == 0 {
        0
    } else {
        deep(levels - 1) + local[7] / levels
    }
}

fn stack_grows() -> Outcome {
    check_eq!(deep(4000), 4000);
    // And in a child, whose stack is a copy.
    check_eq!(
        in_child(|| Ok((deep(4500) == 4500) as i32))?,
        Status::Exited(1)
    );
    Ok(())
}

fn stack_line() -> std::io::Result<(usize, usize)> {
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let line = maps
        .lines()
        .find(|l| l.ends_with("[stack]"))
        .unwrap_or_default();
    let (start, end) = line
        .split(' ')
        .next()
        .and_then(|r| r.split_once('-'))
        .unwrap_or_default();
    let hex = |s| usize::from_str_radix(s, 16).unwrap_or(0);
    Ok((hex(start), hex(end)))
}

fn stack_in_maps() -> Outcome {
    let local = 0u8;
    let here = &raw const local as usize;
    let (start, end) = stack_line()?;
    check!(
        (start..end).contains(&here),
        "{here:#x} is not in {start:#x}-{end:#x}"
    );
    deep(3000);
    let (deeper, same) = stack_line()?;
    check!(
        deeper < start && same == end,
        "{deeper:#x}-{same:#x} after {start:#x}-{end:#x}"
    );
    Ok(())
}

fn stack_overflow_kills() -> Outcome {
    let status = in_child(|| {
        proc::setrlimit(libc::RLIMIT_CORE, 0, 0)?;
        Ok(fault::overflow_stack(0) as i32)
    })?;
    check_eq!(status, Status::Killed(libc::SIGSEGV));
    Ok(())
}

extern "C" fn leaves(_: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    proc::exit_now(if info.is_null() { 1 } else { 17 })
}

fn stack_overflow_on_another_stack() -> Outcome {
    let status = in_child(|| {
        let size = 64 * 1024;
        sig::alt_stack(mmap(0, size, RW, ANON, -1, 0)?, size)?;
        sig::handle(libc::SIGSEGV, leaves, libc::SA_ONSTACK)?;
        Ok(fault::overflow_stack(0) as i32)
    })?;
    check_eq!(status, Status::Exited(17));
    // Without one there is no place to run the handler.
    let status = in_child(|| {
        sig::handle(libc::SIGSEGV, leaves, 0)?;
        Ok(fault::overflow_stack(0) as i32)
    })?;
    check_eq!(status, Status::Killed(libc::SIGSEGV));
    Ok(())
}

fn stack_limit_is_kept() -> Outcome {
    let status = in_child(|| {
        // What is used already plus a little: the next 4 MB are too much.
        let used = stack_line().map(|s| s.1 - s.0).unwrap_or(0);
        let limit = (used + 64 * PAGE) as u64;
        proc::setrlimit(libc::RLIMIT_STACK, limit, limit)?;
        Ok((deep(4000) == 4000) as i32)
    })?;
    check_eq!(status, Status::Killed(libc::SIGSEGV));
    Ok(())
}

/// MAP_STACK says so (Linux 6.7), whatever the settings are.
fn stack_of_a_thread_has_no_huge_pages() -> Outcome {
    let flags = |map: i32| -> Result<String, Stop> {
        let at = mmap(0, 8 << 20, RW, ANON | map, -1, 0)?;
        let smaps = std::fs::read_to_string("/proc/self/smaps")?;
        munmap(at, 8 << 20)?;
        // It may be a part of a larger area.
        let is_it = |line: &&str| {
            let ends = line.split(['-', ' ']).take(2);
            let ends: Vec<_> = ends.map(|end| usize::from_str_radix(end, 16)).collect();
            matches!(ends[..], [Ok(start), Ok(end)] if (start..end).contains(&at))
        };
        let mut area = smaps.lines();
        area.find(is_it);
        let flags = area.find_map(|line| line.strip_prefix("VmFlags:"));
        Ok(format!("{} ", flags.unwrap_or_default()))
    };
    let (stack, plain) = (flags(libc::MAP_STACK)?, flags(0)?);
    if std::fs::metadata("/sys/kernel/mm/transparent_hugepage").is_err() {
        return skip("no huge pages here");
    }
    check!(stack.contains(" nh "), "{stack}");
    check!(plain.contains(" rd ") && !plain.contains(" nh "), "{plain}");
    Ok(())
}
