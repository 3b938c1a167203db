//! A program larger than memory, where what was not used lately is swapped (`zram=` on the kernel's
//! command line): what it finds is what it wrote, and nothing is killed.
use super::Outcome;
use std::fs;
use userland::controls::Controls;
use userland::counters::figure;
use userland::random::Random;
use userland::sys::mem::{
    ANON, PAGE, RW, copy, copy_to, load, madvise, mmap, munmap, shared_page, store,
};
use userland::sys::proc::{self, Fork, Status};
use userland::sys::{Result, file};

/// Processes that have it at a time.
const READERS: u64 = 3;
/// Pages that each of them reads at random.
const READS: u64 = 3_000;
/// What is put out, and comes back.
const PART: usize = 16 << 20;
const HUGE: usize = 2 << 20;

/// The bytes of page `n` once the process of this number has written to it, or of the one before
/// all: three fifths compress well, the rest does not.
fn bytes_of(n: u64, writer: u64) -> Vec<u8> {
    let mut random = Random::new(n << 8 | writer);
    let words = (0..PAGE as u64 / 8).map(|i| match i < 300 {
        true => i / 32 + random.below(2),
        false => random.bits(),
    });
    words.flat_map(u64::to_ne_bytes).collect()
}

fn is(at: usize, bytes: &[u8]) -> bool {
    let mut found = vec![0_u8; PAGE];
    copy(at, found.as_mut_ptr() as usize, PAGE);
    found == bytes
}

/// Pages that are not as they were written: of those that a process reads at random, and writes to
/// every eighth if they are its own; of all for the one with the highest number. And how often the
/// kernel's figures could not be read meanwhile.
fn wrong(at: usize, pages: u64, process: u64, own: bool) -> u64 {
    let mut random = Random::new(process);
    let mut wrote = vec![0; pages as usize];
    let reads = (0..READS).map(|i| {
        let n = random.below(pages);
        let place = at + n as usize * PAGE;
        let wrong = !is(place, &bytes_of(n, wrote[n as usize]));
        if own && i % 8 == 0 {
            wrote[n as usize] = process;
            copy_to(place, &bytes_of(n, process));
        }
        // The kernel's heap wants memory, too.
        let silent = i % 50 == 0 && fs::read("/proc/vmstat").is_err();
        u64::from(wrong) + u64::from(silent)
    });
    let at_random: u64 = reads.sum();
    if process != READERS {
        return at_random;
    }
    let in_order = (0..pages).filter(|n| {
        let place = at + *n as usize * PAGE;
        !is(place, &bytes_of(*n, wrote[*n as usize]))
    });
    at_random + in_order.count() as u64
}

/// Fills five quarters of memory, private or shared, in folios of one size; then several processes
/// use it.
fn fill(flags: i32, advice: i32) -> Result<u64> {
    let own = flags == ANON;
    let kb = figure("/proc/meminfo", "MemTotal").unwrap_or(0);
    let pages = kb / 4 / 4 * 5;
    let len = pages as usize * PAGE;
    let at = mmap(0, len, RW, flags | libc::MAP_NORESERVE, -1, 0)?;
    madvise(at, len, advice)?;
    for n in 0..pages {
        copy_to(at + n as usize * PAGE, &bytes_of(n, 0));
    }
    println!("{pages} pages are filled");
    let mut readers = Vec::new();
    for process in 1..READERS {
        match proc::fork()? {
            Fork::Child => proc::exit_now(i32::from(wrong(at, pages, process, own) != 0)),
            Fork::Parent(pid) => readers.push(pid),
        }
    }
    let mut failed = wrong(at, pages, READERS, own);
    for pid in readers {
        failed += u64::from(proc::wait_for(pid)? != Status::Exited(0));
    }
    munmap(at, len)?;
    Ok(failed)
}

/// Writes a file as large as memory, and reads it.
fn fill_file() -> Result<u64> {
    let pages = figure("/proc/meminfo", "MemTotal").unwrap_or(0) / 4;
    let fd = file::memfd(0)?;
    (0..pages).try_for_each(|n| file::write_all(fd, &bytes_of(n, 0)))?;
    let mut failed = 0;
    for n in 0..pages {
        let mut found = vec![0; PAGE];
        file::pread(fd, &mut found, (n * PAGE as u64) as i64)?;
        failed += u64::from(found != bytes_of(n, 0));
    }
    file::close(fd)?;
    Ok(failed)
}

