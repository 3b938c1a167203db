//! A guided tour of the memory manager that fits one screen: touch, fork, write, exit, with the
//! kernel's counters before and after each step. Figures are counts and clock differences only, so
//! two runs under QEMU's -icount print the same. On Linux, which lacks some of the counters, those
//! columns show `-`.
use userland::counters::{on_quire, smaps_of};
use userland::sys::mem::{ANON, PAGE, RW, load, mmap, mprotect, munmap, store};
use userland::sys::{Result, file, mem, proc, time};

/// Pages of the mapping: 1 MiB.
const PAGES: usize = 256;
/// Quire's own counters.
const COUNTERS: &std::ffi::CStr = c"/sys/kernel/mm/quire/counters";
/// Pages the child writes.
const CHILD: usize = 64;

/// Event counters in the order of the columns: title and name.
const EVENTS: [(&str, &str); 5] = [
    ("faults", "pgfault"),
    ("zeropg", "zero_page_mapped"),
    ("zeroed", "pages_zeroed"),
    ("copied", "pages_copied"),
    ("reused", "cow_reused"),
];

/// The figures at one moment.
struct Figures {
    events: [Option<u64>; EVENTS.len()],
    free: Option<u64>,
    clock: u64,
}

impl Figures {
    fn now(before_step: bool) -> Self {
        let clock = time::now();
        let mut buf = [0u8; 8192];
        let own = read(&mut buf, COUNTERS);
        let mut events = EVENTS.map(|(_, name)| figure_in(own, name));
        let mut free = None;
        if own.is_empty() {
            // The whole machine's counts say little on Linux; this family's are what the steps
            // cause.
            let of = |who| proc::rusage(who).map_or(0, |u| u.minor_faults);
            events[0] = Some(of(libc::RUSAGE_SELF) + of(libc::RUSAGE_CHILDREN));
        } else {
            free = figure_in(read(&mut buf, c"/proc/vmstat"), "nr_free_pages");
        }
        // The clock is read next to the step, so that reading the counters is no part of it.
        let clock = if before_step { time::now() } else { clock };
        Figures {
            events,
            free,
            clock,
        }
    }
}

/// Reads a file into `buf`, without a heap: taking memory would be counted. Empty when there is
/// none.
fn read<'a>(buf: &'a mut [u8], path: &std::ffi::CStr) -> &'a str {
    let Ok(fd) = file::open_cstr(path, libc::O_RDONLY) else {
        return "";
    };
    let n = file::read(fd, buf).unwrap_or(0);
    let _ = file::close(fd);
    std::str::from_utf8(&buf[..n]).unwrap_or("")
}

/// The value of the line `NAME VALUE`.
fn figure_in(text: &str, name: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|l| l.strip_prefix(name)?.strip_prefix(' '))?;
    line.trim().parse().ok()
}

/// One line of the table and what it means.
fn show(step: &str, why: &str, before: &Figures, after: &Figures, at: usize) {
    let number = |n: Option<i64>| n.map_or("-".into(), |n| n.to_string());
    let mut line = format!("{step:<22}");
    for (old, new) in before.events.iter().zip(&after.events) {
        let change = old.zip(*new).map(|(o, n)| n as i64 - o as i64);
        line += &format!("{:>7}", number(change));
    }
    let frames = before
        .free
        .zip(after.free)
        .map(|(b, a)| b as i64 - a as i64);
    let rss = smaps_of(at).map_or(Some(0), |entry| entry.get("Rss").ok());
    line += &format!(
        "{:>7}{:>7}{:>8}",
        number(frames),
        number(rss.map(|kb| kb as i64)),
        short(after.clock - before.clock)
    );
    println!("{line}\n    {why}");
}

/// At most seven characters: a busy host's clock may show more than the column holds.
fn short(ns: u64) -> String {
    match ns {
        0..10_000_000 => ns.to_string(),
        _ => format!("{}M", ns / 1_000_000),
    }
}

