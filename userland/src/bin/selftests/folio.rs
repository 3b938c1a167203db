//! Large folios from outside: memory keeps its contents whatever size its folios have and whatever
//! is done to parts of them; on Quire, also that they have the sizes that were asked for, and what
//! splits and joins them.
use crate::thp::{chosen, only_here, read, size_names, write};
use std::fs;
use userland::counters;
use userland::harness::{Outcome, Stop, in_child, need};
use userland::sys::mem::{
    ANON, MADV_COLLAPSE, PAGE, RW, load, madvise, mmap, mprotect, mremap, munmap, pagemap, store,
};
use userland::sys::proc::{self, Status};
use userland::sys::{Errno, call, time};
use userland::{check, check_eq};

userland::tests![
    folio_contents_by_parts,
    folio_contents_after_fork,
    folio_contents_after_move,
    folio_collapse,
    folio_sizes_follow_settings,
    folio_one_fault_each,
    folio_read_first,
    folio_disabled_by_prctl,
    folio_khugepaged,
    folio_table,
];

const MIB: usize = 1 << 20;
pub const PMD: usize = 2 * MIB;

/// Private memory of `len` bytes at a multiple of 2 MiB, in a mapping of its own, where large
/// folios are welcome.
pub fn area(len: usize) -> Result<usize, Stop> {
    let at = mmap(0, len + 2 * PMD, libc::PROT_NONE, ANON, -1, 0)?;
    let start = (at + 1).next_multiple_of(PMD);
    mprotect(start, len, RW)?;
    // A kernel without large folios refuses, and that is as good for what is written and read.
    let _ = madvise(start, len, libc::MADV_HUGEPAGE);
    Ok(start)
}

