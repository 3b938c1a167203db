//! MADV_HWPOISON and MADV_SOFT_OFFLINE: pages that go out of use. Only here: on another kernel they
//! would be missing until its machine starts again.
use userland::counters::{figure, on_quire};
use userland::harness::{Outcome, Stop, in_child};
use userland::sys::mem::{ANON, PAGE, RW, anon, load, madvise, mmap, munmap, pagemap, store};
use userland::sys::{Errno, call, fault, file, proc};
use userland::{check, check_eq, check_err};

userland::tests![
    hwpoison_private_page,
    hwpoison_with_a_child,
    hwpoison_memfd,
    hwpoison_huge_memfd,
    hwpoison_private_huge_page,
    hwpoison_refuses,
    soft_offline_keeps_contents,
    soft_offline_of_a_huge_page,
];

const SIZE: usize = 2 << 20;
const POOL: &str = "/proc/sys/vm/nr_hugepages";
const SWITCH: &str = "/proc/sys/vm/enable_soft_offline";

fn begin() -> Outcome {
    fault::arm();
    match on_quire() {
        true => Ok(()),
        false => Err(Stop::Skip("the machine would lack the pages".into())),
    }
}

/// Pages that are out of use.
fn lost() -> Result<u64, Stop> {
    Ok(figure("/proc/meminfo", "HardwareCorrupted")? / 4)
}

fn frame(at: usize) -> Result<u64, Stop> {
    let word = pagemap(at, 1)?[0];
    check!(word >> 63 == 1, "{at:x} is not there: {word:x}");
    Ok(word & ((1 << 55) - 1))
}

/// An access meets a memory error of 2^`lsb` bytes.
fn is_lost(at: usize, lsb: u16) -> Outcome {
    for access in [fault::read(at).map(drop), fault::write(at, 1)] {
        let trap = access.err().map(|t| (t.signal, t.code, t.addr));
        check_eq!(trap, Some((libc::SIGBUS, libc::BUS_MCEERR_AR, at)));
        check_eq!(fault::lsb(), lsb);
    }
    Ok(())
}

fn memfd(flags: libc::c_uint, len: usize) -> Result<i32, Stop> {
    let fd = file::memfd(flags)?;
    file::ftruncate(fd, len as i64)?;
    Ok(fd)
}

fn map(len: usize, fd: i32) -> Result<usize, Stop> {
    Ok(mmap(0, len, RW, libc::MAP_SHARED, fd, 0)?)
}

fn kpageflags(frame: u64) -> Result<u64, Stop> {
    let fd = file::open("/proc/kpageflags", libc::O_RDONLY, 0)?;
    let mut word = [0; 8];
    check_eq!(file::pread(fd, &mut word, frame as i64 * 8)?, 8);
    file::close(fd)?;
    Ok(u64::from_ne_bytes(word))
}

fn hwpoison_private_page() -> Outcome {
    begin()?;
    let (at, before) = (anon(4)?, lost()?);
    (0..4).for_each(|n| store(at + n * PAGE, 1 + n as u64));
    let bad = at + 2 * PAGE;
    let pfn = frame(bad)?;
    madvise(bad, PAGE, libc::MADV_HWPOISON)?;
    check_eq!(lost()?, before + 1);
    check!(kpageflags(pfn)? & 1 << 19 != 0, "KPF_HWPOISON");
    is_lost(bad + 8, 12)?;
    check_eq!([0, 1, 3].map(|n| load(at + n * PAGE)), [1, 2, 4]);
    // Nor does the kernel reach it.
    let (_, tell) = file::pipe(0)?;
    check_err!(
        call(libc::SYS_write, [tell as usize, bad, 8, 0, 0, 0]),
        EFAULT
    );
    check_eq!(
        madvise(bad, PAGE, libc::MADV_HWPOISON),
        Err(Errno(libc::EHWPOISON))
    );
    // What comes in its place is another page.
    munmap(bad, PAGE)?;
    let again = mmap(bad, PAGE, RW, ANON | libc::MAP_FIXED, -1, 0)?;
    store(again, 5);
    check!(frame(again)? != pfn, "frame {pfn:x} is used again");
    check_eq!(lost()?, before + 1);
    Ok(())
}

