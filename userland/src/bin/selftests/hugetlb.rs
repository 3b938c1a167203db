//! Huge pages of hugetlb: MAP_HUGETLB, MFD_HUGETLB and hugetlbfs.
use userland::harness::{Outcome, Stop, in_child};
use userland::sys::mem::{
    ANON, PAGE, RW, load, madvise, mmap, mprotect, mremap, munmap, pagemap, store,
};
use userland::sys::proc::{Fork, Status};
use userland::sys::{Result, call, fault, file, proc, sig};
use userland::{check, check_eq, check_err};

userland::tests![
    hugetlb_reserves_at_mmap,
    hugetlb_noreserve_meets_sigbus,
    hugetlb_private_after_fork,
    hugetlb_owner_keeps_its_page,
    hugetlb_shared_with_a_child,
    hugetlb_memfd,
    hugetlb_allocates,
    hugetlb_shm,
    hugetlb_mount,
    hugetlb_is_not_cut,
    hugetlb_moves,
    hugetlb_dont_need,
    hugetlb_figures,
];

/// The size of those who name none.
const DEFAULT: usize = 2 << 20;
/// The largest size that is tested.
const LARGEST: usize = 64 << 20;
const POOLS: &str = "/sys/kernel/mm/hugepages";
pub const HUGE: i32 = ANON | libc::MAP_HUGETLB;
pub const SHARED_HUGE: i32 = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_HUGETLB;

/// The sizes of huge pages, in bytes, smallest first.
fn sizes() -> std::result::Result<Vec<usize>, Stop> {
    let Ok(pools) = std::fs::read_dir(POOLS) else {
        return Err(Stop::Skip("there are no huge pages".into()));
    };
    let size = |name: String| -> Option<usize> {
        let kb = name.strip_prefix("hugepages-")?.strip_suffix("kB")?;
        Some(kb.parse::<usize>().ok()? << 10)
    };
    let names = pools.filter_map(|pool| pool.ok()?.file_name().into_string().ok());
    let mut sizes: Vec<_> = names.filter_map(size).collect();
    sizes.sort_unstable();
    Ok(sizes)
}

/// Runs a test with pools of so many pages, of each size; of other sizes than the default one, if
/// there is memory for them.
pub fn of_each_size(pages: usize, test: impl Fn(&Pool) -> Outcome) -> Outcome {
    for size in sizes()?.into_iter().filter(|size| *size <= LARGEST) {
        match Pool::of(size, pages) {
            Ok(pool) => test(&pool)?,
            Err(Stop::Skip(_)) if size != DEFAULT => {}
            Err(why) => return Err(why),
        }
    }
    Ok(())
}

/// A pool, which is empty again when the test ends.
pub struct Pool {
    /// Bytes of a page.
    pub size: usize,
}

impl Pool {
    fn of(size: usize, pages: usize) -> std::result::Result<Pool, Stop> {
        fault::arm();
        let skip = |why: &str| Err(Stop::Skip(why.into()));
        let pool = Pool { size };
        if pool.figure("nr_hugepages").unwrap_or(0) != 0 {
            return skip("others have huge pages");
        }
        if std::fs::write(pool.path("nr_hugepages"), format!("{pages}")).is_err() {
            return skip("huge pages cannot be had");
        }
        match pool.figure("nr_hugepages")? == pages && pool.left()? == (pages, 0) {
            true => Ok(pool),
            false => skip("no memory for huge pages"),
        }
    }
    fn path(&self, name: &str) -> String {
        format!("{POOLS}/hugepages-{}kB/{name}", self.size >> 10)
    }
    fn figure(&self, name: &str) -> std::result::Result<usize, Stop> {
        let text = std::fs::read_to_string(self.path(name))?;
        text.trim()
            .parse()
            .map_err(|_| Stop::Fail(format!("{name} is {text:?}")))
    }
    /// (free, reserved).
    pub fn left(&self) -> std::result::Result<(usize, usize), Stop> {
        let free = self.figure("free_hugepages")?;
        Ok((free, self.figure("resv_hugepages")?))
    }
    /// The size as MAP_HUGETLB, MFD_HUGETLB and SHM_HUGETLB take it.
    fn name(&self) -> i32 {
        (self.size.trailing_zeros() as i32) << 26
    }
    /// Maps so many pages.
    pub fn map(&self, pages: usize, flags: i32) -> Result<usize> {
        self.map_bytes(pages * self.size, flags)
    }
    fn map_bytes(&self, len: usize, flags: i32) -> Result<usize> {
        mmap(0, len, RW, flags | self.name(), -1, 0)
    }
    pub fn memfd(&self) -> Result<i32> {
        file::memfd(libc::MFD_HUGETLB | self.name() as u32)
    }
    /// shmget(2), SHM_HUGETLB.
    pub fn shmget(&self, len: usize, flags: usize) -> Result<usize> {
        let flags = 0o4000 | 0o600 | flags | self.name() as usize;
        call(libc::SYS_shmget, [0, len, flags, 0, 0, 0])
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let _ = std::fs::write(self.path("nr_hugepages"), "0");
    }
}