pub fn value(at: usize) -> u64 {
    (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Writes a word that depends on the address to every page of a range.
pub fn fill(at: usize, len: usize) {
    (at..at + len)
        .step_by(PAGE)
        .for_each(|page| store(page, value(page)));
}

/// How many pages of a range do not hold what `wanted` says.
pub fn wrong(at: usize, len: usize, wanted: impl Fn(usize) -> u64) -> usize {
    let bad = |page: &usize| load(*page) != wanted(*page);
    (at..at + len).step_by(PAGE).filter(bad).count()
}

/// Parts that are no multiple of any folio: pages, blocks, across borders.
fn parts() -> [(usize, usize); 6] {
    [
        (0, PAGE),
        (5 * PAGE, 3 * PAGE),
        (64 << 10, 64 << 10),
        ((128 << 10) + PAGE, 40 * PAGE),
        (PMD - 4 * PAGE, 8 * PAGE),
        (2 * PMD - PAGE, PAGE),
    ]
}

fn inside(offset: usize) -> bool {
    parts()
        .iter()
        .any(|(start, len)| (*start..start + len).contains(&offset))
}

fn folio_contents_by_parts() -> Outcome {
    let at = area(2 * PMD)?;
    fill(at, 2 * PMD);
    for (start, len) in parts() {
        madvise(at + start, len, libc::MADV_DONTNEED)?;
    }
    let dropped = |page: usize| if inside(page - at) { 0 } else { value(page) };
    check_eq!(wrong(at, 2 * PMD, dropped), 0);
    fill(at, 2 * PMD);
    for (start, len) in parts() {
        mprotect(at + start, len, libc::PROT_READ)?;
    }
    check_eq!(wrong(at, 2 * PMD, value), 0);
    mprotect(at, 2 * PMD, RW)?;
    (at..at + 2 * PMD)
        .step_by(PAGE)
        .for_each(|page| store(page, value(page) + 1));
    for (start, len) in parts() {
        munmap(at + start, len)?;
    }
    let left = |page: &usize| !inside(page - at);
    let bad = (at..at + 2 * PMD).step_by(PAGE).filter(left);
    check_eq!(
        bad.filter(|page| load(*page) != value(*page) + 1).count(),
        0
    );
    Ok(munmap(at, 2 * PMD)?)
}

fn folio_contents_after_fork() -> Outcome {
    let at = area(2 * PMD)?;
    fill(at, 2 * PMD);
    let status = in_child(|| {
        // Every third page, then all.
        (at..at + 2 * PMD)
            .step_by(3 * PAGE)
            .for_each(|page| store(page, 3));
        let third = |page: usize| match (page - at).is_multiple_of(3 * PAGE) {
            true => 3,
            false => value(page),
        };
        let bad = wrong(at, 2 * PMD, third);
        (at..at + 2 * PMD)
            .step_by(PAGE)
            .for_each(|page| store(page, 7));
        let grandchild = in_child(|| {
            madvise(at + PAGE, PMD, libc::MADV_DONTNEED)?;
            Ok((wrong(at + PAGE, PMD, |_| 0) == 0) as i32)
        })?;
        check_eq!(grandchild, Status::Exited(1));
        Ok((bad + wrong(at, 2 * PMD, |_| 7) == 0) as i32)
    })?;
    check_eq!(status, Status::Exited(1));
    check_eq!(wrong(at, 2 * PMD, value), 0);
    // The parent's again: written in place or copied.
    fill(at, 2 * PMD);
    check_eq!(wrong(at, 2 * PMD, value), 0);
    Ok(munmap(at, 2 * PMD)?)
}

fn folio_contents_after_move() -> Outcome {
    let (from, to) = (area(2 * PMD)?, area(2 * PMD)?);
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    for (start, len) in parts().into_iter().chain([(0, 2 * PMD)]) {
        fill(from, 2 * PMD);
        mremap(from + start, len, len, flags, to + start)?;
        let moved = |page: usize| value(page - to + from);
        check_eq!(wrong(to + start, len, moved), 0);
        // Back to where it was, over what is not mapped now.
        mremap(to + start, len, len, flags, from + start)?;
        check_eq!(wrong(from, 2 * PMD, value), 0);
    }
    munmap(from, 2 * PMD)?;
    let _ = munmap(to, 2 * PMD);
    Ok(())
}

/// kB of an area that PMD entries map.
pub fn huge_kb(at: usize) -> Option<u64> {
    counters::smaps_of(at).and_then(|entry| entry.get("AnonHugePages").ok())
}

fn folio_collapse() -> Outcome {
    let at = area(2 * PMD)?;
    madvise(at, 2 * PMD, libc::MADV_NOHUGEPAGE)?;
    fill(at, PMD);
    check_eq!(huge_kb(at), Some(0));
    madvise(at, 2 * PMD, libc::MADV_HUGEPAGE)?;
    match madvise(at, PMD, MADV_COLLAPSE) {
        Err(Errno(libc::EINVAL)) if !counters::on_quire() => {
            return Err(Stop::Skip("no MADV_COLLAPSE here".into()));
        }
        other => other?,
    }
    check_eq!(huge_kb(at), Some(2048));
    check_eq!(wrong(at, PMD, value), 0);
    // Nothing is there to be collapsed.
    check!(madvise(at + PMD, PMD, MADV_COLLAPSE).is_err() || load(at + PMD) == 0);
    Ok(munmap(at, 2 * PMD)?)
}

/// Runs `act` with these sizes `always` and the others `never`, and puts all back.
pub fn with_sizes(on: &[usize], act: impl FnOnce() -> Outcome) -> Outcome {
    only_here()?;
    let names: Vec<String> = size_names().collect();
    let files: Vec<String> = names.iter().map(|name| format!("{name}/enabled")).collect();
    let before = files
        .iter()
        .map(|file| chosen(file))
        .collect::<Result<Vec<_>, _>>()?;
    for (name, file) in names.iter().zip(&files) {
        let wanted = on.iter().any(|kb| *name == format!("hugepages-{kb}kB"));
        write(file, if wanted { "always" } else { "never" })?;
    }
    let outcome = act();
    for (file, word) in files.iter().zip(&before) {
        write(file, word)?;
    }
    outcome
}

/// Folios of `kb` kB in an area: mapped whole, in part, contiguously.
pub fn folios(at: usize, kb: usize) -> Result<[u64; 3], Stop> {
    let text = fs::read_to_string("/proc/self/smaps")?;
    let mut lines = text
        .lines()
        .skip_while(|line| !line.starts_with(&format!("{at:08x}-")));
    let line = lines
        .find(|line| line.starts_with(&format!("Folios-{kb}kB:")))
        .ok_or(Stop::Fail(format!("no folios of {kb} kB at {at:x}")))?;
    let numbers: Vec<u64> = line
        .split_whitespace()
        .filter_map(|n| n.parse().ok())
        .collect();
    numbers.try_into().map_err(|_| Stop::Fail(line.to_owned()))
}

pub fn stat(kb: usize, name: &str) -> Result<u64, Stop> {
    let text = read(&format!("hugepages-{kb}kB/stats/{name}"))?;
    text.parse().map_err(|_| Stop::Fail(text))
}

const SIZES: [usize; 8] = [16, 32, 64, 128, 256, 512, 1024, 2048];

fn folio_sizes_follow_settings() -> Outcome {
    let contpte = fs::read_to_string("/sys/kernel/mm/quire/contpte").is_ok_and(|s| s == "on\n");
    for kb in SIZES {
        with_sizes(&[kb], || {
            let n = (2 * PMD / 1024 / kb) as u64;
            let before = (stat(kb, "anon_fault_alloc")?, stat(kb, "nr_anon")?);
            let at = area(2 * PMD)?;
            fill(at, 2 * PMD);
            let [whole, part, folded] = folios(at, kb)?;
            check_eq!((kb, whole, part), (kb, n, 0));
            // arm64's contiguous block has 16 entries; a PMD entry maps 2 MiB on both machines.
            let blocks = cfg!(target_arch = "aarch64") && contpte && kb >= 64;
            check_eq!((kb, folded), (kb, if blocks || kb == 2048 { n } else { 0 }));
            check!(stat(kb, "anon_fault_alloc")? >= before.0 + n);
            check!(stat(kb, "nr_anon")? >= before.1 + n);
            check_eq!(folios(at, 4)?, [0; 3]);
            check_eq!(huge_kb(at), Some(if kb == 2048 { 4096 } else { 0 }));
            Ok(munmap(at, 2 * PMD)?)
        })?;
    }
    Ok(())
}

fn folio_one_fault_each() -> Outcome {
    for kb in SIZES {
        with_sizes(&[kb], || {
            let at = area(2 * PMD)?;
            let faults = || proc::rusage(libc::RUSAGE_SELF).map(|usage| usage.minor_faults);
            let before = faults()?;
            fill(at, 2 * PMD);
            let taken = faults()? - before;
            let n = (2 * PMD / 1024 / kb) as i64;
            // A few for the program's own pages.
            check!(
                (n..n + 8).contains(&(taken as i64)),
                "{kb} kB: {taken} faults"
            );
            Ok(munmap(at, 2 * PMD)?)
        })?;
    }
    Ok(())
}

fn folio_read_first() -> Outcome {
    with_sizes(&[64], || {
        let at = area(PMD)?;
        // The zero page stands where it was read, so the block around it gets single pages.
        check_eq!(load(at + 3 * PAGE), 0);
        fill(at, 32 * PAGE);
        check_eq!(folios(at, 64)?[..2], [1, 0]);
        check_eq!(folios(at, 4)?[0], 16);
        check_eq!(wrong(at, 32 * PAGE, value), 0);
        Ok(munmap(at, PMD)?)
    })
}

fn folio_disabled_by_prctl() -> Outcome {
    with_sizes(&[64, 2048], || {
        let status = in_child(|| {
            let option = libc::PR_SET_THP_DISABLE as usize;
            call(libc::SYS_prctl, [option, 1, 0, 0, 0, 0])?;
            let at = area(PMD)?;
            fill(at, PMD);
            check_eq!(folios(at, 4)?[0], 512);
            Ok(1)
        })?;
        check_eq!(status, Status::Exited(1));
        Ok(())
    })
}

fn folio_khugepaged() -> Outcome {
    only_here()?;
    let sleep = read("khugepaged/scan_sleep_millisecs")?;
    let outcome = with_sizes(&[], || {
        let at = area(PMD)?;
        fill(at, PMD);
        check_eq!(huge_kb(at), Some(0));
        let collapsed = read("khugepaged/pages_collapsed")?;
        let scans = read("khugepaged/full_scans")?;
        write("hugepages-2048kB/enabled", "always")?;
        write("khugepaged/scan_sleep_millisecs", "1")?;
        let mut running = time::Running::begin();
        let mut goes_on = || running.passed() < 20_000_000_000;
        while huge_kb(at) != Some(2048) && goes_on() {
            std::thread::yield_now();
        }
        check_eq!(huge_kb(at), Some(2048));
        check_eq!(wrong(at, PMD, value), 0);
        check!(read("khugepaged/pages_collapsed")? != collapsed);
        while read("khugepaged/full_scans")? == scans && goes_on() {
            std::thread::yield_now();
        }
        check!(read("khugepaged/full_scans")? != scans);
        Ok(munmap(at, PMD)?)
    });
    write("khugepaged/scan_sleep_millisecs", &sleep)?;
    outcome
}

fn folio_table() -> Outcome {
    with_sizes(&[128], || {
        let at = area(PMD)?;
        fill(at, PMD);
        let text = fs::read_to_string("/sys/kernel/mm/quire/folios")?;
        let row = text
            .lines()
            .find_map(|line| line.trim_start().strip_prefix("128kB "));
        let numbers: Vec<u64> = row
            .unwrap_or_default()
            .split_whitespace()
            .filter_map(|n| n.parse().ok())
            .collect();
        check!(numbers.len() == 5, "{text}");
        let [exist, _, whole, ..] = numbers[..] else {
            return Err(Stop::Fail(text));
        };
        check!(exist >= 16 && whole >= 16, "{text}");
        check!(need(pagemap(at, 1), "pagemap")?[0] >> 63 == 1);
        Ok(munmap(at, PMD)?)
    })
}
