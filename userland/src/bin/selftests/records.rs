//! Files of /proc that are made while they are read: by the byte, by position, while what they show
//! changes, and after its end.
use std::fs;
use userland::harness::{Outcome, Stop, need};
use userland::sys::mem::{ANON, PAGE, RW, anon, mmap, mprotect, munmap, store};
use userland::sys::proc::{self, Fork};
use userland::sys::{Result, call, file};
use userland::{check, check_eq, check_err, counters};

userland::tests![
    records_by_the_byte,
    records_by_position,
    records_of_areas_that_go,
    records_of_areas_that_come,
    records_of_full_areas,
    records_of_a_dead_process,
    records_of_stacked_mounts,
    records_of_mounts_in_mounts,
    records_of_a_long_path,
];

/// A child that has some areas and waits.
struct Quiet {
    pid: i32,
    tell: i32,
}

impl Quiet {
    fn new() -> std::result::Result<Quiet, Stop> {
        let (hear, tell) = file::pipe(0)?;
        let at = anon(40)?;
        (0..40).for_each(|n| store(at + n * PAGE, 7));
        for n in (0..40).step_by(2) {
            mprotect(at + n * PAGE, PAGE, libc::PROT_READ)?;
        }
        let Fork::Parent(pid) = proc::fork()? else {
            let _ = file::close(tell);
            let _ = file::read(hear, &mut [0]);
            proc::exit_now(0)
        };
        file::close(hear)?;
        Ok(Quiet { pid, tell })
    }
    fn open(&self, name: &str) -> Result<i32> {
        file::open(&format!("/proc/{}/{name}", self.pid), libc::O_RDONLY, 0)
    }
    /// Ends it; its number stays until it is waited for.
    fn end(&self) -> Outcome {
        file::close(self.tell)?;
        proc::waitid(libc::P_PID, self.pid as u32, libc::WEXITED | libc::WNOWAIT)?;
        Ok(())
    }
}

/// What is left of a file, read in pieces of `len` bytes.
fn rest(fd: i32, len: usize) -> Result<Vec<u8>> {
    let (mut all, mut piece) = (Vec::new(), vec![0; len]);
    loop {
        match file::read(fd, &mut piece)? {
            0 => return Ok(all),
            n => all.extend_from_slice(&piece[..n]),
        }
    }
}

/// The lines of a text but for those of smaps, whose numbers change when the parent, this process,
/// writes to pages that the two share.
fn lasting(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(text);
    let lines = text.split_inclusive('\n');
    lines
        .filter(|line| !line.ends_with(" kB\n") && !line.starts_with("Folios-"))
        .map(str::to_owned)
        .collect()
}

fn records_by_the_byte() -> Outcome {
    let child = Quiet::new()?;
    for name in ["maps", "smaps", "mounts", "mountinfo", "cmdline", "environ"] {
        let whole = rest(child.open(name)?, 1 << 20)?;
        check!(!whole.is_empty() || name == "environ", "{name}: {whole:?}");
        for len in [1, 113, 4096] {
            let pieces = rest(child.open(name)?, len)?;
            check!(
                lasting(&pieces) == lasting(&whole),
                "{name} by {len}:\n{}\nis not\n{}",
                String::from_utf8_lossy(&pieces),
                String::from_utf8_lossy(&whole)
            );
        }
    }
    child.end()?;
    proc::wait_for(child.pid)?;
    Ok(())
}

fn records_by_position() -> Outcome {
    let child = Quiet::new()?;
    for name in ["maps", "mounts"] {
        let fd = child.open(name)?;
        let whole = rest(fd, 1 << 16)?;
        let end = whole.len();
        check_eq!(file::pread(fd, &mut [0], end as i64)?, 0);
        check_eq!(file::pread(fd, &mut [0], 1 << 40)?, 0);
        for at in [end / 2, 0, end - 1, end / 3, end / 3 + 1] {
            let mut byte = [0];
            check_eq!(file::pread(fd, &mut byte, at as i64)?, 1);
            check_eq!((name, at, byte[0]), (name, at, whole[at]));
            file::lseek(fd, at as i64, libc::SEEK_SET)?;
            check!(rest(fd, 700)? == whole[at..], "{name} from {at} on");
        }
        // pread leaves the position where it is.
        file::lseek(fd, 5, libc::SEEK_SET)?;
        file::pread(fd, &mut [0], 100)?;
        check_eq!(file::lseek(fd, 0, libc::SEEK_CUR)?, 5);
    }
    child.end()?;
    proc::wait_for(child.pid)?;
    Ok(())
}

