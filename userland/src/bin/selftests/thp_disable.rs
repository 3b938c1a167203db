//! prctl(PR_SET_THP_DISABLE): large folios that a process forbids itself.
use std::fs;
use userland::counters::on_quire;
use userland::harness::{Outcome, Stop, in_child};
use userland::sys::mem::{ANON, MADV_COLLAPSE, PAGE, RW, madvise, mmap, store};
use userland::sys::proc::{self, Status};
use userland::sys::{Errno, call};
use userland::{check_eq, check_err};

userland::tests![
    thp_disable,
    thp_disable_is_inherited,
    thp_disable_survives_exec,
    thp_disable_and_collapse,
    thp_disable_in_status,
];

/// prctl(2)'s flag, newer than the C library's header.
const EXCEPT_ADVISED: usize = 1 << 1;

pub fn set_disable(on: usize, flags: usize) -> Result<usize, Errno> {
    let option = libc::PR_SET_THP_DISABLE as usize;
    call(libc::SYS_prctl, [option, on, flags, 0, 0, 0])
}

fn get_disable() -> Result<usize, Errno> {
    let option = libc::PR_GET_THP_DISABLE as usize;
    call(libc::SYS_prctl, [option, 0, 0, 0, 0, 0])
}

/// Skips on a Linux that does not know the flag (before 6.18).
pub fn need_flag() -> Result<(), Stop> {
    match set_disable(1, EXCEPT_ADVISED) {
        Err(Errno(libc::EINVAL)) if !on_quire() => {
            Err(Stop::Skip("no PR_THP_DISABLE_EXCEPT_ADVISED here".into()))
        }
        other => Ok(other.map(drop)?),
    }
}

fn thp_disable() -> Outcome {
    check_eq!(get_disable()?, 0);
    set_disable(1, 0)?;
    check_eq!(get_disable()?, 1);
    set_disable(0, 0)?;
    check_eq!(get_disable()?, 0);
    need_flag()?;
    check_eq!(get_disable()?, 3);
    let (set, get) = (
        libc::PR_SET_THP_DISABLE as usize,
        libc::PR_GET_THP_DISABLE as usize,
    );
    for bad in [
        [set, 1, 1, 0, 0, 0],
        [set, 1, 4, 0, 0, 0],
        [set, 0, EXCEPT_ADVISED, 0, 0, 0],
        [set, 1, 0, 1, 0, 0],
        [set, 1, 0, 0, 1, 0],
        [get, 1, 0, 0, 0, 0],
        [get, 0, 1, 0, 0, 0],
    ] {
        check_err!(call(libc::SYS_prctl, bad), EINVAL);
    }
    check_eq!(get_disable()?, 3);
    set_disable(1, 0)?;
    check_eq!(get_disable()?, 1);
    Ok(())
}

fn thp_disable_is_inherited() -> Outcome {
    set_disable(1, 0)?;
    check_eq!(
        in_child(|| {
            let inherited = get_disable()?;
            set_disable(0, 0)?;
            Ok(inherited as i32)
        })?,
        Status::Exited(1)
    );
    // What the child does is its own.
    check_eq!(get_disable()?, 1);
    need_flag()?;
    check_eq!(in_child(|| Ok(get_disable()? as i32))?, Status::Exited(3));
    Ok(())
}

fn thp_disable_survives_exec() -> Outcome {
    let status = in_child(|| {
        set_disable(1, 0)?;
        let me = fs::read_link("/proc/self/exe")?;
        let words = ["selftests", "--as", "thp_disable"].map(String::from);
        Err(proc::exec(&me.to_string_lossy(), &words, &[]).into())
    })?;
    check_eq!(status, Status::Exited(1));
    Ok(())
}

/// What the program that [`thp_disable_survives_exec`] starts ends with.
pub fn disabled() -> i32 {
    get_disable().map_or(99, |n| n as i32)
}

fn thp_disable_and_collapse() -> Outcome {
    const PMD: usize = 2 << 20;
    /// What MADV_COLLAPSE says of 2 MiB with this advice, or none.
    fn collapse(advice: Option<i32>) -> Result<Result<(), Errno>, Stop> {
        // Not `anon`, which forbids large folios.
        let at = mmap(0, 2 * PMD, RW, ANON, -1, 0)?.next_multiple_of(PMD);
        advice.map_or(Ok(()), |advice| madvise(at, PMD, advice))?;
        (at..at + PMD).step_by(PAGE).for_each(|page| store(page, 1));
        Ok(madvise(at, PMD, MADV_COLLAPSE))
    }
    let (huge, never) = (Some(libc::MADV_HUGEPAGE), Some(libc::MADV_NOHUGEPAGE));
    match collapse(None)? {
        Err(Errno(libc::EINVAL)) if !on_quire() => {
            return Err(Stop::Skip("no MADV_COLLAPSE here".into()));
        }
        other => other?,
    }
    check_err!(collapse(never)?, EINVAL);
    set_disable(1, 0)?;
    for advice in [None, huge, never] {
        check_err!(collapse(advice)?, EINVAL);
    }
    // The call is advice, too.
    need_flag()?;
    check_eq!(collapse(None)?, Ok(()));
    check_eq!(collapse(huge)?, Ok(()));
    check_err!(collapse(never)?, EINVAL);
    Ok(())
}

/// proc(5): whether the process may have large folios anywhere.
fn thp_disable_in_status() -> Outcome {
    let enabled = || -> Result<bool, Stop> {
        let status = fs::read_to_string("/proc/self/status")?;
        let line = status.lines().find(|line| line.starts_with("THP_enabled:"));
        Ok(line.is_some_and(|line| line.ends_with('1')))
    };
    if !enabled()? && !on_quire() {
        return Err(Stop::Skip("no large folios here".into()));
    }
    check_eq!(enabled()?, true);
    set_disable(1, 0)?;
    check_eq!(enabled()?, false);
    set_disable(0, 0)?;
    check_eq!(enabled()?, true);
    need_flag()?;
    check_eq!(enabled()?, true);
    Ok(())
}
