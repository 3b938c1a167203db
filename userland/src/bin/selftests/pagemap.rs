//! /proc/PID/pagemap, /proc/kpagecount, /proc/kpageflags: pagemap.rst.
use std::fs::File;
use std::os::unix::fs::FileExt;
use userland::counters::on_quire;
use userland::harness::{Outcome, Stop, in_child};
use userland::switch::share_an_id;
use userland::sys::mem::{
    ANON, PAGE, RW, anon, load, madvise, mmap, mprotect, munmap, pagemap, store,
};
use userland::sys::proc::Status;
use userland::sys::{Errno, call, file, proc};
use userland::{check, check_eq, check_err};

userland::tests![
    pagemap_exclusive,
    pagemap_exclusive_among_three,
    pagemap_of_a_folio,
    pagemap_other_bits,
    pagemap_whole_words,
    pagemap_frames_are_for_root,
    kpage_counts,
    kpage_flags,
    kpage_flags_of_a_folio,
    kpage_whole_words,
];

/// Bits of pagemap.
const EXCLUSIVE: u64 = 56;
const FILE: u64 = 61;
const SWAPPED: u64 = 62;
const PRESENT: u64 = 63;

/// A page's entry without the soft-dirty bit, which not every kernel has, and without the frame.
fn bits(at: usize) -> Result<Vec<u64>, Stop> {
    let entry = pagemap(at, 1)?[0];
    Ok((56..64).filter(|bit| entry >> bit & 1 == 1).collect())
}

/// A page's frame; the test is skipped without the right to see it.
fn frame(at: usize) -> Result<u64, Stop> {
    match pagemap(at, 1)?[0] & ((1 << 55) - 1) {
        0 => Err(Stop::Skip("only root sees frames".into())),
        frame => Ok(frame),
    }
}

/// A frame's word in /proc/kpagecount or /proc/kpageflags.
fn of_frame(name: &str, frame: u64) -> Result<u64, Stop> {
    let file = File::open(format!("/proc/{name}"));
    let file = file.map_err(|e| Stop::Skip(format!("/proc/{name}: {e}")))?;
    let mut word = [0; 8];
    file.read_exact_at(&mut word, frame * 8)?;
    Ok(u64::from_ne_bytes(word))
}

fn count(at: usize) -> Result<u64, Stop> {
    of_frame("kpagecount", frame(at)?)
}

fn pagemap_exclusive() -> Outcome {
    let at = anon(4)?;
    (0..4).for_each(|page| store(at + page * PAGE, 1));
    check_eq!(bits(at)?, [EXCLUSIVE, PRESENT]);
    let (hear, tell) = file::pipe(0)?;
    let kid = match proc::fork()? {
        proc::Fork::Child => {
            let _ = file::close(tell);
            let shared = bits(at).ok();
            store(at + PAGE, 2);
            let own = bits(at + PAGE).ok();
            let right = shared == Some(vec![PRESENT]) && own == Some(vec![EXCLUSIVE, PRESENT]);
            // Until the parent has looked.
            let _ = file::read(hear, &mut [0]);
            proc::exit_now(right as i32)
        }
        proc::Fork::Parent(pid) => pid,
    };
    check_eq!(bits(at)?, [PRESENT]);
    // Written here, while the child has the old one.
    store(at + 2 * PAGE, 3);
    check_eq!(bits(at + 2 * PAGE)?, [EXCLUSIVE, PRESENT]);
    file::close(tell)?;
    check_eq!(proc::wait_for(kid)?, Status::Exited(1));
    // There was no write since.
    for page in 0..4 {
        check_eq!(bits(at + page * PAGE)?, [EXCLUSIVE, PRESENT]);
    }
    Ok(munmap(at, 4 * PAGE)?)
}

fn pagemap_exclusive_among_three() -> Outcome {
    let at = anon(1)?;
    store(at, 1);
    let mut kids = Vec::new();
    for _ in 0..2 {
        let (hear, tell) = file::pipe(0)?;
        match proc::fork()? {
            proc::Fork::Child => {
                // The others' ends too: each child stays until its own end is closed.
                kids.iter().for_each(|(_, tell)| {
                    let _ = file::close(*tell);
                });
                let _ = file::close(tell);
                let _ = file::read(hear, &mut [0]);
                proc::exit_now((load(at) == 1) as i32)
            }
            proc::Fork::Parent(pid) => kids.push((pid, tell)),
        }
    }
    check_eq!(bits(at)?, [PRESENT]);
    for (n, (pid, tell)) in kids.into_iter().enumerate() {
        file::close(tell)?;
        check_eq!(proc::wait_for(pid)?, Status::Exited(1));
        let wanted: &[u64] = if n == 0 {
            &[PRESENT]
        } else {
            &[EXCLUSIVE, PRESENT]
        };
        check_eq!(bits(at)?, wanted);
    }
    Ok(())
}

