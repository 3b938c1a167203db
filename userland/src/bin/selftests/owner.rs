//! Exclusive folios and what they save: Quire's account seen by programs.
use std::fs;
use userland::counters::{Missing, OWN};
use userland::harness::{Outcome, Stop, in_child};
use userland::replay::family::{Child, child};
use userland::switch::{Switch, share_an_id};
use userland::sys::mem::{
    ANON, PAGE, RW, anon, load, madvise, mmap, mremap, munmap, pagemap, store,
};
use userland::sys::{file, proc, proc::Status};
use userland::{check, check_eq};

use crate::folio::with_sizes;

userland::tests![
    owner_of_a_page,
    owner_of_a_folio,
    owner_address,
    owner_table,
    owner_last_of_four_copies_nothing,
    owner_fork_counts_folios,
];

/// What a switch says; the test is skipped where there is none.
pub fn switch(name: &str) -> Result<String, Stop> {
    let text = fs::read_to_string(format!("/sys/kernel/mm/quire/{name}"));
    let text = text.map_err(|_| Stop::Skip(format!("no switch {name} here")))?;
    Ok(text.trim_end().to_owned())
}

/// Skips where the account has not this quality.
fn need_account(schemes: &[&str]) -> Outcome {
    let account = switch("account")?;
    if share_an_id() {
        return Err(Stop::Skip("no process has an id of its own".to_owned()));
    }
    match schemes.contains(&account.as_str()) {
        true => Ok(()),
        false => Err(Stop::Skip(format!("account={account}"))),
    }
}

/// What a file of frames says of the page at `at`.
fn of_frame(file: &str, at: usize) -> Result<u64, Stop> {
    use std::os::unix::fs::FileExt;
    let frame = pagemap(at, 1)?[0] & ((1 << 55) - 1);
    let mut word = [0; 8];
    fs::File::open(file)?.read_exact_at(&mut word, frame * 8)?;
    Ok(u64::from_ne_bytes(word))
}

/// The process that has the folio of the page at `at` for itself.
fn owner(at: usize) -> Result<u64, Stop> {
    of_frame("/proc/kpageowner", at)
}

/// The owner while a child has the pages, in the child after it wrote one, and here when it is
/// gone.
fn owners_over_a_fork(at: usize, other: usize) -> Outcome {
    let me = proc::getpid() as u64;
    check_eq!((owner(at)?, owner(other)?), (me, me));
    let kid = child(|turn| {
        check_eq!(owner(at)?, 0);
        store(at, 2);
        check_eq!(owner(at)?, proc::getpid() as u64);
        turn.next()
    })?;
    check_eq!(owner(other)?, 0);
    kid.step()?;
    check_eq!(owner(other)?, 0);
    kid.end()?;
    check_eq!((owner(at)?, owner(other)?), (me, me));
    Ok(())
}

fn owner_of_a_page() -> Outcome {
    need_account(&["unified"])?;
    let at = anon(3)?;
    (0..2).for_each(|page| store(at + page * PAGE, 1));
    owners_over_a_fork(at, at + PAGE)?;
    // The zero page and shared pages have no owner.
    load(at + 2 * PAGE);
    let shared = mmap(0, PAGE, RW, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1, 0)?;
    store(shared, 1);
    check_eq!((owner(at + 2 * PAGE)?, owner(shared)?), (0, 0));
    Ok(())
}

const LEN: usize = 4 << 20;

/// `LEN` bytes that are written, at a multiple of 2 MiB.
fn area() -> Result<usize, Stop> {
    let at = mmap(0, LEN + (2 << 20), RW, ANON, -1, 0)?.next_multiple_of(2 << 20);
    madvise(at, LEN, libc::MADV_HUGEPAGE)?;
    write(at, 1);
    Ok(at)
}

fn write(at: usize, value: u64) {
    (at..at + LEN)
        .step_by(PAGE)
        .for_each(|page| store(page, value + page as u64));
}

fn holds(at: usize, value: u64) -> bool {
    (at..at + LEN)
        .step_by(PAGE)
        .all(|page| load(page) == value + page as u64)
}

fn owner_of_a_folio() -> Outcome {
    need_account(&["unified"])?;
    for kb in [16, 64, 512, 2048] {
        with_sizes(&[kb], || {
            let at = area()?;
            owners_over_a_fork(at, at + (3 << 20))?;
            // A part of it is all that is left.
            munmap(at + (3 << 20), PAGE)?;
            check_eq!(owner(at + (3 << 20) + PAGE)?, proc::getpid() as u64);
            Ok(munmap(at, LEN)?)
        })?;
    }
    Ok(())
}

/// Every page is found by its frame, also where it was moved, and not while others have it.
fn owner_address() -> Outcome {
    need_account(&["unified"])?;
    let address = |at| of_frame("/proc/kpageaddress", at);
    for kb in [16, 64, 2048] {
        with_sizes(&[kb], || {
            let at = area()?;
            for page in [0, 3 * PAGE, LEN - PAGE] {
                check_eq!(address(at + page)?, (at + page) as u64);
            }
            if switch("fork")? != "share" {
                let kid = child(|_| Ok(()))?;
                check_eq!(address(at)?, 0);
                kid.end()?;
            }
            // Whole tables move, and a part of a folio does.
            let to = mmap(0, LEN + (2 << 20), RW, ANON, -1, 0)?.next_multiple_of(2 << 20);
            let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
            mremap(at, LEN, LEN, flags, to)?;
            check_eq!(address(to + 5 * PAGE)?, (to + 5 * PAGE) as u64);
            mremap(to + PAGE, PAGE, PAGE, flags, at)?;
            check_eq!(address(at)?, at as u64);
            check_eq!(address(to)?, to as u64);
            munmap(at, PAGE)?;
            Ok(munmap(to, LEN)?)
        })?;
    }
    Ok(())
}