fn hwpoison_with_a_child() -> Outcome {
    begin()?;
    let at = mmap(0, 3 * PAGE, RW, ANON, -1, 0)?;
    // Single pages: a folio that two have is not split.
    madvise(at, 3 * PAGE, libc::MADV_NOHUGEPAGE)?;
    (0..3).for_each(|n| store(at + n * PAGE, 1 + n as u64));
    let (hear, tell) = file::pipe(0)?;
    let pid = match proc::fork()? {
        proc::Fork::Parent(pid) => pid,
        proc::Fork::Child => {
            // It has this page for itself.
            store(at, 7);
            let _ = file::read(hear, &mut [0]);
            let ok = is_lost(at + PAGE, 12).is_ok() && load(at) == 7 && load(at + 2 * PAGE) == 3;
            proc::exit_now(i32::from(!ok))
        }
    };
    madvise(at + PAGE, PAGE, libc::MADV_HWPOISON)?;
    is_lost(at + PAGE, 12)?;
    file::write_all(tell, b"x")?;
    check_eq!(proc::wait_for(pid)?, proc::Status::Exited(0));
    Ok(())
}

fn hwpoison_memfd() -> Outcome {
    begin()?;
    let fd = memfd(0, 3 * PAGE)?;
    let at = map(3 * PAGE, fd)?;
    (0..3).for_each(|n| store(at + n * PAGE, 1 + n as u64));
    madvise(at + PAGE, PAGE, libc::MADV_HWPOISON)?;
    is_lost(at + PAGE, 12)?;
    let mut bytes = [0; 3 * PAGE];
    check_eq!(file::pread(fd, &mut bytes, 8)?, PAGE - 8);
    check_err!(file::pread(fd, &mut bytes, PAGE as i64), EIO);
    check_err!(file::pwrite(fd, &[1], PAGE as i64), EIO);
    check_eq!(file::pread(fd, &mut bytes, 2 * PAGE as i64)?, PAGE);
    check_eq!(bytes[0], 3);
    // Another mapping of it has the error as well, until the file is cut there.
    is_lost(map(3 * PAGE, fd)? + PAGE, 12)?;
    file::ftruncate(fd, PAGE as i64)?;
    file::ftruncate(fd, 2 * PAGE as i64)?;
    check_eq!(load(at + PAGE), 0);
    Ok(())
}

/// A pool of huge pages, which is empty again when the test ends.
struct Pool;