/// Faults of a read of each page.
fn faults(at: usize, len: usize) -> Result<u64> {
    let used = || proc::rusage(libc::RUSAGE_SELF);
    let count = || used().map(|used| used.minor_faults + used.major_faults);
    // The figures may be written to a page of the stack that a child has, too: then that is copied
    // after they were read.
    count()?;
    let before = count()?;
    (at..at + len).step_by(PAGE).for_each(|page| {
        load(page);
    });
    Ok(count()? - before)
}

/// Both a process and its child put the folios that they share out; then one after the other reads
/// them. Returns the faults of each.
fn put_out_and_read() -> Result<[u64; 2]> {
    let at = mmap(0, PART + HUGE, RW, ANON, -1, 0)?.next_multiple_of(HUGE);
    for n in 0..PART / PAGE {
        copy_to(at + n * PAGE, &bytes_of(n as u64, 0));
    }
    let found = shared_page()?;
    let (is_out, go) = (file::pipe(0)?, file::pipe(0)?);
    let put_out = || madvise(at, PART, libc::MADV_PAGEOUT);
    let child = || -> Result<()> {
        put_out()?;
        file::write(is_out.1, b"1")?;
        file::read(go.0, &mut [0])?;
        store(found, faults(at, PART)?);
        Ok(())
    };
    let pid = match proc::fork()? {
        Fork::Child => proc::exit_now(i32::from(child().is_err())),
        Fork::Parent(pid) => pid,
    };
    put_out()?;
    file::read(is_out.0, &mut [0])?;
    let own = faults(at, PART)?;
    file::write(go.1, b"1")?;
    proc::wait_for(pid)?;
    munmap(at, PART)?;
    Ok([own, load(found)])
}

/// Large folios come back as they went: one fault for each.
fn folios(kb: usize) -> std::result::Result<(), String> {
    let _controls = only(kb)?;
    let each = (PART / 1024 / kb) as u64;
    match put_out_and_read() {
        Ok(faults) if faults == [each; 2] => Ok(()),
        other => Err(format!(
            "{each} folios of {kb} kB came back by {other:?} faults"
        )),
    }
}

/// Has folios of this size, and no others, while the value lives.
fn only(kb: usize) -> std::result::Result<Controls, String> {
    let controls = Controls::take();
    match controls.only(kb) {
        Ok(true) => Ok(controls),
        other => Err(format!("folios of {kb} kB: {other:?}")),
    }
}

/// More than memory in folios of 64 kB, read in order, comes back by the folio, each time.
fn folios_in_order() -> std::result::Result<(), String> {
    let _controls = only(64)?;
    match in_order() {
        Ok((pages, faults)) if faults < pages / 5 => {
            println!("{pages} pages in order come back by {faults} faults");
            Ok(())
        }
        other => Err(format!("pages in order, and faults: {other:?}")),
    }
}

/// Reads more than memory in order, again and again. Returns the pages, and the most faults of a
/// pass.
fn in_order() -> Result<(u64, u64)> {
    let pages = figure("/proc/meminfo", "MemTotal").unwrap_or(0) / 4 / 4 * 5;
    let len = pages as usize * PAGE;
    let at = mmap(0, len, RW, ANON | libc::MAP_NORESERVE, -1, 0)?;
    // A folio has as many different ones.
    let contents: Vec<_> = (0..16).map(|n| bytes_of(n, 0)).collect();
    for (n, bytes) in (0..pages as usize).zip(contents.iter().cycle()) {
        copy_to(at + n * PAGE, bytes);
    }
    let mut most = 0;
    for _ in 0..4 {
        most = most.max(faults(at, len)?);
    }
    munmap(at, len)?;
    Ok((pages, most))
}

/// How many pages can be filled, with this vm.swappiness, until any is stored.
fn filled(swappiness: &str) -> std::result::Result<usize, String> {
    set("swappiness", swappiness)?;
    let stored = || figure("/proc/vmstat", "pgsteal_kswapd").unwrap_or(0);
    let pages = figure("/proc/meminfo", "MemTotal").unwrap_or(0) as usize / 4;
    let len = pages * PAGE;
    let at = mmap(0, len, RW, ANON | libc::MAP_NORESERVE, -1, 0).map_err(|why| why.to_string())?;
    // Until half of memory is filled, a round may end that began before.
    let mut before = stored();
    let first = (0..pages).find(|n| {
        copy_to(at + n * PAGE, &bytes_of(*n as u64, 0));
        let found = n % 16 == 0 && stored() != before;
        if found && *n < pages / 2 {
            before = stored();
        }
        found && *n >= pages / 2
    });
    munmap(at, len).map_err(|why| why.to_string())?;
    first.ok_or_else(|| format!("swappiness {swappiness}: {pages} pages, and none is stored"))
}

