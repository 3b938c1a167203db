//! What a process maps and dies with, it leaves nothing of.
use crate::hugetlb::{HUGE, Pool, SHARED_HUGE, of_each_size};
use crate::leaks::{leaves_nothing, leaves_nothing_of, pages_of_memory};
use crate::pkeys::{key, with_key};
use crate::shm;
use userland::check_eq;
use userland::harness::{Outcome, Stop, in_child};
use userland::sys::file;
use userland::sys::mem::{
    ANON, MADV_COLLAPSE, MADV_GUARD_INSTALL, PAGE, RW, anon, load, madvise, mlock, mmap, mprotect,
    mremap, munmap, store,
};

userland::tests![leaks_of_mappings, leaks_of_segments, leaks_of_huge_pages];

const SHARED: i32 = libc::MAP_SHARED;
const SHARED_ANON: i32 = SHARED | libc::MAP_ANONYMOUS;
/// MAP_DROPPABLE, MAP_ANONYMOUS.
const DROPPABLE: i32 = 8 | libc::MAP_ANONYMOUS;
const PMD: usize = 2 << 20;

/// Maps so many pages, and writes to them.
fn mapped(pages: usize, flags: i32, fd: i32) -> Result<usize, Stop> {
    let at = mmap(0, pages * PAGE, RW, flags, fd, 0)?;
    (0..pages).for_each(|page| store(at + page * PAGE, 1));
    Ok(at)
}

fn leaks_of_mappings() -> Outcome {
    leaves_nothing(&[
        ("private memory", || mapped(16, ANON, -1).map(drop)),
        ("memory for children", || {
            mapped(16, SHARED_ANON, -1).map(drop)
        }),
        ("files", || {
            let fd = pages_of_memory()?;
            mapped(16, SHARED, fd)?;
            mapped(16, libc::MAP_PRIVATE, fd)?;
            load(mmap(0, 16 * PAGE, libc::PROT_READ, SHARED, fd, 0)?);
            Ok(file::close(fd)?)
        }),
        ("/dev/zero", || {
            let fd = file::open("/dev/zero", libc::O_RDWR, 0)?;
            mapped(4, SHARED, fd)?;
            mapped(4, libc::MAP_PRIVATE, fd).map(drop)
        }),
        ("the program", || {
            let fd = file::open("/proc/self/exe", libc::O_RDONLY, 0)?;
            let rights = libc::PROT_READ | libc::PROT_EXEC;
            load(mmap(0, PAGE, rights, libc::MAP_PRIVATE, fd, 0)?);
            Ok(())
        }),
        ("large folios", || {
            let at = mmap(0, 2 * PMD, RW, ANON, -1, 0)?.next_multiple_of(PMD);
            madvise(at, PMD, libc::MADV_HUGEPAGE)?;
            store(at, 1);
            let _ = madvise(at, PMD, MADV_COLLAPSE);
            // A part of it.
            Ok(munmap(at + 8 * PAGE, 3 * PAGE)?)
        }),
        ("locked memory", || Ok(mlock(anon(8)?, 8 * PAGE)?)),
        ("memory to do without", || {
            match mmap(0, 8 * PAGE, RW, DROPPABLE, -1, 0) {
                Ok(at) => {
                    store(at, 1);
                    Ok(())
                }
                Err(_) => Err(Stop::Skip("no MAP_DROPPABLE".into())),
            }
        }),
        ("guards", || {
            Ok(madvise(anon(8)?, 4 * PAGE, MADV_GUARD_INSTALL)?)
        }),
        ("a stack", || {
            mapped(4, ANON | libc::MAP_GROWSDOWN, -1).map(drop)
        }),
        ("memory that moves", || {
            let (from, to) = (mapped(8, ANON, -1)?, anon(16)?);
            let moves = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
            mremap(from, 8 * PAGE, 16 * PAGE, moves, to)?;
            Ok(())
        }),
        ("many pieces", || {
            let at = anon(64)?;
            (0..32).try_for_each(|n| mprotect(at + 2 * n * PAGE, PAGE, libc::PROT_READ))?;
            Ok(())
        }),
        ("a protection key", || with_key(4, key()?).map(drop)),
        ("copies of a child", || {
            let at = mapped(16, ANON, -1)?;
            let child = in_child(|| {
                (0..8).for_each(|page| store(at + page * PAGE, 2));
                Ok(0)
            })?;
            check_eq!(child.code(), 0);
            Ok(())
        }),
    ])
}

/// A segment of shared memory that goes with its last mapping.
fn attached(id: i32) -> Result<usize, Stop> {
    let at = shm::attach(id, 0, 0)?;
    shm::control(id, libc::IPC_RMID, &mut [0; 14])?;
    store(at, 1);
    Ok(at)
}

fn leaks_of_segments() -> Outcome {
    leaves_nothing(&[
        ("shmget", || {
            attached(shm::get(libc::IPC_PRIVATE, 16 * PAGE, 0o600)?).map(drop)
        }),
        ("shmget, a part", || {
            let at = attached(shm::get(libc::IPC_PRIVATE, 16 * PAGE, 0o600)?)?;
            Ok(munmap(at + PAGE, PAGE)?)
        }),
    ])
}

/// A mapping of each kind in a child, with pages and with reservations that are not used; and what
/// the pool has afterwards.
fn leaks_of_huge_pages() -> Outcome {
    of_each_size(3, |pool| {
        let kinds: [(&str, &dyn Fn() -> Outcome); 5] = [
            ("private huge pages", &|| touched(pool, HUGE)),
            ("shared huge pages", &|| touched(pool, SHARED_HUGE)),
            ("MFD_HUGETLB", &|| {
                let fd = pool.memfd()?;
                let len = 2 * pool.size;
                store(mmap(0, len, RW, SHARED, fd, 0)?, 1);
                let info = format!("/proc/self/fdinfo/{fd}");
                file::open(&info, libc::O_RDONLY, 0)?;
                file::open(
                    &info.replace("info", ""),
                    libc::O_PATH | libc::O_NOFOLLOW,
                    0,
                )?;
                Ok(())
            }),
            ("fallocate", &|| {
                file::fallocate(pool.memfd()?, 0, 0, 1)?;
                check_eq!(pool.left()?, (2, 0));
                Ok(())
            }),
            ("SHM_HUGETLB", &|| {
                attached(pool.shmget(2 * pool.size, libc::IPC_CREAT as usize)? as i32).map(drop)
            }),
        ];
        for (name, make) in kinds {
            leaves_nothing_of(name, make)?;
            check_eq!(pool.left()?, (3, 0));
        }
        Ok(())
    })
}

fn touched(pool: &Pool, flags: i32) -> Outcome {
    let at = pool.map(2, flags)?;
    store(at, 1);
    let child = in_child(|| {
        load(at);
        Ok(0)
    })?;
    check_eq!(child.code(), 0);
    Ok(())
}