fn bus(at: usize) -> Outcome {
    match fault::write(at, 1) {
        Err(trap) if trap.signal == libc::SIGBUS => Ok(()),
        other => Err(Stop::Fail(format!("{other:x?} instead of SIGBUS"))),
    }
}

fn hugetlb_reserves_at_mmap() -> Outcome {
    of_each_size(3, |pool| {
        let size = pool.size;
        let at = pool.map(2, HUGE)?;
        check_eq!(at % size, 0);
        check_eq!(pool.left()?, (3, 2));
        check_err!(pool.map(2, HUGE), ENOMEM);
        check_err!(pool.map(2, SHARED_HUGE), ENOMEM);
        check_err!(mmap(0, size, RW, HUGE | 13 << 26, -1, 0), EINVAL);
        check_eq!(pool.left()?, (3, 2));
        store(at + size + PAGE, 5);
        check_eq!(load(at + size), 0);
        check_eq!(pool.left()?, (2, 1));
        // Lengths are rounded up.
        let small = pool.map_bytes(PAGE, HUGE)?;
        store(small + size - 8, 1);
        check_eq!(pool.left()?, (1, 1));
        munmap(small, size)?;
        munmap(at, 2 * size)?;
        check_eq!(pool.left()?, (3, 0));
        Ok(())
    })
}

fn hugetlb_noreserve_meets_sigbus() -> Outcome {
    of_each_size(1, |pool| {
        let size = pool.size;
        let at = pool.map(2, HUGE | libc::MAP_NORESERVE)?;
        check_eq!(pool.left()?, (1, 0));
        store(at, 1);
        bus(at + size)?;
        // The kernel's access does not end the process.
        let fd = file::open("/dev/zero", libc::O_RDONLY, 0)?;
        let read = [fd as usize, at + size, 8, 0, 0, 0];
        check_err!(call(libc::SYS_read, read), EFAULT);
        munmap(at, size)?;
        store(at + size, 1);
        munmap(at + size, size)?;
        Ok(())
    })
}

fn hugetlb_private_after_fork() -> Outcome {
    of_each_size(3, |pool| {
        let size = pool.size;
        let at = pool.map(2, HUGE)?;
        store(at, 1);
        let child = in_child(|| {
            check_eq!(load(at), 1);
            store(at + 8, 2);
            check_eq!(pool.left()?, (1, 1));
            // What is left is the parent's.
            bus(at + size)?;
            Ok(0)
        })?;
        check_eq!(child, Status::Exited(0));
        check_eq!(load(at + 8), 0);
        check_eq!(pool.left()?, (2, 1));
        store(at + size, 1);
        munmap(at, 2 * size)?;
        check_eq!(pool.left()?, (3, 0));
        Ok(())
    })
}