fn owner_table() -> Outcome {
    need_account(&["unified"])?;
    with_sizes(&[64], || {
        let at = area()?;
        let text = fs::read_to_string("/sys/kernel/mm/quire/folios")?;
        let column = |name: &str| -> Result<u64, Stop> {
            let mut rows = text.lines().skip_while(|line| !line.contains("owner"));
            let head = rows.next().unwrap_or_default();
            let place = head.split_whitespace().position(|word| word == name);
            let mine = proc::getpid().to_string();
            let row = rows.find(|row| row.split_whitespace().next() == Some(&mine));
            let words = row.unwrap_or_default().split_whitespace();
            let word = place.and_then(|place| words.clone().nth(place)?.parse().ok());
            word.ok_or(Stop::Fail(text.clone()))
        };
        check!(column("64kB")? >= 64, "{text}");
        Ok(munmap(at, LEN)?)
    })
}

/// A counter of the kernel's. Needs no heap and always the same stack, so that the second reading
/// costs no page.
fn counter(name: &str) -> Result<u64, Stop> {
    let mut buf = [0u8; 8192];
    let fd = file::open_cstr(c"/sys/kernel/mm/quire/counters", libc::O_RDONLY)?;
    let n = file::read(fd, &mut buf)?;
    file::close(fd)?;
    let text = std::str::from_utf8(&buf[..n]).unwrap_or("");
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let value = line.and_then(|n| n.trim().parse().ok());
    value.ok_or_else(|| {
        Stop::from(Missing {
            path: OWN.into(),
            name: name.into(),
        })
    })
}

fn faults() -> Result<u64, Stop> {
    Ok(proc::rusage(libc::RUSAGE_SELF)?.minor_faults)
}

/// Writes all of the area, which no other process has any more: how many pages were copied, and how
/// many faults it took.
fn write_alone(at: usize, value: u64) -> Result<(u64, u64), Stop> {
    // What the measuring itself touches is touched before.
    for _ in 0..2 {
        std::hint::black_box((
            counter("pages_copied")?,
            faults()?,
            counter("pages_copied")?,
        ));
    }
    let before = (counter("pages_copied")?, faults()?);
    write(at, value);
    let after = (faults()?, counter("pages_copied")?);
    Ok((after.1 - before.0, after.0 - before.1))
}

/// The process that is left writes its memory in place, folio by folio.
fn check_last(at: usize) -> Outcome {
    check!(holds(at, 1));
    let (copied, faults) = write_alone(at, 7)?;
    check_eq!(copied, 0);
    // Where tables are shared, a fault may be about a table.
    if switch("reuse")? == "around" && switch("fork")? != "share" {
        check_eq!(faults, LEN as u64 / (64 << 10));
    }
    check!(holds(at, 7));
    Ok(())
}

/// A parent and its three children have 4 MiB; each of the four is once the last.
fn owner_last_of_four_copies_nothing() -> Outcome {
    need_account(&["unified", "digits"])?;
    with_sizes(&[64], || {
        for last in 0..4 {
            let at = area()?;
            let kids: Vec<Child> = (1..4)
                .map(|me| {
                    child(|_| match me == last {
                        true => check_last(at),
                        false => {
                            check!(holds(at, 1));
                            Ok(())
                        }
                    })
                })
                .collect::<Result<_, _>>()?;
            let (mut others, mut survivor) = (Vec::new(), None);
            for (me, kid) in (1..).zip(kids) {
                match me == last {
                    true => survivor = Some(kid),
                    false => others.push(kid),
                }
            }
            for kid in others {
                kid.end()?;
            }
            match survivor {
                None => check_last(at)?,
                Some(kid) => {
                    munmap(at, LEN)?;
                    kid.end()?;
                }
            }
            let _ = munmap(at, LEN);
        }
        Ok(())
    })
}

/// Updates of the account during one fork, without those of the child.
fn updates_of_a_fork() -> Result<u64, Stop> {
    let (hear, tell) = file::pipe(0)?;
    let before = counter("account_updates")?;
    let pid = match proc::fork()? {
        proc::Fork::Child => {
            let _ = file::close(tell);
            let _ = file::read(hear, &mut [0]);
            proc::exit_now(0)
        }
        proc::Fork::Parent(pid) => pid,
    };
    let after = counter("account_updates")?;
    file::close(tell)?;
    file::close(hear)?;
    proc::wait_for(pid)?;
    Ok(after - before)
}

fn owner_fork_counts_folios() -> Outcome {
    if switch("refs")? != "batch" {
        return Err(Stop::Skip("references go page by page".into()));
    }
    let Some(fork) = Switch::take("fork") else {
        return Err(Stop::Skip("no switch fork here".into()));
    };
    fork.set("batch")?;
    let least = || -> Result<u64, Stop> {
        let runs = (0..5).map(|_| updates_of_a_fork());
        Ok(runs
            .collect::<Result<Vec<_>, _>>()?
            .into_iter()
            .fold(u64::MAX, u64::min))
    };
    // On another CPU the child would run, and change the account, before this process looks.
    userland::sys::cpus::stay()?;
    for kb in [16, 64, 256, 2048] {
        with_sizes(&[kb], || {
            let both = || -> Result<[u64; 2], Stop> {
                let at = area()?;
                let with = least()?;
                munmap(at, LEN)?;
                Ok([with, least()?])
            };
            // The second time all is there that this program itself needs.
            both()?;
            let [with, without] = both()?;
            check_eq!((kb, with - without), (kb, (LEN >> 10) as u64 / kb as u64));
            Ok(())
        })?;
    }
    check_eq!(in_child(|| Ok(0))?, Status::Exited(0));
    Ok(())
}
