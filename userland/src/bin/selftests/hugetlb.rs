//! Huge pages of hugetlb: MAP_HUGETLB, MFD_HUGETLB and hugetlbfs.
use userland::harness::{Outcome, Stop, in_child};
use userland::sys::fault;
use userland::sys::mem::{
    ANON, PAGE, RW, load, madvise, mmap, mprotect, mremap, munmap, pagemap, store,
};
use userland::sys::{Result, call, file, proc};
use userland::{check, check_eq, check_err};

userland::tests![
    hugetlb_reserves_at_mmap,
    hugetlb_noreserve_meets_sigbus,
    hugetlb_private_after_fork,
    hugetlb_shared_with_a_child,
    hugetlb_memfd,
    hugetlb_shm,
    hugetlb_mount,
    hugetlb_is_not_cut,
    hugetlb_moves,
    hugetlb_dont_need,
    hugetlb_figures,
];

pub const SIZE: usize = 2 << 20;
const POOL: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB";
pub const HUGE: i32 = ANON | libc::MAP_HUGETLB;
pub const SHARED_HUGE: i32 = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_HUGETLB;

fn figure(name: &str) -> std::result::Result<usize, Stop> {
    let text = std::fs::read_to_string(format!("{POOL}/{name}"))?;
    text.trim()
        .parse()
        .map_err(|_| Stop::Fail(format!("{name} is {text:?}")))
}

/// (free, reserved).
pub fn left() -> std::result::Result<(usize, usize), Stop> {
    Ok((figure("free_hugepages")?, figure("resv_hugepages")?))
}

/// A pool, which is empty again when the test ends.
pub struct Pool;

