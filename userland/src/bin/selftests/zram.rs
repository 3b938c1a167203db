//! The device of zram and swapon(2): what is swapped comes back when swap is turned off, and the
//! device is set up as scripts do it. In a boot with `zram=`, which has swap on from the start.
use std::ffi::CStr;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use userland::counters::{self, on_quire};
use userland::harness::{Outcome, Stop, in_child};
use userland::sys::mem::{
    ANON, PAGE, RW, SWAP_MAGIC as MAGIC, anon, byte, fill_page, madvise, mmap, mprotect, munmap,
    swap_header,
};
use userland::sys::proc::{self, Fork, Status};
use userland::sys::{Result, call, file, sig, time};
use userland::{check, check_eq, check_err};

userland::tests![
    zram_is_set_up_again,
    zram_brings_all_back,
    zram_faults_are_major,
    zram_refuses_settings,
    zram_refuses_areas,
    zram_is_a_disk,
    zram_stays_on_without_memory,
    zram_stays_on_by_a_signal,
    zram_leaves_beside_others,
];

const DISK: &CStr = c"/dev/zram0";
const MB: u64 = 1 << 20;
/// SWAP_FLAG_PREFER.
const PREFER: usize = 0x8000;
/// SWAP_FLAG_DISCARD.
const DISCARD: usize = 0x10000;

fn on(path: &CStr, flags: usize) -> Result<usize> {
    call(
        libc::SYS_swapon,
        [path.as_ptr() as usize, flags, 0, 0, 0, 0],
    )
}

fn off(path: &CStr) -> Result<usize> {
    call(libc::SYS_swapoff, [path.as_ptr() as usize, 0, 0, 0, 0, 0])
}

fn set(name: &str, value: impl ToString) -> std::io::Result<()> {
    fs::write(format!("/sys/block/zram0/{name}"), value.to_string())
}

fn get(name: &str) -> std::io::Result<String> {
    let text = fs::read_to_string(format!("/sys/block/zram0/{name}"))?;
    Ok(text.trim_end().to_owned())
}

/// What /proc/swaps says: kind, size and use in kB, priority; nothing of others.
fn area() -> std::io::Result<Option<[String; 4]>> {
    let text = fs::read_to_string("/proc/swaps")?;
    let line = text.lines().find(|line| line.starts_with("/dev/zram0"));
    Ok(line.map(|line| {
        let mut words = line.split_whitespace().skip(1).map(str::to_owned);
        [0; 4].map(|_| words.next().unwrap_or_default())
    }))
}

/// Size and use in kB, priority.
fn area_is(size: u64, used: u64, priority: i32) -> Outcome {
    let words = ["partition".into(), size.to_string(), used.to_string()];
    let [kind, size, used] = words;
    check_eq!(area()?, Some([kind, size, used, priority.to_string()]));
    Ok(())
}

fn meminfo(name: &str) -> std::result::Result<u64, Stop> {
    Ok(counters::figure("/proc/meminfo", name)?)
}

/// Writes a header.
fn write_header(words: [u32; 3], magic: &[u8; 10]) -> Result<()> {
    let page = swap_header(words, magic);
    let disk = file::open_cstr(DISK, libc::O_RDWR)?;
    let written = file::pwrite(disk, &page, 0);
    file::close(disk)?;
    written.map(drop)
}

/// Sets the device up and turns swap on, on all of it.
fn set_up(bytes: u64, flags: usize) -> Outcome {
    set("disksize", bytes)?;
    write_header([1, (bytes / PAGE as u64) as u32 - 1, 0], MAGIC)?;
    on(DISK, flags)?;
    Ok(())
}

/// The device as a script finds it, with the size that it may have; afterwards it is on again.
struct Zram(u64);

impl Zram {
    fn take() -> std::result::Result<Zram, Stop> {
        if !on_quire() || fs::metadata("/sys/block/zram0").is_err() {
            return Err(Stop::Skip("no zram0 to set up on this machine".into()));
        }
        let line = fs::read_to_string("/proc/cmdline")?;
        let size = line.split(' ').find_map(|word| word.strip_prefix("zram="));
        let mb: u64 = size
            .and_then(|size| size.trim_end_matches('M').parse().ok())
            .unwrap_or(0);
        check!(
            mb != 0,
            "zram= of the command line has no size in M: {line}"
        );
        // A test may have ended early.
        if area()?.is_some() {
            off(DISK)?;
        }
        set("reset", 1)?;
        Ok(Zram(mb * MB))
    }
}

