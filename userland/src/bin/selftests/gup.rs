//! gup_test of debugfs: pins of a program's own pages, as a driver takes them (mm/gup_test.h).
use std::fs;
use std::os::unix::fs::PermissionsExt;
use userland::counters::on_quire;
use userland::harness::{Outcome, Stop, in_child};
use userland::sys::mem::{ANON, PAGE, RW, anon, load, mmap, mprotect, munmap, store};
use userland::sys::proc::{self, Fork, Status};
use userland::sys::{Errno, Result, call, file};
use userland::{check, check_eq, check_err};

userland::tests![
    gup_pin_sees_writes,
    gup_pin_over_fork,
    gup_pin_of_what_a_child_has,
    gup_pin_of_what_was_not_written,
    gup_pin_without_the_mapping,
    gup_pin_refuses_bad_arguments,
    gup_takes_what_there_is,
    gup_refuses_bad_arguments,
    gup_is_for_root,
];

const PATH: &str = "/sys/kernel/debug/gup_test";

/// `struct gup_test`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct GupTest {
    get_us: u64,
    put_us: u64,
    addr: u64,
    size: u64,
    per_call: u32,
    flags: u32,
    test_flags: u32,
    shown: [u32; 8],
}

/// GUP_FAST_BENCHMARK to DUMP_USER_PAGES_TEST.
const MEASURES: std::ops::RangeInclusive<usize> = 0xc050_6701..=0xc050_6706;
const DUMP_USER_PAGES: usize = 0xc050_6706;
/// PIN_LONGTERM_TEST_START, STOP and READ.
const START: usize = 0x4018_6707;
const STOP: usize = 0x6708;
const READ: usize = 0x4008_6709;
const WRITE: u64 = 1;
const FAST: u64 = 2;

/// The open file, which nothing in it survives.
struct Gup(i32);

impl Gup {
    fn open() -> std::result::Result<Gup, Stop> {
        let opened = file::open(PATH, libc::O_RDWR, 0);
        opened
            .map(Gup)
            .map_err(|why| Stop::Skip(format!("{PATH}: {why}")))
    }
    fn ioctl(&self, command: usize, argument: usize) -> Result<usize> {
        call(
            libc::SYS_ioctl,
            [self.0 as usize, command, argument, 0, 0, 0],
        )
    }
    fn start(&self, at: usize, size: usize, flags: u64) -> Result<usize> {
        let arguments = [at as u64, size as u64, flags];
        self.ioctl(START, arguments.as_ptr() as usize)
    }
    /// The first word of each of `pages` pages, as the pins see it.
    fn words(&self, pages: usize) -> Result<Vec<u64>> {
        let mut words = vec![0u64; pages * PAGE / 8];
        let into = words.as_mut_ptr() as u64;
        self.ioctl(READ, &raw const into as usize)?;
        Ok(words.into_iter().step_by(PAGE / 8).collect())
    }
    fn measure(&self, command: usize, test: &mut GupTest) -> Result<usize> {
        self.ioctl(command, &raw mut *test as usize)
    }
}

impl Drop for Gup {
    fn drop(&mut self) {
        let _ = file::close(self.0);
    }
}

/// Pages of most tests here.
const N: usize = 8;

fn written() -> Result<usize> {
    let at = anon(N)?;
    (0..N).for_each(|n| store(at + n * PAGE, 10 + n as u64));
    Ok(at)
}

/// Writes through the mapping, after a change that has each write ask first.
fn write_again(at: usize, value: u64) -> Outcome {
    mprotect(at, N * PAGE, libc::PROT_READ)?;
    mprotect(at, N * PAGE, RW)?;
    (0..N).for_each(|n| store(at + n * PAGE, value + n as u64));
    Ok(())
}

fn counted(from: u64) -> Vec<u64> {
    (from..from + N as u64).collect()
}

/// What is written is seen by the pins; then they end, and the mapping.
fn sees_writes(gup: &Gup, at: usize) -> Outcome {
    write_again(at, 20)?;
    check_eq!(gup.words(N)?, counted(20));
    gup.ioctl(STOP, 0)?;
    Ok(munmap(at, N * PAGE)?)
}

/// Whether memory is as [`written`] left it.
fn is_as_written(at: usize) -> bool {
    (0..N).all(|n| load(at + n * PAGE) == 10 + n as u64)
}

fn gup_pin_sees_writes() -> Outcome {
    let gup = Gup::open()?;
    for flags in [0, FAST, WRITE, WRITE | FAST] {
        let at = written()?;
        gup.start(at, N * PAGE, flags)?;
        check_eq!(gup.words(N)?, counted(10));
        sees_writes(&gup, at)?;
    }
    Ok(())
}

/// The child has copies; parent and pin go on with the pages.
fn gup_pin_over_fork() -> Outcome {
    let gup = Gup::open()?;
    for flags in [0, WRITE] {
        let at = written()?;
        gup.start(at, N * PAGE, flags)?;
        let status = in_child(|| {
            let same = is_as_written(at);
            (0..N).for_each(|n| store(at + n * PAGE, 0));
            Ok(same as i32)
        })?;
        check_eq!(status, Status::Exited(1));
        check_eq!(gup.words(N)?, counted(10));
        sees_writes(&gup, at)?;
    }
    Ok(())
}