impl Pool {
    fn of(pages: usize) -> Result<Pool, Stop> {
        begin()?;
        if nr_hugepages()? != 0 {
            return Err(Stop::Skip("others have huge pages".into()));
        }
        let pool = Pool;
        std::fs::write(POOL, pages.to_string())?;
        match nr_hugepages()? == pages {
            true => Ok(pool),
            false => Err(Stop::Skip("no memory for huge pages".into())),
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let _ = std::fs::write(POOL, "0");
    }
}

fn nr_hugepages() -> Result<usize, Stop> {
    let text = std::fs::read_to_string(POOL)?;
    text.trim()
        .parse()
        .map_err(|_| Stop::Fail(format!("{POOL} is {text:?}")))
}

fn hwpoison_huge_memfd() -> Outcome {
    let _pool = Pool::of(2)?;
    let fd = memfd(libc::MFD_HUGETLB, SIZE)?;
    let at = map(SIZE, fd)?;
    store(at, 1);
    store(at + 3 * PAGE, 4);
    madvise(at + 2 * PAGE, PAGE, libc::MADV_HWPOISON)?;
    is_lost(at + 3 * PAGE, 21)?;
    let mut bytes = [0; 4 * PAGE];
    check_eq!(file::pread(fd, &mut bytes, 0)?, 2 * PAGE);
    check_eq!(bytes[0], 1);
    check_err!(file::pread(fd, &mut bytes, 2 * PAGE as i64), EIO);
    check_eq!(file::pread(fd, &mut bytes, 3 * PAGE as i64)?, 4 * PAGE);
    check_eq!(bytes[0], 4);
    // The page is lost to the pool when the file gives it up.
    check_eq!(nr_hugepages()?, 2);
    file::ftruncate(fd, 0)?;
    check_eq!(nr_hugepages()?, 1);
    Ok(())
}

fn hwpoison_private_huge_page() -> Outcome {
    let _pool = Pool::of(2)?;
    let at = mmap(0, SIZE, RW, ANON | libc::MAP_HUGETLB, -1, 0)?;
    store(at, 1);
    madvise(at + PAGE, PAGE, libc::MADV_HWPOISON)?;
    is_lost(at + 5 * PAGE, 21)?;
    check_eq!(nr_hugepages()?, 1);
    let child = in_child(|| is_lost(at, 21).map(|()| 0))?;
    check_eq!(child, proc::Status::Exited(0));
    madvise(at, SIZE, libc::MADV_DONTNEED)?;
    check_eq!(load(at), 0);
    Ok(())
}

fn hwpoison_refuses() -> Outcome {
    begin()?;
    let (at, before) = (anon(2)?, lost()?);
    store(at, 1);
    for advice in [libc::MADV_HWPOISON, libc::MADV_SOFT_OFFLINE] {
        check_err!(madvise(at + 1, PAGE, advice), EINVAL);
        check_eq!(madvise(at, 0, advice), Ok(()));
        let child = in_child(|| {
            proc::setuid(1000)?;
            check_err!(madvise(at, PAGE, advice), EPERM);
            Ok(0)
        })?;
        check_eq!(child, proc::Status::Exited(0));
    }
    munmap(at + PAGE, PAGE)?;
    check_err!(madvise(at + PAGE, PAGE, libc::MADV_HWPOISON), EFAULT);
    check_eq!((load(at), lost()?), (1, before));
    Ok(())
}

fn soft_offline_keeps_contents() -> Outcome {
    begin()?;
    let (at, fd) = (anon(1)?, memfd(0, PAGE)?);
    for at in [at, map(PAGE, fd)?] {
        store(at + 64, 9);
        let (pfn, before) = (frame(at)?, lost()?);
        std::fs::write(SWITCH, "0")?;
        let refused = madvise(at, PAGE, libc::MADV_SOFT_OFFLINE);
        std::fs::write(SWITCH, "1")?;
        check_eq!(refused, Err(Errno(libc::EOPNOTSUPP)));
        check_eq!((frame(at)?, lost()?), (pfn, before));
        madvise(at, PAGE, libc::MADV_SOFT_OFFLINE)?;
        check_eq!((load(at + 64), lost()?), (9, before + 1));
        check!(frame(at)? != pfn, "it did not move");
        store(at + 64, 10);
    }
    let mut bytes = [0; 8];
    file::pread(fd, &mut bytes, 64)?;
    check_eq!(u64::from_ne_bytes(bytes), 10);
    Ok(())
}

fn soft_offline_of_a_huge_page() -> Outcome {
    let _pool = Pool::of(2)?;
    let at = mmap(0, SIZE, RW, ANON | libc::MAP_HUGETLB, -1, 0)?;
    store(at + SIZE - 8, 5);
    madvise(at, SIZE, libc::MADV_SOFT_OFFLINE)?;
    check_eq!((load(at + SIZE - 8), nr_hugepages()?), (5, 1));
    // There is no other.
    check_err!(madvise(at, SIZE, libc::MADV_SOFT_OFFLINE), ENOMEM);
    check_eq!((load(at + SIZE - 8), nr_hugepages()?), (5, 1));
    Ok(())
}