impl Drop for Zram {
    fn drop(&mut self) {
        let _ = off(DISK);
        let _ = set("reset", 1);
        let _ = set_up(self.0, PREFER | 100);
    }
}

/// Private pages of so many different bytes, all of which are swapped.
fn paged_out(pages: usize) -> Result<usize> {
    let at = anon(pages)?;
    put_out(at, pages)?;
    Ok(at)
}

fn put_out(at: usize, pages: usize) -> Result<()> {
    for n in 0..pages {
        fill_page(at + n * PAGE, n as u8);
        // Not only one byte.
        userland::sys::mem::store(at + n * PAGE + 8, n as u64);
    }
    madvise(at, pages * PAGE, libc::MADV_PAGEOUT)
}

fn is_whole(at: usize, pages: usize) -> bool {
    (0..pages).all(|n| {
        let page = at + n * PAGE;
        byte(page) == n as u8 && userland::sys::mem::load(page + 8) == n as u64
    })
}

fn zram_is_set_up_again() -> Outcome {
    let zram = Zram::take()?;
    let all_kb = zram.0 / 1024;
    check_eq!(area()?, None);
    check_eq!((meminfo("SwapTotal")?, meminfo("SwapFree")?), (0, 0));
    check_eq!(
        (get("initstate")?, get("disksize")?),
        ("0".into(), "0".into())
    );
    let limit = meminfo("CommitLimit")?;
    for (text, bytes) in [("8M", 8 * MB), ("4096k", 4 * MB), ("4097", 8192)] {
        set("disksize", text)?;
        check_eq!(
            (get("initstate")?, get("disksize")?),
            ("1".into(), bytes.to_string())
        );
        check_eq!(get("size")?, (bytes / 512).to_string());
        check_err!(set("disksize", "4M"), EBUSY);
        check_err!(set("comp_algorithm", "lz4"), EBUSY);
        set("reset", 1)?;
    }
    set("comp_algorithm", "lz4\n")?;
    check_eq!(get("comp_algorithm")?, "[lz4]");
    // The first page is the header's.
    set_up(8 * MB, PREFER | DISCARD | 7)?;
    area_is(8 * 1024 - 4, 0, 7)?;
    check_eq!(meminfo("SwapTotal")?, 8 * 1024 - 4);
    check_eq!(meminfo("CommitLimit")?, limit + 8 * 1024 - 4);
    check_err!(on(DISK, 0), EBUSY);
    check_err!(set("reset", 1), EBUSY);
    // No more than that is swapped.
    let at = paged_out(3000)?;
    let used = 8 * 1024 - 4 - meminfo("SwapFree")?;
    check!(used > 4 * 1024, "{used} kB are swapped");
    area_is(8 * 1024 - 4, used, 7)?;
    let figures = get("mm_stat")?;
    let figures: Vec<u64> = figures
        .split_whitespace()
        .filter_map(|it| it.parse().ok())
        .collect();
    let [original, compressed, frames, 0, peak, _, 0, 1, 1] = figures[..] else {
        return Err(Stop::Fail(format!("mm_stat: {figures:?}")));
    };
    check!(
        original > 4 * MB && original <= used * 1024 + PAGE as u64,
        "{figures:?}"
    );
    check!(peak >= frames && frames >= compressed, "{figures:?}");
    check!(compressed < original / 4, "{figures:?}");
    off(DISK)?;
    check!(is_whole(at, 3000), "pages are not as they were");
    check_err!(off(DISK), EINVAL);
    munmap(at, 3000 * PAGE)?;
    // As it has a header, it can be turned on; none was given a priority.
    on(DISK, 0)?;
    area_is(8 * 1024 - 4, 0, -2)?;
    off(DISK)?;
    // A part of the device.
    write_header([1, 100, 3], MAGIC)?;
    on(DISK, 0)?;
    area_is(97 * 4, 0, -2)?;
    drop(zram);
    area_is(all_kb - 4, 0, 100)
}