/// Runs a step between two readings of the counters.
fn step(name: &str, why: &str, at: usize, act: impl FnOnce() -> Result<()>) -> Result<()> {
    let before = Figures::now(true);
    act()?;
    let after = Figures::now(false);
    show(name, why, &before, &after, at);
    Ok(())
}

fn read_all(at: usize) -> u64 {
    (0..PAGES).map(|n| load(at + n * PAGE)).sum()
}

fn write(at: usize, pages: usize) {
    (0..pages).for_each(|n| store(at + n * PAGE, n as u64 + 1));
}

/// A child that writes and ends on messages: (its number, tell it here, hear it there).
fn child(at: usize) -> Result<(i32, i32, i32)> {
    let (go_read, go_write) = file::pipe(0)?;
    let (done_read, done_write) = file::pipe(0)?;
    match proc::fork()? {
        proc::Fork::Child => {
            let mut word = [0u8; 1];
            let _ = file::close(go_write);
            let _ = file::read(go_read, &mut word);
            write(at, CHILD);
            let _ = file::write(done_write, b"w");
            let _ = file::read(go_read, &mut word);
            proc::exit_now(0)
        }
        proc::Fork::Parent(pid) => {
            let _ = (file::close(go_read), file::close(done_write));
            Ok((pid, go_write, done_read))
        }
    }
}

fn tour() -> Result<()> {
    let kernel = if on_quire() { "Quire" } else { "Linux" };
    println!(
        "The memory manager at work: {kernel} on {}, 1 MiB = {PAGES} pages",
        std::env::consts::ARCH
    );
    let titles: String = EVENTS.iter().map(|e| format!("{:>7}", e.0)).collect();
    println!(
        "{:<22}{titles}{:>7}{:>7}{:>8}",
        "step", "frames", "kB rss", "ns"
    );
    // The readings themselves need memory the first times.
    for _ in 0..3 {
        Figures::now(true);
        smaps_of(0);
    }
    // A page without rights on either side keeps the mapping apart from its neighbours.
    let at = mmap(0, (PAGES + 2) * PAGE, libc::PROT_NONE, ANON, -1, 0)? + PAGE;
    step(
        "map",
        "a promise: no frame is used until a page is touched",
        at,
        || {
            mprotect(at, PAGES * PAGE, RW)?;
            // Small pages only; a kernel that has no others may refuse.
            let _ = mem::madvise(at, PAGES * PAGE, libc::MADV_NOHUGEPAGE);
            Ok(())
        },
    )?;
    step(
        "read each page",
        "every fault maps the one page of zeros, read-only; frames go to tables",
        at,
        || {
            std::hint::black_box(read_all(at));
            Ok(())
        },
    )?;
    step(
        "write each page",
        "now each page gets a zeroed frame of its own",
        at,
        || {
            write(at, PAGES);
            Ok(())
        },
    )?;
    let mut family = (0, 0, 0);
    step(
        "fork",
        "the child shares every frame; both lose the right to write",
        at,
        || {
            family = child(at)?;
            Ok(())
        },
    )?;
    let (pid, tell, hear) = family;
    step(
        "child writes 64 pages",
        "a write to a shared page copies it: the parent keeps the old one",
        at,
        || {
            file::write(tell, b"g")?;
            file::read(hear, &mut [0])?;
            Ok(())
        },
    )?;
    step(
        "child exits",
        "its copies are free again, the rest is the parent's alone",
        at,
        || {
            file::close(tell)?;
            proc::wait_for(pid).map(|_| ())
        },
    )?;
    step(
        "parent writes all",
        "nobody shares them any more: each write reuses the frame, no copy",
        at,
        || {
            write(at, PAGES);
            Ok(())
        },
    )?;
    step(
        "unmap",
        "all frames go back, after the TLB was told",
        at,
        || munmap(at, PAGES * PAGE),
    )?;
    println!("frames: taken (or given back, -) from the free ones, page tables included.");
    println!("ns: by the clock; with --icount one is one guest instruction.");
    Ok(())
}

fn main() {
    if let Err(e) = tour() {
        eprintln!("memtour: {e}");
        std::process::exit(1);
    }
}
