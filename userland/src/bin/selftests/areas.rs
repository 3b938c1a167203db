//! How areas are cut and joined, as /proc/self/maps shows it, where they go, and how many there may
//! be.
use userland::harness::{Outcome, Stop, in_child};
use userland::sys::mem::{
    ANON, PAGE, RW, anon, load, madvise, mlock, mmap, mprotect, mremap, munlock, munmap, store,
};
use userland::sys::{fault, file, proc};
use userland::{check, check_eq, check_err};

userland::tests![
    areas_rights_cut_and_join,
    areas_advice_cuts_and_joins,
    areas_locks_cut_and_join,
    areas_a_gap_that_is_filled,
    areas_of_one_open_file_join,
    areas_written_apart_stay_apart,
    areas_neighbours_are_written_as_one,
    areas_moved_pages_stay_apart,
    areas_moved_unwritten_join,
    areas_of_a_parent_take_nothing_in,
    areas_accounted_once_written,
    areas_stack_grows,
    areas_large_ones_are_aligned,
    areas_limit_of_address_space,
    areas_limit_of_data,
    areas_more_than_all_memory,
    areas_as_many_as_allowed,
];

const READ: i32 = libc::PROT_READ;

/// A place of so many pages with nothing in it or around it, far below where mappings go that ask
/// for no address: what the library maps meanwhile must not join what is tested.
pub fn room(pages: usize) -> Result<usize, Stop> {
    const AT: usize = 0x20_0000_0000;
    let flags = ANON | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    mmap(AT, pages * PAGE, libc::PROT_NONE, flags, -1, 0)?;
    munmap(AT, pages * PAGE)?;
    Ok(AT)
}

/// Maps private memory in pages `first..end` of a room.
pub fn put(room: usize, first: usize, end: usize, prot: i32) -> Outcome {
    let flags = ANON | libc::MAP_FIXED;
    mmap(
        room + first * PAGE,
        (end - first) * PAGE,
        prot,
        flags,
        -1,
        0,
    )?;
    Ok(())
}

/// The areas in a room of so many pages: "first-end rights", in pages.
pub fn areas(room: usize, pages: usize) -> Result<String, Stop> {
    let mut out = Vec::new();
    for line in std::fs::read_to_string("/proc/self/maps")?.lines() {
        let mut words = line.split(' ');
        let (range, rights) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        let number = |s| usize::from_str_radix(s, 16).unwrap_or(0);
        let Some((start, end)) = range.split_once('-').map(|(s, e)| (number(s), number(e))) else {
            continue;
        };
        if start < room + pages * PAGE && room < end {
            let page = |at: usize| (at as i64 - room as i64) / PAGE as i64;
            out.push(format!("{}-{} {rights}", page(start), page(end)));
        }
    }
    Ok(out.join(", "))
}