/// What is reserved is the owner's: a write after fork with an empty pool takes the page away from
/// the child, which never sees other contents.
fn hugetlb_owner_keeps_its_page() -> Outcome {
    of_each_size(1, |pool| {
        let at = pool.map(1, HUGE)?;
        store(at, 5);
        let (hear, tell) = file::pipe(0)?;
        let (seen, sees) = file::pipe(0)?;
        let Fork::Parent(pid) = proc::fork()? else {
            let seen = load(at) == 5 && file::write(sees, &[1]) == Ok(1);
            let told = file::read(hear, &mut [0]) == Ok(1);
            let lost = bus(at).is_ok() && fault::read(at).is_err();
            proc::exit_now((seen && told && lost) as i32)
        };
        file::read(seen, &mut [0])?;
        store(at, 6);
        // The child looks where a page could be had by now.
        std::fs::write(pool.path("nr_hugepages"), "2")?;
        file::write(tell, &[1])?;
        check_eq!(proc::wait_for(pid)?, Status::Exited(1));
        check_eq!(load(at), 6);
        munmap(at, pool.size)?;
        for fd in [hear, tell, seen, sees] {
            file::close(fd)?;
        }
        Ok(())
    })
}

fn hugetlb_shared_with_a_child() -> Outcome {
    of_each_size(2, |pool| {
        let size = pool.size;
        let at = pool.map(2, SHARED_HUGE)?;
        check_eq!(pool.left()?, (2, 2));
        let child = in_child(|| {
            store(at + size, 7);
            Ok(0)
        })?;
        check_eq!(child, Status::Exited(0));
        check_eq!(load(at + size), 7);
        check_eq!(pool.left()?, (1, 1));
        munmap(at, 2 * size)?;
        check_eq!(pool.left()?, (2, 0));
        Ok(())
    })
}

fn hugetlb_memfd() -> Outcome {
    of_each_size(3, |pool| {
        let size = pool.size;
        let fd = pool.memfd()?;
        check_err!(file::ftruncate(fd, PAGE as i64), EINVAL);
        file::ftruncate(fd, 2 * size as i64)?;
        check_err!(file::write(fd, &[1]), EINVAL);
        check_err!(mmap(0, size, RW, libc::MAP_SHARED, fd, PAGE), EINVAL);
        // Rounded up, it would end at 2^63.
        let (last, promised) = ((1 << 63) - size, libc::MAP_SHARED | libc::MAP_NORESERVE);
        check_err!(mmap(0, PAGE, RW, promised, fd, last), EOVERFLOW);
        check_err!(mmap(0, 4 * size, RW, libc::MAP_SHARED, fd, 0), ENOMEM);
        check_eq!(file::lseek(fd, 0, libc::SEEK_END)?, 2 * size as u64);
        let at = mmap(0, 2 * size, RW, libc::MAP_SHARED, fd, 0)?;
        store(at + size, 3);
        let copy = mmap(0, size, RW, libc::MAP_PRIVATE, fd, size)?;
        check_eq!(load(copy), 3);
        store(copy, 4);
        check_eq!(load(at + size), 3);
        let mut byte = [0];
        check_eq!(file::pread(fd, &mut byte, size as i64)?, 1);
        check_eq!(byte, [3]);
        // The file keeps its pages and reservations as long as it is open.
        munmap(at, 2 * size)?;
        munmap(copy, size)?;
        check_eq!(pool.left()?, (2, 1));
        file::fallocate(fd, file::PUNCH, 0, 2 * size)?;
        // What was a hole before keeps its reservation, until it has a page.
        check_eq!(pool.left()?, (3, 1));
        file::fallocate(fd, 0, 0, size)?;
        check_eq!(pool.left()?, (2, 0));
        file::close(fd)?;
        check_eq!(pool.left()?, (3, 0));
        Ok(())
    })
}

/// fallocate(2): in whole pages, and none for what is refused.
fn hugetlb_allocates() -> Outcome {
    of_each_size(2, |pool| {
        let (size, fd) = (pool.size, pool.memfd()?);
        let allocate = |mode, from, len| file::fallocate(fd, mode, from, len);
        allocate(0, 0, 1)?;
        check_eq!(pool.left()?, (1, 0));
        // The size is not, although ftruncate(2) takes whole pages only.
        check_eq!(file::lseek(fd, 0, libc::SEEK_END)?, 1);
        check_err!(allocate(libc::FALLOC_FL_ZERO_RANGE, 0, size), EOPNOTSUPP);
        sig::ignore(libc::SIGXFSZ)?;
        proc::setrlimit(libc::RLIMIT_FSIZE, size as u64, libc::RLIM_INFINITY)?;
        for mode in [0, libc::FALLOC_FL_KEEP_SIZE] {
            check_err!(allocate(mode, size, size), EFBIG);
        }
        proc::setrlimit(libc::RLIMIT_FSIZE, libc::RLIM_INFINITY, libc::RLIM_INFINITY)?;
        check_eq!(pool.left()?, (1, 0));
        allocate(0, size + 5, 1)?;
        check_err!(allocate(0, 2 * size, 1), ENOSPC);
        check_eq!(pool.left()?, (0, 0));
        file::close(fd)?;
        check_eq!(pool.left()?, (2, 0));
        Ok(())
    })
}