/// Areas of a text of maps, which must not overlap nor go down.
fn areas(text: &[u8]) -> std::result::Result<Vec<(usize, usize)>, Stop> {
    let text = String::from_utf8_lossy(text);
    let mut areas = Vec::new();
    let mut last = 0;
    for line in text.lines().filter(|line| counters::is_header(line)) {
        let range = line.split(' ').next().unwrap_or_default();
        let (start, end) = range.split_once('-').unwrap_or_default();
        let hex = |s| usize::from_str_radix(s, 16).map_err(|_| Stop::Fail(line.to_string()));
        let (start, end) = (hex(start)?, hex(end)?);
        check!(last <= start && start < end, "{line} behind {last:x}");
        last = end;
        areas.push((start, end));
    }
    Ok(areas)
}

/// 600 areas of a page each.
const MANY: usize = 600;

fn many() -> std::result::Result<usize, Stop> {
    let at = mmap(0, MANY * PAGE, RW, ANON | libc::MAP_NORESERVE, -1, 0)?;
    for n in (0..MANY).step_by(2) {
        mprotect(at + n * PAGE, PAGE, libc::PROT_READ)?;
    }
    Ok(at)
}

fn records_of_areas_that_go() -> Outcome {
    for name in ["/proc/self/maps", "/proc/self/smaps"] {
        let at = many()?;
        let fd = file::open(name, libc::O_RDONLY, 0)?;
        let (mut all, mut piece, mut gone) = (Vec::new(), [0; 1000], 0);
        loop {
            match file::read(fd, &mut piece)? {
                0 => break,
                n => all.extend_from_slice(&piece[..n]),
            }
            // One behind and one ahead; every third page stays.
            for page in [gone, MANY - 1 - gone] {
                if gone < MANY / 2 && page % 3 != 0 {
                    munmap(at + page * PAGE, PAGE)?;
                }
            }
            gone += 1;
        }
        let seen = areas(&all)?;
        for page in (0..MANY).step_by(3) {
            let start = at + page * PAGE;
            check!(
                seen.iter().any(|(s, e)| (*s..*e).contains(&start)),
                "{name}: page {page} was there all the time"
            );
        }
        munmap(at, MANY * PAGE)?;
    }
    Ok(())
}

fn records_of_areas_that_come() -> Outcome {
    let at = many()?;
    let fd = file::open("/proc/self/maps", libc::O_RDONLY, 0)?;
    let (mut all, mut piece, mut page) = (Vec::new(), [0; 4096], 0);
    loop {
        match file::read(fd, &mut piece)? {
            0 => break,
            n => all.extend_from_slice(&piece[..n]),
        }
        // The halves of areas that are still to come.
        page = (page + 100).min(MANY - 2);
        munmap(at + page * PAGE, 2 * PAGE)?;
        mmap(at + page * PAGE, PAGE, RW, ANON | libc::MAP_FIXED, -1, 0)?;
    }
    areas(&all)?;
    check!(areas(&fs::read("/proc/self/maps")?)?.len() > MANY / 2);
    munmap(at, MANY * PAGE)?;
    Ok(())
}

/// Areas of which each page is to be looked at. The harness asserts that others run meanwhile.
fn records_of_full_areas() -> Outcome {
    const AREAS: usize = 16;
    const PAGES: usize = 512;
    let at = anon(AREAS * PAGES)?;
    (0..AREAS * PAGES).for_each(|n| store(at + n * PAGE, 7));
    let starts = (0..AREAS).map(|n| at + n * PAGES * PAGE);
    for start in starts.clone().step_by(2) {
        mprotect(start, PAGES * PAGE, libc::PROT_READ)?;
    }
    let fd = file::open("/proc/self/smaps", libc::O_RDONLY, 0)?;
    let text = String::from_utf8_lossy(&rest(fd, 1 << 20)?).into_owned();
    file::close(fd)?;
    for start in starts {
        let entry = text.split_once(&format!("{start:x}-"));
        let lines = entry.map_or("", |(_, entry)| entry).lines();
        let rss = lines.skip(1).find(|line| line.starts_with("Rss:"));
        let kb = rss.and_then(|line| line.split_whitespace().nth(1));
        check_eq!(kb, Some("2048"));
    }
    Ok(munmap(at, AREAS * PAGES * PAGE)?)
}

fn records_of_a_dead_process() -> Outcome {
    let child = Quiet::new()?;
    let names = ["mem", "pagemap", "maps", "smaps", "environ"];
    let fds = names
        .iter()
        .map(|name| child.open(name))
        .collect::<Result<Vec<i32>>>()?;
    let refs = file::open(
        &format!("/proc/{}/clear_refs", child.pid),
        libc::O_WRONLY,
        0,
    )?;
    let mapped = areas(&fs::read(format!("/proc/{}/maps", child.pid))?)?[0].0;
    let mut word = [0; 8];
    check_eq!(file::pread(fds[0], &mut word, mapped as i64)?, 8);
    check_eq!(
        file::pread(fds[1], &mut word, (mapped / PAGE * 8) as i64)?,
        8
    );
    check_eq!(file::read(fds[2], &mut word)?, 8);
    child.end()?;
    check_eq!(file::pread(fds[0], &mut word, mapped as i64)?, 0);
    check_eq!(
        file::pread(fds[1], &mut word, (mapped / PAGE * 8) as i64)?,
        0
    );
    check_eq!(file::pread(fds[3], &mut word, 0)?, 0);
    check_eq!(file::read(fds[4], &mut word)?, 0);
    proc::wait_for(child.pid)?;
    check_eq!(file::pread(fds[0], &mut word, mapped as i64)?, 0);
    check_err!(file::pread(fds[3], &mut word, 0), ESRCH);
    check_err!(file::write(refs, b"1"), ESRCH);
    Ok(())
}