/// Whatever has it: a parent and a child, pages without rights, locked on fault, and moved.
fn zram_brings_all_back() -> Outcome {
    const PAGES: usize = 2048;
    let zram = Zram::take()?;
    set_up(zram.0, 0)?;
    let at = paged_out(PAGES)?;
    check!(meminfo("SwapFree")? < meminfo("SwapTotal")?);
    mprotect(at + 16 * PAGE, 16 * PAGE, libc::PROT_NONE)?;
    let lock = libc::MLOCK_ONFAULT as usize;
    call(libc::SYS_mlock2, [at + 64 * PAGE, 64 * PAGE, lock, 0, 0, 0])?;
    let (ready, go) = (file::pipe(0)?, file::pipe(0)?);
    let pid = proc::child(|| {
        file::write(ready.1, b"1")?;
        file::read(go.0, &mut [0])?;
        mprotect(at + 16 * PAGE, 16 * PAGE, RW)?;
        proc::exit_now(i32::from(!is_whole(at, PAGES)))
    })?;
    file::read(ready.0, &mut [0])?;
    off(DISK)?;
    check_eq!(area()?, None);
    let status = fs::read_to_string("/proc/self/status")?;
    let swapped = status.lines().find(|line| line.starts_with("VmSwap"));
    check!(
        swapped.is_some_and(|line| line.contains(" 0 kB")),
        "{swapped:?}"
    );
    file::write(go.1, b"1")?;
    check_eq!(proc::wait_for(pid)?, Status::Exited(0));
    mprotect(at + 16 * PAGE, 16 * PAGE, RW)?;
    check!(is_whole(at, PAGES), "pages are not as they were");
    // Nothing is swapped any more.
    madvise(at, 8 * PAGE, libc::MADV_PAGEOUT)?;
    check_eq!(get("mm_stat")?.split_whitespace().next(), Some("4096"));
    Ok(())
}

/// A fault that waits for what is stored is a major one, and is no minor one, too.
fn zram_faults_are_major() -> Outcome {
    const PAGES: usize = 64;
    let zram = Zram::take()?;
    set_up(zram.0, 0)?;
    let at = anon(PAGES)?;
    madvise(at, PAGES * PAGE, libc::MADV_NOHUGEPAGE)?;
    put_out(at, PAGES)?;
    let stat = || -> std::result::Result<[u64; 2], Stop> {
        let text = fs::read_to_string("/proc/self/stat")?;
        let fields = text.rsplit(") ").next().unwrap_or_default();
        let field = |n: usize| {
            fields
                .split(' ')
                .nth(n - 3)
                .and_then(|word| word.parse().ok())
        };
        Ok([field(10), field(12)].map(Option::unwrap_or_default))
    };
    let all = || counters::table("/proc/vmstat");
    let waited = || -> std::result::Result<u64, Stop> {
        let text = fs::read_to_string("/proc/pressure/memory")?;
        let total = text.lines().next().and_then(|line| line.rsplit('=').next());
        Ok(total.and_then(|n| n.parse().ok()).unwrap_or_default())
    };
    let stalled = waited()?;
    let (before, text, of_all) = (proc::rusage(libc::RUSAGE_SELF)?, stat()?, all());
    check!(is_whole(at, PAGES));
    let after = proc::rusage(libc::RUSAGE_SELF)?;
    let moved = |name| Ok::<u64, Stop>(all().get(name)? - of_all.get(name)?);
    let (both, major) = (moved("pgfault")?, moved("pgmajfault")?);
    check_eq!(after.major_faults - before.major_faults, PAGES as u64);
    check_eq!((stat()?[1] - text[1], major), (PAGES as u64, PAGES as u64));
    check!(waited()? > stalled, "{stalled} us before and after");
    // Each counts once; others are those of reading the counters.
    check!(after.minor_faults - before.minor_faults < 32);
    check!(
        stat()?[0] - text[0] < 64 && both < PAGES as u64 + 64,
        "{both} faults"
    );
    munmap(at, PAGES * PAGE)?;
    Ok(())
}

fn zram_refuses_settings() -> Outcome {
    let zram = Zram::take()?;
    for text in ["none", "0", "-1", "4X", "99999999999999999999"] {
        check_err!(set("disksize", text), EINVAL);
        check_err!(set("reset", text), EINVAL);
    }
    check_err!(set("disksize", zram.0 + 1), ENOMEM);
    check_err!(set("comp_algorithm", "zstd"), EINVAL);
    check_err!(set("mm_stat", 1), EACCES);
    check!(get("reset").is_err());
    // What is open keeps its size.
    set("disksize", "1M")?;
    let disk = file::open_cstr(DISK, libc::O_RDONLY)?;
    check_err!(set("reset", 1), EBUSY);
    file::close(disk)?;
    set("reset", 1)?;
    Ok(())
}