fn shmat(id: usize) -> Result<usize> {
    call(libc::SYS_shmat, [id, 0, 0, 0, 0, 0])
}

fn hugetlb_shm() -> Outcome {
    of_each_size(3, |pool| {
        let size = pool.size;
        let detach = |at| call(libc::SYS_shmdt, [at, 0, 0, 0, 0, 0]);
        let remove = |id| call(libc::SYS_shmctl, [id, 0, 0, 0, 0, 0]);
        check_err!(pool.shmget(4 * size, 0), ENOMEM);
        let other = [0, size, 0o4600 | 13 << 26, 0, 0, 0];
        check_err!(call(libc::SYS_shmget, other), EINVAL);
        check_eq!(pool.left()?, (3, 0));
        // A length that is rounded up.
        let id = pool.shmget(size + PAGE, 0)?;
        check_eq!(pool.left()?, (3, 2));
        let at = shmat(id)?;
        check_eq!(at % size, 0);
        store(at + 2 * size - 8, 6);
        check_eq!([load(at), load(at + 2 * size - 8)], [0, 6]);
        check_eq!(pool.left()?, (1, 0));
        in_child(|| {
            store(at, 5);
            Ok(0)
        })?;
        check_eq!(load(at), 5);
        remove(id)?;
        detach(at)?;
        check_eq!(pool.left()?, (3, 0));
        // SHM_NORESERVE: the first who come.
        let id = pool.shmget(4 * size, 0o10000)?;
        let at = shmat(id)?;
        remove(id)?;
        check_eq!(pool.left()?, (3, 0));
        (0..3).for_each(|n| store(at + n * size, 1));
        bus(at + 3 * size)?;
        detach(at)?;
        check_eq!(pool.left()?, (3, 0));
        Ok(())
    })
}

fn hugetlb_mount() -> Outcome {
    of_each_size(2, |pool| {
        let size = pool.size;
        std::fs::create_dir_all("huge")?;
        let options = format!("pagesize={}K", size >> 10);
        if proc::mount_with("none", "huge", "hugetlbfs", 0, &options).is_err() {
            return Err(Stop::Skip("no right to mount".into()));
        }
        let fd = file::open("huge/file", libc::O_RDWR | libc::O_CREAT, 0o600)?;
        // A writable mapping makes the file as long.
        let at = mmap(0, size, RW, libc::MAP_SHARED, fd, 0)?;
        check_eq!(std::fs::metadata("huge/file")?.len(), size as u64);
        store(at, 9);
        file::close(fd)?;
        munmap(at, size)?;
        check_eq!(pool.left()?, (1, 0));
        std::fs::remove_file("huge/file")?;
        check_eq!(pool.left()?, (2, 0));
        let target = c"huge".as_ptr() as usize;
        call(libc::SYS_umount2, [target, 0, 0, 0, 0, 0])?;
        Ok(())
    })
}

fn hugetlb_is_not_cut() -> Outcome {
    of_each_size(2, |pool| {
        let size = pool.size;
        let at = pool.map(2, HUGE)?;
        store(at, 1);
        check_err!(munmap(at, PAGE), EINVAL);
        check_err!(munmap(at + PAGE, size - PAGE), EINVAL);
        check_err!(mprotect(at, PAGE, libc::PROT_READ), EINVAL);
        check_err!(
            mmap(
                at + PAGE,
                size,
                RW,
                HUGE | libc::MAP_FIXED | pool.name(),
                -1,
                0
            ),
            EINVAL
        );
        mprotect(at, size, libc::PROT_READ)?;
        check!(fault::write(at, 1).is_err());
        check_eq!(load(at), 1);
        munmap(at, 2 * size)?;
        Ok(())
    })
}