const PMD: usize = 2 << 20;

/// 2 MiB where large folios are welcome.
fn area() -> Result<usize, Stop> {
    let at = mmap(0, 2 * PMD, RW, ANON, -1, 0)?.next_multiple_of(PMD);
    let _ = madvise(at, PMD, libc::MADV_HUGEPAGE);
    (at..at + PMD)
        .step_by(PAGE)
        .for_each(|page| store(page, page as u64));
    Ok(at)
}

/// Whether the page belongs to a large folio.
fn frame_is_large(at: usize) -> Result<bool, Stop> {
    Ok(of_frame("kpageflags", frame(at)?)? >> 22 & 1 == 1)
}

fn pagemap_of_a_folio() -> Outcome {
    let at = area()?;
    let all = |wanted: &[u64]| -> Outcome {
        for page in [0, 1, 15, 16, 255, 511] {
            check_eq!((page, bits(at + page * PAGE)?.as_slice()), (page, wanted));
        }
        Ok(())
    };
    // Quire's simplest accounts never again take a large folio that was shared for exclusive, and
    // none is that of a process without an id.
    let account = std::fs::read_to_string("/sys/kernel/mm/quire/account").unwrap_or_default();
    let (large, nameless) = (frame_is_large(at)?, share_an_id());
    let own = |known: bool| -> &[u64] {
        match known || !large {
            true => &[EXCLUSIVE, PRESENT],
            false => &[PRESENT],
        }
    };
    all(own(!nameless))?;
    let status = in_child(|| {
        all(&[PRESENT])?;
        Ok(1)
    })?;
    check_eq!(status, Status::Exited(1));
    let alone = own(!nameless && !["per-page", "total"].contains(&account.trim_end()));
    all(alone)?;
    // A part that is gone takes nothing from the rest.
    madvise(at + 3 * PAGE, PAGE, libc::MADV_DONTNEED)?;
    check_eq!(bits(at + 3 * PAGE)?, []);
    all(alone)
}

fn pagemap_other_bits() -> Outcome {
    let at = anon(3)?;
    check_eq!(bits(at)?, []);
    // The zero page has no owner.
    check_eq!(load(at), 0);
    check_eq!(bits(at)?, [PRESENT]);
    store(at + PAGE, 1);
    mprotect(at + PAGE, PAGE, libc::PROT_NONE)?;
    check_eq!(bits(at + PAGE)?, [EXCLUSIVE, PRESENT]);
    let shared = mmap(0, PAGE, RW, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1, 0)?;
    store(shared, 1);
    check_eq!(bits(shared)?, [EXCLUSIVE, FILE, PRESENT]);
    std::fs::write("f", [1; PAGE])?;
    let fd = file::open("f", libc::O_RDWR, 0)?;
    let private = mmap(0, PAGE, RW, libc::MAP_PRIVATE, fd, 0)?;
    load(private);
    check!(bits(private)?.contains(&FILE), "{:?}", bits(private)?);
    store(private, 2);
    check_eq!(bits(private)?, [EXCLUSIVE, PRESENT]);
    // Nothing is ever swapped in these tests.
    check!(!bits(private)?.contains(&SWAPPED));
    Ok(())
}

/// What a read of `n` bytes at `offset` gives.
fn read(fd: i32, n: usize, offset: u64) -> Result<usize, Errno> {
    let mut room = vec![0u8; n.max(1)];
    file::pread(fd, &mut room[..n], offset as i64)
}

/// Reads must be of whole words; the file ends at `end` words if that is known.
fn whole_words(path: &str, end: Option<u64>) -> Outcome {
    let fd = match file::open(path, libc::O_RDONLY, 0) {
        Err(Errno(libc::EACCES | libc::ENOENT)) => {
            return Err(Stop::Skip(format!("{path} is not for us")));
        }
        other => other?,
    };
    check_err!(read(fd, 4, 0), EINVAL);
    check_err!(read(fd, 12, 0), EINVAL);
    check_err!(read(fd, 8, 4), EINVAL);
    check_eq!(read(fd, 0, 0), Ok(0));
    check_err!(read(fd, 0, 4), EINVAL);
    check_eq!(read(fd, 8, 1 << 62), Ok(0));
    check_eq!(file::lseek(fd, 16, libc::SEEK_SET)?, 16);
    check_eq!(file::read(fd, &mut [0; 24])?, 24);
    check_eq!(file::lseek(fd, 0, libc::SEEK_CUR)?, 40);
    check_err!(file::write(fd, b"x"), EBADF);
    if let Some(end) = end {
        check_eq!(read(fd, 80, (end - 3) * 8), Ok(24));
        check_eq!(read(fd, 8, end * 8), Ok(0));
    }
    Ok(())
}