fn zram_refuses_areas() -> Outcome {
    let zram = Zram::take()?;
    // Before it has a size, and without a header.
    check_err!(on(DISK, 0), EINVAL);
    set("disksize", "1M")?;
    check_err!(on(DISK, 0), EINVAL);
    for (header, magic) in [
        ([0, 255, 0], MAGIC),
        ([2, 255, 0], MAGIC),
        ([1, 0, 0], MAGIC),
        ([1, 256, 0], MAGIC),
        ([1, 255, 255], MAGIC),
        ([1, 255, u32::MAX], MAGIC),
        ([1, 255, 0], b"SWAP-SPACE"),
    ] {
        write_header(header, magic)?;
        check_err!(on(DISK, 0), EINVAL);
        check_eq!(area()?, None);
    }
    write_header([1, 255, 0], MAGIC)?;
    for flags in [0x80000, 1 << 31] {
        check_err!(on(DISK, flags), EINVAL);
    }
    // Other files.
    fs::write("file", [0; 4096])?;
    for (path, errno) in [
        (c"file", libc::EINVAL),
        (c".", libc::EINVAL),
        (c"/dev/null", libc::EINVAL),
        (c"missing", libc::ENOENT),
        (c"/dev/zram1", libc::ENOENT),
        (c"file/zram0", libc::ENOTDIR),
        (c"", libc::ENOENT),
    ] {
        let why = Err(userland::sys::Errno(errno));
        check_eq!((on(path, 0), off(path)), (why, why));
    }
    check_err!(call(libc::SYS_swapon, [1, 0, 0, 0, 0, 0]), EFAULT);
    check_err!(off(DISK), EINVAL);
    let status = in_child(|| {
        proc::setuid(1)?;
        check_err!(on(DISK, 0), EPERM);
        check_err!(off(DISK), EPERM);
        Ok(0)
    })?;
    check_eq!(status, Status::Exited(0));
    // By another name, too.
    call(
        libc::SYS_mknodat,
        [
            libc::AT_FDCWD as usize,
            c"zram".as_ptr() as usize,
            (libc::S_IFBLK | 0o600) as usize,
            fs::metadata("/dev/zram0")?.rdev() as usize,
            0,
            0,
        ],
    )?;
    on(c"zram", 0)?;
    check_err!(on(DISK, 0), EBUSY);
    check_err!(file::open_cstr(DISK, libc::O_RDONLY | libc::O_EXCL), EBUSY);
    off(DISK)?;
    drop(zram);
    Ok(())
}

fn zram_is_a_disk() -> Outcome {
    const SIZE: i64 = 1 << 20;
    let _zram = Zram::take()?;
    let ask = |disk: i32, request: u64| {
        let mut answer = 0u64;
        let into = &raw mut answer as usize;
        call(
            libc::SYS_ioctl,
            [disk as usize, request as usize, into, 0, 0, 0],
        )?;
        Ok::<_, userland::sys::Errno>(std::hint::black_box(answer))
    };
    let (get_size64, get_size, get_sector) = (0x8008_1272, 0x1260, 0x1268);
    let disk = file::open_cstr(DISK, libc::O_RDWR)?;
    let mut page = [7; PAGE];
    check_eq!(file::pread(disk, &mut page, 0)?, 0);
    check_err!(file::pwrite(disk, &page, 0), ENOSPC);
    check_eq!(ask(disk, get_size64)?, 0);
    set("disksize", SIZE)?;
    let status = fs::metadata("/dev/zram0")?;
    check!(status.file_type().is_block_device());
    check_eq!(
        (status.len(), get("dev")?),
        (0, format!("{}:0", status.rdev() >> 8))
    );
    check_eq!(ask(disk, get_size64)?, SIZE as u64);
    check_eq!(ask(disk, get_size)?, SIZE as u64 / 512);
    check_eq!(ask(disk, get_sector)?, PAGE as u64);
    check_err!(ask(disk, 0x127f), ENOTTY);
    // Zeros, up to the end.
    check_eq!(file::lseek(disk, 0, libc::SEEK_END)?, SIZE as u64);
    check_eq!(file::read(disk, &mut page)?, 0);
    check_eq!(file::write(disk, &[]), Ok(0));
    check_err!(file::write(disk, &page), ENOSPC);
    check_eq!(file::lseek(disk, -100, libc::SEEK_END)?, SIZE as u64 - 100);
    check_eq!(file::read(disk, &mut page)?, 100);
    check!(page[..100] == [0; 100] && page[100] == 7);
    check_eq!(file::pwrite(disk, &page, SIZE - 10)?, 10);
    check_eq!(file::pread(disk, &mut page, SIZE + 10)?, 0);
    check_eq!(file::pwrite(disk, b"here", 5000)?, 4);
    let mut word = [0; 4];
    check_eq!(file::pread(disk, &mut word, 5000)?, 4);
    check_eq!(&word, b"here");
    let figures = get("mm_stat")?;
    check_eq!(figures.split_whitespace().next(), Some("8192"));
    file::close(disk)?;
    check!(fs::read_to_string("/proc/partitions")?.contains(" 1024 zram0\n"));
    // A reset drops it.
    set("reset", 1)?;
    set("disksize", SIZE)?;
    check!(fs::read("/dev/zram0")? == [0; SIZE as usize]);
    Ok(())
}