fn set(name: &str, value: &str) -> std::result::Result<(), String> {
    let path = format!("/proc/sys/vm/{name}");
    fs::write(&path, value).map_err(|why| format!("{path}: {why}"))
}

/// Pages are stored from the low mark on, and by vm.swappiness 0 when no more are to be had.
fn begins_at_the_low_mark() -> std::result::Result<(), String> {
    const MARK: &str = "/proc/sys/vm/min_free_kbytes";
    let was = fs::read_to_string(MARK).map_err(|why| why.to_string())?;
    // The low mark is a quarter above: 1,024 pages.
    set("min_free_kbytes", "16384")?;
    // Files that nobody reads are stored by the first time, and leave more room from then on.
    filled("0")?;
    let (late, early) = (filled("0")?, filled("60")?);
    set("min_free_kbytes", was.trim())?;
    match late.checked_sub(early) {
        Some(128..2048) => Ok(()),
        _ => Err(format!(
            "swappiness 0: {late} pages are filled; 60: {early}"
        )),
    }
}

/// Words in a page.
const WORDS: usize = PAGE / 8;

/// Fills twice as much as memory: of each page so many words do not compress, and the others do.
/// Reads so many of those that are filled meanwhile. Nothing ends it but the kernel.
fn fill_twice(noise: usize, reads: u64) -> Result<()> {
    let pages = figure("/proc/meminfo", "MemTotal").unwrap_or(0) as usize / 4 * 2;
    let at = mmap(0, pages * PAGE, RW, ANON | libc::MAP_NORESERVE, -1, 0)?;
    let mut random = Random::new(1);
    for n in 0..pages {
        let mut words = [0; WORDS];
        words[..noise].fill_with(|| random.bits());
        copy_to(at + n * PAGE, words.map(u64::to_ne_bytes).as_flattened());
        for _ in 0..reads {
            load(at + random.below(n as u64 + 1) as usize * PAGE);
        }
    }
    Ok(())
}

/// What comes back by how many faults, while memory is in one piece; then the program that is
/// larger, with single pages and with huge ones.
pub fn than_memory(_: &[String]) -> Outcome {
    folios(2048)?;
    folios(64)?;
    folios_in_order()?;
    begins_at_the_low_mark()?;
    let event = |name| figure("/proc/vmstat", name).unwrap_or(0);
    let killed = event("oom_kill");
    let shared = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    let kinds: [(&str, &dyn Fn() -> Result<u64>); 4] = [
        ("single pages", &|| fill(ANON, libc::MADV_NOHUGEPAGE)),
        ("huge pages", &|| fill(ANON, libc::MADV_HUGEPAGE)),
        ("shared memory", &|| fill(shared, libc::MADV_NORMAL)),
        ("a file", &fill_file),
    ];
    for (what, fills) in kinds {
        let before = event("pswpout");
        match fills() {
            Ok(0) => {}
            Ok(n) => return Err(format!("{what}: {n} pages or processes are wrong")),
            Err(why) => return Err(format!("{what}: {why:?}")),
        }
        match event("pswpout") - before {
            0 => return Err(format!("{what}: none was swapped")),
            n => println!("{what}: {n} swapped"),
        }
    }
    match event("oom_kill") - killed {
        0 => Ok("all is as it was written".to_owned()),
        n => Err(format!("{n} processes were killed")),
    }
}

/// What does not fit, compressed or not, is killed, and before it has moved more than some times as
/// many pages into the store and back as there is memory.
pub fn than_the_store(_: &[String]) -> Outcome {
    let event = |name| figure("/proc/vmstat", name).unwrap_or(0);
    let memory = figure("/proc/meminfo", "MemTotal").unwrap_or(0) / 4;
    for (what, noise, reads, most) in [
        ("noise", WORDS, 0, 1),
        ("half noise", WORDS / 20 * 11, 0, 2),
        ("half noise, read", WORDS / 2, 1, 4),
    ] {
        // Pages that are moved, and those that are looked at.
        let work = || event("pswpin") + event("pswpout") + event("pgscan_kswapd") / 16;
        let before = work();
        let status = match proc::fork().map_err(|why| why.to_string())? {
            Fork::Child => proc::exit_now(i32::from(fill_twice(noise, reads).is_err())),
            Fork::Parent(pid) => proc::wait_for(pid),
        };
        let work = work() - before;
        println!("{what}: {status:?}, {work} pages of {memory} moved");
        if status != Ok(Status::Killed(libc::SIGKILL)) || work > most * memory {
            return Err(format!(
                "{what}: {status:?}, {work} pages of {memory} moved"
            ));
        }
    }
    Ok("what does not fit was killed".to_owned())
}