fn pagemap_whole_words() -> Outcome {
    // Quire's user space ends a page before 2^47 on x86_64, as Linux's does; there is more on
    // aarch64.
    let end = (cfg!(target_arch = "x86_64") && on_quire()).then_some((1 << 35) - 1);
    whole_words("/proc/self/pagemap", end)
}

fn kpage_whole_words() -> Outcome {
    whole_words("/proc/kpagecount", None)?;
    whole_words("/proc/kpageflags", None)
}

fn pagemap_frames_are_for_root() -> Outcome {
    let at = anon(1)?;
    store(at, 1);
    if proc::geteuid() != 0 {
        check_eq!(pagemap(at, 1)?[0] & ((1 << 55) - 1), 0);
        return Ok(());
    }
    frame(at)?;
    let status = in_child(|| {
        proc::setuid(65534)?;
        // Its files are its own again.
        call(
            libc::SYS_prctl,
            [libc::PR_SET_DUMPABLE as usize, 1, 0, 0, 0, 0],
        )?;
        let entry = pagemap(at, 1)?[0];
        Ok((entry >> 63 == 1 && entry & ((1 << 55) - 1) == 0) as i32)
    })?;
    check_eq!(status, Status::Exited(1));
    Ok(())
}

fn kpage_counts() -> Outcome {
    let at = anon(2)?;
    (0..2).for_each(|page| store(at + page * PAGE, 1));
    let mine = frame(at)?;
    check_eq!(of_frame("kpagecount", mine)?, 1);
    let status = in_child(|| {
        let shared = count(at)?;
        store(at, 2);
        let copied = (frame(at)? != mine) as u64;
        Ok((shared * 100 + count(at)? * 10 + copied) as i32)
    })?;
    check_eq!(status, Status::Exited(211));
    check_eq!((frame(at)?, count(at)?), (mine, 1));
    let untouched = anon(1)?;
    check_eq!(load(untouched), 0);
    // The page of zeros is not counted.
    check_eq!(count(untouched)?, 0);
    let shared = mmap(0, PAGE, RW, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1, 0)?;
    store(shared, 1);
    let twice = libc::MREMAP_MAYMOVE;
    let again = userland::sys::mem::mremap(shared, 0, PAGE, twice, 0)?;
    check_eq!(load(again), 1);
    check_eq!(count(shared)?, 2);
    munmap(again, PAGE)?;
    check_eq!(count(shared)?, 1);
    munmap(at, 2 * PAGE)?;
    Ok(())
}

/// Flags that any kernel of this kind sets alike: UPTODATE, MMAP, ANON, SWAPBACKED, head, tail,
/// NOPAGE, THP, ZERO_PAGE, PGTABLE.
const KNOWN: [u64; 10] = [3, 11, 12, 14, 15, 16, 20, 22, 24, 26];

fn flags(at: usize) -> Result<Vec<u64>, Stop> {
    let flags = of_frame("kpageflags", frame(at)?)?;
    Ok(KNOWN
        .into_iter()
        .filter(|bit| flags >> bit & 1 == 1)
        .collect())
}

fn kpage_flags() -> Outcome {
    let at = anon(2)?;
    store(at, 1);
    check_eq!(flags(at)?, [3, 11, 12, 14]);
    load(at + PAGE);
    check_eq!(flags(at + PAGE)?, [24]);
    let shared = mmap(0, PAGE, RW, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1, 0)?;
    store(shared, 1);
    check_eq!(flags(shared)?, [3, 11, 14]);
    if on_quire() {
        // Somewhere there are page tables and free blocks.
        let has = |bit: u64| -> Result<bool, Stop> {
            let bytes = std::fs::read("/proc/kpageflags")?;
            let mut words = bytes
                .chunks_exact(8)
                .filter_map(|word| Some(u64::from_ne_bytes(word.try_into().ok()?)));
            Ok(words.any(|flags| flags >> bit & 1 == 1))
        };
        check!(has(26)? && has(10)?);
    }
    Ok(())
}

fn kpage_flags_of_a_folio() -> Outcome {
    let at = area()?;
    let head = flags(at)?;
    if !head.contains(&22) {
        return Err(Stop::Skip("no large folio was to be had".into()));
    }
    check_eq!(head, [3, 11, 12, 14, 15, 22]);
    check_eq!(flags(at + PAGE)?, [3, 11, 12, 14, 16, 22]);
    check_eq!((count(at)?, count(at + PAGE)?), (1, 1));
    let status = in_child(|| Ok(count(at)? as i32))?;
    check_eq!(status, Status::Exited(2));
    Ok(())
}