impl Pool {
    pub fn of(pages: usize) -> std::result::Result<Pool, Stop> {
        fault::arm();
        let skip = |why: &str| Err(Stop::Skip(why.into()));
        if figure("nr_hugepages").unwrap_or(0) != 0 {
            return skip("others have huge pages");
        }
        if std::fs::write(format!("{POOL}/nr_hugepages"), format!("{pages}")).is_err() {
            return skip("huge pages cannot be had");
        }
        let pool = Pool;
        match figure("nr_hugepages")? == pages && left()? == (pages, 0) {
            true => Ok(pool),
            false => skip("no memory for huge pages"),
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let _ = std::fs::write(format!("{POOL}/nr_hugepages"), "0");
    }
}

pub fn map(pages: usize, flags: i32) -> Result<usize> {
    mmap(0, pages * SIZE, RW, flags, -1, 0)
}

fn memfd() -> Result<i32> {
    let name = c"huge".as_ptr() as usize;
    let flags = libc::MFD_HUGETLB as usize;
    call(libc::SYS_memfd_create, [name, flags, 0, 0, 0, 0]).map(|fd| fd as i32)
}

fn bus(at: usize) -> Outcome {
    match fault::write(at, 1) {
        Err(trap) if trap.signal == libc::SIGBUS => Ok(()),
        other => Err(Stop::Fail(format!("{other:x?} instead of SIGBUS"))),
    }
}

fn hugetlb_reserves_at_mmap() -> Outcome {
    let _pool = Pool::of(3)?;
    let at = map(2, HUGE)?;
    check_eq!(at % SIZE, 0);
    check_eq!(left()?, (3, 2));
    check_err!(map(2, HUGE), ENOMEM);
    check_err!(map(2, SHARED_HUGE), ENOMEM);
    check_err!(map(1, HUGE | 13 << 26), EINVAL);
    check_eq!(left()?, (3, 2));
    store(at + SIZE + PAGE, 5);
    check_eq!(load(at + SIZE), 0);
    check_eq!(left()?, (2, 1));
    // Lengths are rounded up.
    let small = mmap(0, PAGE, RW, HUGE, -1, 0)?;
    store(small + SIZE - 8, 1);
    check_eq!(left()?, (1, 1));
    munmap(small, SIZE)?;
    munmap(at, 2 * SIZE)?;
    check_eq!(left()?, (3, 0));
    Ok(())
}

fn hugetlb_noreserve_meets_sigbus() -> Outcome {
    let _pool = Pool::of(1)?;
    let at = map(2, HUGE | libc::MAP_NORESERVE)?;
    check_eq!(left()?, (1, 0));
    store(at, 1);
    bus(at + SIZE)?;
    // The kernel's access does not end the process.
    let fd = file::open("/dev/zero", libc::O_RDONLY, 0)?;
    let read = [fd as usize, at + SIZE, 8, 0, 0, 0];
    check_err!(call(libc::SYS_read, read), EFAULT);
    munmap(at, SIZE)?;
    store(at + SIZE, 1);
    munmap(at + SIZE, SIZE)?;
    Ok(())
}

fn hugetlb_private_after_fork() -> Outcome {
    let _pool = Pool::of(3)?;
    let at = map(2, HUGE)?;
    store(at, 1);
    let child = in_child(|| {
        check_eq!(load(at), 1);
        store(at + 8, 2);
        check_eq!(left()?, (1, 1));
        // What is left is the parent's.
        bus(at + SIZE)?;
        Ok(0)
    })?;
    check_eq!(child, proc::Status::Exited(0));
    check_eq!(load(at + 8), 0);
    check_eq!(left()?, (2, 1));
    store(at + SIZE, 1);
    munmap(at, 2 * SIZE)?;
    check_eq!(left()?, (3, 0));
    Ok(())
}

fn hugetlb_shared_with_a_child() -> Outcome {
    let _pool = Pool::of(2)?;
    let at = map(2, SHARED_HUGE)?;
    check_eq!(left()?, (2, 2));
    let child = in_child(|| {
        store(at + SIZE, 7);
        Ok(0)
    })?;
    check_eq!(child, proc::Status::Exited(0));
    check_eq!(load(at + SIZE), 7);
    check_eq!(left()?, (1, 1));
    munmap(at, 2 * SIZE)?;
    check_eq!(left()?, (2, 0));
    Ok(())
}

fn hugetlb_memfd() -> Outcome {
    let _pool = Pool::of(3)?;
    let fd = memfd()?;
    check_err!(file::ftruncate(fd, PAGE as i64), EINVAL);
    file::ftruncate(fd, 2 * SIZE as i64)?;
    check_err!(file::write(fd, &[1]), EINVAL);
    check_err!(mmap(0, SIZE, RW, libc::MAP_SHARED, fd, PAGE), EINVAL);
    let at = mmap(0, 2 * SIZE, RW, libc::MAP_SHARED, fd, 0)?;
    store(at + SIZE, 3);
    let copy = mmap(0, SIZE, RW, libc::MAP_PRIVATE, fd, SIZE)?;
    check_eq!(load(copy), 3);
    store(copy, 4);
    check_eq!(load(at + SIZE), 3);
    let mut byte = [0];
    check_eq!(file::pread(fd, &mut byte, SIZE as i64)?, 1);
    check_eq!(byte, [3]);
    // The file keeps its pages and reservations as long as it is open.
    munmap(at, 2 * SIZE)?;
    munmap(copy, SIZE)?;
    check_eq!(left()?, (2, 1));
    let punch = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    let hole = [fd as usize, punch as usize, 0, 2 * SIZE, 0, 0];
    call(libc::SYS_fallocate, hole)?;
    // What was a hole before keeps its reservation, until it has a page.
    check_eq!(left()?, (3, 1));
    call(libc::SYS_fallocate, [fd as usize, 0, 0, SIZE, 0, 0])?;
    check_eq!(left()?, (2, 0));
    file::close(fd)?;
    check_eq!(left()?, (3, 0));
    Ok(())
}

/// shmget(2), SHM_HUGETLB.
fn shmget(len: usize, flags: usize) -> Result<usize> {
    call(libc::SYS_shmget, [0, len, 0o4000 | 0o600 | flags, 0, 0, 0])
}

fn shmat(id: usize) -> Result<usize> {
    call(libc::SYS_shmat, [id, 0, 0, 0, 0, 0])
}

fn hugetlb_shm() -> Outcome {
    let _pool = Pool::of(3)?;
    let detach = |at| call(libc::SYS_shmdt, [at, 0, 0, 0, 0, 0]);
    let remove = |id| call(libc::SYS_shmctl, [id, 0, 0, 0, 0, 0]);
    check_err!(shmget(4 * SIZE, 0), ENOMEM);
    check_err!(shmget(SIZE, 13 << 26), EINVAL);
    check_eq!(left()?, (3, 0));
    // 2 MiB by name, and a length that is rounded up.
    let id = shmget(SIZE + PAGE, 21 << 26)?;
    check_eq!(left()?, (3, 2));
    let at = shmat(id)?;
    check_eq!(at % SIZE, 0);
    store(at + 2 * SIZE - 8, 6);
    check_eq!([load(at), load(at + 2 * SIZE - 8)], [0, 6]);
    check_eq!(left()?, (1, 0));
    in_child(|| {
        store(at, 5);
        Ok(0)
    })?;
    check_eq!(load(at), 5);
    remove(id)?;
    detach(at)?;
    check_eq!(left()?, (3, 0));
    // SHM_NORESERVE: the first who come.
    let id = shmget(4 * SIZE, 0o10000)?;
    let at = shmat(id)?;
    remove(id)?;
    check_eq!(left()?, (3, 0));
    (0..3).for_each(|n| store(at + n * SIZE, 1));
    bus(at + 3 * SIZE)?;
    detach(at)?;
    check_eq!(left()?, (3, 0));
    Ok(())
}

fn hugetlb_mount() -> Outcome {
    let _pool = Pool::of(2)?;
    std::fs::create_dir_all("huge")?;
    if proc::mount("none", "huge", "hugetlbfs", 0).is_err() {
        return Err(Stop::Skip("no right to mount".into()));
    }
    let fd = file::open("huge/file", libc::O_RDWR | libc::O_CREAT, 0o600)?;
    // A writable mapping makes the file as long.
    let at = mmap(0, SIZE, RW, libc::MAP_SHARED, fd, 0)?;
    check_eq!(std::fs::metadata("huge/file")?.len(), SIZE as u64);
    store(at, 9);
    file::close(fd)?;
    munmap(at, SIZE)?;
    check_eq!(left()?, (1, 0));
    std::fs::remove_file("huge/file")?;
    check_eq!(left()?, (2, 0));
    let target = c"huge".as_ptr() as usize;
    call(libc::SYS_umount2, [target, 0, 0, 0, 0, 0])?;
    Ok(())
}

fn hugetlb_is_not_cut() -> Outcome {
    let _pool = Pool::of(2)?;
    let at = map(2, HUGE)?;
    store(at, 1);
    check_err!(munmap(at, PAGE), EINVAL);
    check_err!(munmap(at + PAGE, SIZE - PAGE), EINVAL);
    check_err!(mprotect(at, PAGE, libc::PROT_READ), EINVAL);
    check_err!(
        mmap(at + PAGE, SIZE, RW, HUGE | libc::MAP_FIXED, -1, 0),
        EINVAL
    );
    mprotect(at, SIZE, libc::PROT_READ)?;
    check!(fault::write(at, 1).is_err());
    check_eq!(load(at), 1);
    munmap(at, 2 * SIZE)?;
    Ok(())
}

fn hugetlb_moves() -> Outcome {
    let _pool = Pool::of(2)?;
    let at = map(2, HUGE)?;
    store(at + SIZE, 6);
    let may = libc::MREMAP_MAYMOVE;
    check_err!(mremap(at, 2 * SIZE, 3 * SIZE, may, 0), EINVAL);
    // Room of which a part is aligned.
    let room = mmap(0, 3 * SIZE, libc::PROT_NONE, ANON, -1, 0)?;
    let to = room.next_multiple_of(SIZE);
    let fixed = may | libc::MREMAP_FIXED;
    check_err!(mremap(at, 2 * SIZE, 2 * SIZE, fixed, to + PAGE), EINVAL);
    check_eq!(mremap(at, 2 * SIZE, 2 * SIZE, fixed, to)?, to);
    check_eq!(load(to + SIZE), 6);
    store(to, 1);
    check_eq!(left()?, (0, 0));
    munmap(to, 2 * SIZE)?;
    check_eq!(left()?, (2, 0));
    Ok(())
}

fn hugetlb_dont_need() -> Outcome {
    let _pool = Pool::of(1)?;
    let at = map(1, HUGE)?;
    store(at, 1);
    check_err!(madvise(at + PAGE, SIZE - PAGE, libc::MADV_DONTNEED), EINVAL);
    check_err!(madvise(at, SIZE, libc::MADV_FREE), EINVAL);
    // A part of a page is none.
    madvise(at, PAGE, libc::MADV_DONTNEED)?;
    check_eq!(load(at), 1);
    madvise(at, SIZE, libc::MADV_DONTNEED)?;
    // It is for nobody else.
    check_eq!(left()?, (1, 1));
    check_err!(map(1, HUGE), ENOMEM);
    check_eq!(load(at), 0);
    munmap(at, SIZE)?;
    Ok(())
}

/// The number in kB behind `name` of the area that begins at `at`.
fn smaps(at: usize, name: &str) -> std::result::Result<usize, Stop> {
    let text = std::fs::read_to_string("/proc/self/smaps")?;
    let header = format!("{at:x}-");
    let lines = text.lines().skip_while(|line| !line.starts_with(&header));
    let mut values = lines.filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let value = values
        .next()
        .and_then(|value| value.split_whitespace().next());
    value
        .and_then(|value| value.parse().ok())
        .ok_or_else(|| Stop::Fail(format!("no {name} at {at:x}")))
}

fn hugetlb_figures() -> Outcome {
    let _pool = Pool::of(2)?;
    let at = map(1, HUGE)?;
    store(at, 1);
    check_eq!(smaps(at, "KernelPageSize")?, SIZE >> 10);
    check_eq!(smaps(at, "MMUPageSize")?, SIZE >> 10);
    check_eq!(smaps(at, "Private_Hugetlb")?, SIZE >> 10);
    check_eq!(smaps(at, "Shared_Hugetlb")?, 0);
    check_eq!(smaps(at, "Rss")?, 0);
    let text = std::fs::read_to_string("/proc/self/smaps")?;
    let header = format!("{at:x}-");
    let flags = text.lines().skip_while(|line| !line.starts_with(&header));
    let flags = flags.into_iter().find(|line| line.starts_with("VmFlags:"));
    check!(flags.is_some_and(|line| line.split_whitespace().any(|word| word == "ht")));
    let status = std::fs::read_to_string("/proc/self/status")?;
    check!(status.contains(&format!("HugetlbPages:\t{:8} kB", SIZE >> 10)));
    let meminfo = std::fs::read_to_string("/proc/meminfo")?;
    check!(meminfo.contains("HugePages_Free:        1"));
    // Present, exclusive, and not of a file.
    check_eq!(pagemap(at, 1)?[0] >> 56 & 0xa1, 0x81);
    munmap(at, SIZE)?;
    Ok(())
}