fn gup_pin_of_what_a_child_has() -> Outcome {
    let gup = Gup::open()?;
    for flags in [0, WRITE] {
        let at = written()?;
        let (hear, tell) = file::pipe(0)?;
        let pid = match proc::fork()? {
            Fork::Child => {
                let _ = file::read(hear, &mut [0]);
                let same = is_as_written(at);
                proc::exit_now(same as i32)
            }
            Fork::Parent(pid) => pid,
        };
        gup.start(at, N * PAGE, flags)?;
        write_again(at, 20)?;
        check_eq!(gup.words(N)?, counted(20));
        file::write_all(tell, b"x")?;
        check_eq!(proc::wait_for(pid)?, Status::Exited(1));
        gup.ioctl(STOP, 0)?;
        munmap(at, N * PAGE)?;
        [hear, tell].into_iter().try_for_each(file::close)?;
    }
    Ok(())
}

/// Zeros, and the pages of a file that is mapped privately, are copied; a shared mapping's are the
/// file's.
fn gup_pin_of_what_was_not_written() -> Outcome {
    let gup = Gup::open()?;
    let fd = file::memfd(0)?;
    file::ftruncate(fd, (N * PAGE) as i64)?;
    let shared = mmap(0, N * PAGE, RW, libc::MAP_SHARED, fd, 0)?;
    let private = mmap(0, N * PAGE, RW, libc::MAP_PRIVATE, fd, 0)?;
    let zeros = anon(N)?;
    for (at, in_file) in [(zeros, 0), (private, 0), (shared, 20)] {
        check_eq!(load(at), 0);
        gup.start(at, N * PAGE, 0)?;
        write_again(at, 20)?;
        check_eq!(gup.words(N)?, counted(20));
        check_eq!(load(shared), in_file);
        gup.ioctl(STOP, 0)?;
    }
    gup.start(shared, N * PAGE, WRITE)?;
    write_again(shared, 30)?;
    check_eq!(gup.words(N)?, counted(30));
    for at in [zeros, private, shared] {
        munmap(at, N * PAGE)?;
    }
    Ok(file::close(fd)?)
}

/// Pins keep what is not mapped any more, until the file is closed.
fn gup_pin_without_the_mapping() -> Outcome {
    let gup = Gup::open()?;
    let at = written()?;
    gup.start(at, N * PAGE, 0)?;
    munmap(at, N * PAGE)?;
    check_eq!(gup.words(N)?, counted(10));
    Ok(())
}

fn gup_pin_refuses_bad_arguments() -> Outcome {
    let gup = Gup::open()?;
    let at = written()?;
    for (from, size, flags) in [(at + 8, PAGE, 0), (at, 8, 0), (at, 0, 0), (at, PAGE, 4)] {
        check_err!(gup.start(from, size, flags), EINVAL);
    }
    check_err!(gup.words(1), EINVAL);
    gup.ioctl(STOP, 0)?;
    check_err!(gup.ioctl(START, 8), EFAULT);
    check_err!(gup.ioctl(0x670a, 0), EINVAL);
    munmap(at + PAGE, PAGE)?;
    check_err!(gup.start(at, 2 * PAGE, 0), EFAULT);
    mprotect(at, PAGE, libc::PROT_READ)?;
    check_err!(gup.start(at, PAGE, WRITE), EFAULT);
    gup.start(at, PAGE, 0)?;
    check_err!(gup.start(at, PAGE, 0), EINVAL);
    check_err!(gup.ioctl(READ, 8), EFAULT);
    Ok(munmap(at, N * PAGE)?)
}

fn gup_takes_what_there_is() -> Outcome {
    let gup = Gup::open()?;
    let pages = 4096;
    let at = mmap(0, (pages + 1) * PAGE, RW, ANON, -1, 0)?;
    munmap(at + pages * PAGE, PAGE)?;
    for command in MEASURES {
        for flags in [0, WRITE as u32] {
            let mut test = GupTest {
                addr: at as u64,
                size: ((pages + 1) * PAGE) as u64,
                per_call: 123,
                flags,
                ..GupTest::default()
            };
            if command == DUMP_USER_PAGES {
                (test.test_flags, test.shown[1], test.shown[2]) = (1, 1, 5000);
            }
            gup.measure(command, &mut test)?;
            check_eq!((command, test.size), (command, (pages * PAGE) as u64));
        }
    }
    Ok(munmap(at, pages * PAGE)?)
}

fn gup_refuses_bad_arguments() -> Outcome {
    let gup = Gup::open()?;
    let at = written()?;
    let fine = GupTest {
        addr: at as u64,
        size: PAGE as u64,
        per_call: 1,
        ..GupTest::default()
    };
    for command in MEASURES {
        gup.measure(command, &mut { fine })?;
        let mut huge = fine;
        huge.size = 1 << 46;
        check!(gup.measure(command, &mut huge).is_err(), "{command:x}");
        // Linux takes more flags, and those of another command.
        let (mut none, mut unknown, mut others) = (fine, fine, fine);
        (none.per_call, unknown.flags, others.test_flags) = (0, 2, 2);
        for mut bad in [none, unknown, others] {
            let got = gup.measure(command, &mut bad);
            check!(
                !on_quire() || got == Err(Errno(libc::EINVAL)),
                "{command:x}: {got:?}"
            );
        }
    }
    check_err!(gup.ioctl(DUMP_USER_PAGES, 8), EFAULT);
    Ok(munmap(at, N * PAGE)?)
}

fn gup_is_for_root() -> Outcome {
    drop(Gup::open()?);
    check_eq!(fs::metadata(PATH)?.permissions().mode() & 0o777, 0o600);
    Ok(())
}