fn hugetlb_moves() -> Outcome {
    of_each_size(2, |pool| {
        let size = pool.size;
        let at = pool.map(2, HUGE)?;
        store(at + size, 6);
        let may = libc::MREMAP_MAYMOVE;
        check_err!(mremap(at, 2 * size, 3 * size, may, 0), EINVAL);
        // No whole number of huge pages is as large.
        check_err!(mremap(at, usize::MAX - 8191, size, may, 0), EINVAL);
        // Room of which a part is aligned.
        let room = mmap(0, 3 * size, libc::PROT_NONE, ANON, -1, 0)?;
        let to = room.next_multiple_of(size);
        let fixed = may | libc::MREMAP_FIXED;
        check_err!(mremap(at, 2 * size, 2 * size, fixed, to + PAGE), EINVAL);
        check_eq!(mremap(at, 2 * size, 2 * size, fixed, to)?, to);
        check_eq!(load(to + size), 6);
        store(to, 1);
        check_eq!(pool.left()?, (0, 0));
        munmap(to, 2 * size)?;
        check_eq!(pool.left()?, (2, 0));
        Ok(())
    })
}

fn hugetlb_dont_need() -> Outcome {
    of_each_size(1, |pool| {
        let size = pool.size;
        let at = pool.map(1, HUGE)?;
        store(at, 1);
        check_err!(madvise(at + PAGE, size - PAGE, libc::MADV_DONTNEED), EINVAL);
        check_err!(madvise(at, size, libc::MADV_FREE), EINVAL);
        // A part of a page is none.
        madvise(at, PAGE, libc::MADV_DONTNEED)?;
        check_eq!(load(at), 1);
        madvise(at, size, libc::MADV_DONTNEED)?;
        // It is for nobody else.
        check_eq!(pool.left()?, (1, 1));
        check_err!(pool.map(1, HUGE), ENOMEM);
        check_eq!(load(at), 0);
        munmap(at, size)?;
        Ok(())
    })
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
    of_each_size(2, |pool| {
        let size = pool.size;
        let at = pool.map(1, HUGE)?;
        store(at, 1);
        check_eq!(smaps(at, "KernelPageSize")?, size >> 10);
        check_eq!(smaps(at, "MMUPageSize")?, size >> 10);
        check_eq!(smaps(at, "Private_Hugetlb")?, size >> 10);
        check_eq!(smaps(at, "Shared_Hugetlb")?, 0);
        check_eq!(smaps(at, "Rss")?, 0);
        let text = std::fs::read_to_string("/proc/self/smaps")?;
        let header = format!("{at:x}-");
        let flags = text.lines().skip_while(|line| !line.starts_with(&header));
        let flags = flags.into_iter().find(|line| line.starts_with("VmFlags:"));
        check!(flags.is_some_and(|line| line.split_whitespace().any(|word| word == "ht")));
        let status = std::fs::read_to_string("/proc/self/status")?;
        check!(status.contains(&format!("HugetlbPages:\t{:8} kB", size >> 10)));
        let meminfo = std::fs::read_to_string("/proc/meminfo")?;
        let free = usize::from(size == DEFAULT);
        check!(meminfo.contains(&format!("HugePages_Free:        {free}\n")));
        check!(meminfo.contains(&format!("Hugetlb:{:16} kB", (2 * size) >> 10)));
        // Present, exclusive, and not of a file.
        check_eq!(pagemap(at, 1)?[0] >> 56 & 0xa1, 0x81);
        munmap(at, size)?;
        surplus(pool)
    })
}

/// Pages above the size of the pool are in the number of its pages.
fn surplus(pool: &Pool) -> Outcome {
    let most = |pages: &str| std::fs::write(pool.path("nr_overcommit_hugepages"), pages);
    most("1")?;
    let at = pool.map(3, HUGE);
    let figures = ["nr_hugepages", "surplus_hugepages"].map(|name| pool.figure(name));
    most("0")?;
    let [pages, surplus] = figures;
    check_eq!((pages?, surplus?), (3, 1));
    munmap(at?, 3 * pool.size)?;
    check_eq!(pool.figure("nr_hugepages")?, 2);
    Ok(())
}
