//! MAP_DROPPABLE: memory that a program can do without.
use userland::harness::{Outcome, Stop, in_child};
use userland::sys::mem::{PAGE, RW, load, madvise, mlock, mmap, munlock, store};
use userland::sys::{Errno, call, file, proc};
use userland::{check, check_eq, check_err};

userland::tests![
    droppable_refuses_bad_arguments,
    droppable_is_not_inherited,
    droppable_is_not_locked,
    droppable_pages_go,
];

const DROPPABLE: i32 = 8 | libc::MAP_ANONYMOUS;

/// So many pages, written; skips the test before Linux 6.11.
fn droppable(pages: usize) -> Result<usize, Stop> {
    let at = match mmap(0, pages * PAGE, RW, DROPPABLE, -1, 0) {
        Err(Errno(libc::EINVAL)) => return Err(Stop::Skip("no MAP_DROPPABLE here".into())),
        other => other?,
    };
    (0..pages).for_each(|n| store(at + n * PAGE, 1 + n as u64));
    Ok(at)
}

/// The words of VmFlags of the area that begins there.
fn words(at: usize) -> Result<Vec<String>, Stop> {
    let smaps = std::fs::read_to_string("/proc/self/smaps")?;
    let header = format!("{at:x}-");
    let lines = smaps.lines().skip_while(|line| !line.starts_with(&header));
    let flags = lines
        .into_iter()
        .find_map(|line| line.strip_prefix("VmFlags: "));
    let flags = flags.ok_or_else(|| Stop::Fail(format!("no area at {at:x}")))?;
    Ok(flags.split_whitespace().map(String::from).collect())
}

fn droppable_refuses_bad_arguments() -> Outcome {
    let at = droppable(2)?;
    for flags in [libc::MAP_LOCKED, libc::MAP_GROWSDOWN] {
        check_err!(mmap(0, PAGE, RW, DROPPABLE | flags, -1, 0), EINVAL);
    }
    let fd = file::open("file", libc::O_RDWR | libc::O_CREAT, 0o600)?;
    check_err!(
        mmap(0, PAGE, RW, DROPPABLE & !libc::MAP_ANONYMOUS, fd, 0),
        EINVAL
    );
    check_err!(madvise(at, PAGE, libc::MADV_KEEPONFORK), EINVAL);
    check_err!(madvise(at, PAGE, libc::MADV_DODUMP), EINVAL);
    Ok(())
}

fn droppable_is_not_inherited() -> Outcome {
    let at = droppable(2)?;
    let child = in_child(|| {
        check_eq!(load(at), 0);
        Ok(0)
    })?;
    check_eq!(child, proc::Status::Exited(0));
    Ok(())
}

fn droppable_is_not_locked() -> Outcome {
    let at = droppable(2)?;
    mlock(at, 2 * PAGE)?;
    let flags = words(at)?;
    check!(!flags.contains(&"lo".into()), "{flags:?}");
    munlock(at, 2 * PAGE)?;
    call(
        libc::SYS_mlockall,
        [libc::MCL_FUTURE as usize, 0, 0, 0, 0, 0],
    )?;
    let flags = words(droppable(3)?)?;
    check!(!flags.contains(&"lo".into()), "{flags:?}");
    for word in ["nr", "wf", "dd"] {
        check!(flags.contains(&word.into()), "{flags:?}");
    }
    Ok(())
}

fn droppable_pages_go() -> Outcome {
    let at = droppable(16)?;
    madvise(at, 16 * PAGE, libc::MADV_PAGEOUT)?;
    // Some of them at least; each is as it was, or empty.
    let mut kept = 0;
    for n in 0..16 {
        let value = load(at + n * PAGE);
        check!(value == 0 || value == 1 + n as u64, "page {n} is {value}");
        kept += usize::from(value != 0);
    }
    if userland::counters::on_quire() {
        check_eq!(kept, 0);
    }
    Ok(())
}