/// More is swapped than there is memory for.
fn zram_stays_on_without_memory() -> Outcome {
    let zram = Zram::take()?;
    set_up(zram.0, 0)?;
    let pages = meminfo("MemTotal")? as usize / 4 / 10 * 11;
    let at = mmap(0, pages * PAGE, RW, ANON | libc::MAP_NORESERVE, -1, 0)?;
    let killed = counters::figure("/proc/vmstat", "oom_kill")?;
    (0..pages).for_each(|n| fill_page(at + n * PAGE, n as u8));
    check_err!(off(DISK), ENOMEM);
    for n in 0..pages {
        check!(byte(at + n * PAGE) == n as u8, "page {n} is not as it was");
    }
    let [_, size, _, priority] = area()?.unwrap_or_default();
    check_eq!(
        (size, priority),
        ((zram.0 / 1024 - 4).to_string(), "-2".into())
    );
    munmap(at, pages * PAGE)?;
    off(DISK)?;
    check_eq!(counters::figure("/proc/vmstat", "oom_kill")?, killed);
    Ok(())
}

fn zram_stays_on_by_a_signal() -> Outcome {
    const PAGES: usize = 6000;
    let zram = Zram::take()?;
    set_up(zram.0, 0)?;
    let at = paged_out(PAGES)?;
    sig::count(libc::SIGALRM, libc::SA_RESTART, &[])?;
    time::itimer(5_000, 5_000)?;
    let interrupted = off(DISK);
    time::itimer(0, 0)?;
    check_err!(interrupted, EINTR);
    check!(sig::seen(libc::SIGALRM) > 0);
    check!(area()?.is_some());
    check!(is_whole(at, PAGES), "pages are not as they were");
    off(DISK)?;
    munmap(at, PAGES * PAGE)?;
    Ok(())
}

/// Processes that use and put out what they share, and make more of themselves.
fn zram_leaves_beside_others() -> Outcome {
    const PAGES: usize = 256;
    let zram = Zram::take()?;
    set_up(zram.0, 0)?;
    let at = paged_out(PAGES)?;
    let work = || -> Result<()> {
        for _ in 0..40 {
            madvise(at, PAGES * PAGE, libc::MADV_PAGEOUT)?;
            match proc::fork()? {
                Fork::Child => proc::exit_now(i32::from(!is_whole(at, PAGES))),
                Fork::Parent(pid) if proc::wait_for(pid)? != Status::Exited(0) => proc::exit_now(2),
                Fork::Parent(_) => {}
            }
        }
        proc::exit_now(i32::from(!is_whole(at, PAGES)))
    };
    let children = [proc::child(work)?, proc::child(work)?];
    for _ in 0..10 {
        off(DISK)?;
        check_eq!((area()?, meminfo("SwapTotal")?), (None, 0));
        on(DISK, 0)?;
        madvise(at, PAGES * PAGE, libc::MADV_PAGEOUT)?;
    }
    for child in children {
        check_eq!(proc::wait_for(child)?, Status::Exited(0));
    }
    check!(is_whole(at, PAGES), "pages are not as they were");
    munmap(at, PAGES * PAGE)?;
    Ok(())
}