/// Linux before this version joins areas in other ways.
pub fn since(major: u32, minor: u32) -> Outcome {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let mut numbers = release
        .split(['.', '-'])
        .map(|n| n.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    match userland::counters::on_quire() || version >= (major, minor) {
        true => Ok(()),
        false => userland::harness::skip("an older Linux"),
    }
}

fn areas_rights_cut_and_join() -> Outcome {
    let at = room(8)?;
    put(at, 0, 8, RW)?;
    mprotect(at + 2 * PAGE, 2 * PAGE, READ)?;
    check_eq!(areas(at, 8)?, "0-2 rw-p, 2-4 r--p, 4-8 rw-p");
    mprotect(at + 3 * PAGE, 3 * PAGE, READ)?;
    check_eq!(areas(at, 8)?, "0-2 rw-p, 2-6 r--p, 6-8 rw-p");
    mprotect(at + 2 * PAGE, 4 * PAGE, RW)?;
    check_eq!(areas(at, 8)?, "0-8 rw-p");
    munmap(at + 3 * PAGE, PAGE)?;
    check_eq!(areas(at, 8)?, "0-3 rw-p, 4-8 rw-p");
    // What lies before a hole is changed.
    check_err!(mprotect(at + 2 * PAGE, 3 * PAGE, READ), ENOMEM);
    check_eq!(areas(at, 8)?, "0-2 rw-p, 2-3 r--p, 4-8 rw-p");
    Ok(())
}

fn areas_advice_cuts_and_joins() -> Outcome {
    let at = room(6)?;
    put(at, 0, 6, RW)?;
    madvise(at + PAGE, 2 * PAGE, libc::MADV_DONTFORK)?;
    check_eq!(areas(at, 6)?, "0-1 rw-p, 1-3 rw-p, 3-6 rw-p");
    madvise(at, 6 * PAGE, libc::MADV_DONTFORK)?;
    check_eq!(areas(at, 6)?, "0-6 rw-p");
    madvise(at + 5 * PAGE, PAGE, libc::MADV_DOFORK)?;
    check_eq!(areas(at, 6)?, "0-5 rw-p, 5-6 rw-p");
    // Advice that sets nothing new cuts nothing.
    madvise(at + PAGE, PAGE, libc::MADV_DONTFORK)?;
    madvise(at + PAGE, PAGE, libc::MADV_DODUMP)?;
    madvise(at + PAGE, PAGE, libc::MADV_DONTNEED)?;
    check_eq!(areas(at, 6)?, "0-5 rw-p, 5-6 rw-p");
    Ok(())
}

fn areas_locks_cut_and_join() -> Outcome {
    let at = room(4)?;
    put(at, 0, 4, RW)?;
    mlock(at + PAGE + 5, PAGE)?;
    check_eq!(areas(at, 4)?, "0-1 rw-p, 1-3 rw-p, 3-4 rw-p");
    munlock(at + 2 * PAGE, 1)?;
    check_eq!(areas(at, 4)?, "0-1 rw-p, 1-2 rw-p, 2-4 rw-p");
    munlock(at, 4 * PAGE)?;
    check_eq!(areas(at, 4)?, "0-4 rw-p");
    // The area is locked, but pages that allow nothing cannot be had.
    put(at, 0, 1, libc::PROT_NONE)?;
    check_err!(mlock(at, PAGE), ENOMEM);
    Ok(())
}

fn areas_a_gap_that_is_filled() -> Outcome {
    let at = room(6)?;
    put(at, 0, 2, RW)?;
    put(at, 4, 6, RW)?;
    check_eq!(areas(at, 6)?, "0-2 rw-p, 4-6 rw-p");
    put(at, 2, 4, RW)?;
    check_eq!(areas(at, 6)?, "0-6 rw-p");
    Ok(())
}

fn areas_of_one_open_file_join() -> Outcome {
    std::fs::write("f", vec![0; 3 * PAGE])?;
    let [fd, other] = [(); 2].map(|()| file::open("f", libc::O_RDWR, 0));
    let (fd, other) = (fd?, other?);
    let at = room(3)?;
    let map = |page: usize, fd, kind| {
        let flags = kind | libc::MAP_FIXED;
        mmap(at + page * PAGE, PAGE, RW, flags, fd, page * PAGE).map(drop)
    };
    map(0, fd, libc::MAP_SHARED)?;
    map(1, fd, libc::MAP_SHARED)?;
    check_eq!(areas(at, 3)?, "0-2 rw-s");
    // It is another open file, if the same file.
    map(2, other, libc::MAP_SHARED)?;
    check_eq!(areas(at, 3)?, "0-2 rw-s, 2-3 rw-s");
    map(2, fd, libc::MAP_SHARED)?;
    check_eq!(areas(at, 3)?, "0-3 rw-s");
    file::close(fd)?;
    munmap(at + PAGE, PAGE)?;
    store(at + 2 * PAGE, 5);
    check_eq!(std::fs::read("f")?[2 * PAGE], 5);
    Ok(munmap(at, 3 * PAGE)?)
}

fn areas_written_apart_stay_apart() -> Outcome {
    let at = room(6)?;
    put(at, 0, 2, RW)?;
    put(at, 4, 6, RW)?;
    store(at, 1);
    store(at + 4 * PAGE, 2);
    // Two histories: what comes between joins the lower.
    put(at, 2, 4, RW)?;
    check_eq!(areas(at, 6)?, "0-4 rw-p, 4-6 rw-p");
    mprotect(at, 6 * PAGE, READ)?;
    mprotect(at, 6 * PAGE, RW)?;
    check_eq!(areas(at, 6)?, "0-4 rw-p, 4-6 rw-p");
    check_eq!([load(at), load(at + 4 * PAGE)], [1, 2]);
    Ok(())
}

fn areas_neighbours_are_written_as_one() -> Outcome {
    let at = room(4)?;
    put(at, 0, 4, RW)?;
    mprotect(at + 2 * PAGE, 2 * PAGE, RW | libc::PROT_EXEC)?;
    store(at + 2 * PAGE, 1);
    store(at, 2);
    check_eq!(areas(at, 4)?, "0-2 rw-p, 2-4 rwxp");
    mprotect(at + 2 * PAGE, 2 * PAGE, RW)?;
    check_eq!(areas(at, 4)?, "0-4 rw-p");
    Ok(())
}

fn areas_moved_pages_stay_apart() -> Outcome {
    let at = room(8)?;
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    put(at, 0, 4, RW)?;
    (0..4).for_each(|n| store(at + n * PAGE, n as u64));
    mremap(at + 2 * PAGE, 2 * PAGE, 2 * PAGE, flags, at + 4 * PAGE)?;
    check_eq!(areas(at, 8)?, "0-2 rw-p, 4-6 rw-p");
    put(at, 2, 4, RW)?;
    check_eq!(areas(at, 8)?, "0-4 rw-p, 4-6 rw-p");
    // Back where they were written they belong together again.
    munmap(at + 2 * PAGE, 2 * PAGE)?;
    mremap(at + 4 * PAGE, 2 * PAGE, 2 * PAGE, flags, at + 2 * PAGE)?;
    check_eq!(areas(at, 8)?, "0-4 rw-p");
    check_eq!([0, 1, 2, 3].map(|n| load(at + n * PAGE)), [0, 1, 2, 3]);
    Ok(())
}

fn areas_moved_unwritten_join() -> Outcome {
    let at = room(8)?;
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    put(at, 0, 2, RW)?;
    put(at, 6, 8, RW)?;
    mremap(at + 6 * PAGE, 2 * PAGE, 2 * PAGE, flags, at + 2 * PAGE)?;
    check_eq!(areas(at, 8)?, "0-4 rw-p");
    Ok(())
}

fn areas_of_a_parent_take_nothing_in() -> Outcome {
    let at = room(4)?;
    put(at, 0, 2, RW)?;
    store(at, 1);
    let joined = in_child(|| {
        put(at, 2, 4, RW)?;
        Ok((areas(at, 4)? == "0-2 rw-p, 2-4 rw-p") as i32)
    })?;
    check_eq!(joined, proc::Status::Exited(1));
    put(at, 2, 4, RW)?;
    check_eq!(areas(at, 4)?, "0-4 rw-p");
    Ok(())
}

fn areas_accounted_once_written() -> Outcome {
    since(6, 4)?;
    let at = room(4)?;
    for (written, shown) in [(false, "0-2 r--p"), (true, "0-1 r--p, 1-2 r--p")] {
        put(at, 0, 1, RW)?;
        if written {
            store(at, 1);
        }
        mprotect(at, PAGE, READ)?;
        put(at, 1, 2, READ)?;
        check_eq!(areas(at, 4)?, shown);
        munmap(at, 2 * PAGE)?;
    }
    Ok(())
}

fn areas_stack_grows() -> Outcome {
    fault::arm();
    const PAGES: usize = 600;
    let at = room(PAGES)?;
    let flags = ANON | libc::MAP_FIXED | libc::MAP_GROWSDOWN;
    mmap(at + (PAGES - 1) * PAGE, PAGE, RW, flags, -1, 0)?;
    store(at + (PAGES - 9) * PAGE, 1);
    check_eq!(areas(at, PAGES)?, format!("{}-{PAGES} rw-p", PAGES - 9));
    // 256 pages stay free below it, but for a mapping that allows nothing.
    put(at, 100, 101, RW)?;
    fault::write(at + (101 + 256) * PAGE, 1)?;
    check!(fault::write(at + (101 + 255) * PAGE, 1).is_err());
    mprotect(at + 100 * PAGE, PAGE, libc::PROT_NONE)?;
    fault::write(at + 101 * PAGE, 1)?;
    check_eq!(areas(at, PAGES)?, format!("100-101 ---p, 101-{PAGES} rw-p"));
    let shared = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_GROWSDOWN;
    check_err!(mmap(0, PAGE, RW, shared, -1, 0), EINVAL);
    Ok(())
}

fn areas_large_ones_are_aligned() -> Outcome {
    since(6, 13)?;
    const LARGE: usize = 2 << 20;
    for len in [LARGE, 3 * LARGE, LARGE] {
        // So that the end of the gap is anywhere.
        anon(3)?;
        let at = mmap(0, len, RW, ANON, -1, 0)?;
        check!(at % LARGE == 0, "{len:#x} bytes went to {at:#x}");
    }
    Ok(())
}

/// Bytes that are mapped now.
fn size() -> Result<u64, Stop> {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let pages = statm.split(' ').next().and_then(|n| n.parse::<u64>().ok());
    Ok(pages.unwrap_or(0) * PAGE as u64)
}

fn areas_limit_of_address_space() -> Outcome {
    let at = room(1000)?;
    let hard = proc::getrlimit(libc::RLIMIT_AS)?.1;
    put(at, 0, 10, RW)?;
    proc::setrlimit(libc::RLIMIT_AS, size()? + 100 * PAGE as u64, hard)?;
    let mapped = |n| {
        mmap(
            at + 10 * PAGE,
            n * PAGE,
            libc::PROT_NONE,
            ANON | libc::MAP_FIXED,
            -1,
            0,
        )
    };
    check_err!(mapped(200), ENOMEM);
    mapped(50)?;
    // What is replaced does not count.
    mapped(50)?;
    check_err!(
        mremap(at, 10 * PAGE, 300 * PAGE, libc::MREMAP_MAYMOVE, 0),
        ENOMEM
    );
    proc::setrlimit(libc::RLIMIT_AS, hard, hard)?;
    mapped(200)?;
    Ok(())
}

fn areas_limit_of_data() -> Outcome {
    let at = room(5000)?;
    let hard = proc::getrlimit(libc::RLIMIT_DATA)?.1;
    put(at, 0, 2000, READ)?;
    // Less than there is already: nothing more may become data.
    proc::setrlimit(libc::RLIMIT_DATA, PAGE as u64, hard)?;
    check_err!(
        mmap(at + 2000 * PAGE, PAGE, RW, ANON | libc::MAP_FIXED, -1, 0),
        ENOMEM
    );
    check_err!(mprotect(at, PAGE, RW), ENOMEM);
    put(at, 2000, 3000, READ)?;
    let shared = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    mmap(at + 3000 * PAGE, PAGE, RW, shared | libc::MAP_FIXED, -1, 0)?;
    proc::setrlimit(libc::RLIMIT_DATA, hard, hard)?;
    Ok(mprotect(at, PAGE, RW)?)
}

fn areas_more_than_all_memory() -> Outcome {
    const LEN: usize = 1 << 44;
    if std::fs::read_to_string("/proc/sys/vm/overcommit_memory").is_ok_and(|m| m.trim() == "1") {
        return userland::harness::skip("vm.overcommit_memory is 1");
    }
    check_err!(mmap(0, LEN, RW, ANON, -1, 0), ENOMEM);
    let at = mmap(0, LEN, READ, ANON, -1, 0)?;
    check_err!(mprotect(at, LEN, RW), ENOMEM);
    munmap(at, LEN)?;
    let at = mmap(0, LEN, RW, ANON | libc::MAP_NORESERVE, -1, 0)?;
    Ok(munmap(at, LEN)?)
}

fn areas_as_many_as_allowed() -> Outcome {
    const MOST: usize = 65530;
    let known = std::fs::read_to_string("/proc/sys/vm/max_map_count");
    if known.is_ok_and(|n| n.trim() != MOST.to_string()) {
        return userland::harness::skip("vm.max_map_count is not 65530");
    }
    let at = room(2 * MOST + 2)?;
    let lines = std::fs::read_to_string("/proc/self/maps")?
        .lines()
        .filter(|l| !l.contains("[vsyscall]"))
        .count();
    let mapped = (0..MOST + 2)
        .take_while(|n| put(at, 2 * n, 2 * n + 1, READ).is_ok())
        .count();
    // One more than the limit says. The run of tests may have made a few areas meanwhile.
    check!(
        (mapped + lines).abs_diff(MOST + 1) <= 4,
        "{mapped} mappings and {lines} before"
    );
    check_err!(
        mprotect(at, PAGE, READ | libc::PROT_EXEC).and(put_again(at)),
        ENOMEM
    );
    fault::arm();
    check_eq!(fault::read(at + 2 * 30000 * PAGE)?, 0);
    let status = in_child(|| Ok((load(at + 2 * 60000 * PAGE) == 0) as i32))?;
    check_eq!(status, proc::Status::Exited(1));
    Ok(munmap(at, (2 * MOST + 2) * PAGE)?)
}

fn put_again(at: usize) -> userland::sys::Result<()> {
    mmap(at + PAGE, PAGE, RW, ANON | libc::MAP_FIXED, -1, 0).map(drop)
}