fn unmount(path: &str, flags: i32) -> Result<()> {
    let path = std::ffi::CString::new(path).unwrap_or_default();
    call(
        libc::SYS_umount2,
        [path.as_ptr() as usize, flags as usize, 0, 0, 0, 0],
    )
    .map(drop)
}

/// Lines of mounts whose second word is `path`.
fn lines_of(path: &str) -> std::io::Result<usize> {
    let text = fs::read_to_string("/proc/self/mounts")?;
    let points = text.lines().filter_map(|line| line.split(' ').nth(1));
    Ok(points.filter(|point| *point == path).count())
}

fn records_of_stacked_mounts() -> Outcome {
    const HIGH: usize = 30;
    let base = std::env::current_dir()?;
    let dir = base.join("stack");
    fs::create_dir(&dir)?;
    fs::write(dir.join("ground"), "")?;
    let path = dir.display().to_string();
    for n in 0..HIGH {
        need(proc::mount("layer", &path, "tmpfs", 0), "mount(2)")?;
        check_eq!(fs::read_dir(&dir)?.count(), 0);
        fs::write(dir.join(format!("layer{n}")), "")?;
        check_eq!(lines_of(&path)?, n + 1);
    }
    std::env::set_current_dir(&dir)?;
    check_eq!(std::env::current_dir()?, dir);
    check_eq!(fs::canonicalize("..")?, base);
    std::env::set_current_dir(&base)?;
    for n in (0..HIGH).rev() {
        check!(fs::metadata(dir.join(format!("layer{n}"))).is_ok());
        unmount(&path, 0)?;
        check_eq!(lines_of(&path)?, n);
    }
    check!(fs::metadata(dir.join("ground")).is_ok());
    check_err!(unmount(&path, 0), EINVAL);
    Ok(())
}

fn records_of_mounts_in_mounts() -> Outcome {
    const DEEP: usize = 20;
    let dir = std::env::current_dir()?.join("deep");
    fs::create_dir(&dir)?;
    let mut paths = Vec::new();
    let mut inner = dir.clone();
    for _ in 0..DEEP {
        need(
            proc::mount("level", &inner.display().to_string(), "tmpfs", 0),
            "mount(2)",
        )?;
        paths.push(inner.display().to_string());
        inner = inner.join("d");
        fs::create_dir(&inner)?;
    }
    for path in &paths {
        check_eq!(lines_of(path)?, 1);
    }
    check_err!(unmount(&paths[DEEP / 2], 0), EBUSY);
    check_err!(fs::remove_dir(&paths[0]), EBUSY);
    // Lazily, all that is inside goes, too.
    unmount(&paths[DEEP / 2], libc::MNT_DETACH)?;
    for (n, path) in paths.iter().enumerate() {
        check_eq!((n, lines_of(path)?), (n, usize::from(n < DEEP / 2)));
    }
    unmount(&paths[0], libc::MNT_DETACH)?;
    check_eq!(lines_of(&paths[0])?, 0);
    fs::remove_dir(&dir)?;
    Ok(())
}

/// A directory whose path is longer than a path may be has none that getcwd(2) could return.
fn records_of_a_long_path() -> Outcome {
    let base = std::env::current_dir()?;
    let name = "d".repeat(250);
    for _ in 0..20 {
        fs::create_dir(&name)?;
        std::env::set_current_dir(&name)?;
    }
    // The call itself: a C library may look for the path in another way.
    let mut path = [0u8; 2 * libc::PATH_MAX as usize];
    let (at, len) = (path.as_mut_ptr() as usize, path.len());
    check_err!(call(libc::SYS_getcwd, [at, len, 0, 0, 0, 0]), ENAMETOOLONG);
    fs::create_dir("point")?;
    let bound = proc::mount("point", "point", "", libc::MS_BIND);
    if bound.is_ok() {
        let text = rest(
            file::open("/proc/self/mountinfo", libc::O_RDONLY, 0)?,
            1 << 20,
        )?;
        check!(String::from_utf8_lossy(&text).lines().count() > 1);
        unmount("point", 0)?;
    }
    std::env::set_current_dir(&base)?;
    Ok(())
}
