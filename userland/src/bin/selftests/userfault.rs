//! userfaultfd(2): faults that the program resolves itself, and write protection.
use crate::areas::since;
use std::thread;
use userland::harness::{Outcome, Stop, in_child, need};
use userland::sys::fault;
use userland::sys::mem::{
    ANON, PAGE, RW, anon, fill_page, load, madvise, mmap, mprotect, mremap, munmap, pagemap, store,
};
use userland::sys::{Errno, Result, call, file, proc};
use userland::{check, check_eq, check_err};

userland::tests![
    userfault_says_what_there_is,
    userfault_fills_what_is_missing,
    userfault_is_polled,
    userfault_serves_system_calls,
    userfault_keeps_from_writing,
    userfault_fills_protected_pages,
    userfault_tracks_writes,
    userfault_sends_signals,
    userfault_poisons,
    userfault_of_shared_memory,
    userfault_of_cached_pages,
    userfault_ends_with_its_file,
    userfault_stays_with_its_process,
    userfault_stays_behind,
    userfault_is_shown,
    userfault_refuses_bad_arguments,
];

const API: usize = 0xc018_aa3f;
const REGISTER: usize = 0xc020_aa00;
const UNREGISTER: usize = 0x8010_aa01;
const WAKE: usize = 0x8010_aa02;
pub const COPY: usize = 0xc028_aa03;
pub const ZEROPAGE: usize = 0xc020_aa04;
pub const WRITEPROTECT: usize = 0xc018_aa06;
pub const CONTINUE: usize = 0xc020_aa07;
pub const POISON: usize = 0xc020_aa08;

pub const MISSING: u64 = 1;
pub const WP: u64 = 2;
const MINOR: u64 = 4;

const SIGBUS: u64 = 1 << 7;
const THREAD_ID: u64 = 1 << 8;
const MINOR_SHMEM: u64 = 1 << 10;
const EXACT_ADDRESS: u64 = 1 << 11;
const WP_SHMEM: u64 = 1 << 12;
const WP_UNPOPULATED: u64 = 1 << 13;
const FEATURE_POISON: u64 = 1 << 14;
const WP_ASYNC: u64 = 1 << 15;

/// What a message says: flags, address, thread.
pub type Fault = (u64, usize, u32);
const WRITE: u64 = 1;
const WROTE_PROTECTED: u64 = 3;
const NOT_MAPPED: u64 = 4;

/// An open userfaultfd.
#[derive(Clone, Copy)]
pub struct Monitor(pub i32);

impl Monitor {
    /// With these features. Skips the test where there is none, or not for everybody.
    pub fn new(features: u64) -> std::result::Result<Monitor, Stop> {
        since(6, 8)?;
        let flags = libc::O_CLOEXEC as usize;
        let fd = need(
            call(libc::SYS_userfaultfd, [flags, 0, 0, 0, 0, 0]),
            "userfaultfd",
        )?;
        let monitor = Monitor(fd as i32);
        monitor.ioctl(API, &mut [0xaa, features, 0])?;
        Ok(monitor)
    }
    pub fn ioctl(self, command: usize, words: &mut [u64]) -> Result<usize> {
        let at = words.as_mut_ptr() as usize;
        call(libc::SYS_ioctl, [self.0 as usize, command, at, 0, 0, 0])
    }
    fn range(self, command: usize, at: usize, pages: usize) -> Result<usize> {
        self.ioctl(command, &mut [at as u64, (pages * PAGE) as u64])
    }
    /// Registers memory; the ioctls that it may be used with.
    pub fn register(self, at: usize, pages: usize, modes: u64) -> Result<u64> {
        let mut words = [at as u64, (pages * PAGE) as u64, modes, 0];
        self.ioctl(REGISTER, &mut words)?;
        Ok(words[3])
    }
    pub fn protect(self, at: usize, pages: usize, mode: u64) -> Result<usize> {
        self.ioctl(WRITEPROTECT, &mut [at as u64, (pages * PAGE) as u64, mode])
    }
    /// Copies a page of this byte to `at`; how many bytes were copied.
    pub fn copy(self, at: usize, byte: u8, mode: u64) -> Result<u64> {
        let page = [byte; PAGE];
        let from = page.as_ptr() as u64;
        let mut words = [at as u64, from, PAGE as u64, mode, 0];
        self.ioctl(COPY, &mut words)?;
        Ok(words[4])
    }
    /// Zeros, what is cached, or poison for a page.
    fn fill(self, command: usize, at: usize) -> Result<u64> {
        self.fill_bytes(command, at, PAGE)
    }
    /// The same for so many bytes.
    pub fn fill_bytes(self, command: usize, at: usize, len: usize) -> Result<u64> {
        let mut words = [at as u64, len as u64, 0, 0];
        self.ioctl(command, &mut words)?;
        Ok(words[3])
    }
    pub fn read(self) -> std::result::Result<Fault, Stop> {
        let (kind, [flags, address, thread]) = self.message()?;
        check_eq!(kind, 0x12);
        Ok((flags, address as usize, thread as u32))
    }
    /// The next message: what it is about, and its numbers.
    pub fn message(self) -> std::result::Result<(u8, [u64; 3]), Stop> {
        let mut message = [0; 32];
        check_eq!(file::read(self.0, &mut message)?, 32);
        let word = |at: usize| u64::from_ne_bytes(message[at..at + 8].try_into().unwrap());
        Ok((message[0], [8, 16, 24].map(word)))
    }
    /// What faults of another thread, which does `act`, is answered by `answer`; and its result.
    pub fn serve<T: Send>(
        self,
        act: impl FnOnce() -> T + Send,
        answer: impl FnOnce(Fault) -> Outcome,
    ) -> std::result::Result<T, Stop> {
        thread::scope(|scope| {
            let other = scope.spawn(act);
            answer(self.read()?)?;
            other
                .join()
                .map_err(|_| Stop::Fail("the thread panicked".into()))
        })
    }
}

/// Whether the page is write-protected, by its word in pagemap.
pub fn is_protected(at: usize) -> Result<bool> {
    Ok(pagemap(at, 1)?[0] >> 57 & 1 == 1)
}

pub fn byte_of(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}

fn userfault_says_what_there_is() -> Outcome {
    since(6, 8)?;
    let fd = need(
        call(
            libc::SYS_userfaultfd,
            [libc::O_NONBLOCK as usize, 0, 0, 0, 0, 0],
        ),
        "userfaultfd",
    )?;
    let monitor = Monitor(fd as i32);
    // Nothing before the version is agreed on.
    check_err!(file::read(monitor.0, &mut [0; 32]), EINVAL);
    check_err!(monitor.range(WAKE, PAGE, 1), EINVAL);
    let mut words = [0xab, 0, 0];
    check_err!(monitor.ioctl(API, &mut words), EINVAL);
    check_eq!(words, [0, 0, 0]);
    check_err!(monitor.ioctl(API, &mut [0xaa, 1 << 62, 0]), EINVAL);
    let mut words = [0xaa, 0, 0];
    monitor.ioctl(API, &mut words)?;
    let all = SIGBUS | THREAD_ID | WP_UNPOPULATED | WP_ASYNC | FEATURE_POISON | EXACT_ADDRESS;
    check_eq!(words[1] & all, all);
    check_eq!(words[2], 1 << 63 | 3);
    check_err!(monitor.ioctl(API, &mut [0xaa, 0, 0]), EINVAL);
    check_err!(file::read(monitor.0, &mut [0; 32]), EAGAIN);
    check_err!(file::read(monitor.0, &mut [0; 31]), EINVAL);
    file::close(monitor.0)?;
    check_err!(call(libc::SYS_userfaultfd, [2, 0, 0, 0, 0, 0]), EINVAL);
    Ok(())
}

fn userfault_fills_what_is_missing() -> Outcome {
    let monitor = Monitor::new(THREAD_ID | EXACT_ADDRESS)?;
    let at = anon(4)?;
    let ioctls = monitor.register(at, 4, MISSING)?;
    check_eq!(ioctls & 0x1dc, 0x11c);
    let read = monitor.serve(
        || (load(at + PAGE + 8), proc::gettid()),
        |(flags, address, thread)| {
            check_eq!((flags, address), (0, at + PAGE + 8));
            check!(thread != 0, "no thread is named");
            check_eq!(monitor.copy(at + PAGE, 5, 0)?, PAGE as u64);
            Ok(())
        },
    )?;
    check_eq!(read.0, byte_of(5));
    monitor.serve(
        || store(at + 2 * PAGE, 7),
        |(flags, ..)| {
            check_eq!(flags, WRITE);
            // It is woken when it is told to be.
            monitor.copy(at + 2 * PAGE, 0, 1)?;
            monitor.range(WAKE, at, 4)?;
            Ok(())
        },
    )?;
    check_eq!(load(at + 2 * PAGE), 7);
    check_err!(monitor.copy(at + PAGE, 6, 0), EEXIST);
    check_eq!(monitor.fill(ZEROPAGE, at)?, PAGE as u64);
    check_eq!(load(at), 0);
    store(at, 1);
    // What is dropped is missing again.
    madvise(at, PAGE, libc::MADV_DONTNEED)?;
    monitor.copy(at, 9, 0)?;
    check_eq!(load(at), byte_of(9));
    monitor.range(UNREGISTER, at, 4)?;
    check_eq!(load(at + 3 * PAGE), 0);
    file::close(monitor.0)?;
    Ok(())
}

fn userfault_is_polled() -> Outcome {
    let monitor = Monitor::new(0)?;
    file::fcntl(monitor.0, libc::F_SETFL, i64::from(libc::O_NONBLOCK))?;
    let at = anon(1)?;
    monitor.register(at, 1, MISSING)?;
    check_eq!(file::poll(monitor.0, libc::POLLIN, 0)?, 0);
    thread::scope(|scope| {
        let other = scope.spawn(|| load(at));
        check_eq!(file::poll(monitor.0, libc::POLLIN, -1)?, libc::POLLIN);
        monitor.read()?;
        check_eq!(file::poll(monitor.0, libc::POLLIN, 0)?, 0);
        monitor.copy(at, 3, 0)?;
        check_eq!(other.join().unwrap_or(0), byte_of(3));
        Ok(())
    })?;
    file::close(monitor.0)?;
    Ok(())
}

fn userfault_serves_system_calls() -> Outcome {
    let monitor = Monitor::new(0)?;
    let at = anon(2)?;
    monitor.register(at, 2, MISSING)?;
    let (hear, tell) = file::pipe(0)?;
    let write = || call(libc::SYS_write, [tell as usize, at, 8, 0, 0, 0]);
    let written = monitor.serve(write, |_| {
        monitor.copy(at, 4, 0).map(|_| ()).map_err(Stop::from)
    })?;
    check_eq!(written?, 8);
    let mut bytes = [0; 8];
    file::read(hear, &mut bytes)?;
    check_eq!(bytes, [4; 8]);
    file::write_all(tell, b"12345678")?;
    let read = || call(libc::SYS_read, [hear as usize, at + PAGE, 8, 0, 0, 0]);
    let got = monitor.serve(read, |(flags, ..)| {
        check_eq!(flags, WRITE);
        monitor.fill(ZEROPAGE, at + PAGE)?;
        Ok(())
    })?;
    check_eq!(got?, 8);
    check_eq!(load(at + PAGE), u64::from_ne_bytes(*b"12345678"));
    file::close(monitor.0)?;
    Ok(())
}

fn userfault_keeps_from_writing() -> Outcome {
    let monitor = Monitor::new(0)?;
    let at = anon(4)?;
    (0..4).for_each(|n| store(at + n * PAGE, 1 + n as u64));
    let ioctls = monitor.register(at, 4, WP)?;
    check_eq!(ioctls >> 6 & 1, 1);
    monitor.protect(at, 3, 1)?;
    check_eq!(load(at + PAGE), 2);
    store(at + 3 * PAGE, 9);
    monitor.serve(
        || store(at + PAGE, 7),
        |(flags, address, _)| {
            check_eq!((flags, address), (WROTE_PROTECTED, at + PAGE));
            check_eq!(load(at + PAGE), 2);
            monitor.protect(at + PAGE, 1, 0)?;
            Ok(())
        },
    )?;
    check_eq!(load(at + PAGE), 7);
    check!(
        is_protected(at)? && !is_protected(at + PAGE)?,
        "other pages"
    );
    // Rights come and go, and the protection stays.
    mprotect(at, PAGE, libc::PROT_NONE)?;
    mprotect(at, PAGE, RW)?;
    check!(is_protected(at)?, "mprotect ended the protection");
    monitor.range(UNREGISTER, at, 4)?;
    check!(!is_protected(at)?, "a page without a monitor is protected");
    store(at, 3);
    file::close(monitor.0)?;
    Ok(())
}

fn userfault_fills_protected_pages() -> Outcome {
    let monitor = Monitor::new(WP_UNPOPULATED)?;
    let at = anon(4)?;
    monitor.register(at, 4, MISSING | WP)?;
    monitor.copy(at, 1, 2)?;
    check!(is_protected(at)?, "the copy is not protected");
    monitor.serve(
        || store(at, 7),
        |(flags, ..)| {
            check_eq!(flags, WROTE_PROTECTED);
            monitor.protect(at, 1, 0)?;
            Ok(())
        },
    )?;
    check_eq!(load(at), 7);
    // What is not there is protected, too, until it is filled.
    monitor.protect(at + PAGE, 1, 1)?;
    check!(
        is_protected(at + PAGE)?,
        "nothing is there, and not protected"
    );
    monitor.copy(at + PAGE, 2, 0)?;
    check!(!is_protected(at + PAGE)?, "the copy is protected");
    store(at + PAGE, 1);
    file::close(monitor.0)?;
    Ok(())
}

fn userfault_tracks_writes() -> Outcome {
    let monitor = Monitor::new(WP_ASYNC)?;
    let at = anon(8)?;
    [1, 2].into_iter().for_each(|n| store(at + n * PAGE, 1));
    monitor.register(at, 8, WP)?;
    let written = || -> Result<Vec<usize>> {
        let all = (0..8).map(|n| Ok((n, is_protected(at + n * PAGE)?)));
        let all = all.collect::<Result<Vec<_>>>()?;
        Ok(all.into_iter().filter(|it| !it.1).map(|it| it.0).collect())
    };
    check_eq!(written()?.len(), 8);
    monitor.protect(at, 8, 1)?;
    check_eq!(written()?, []);
    store(at + 2 * PAGE, 5);
    store(at + 6 * PAGE, 6);
    load(at + 4 * PAGE);
    check_eq!(written()?, [2, 6]);
    check_eq!(crate::scan::written(at, 8, true)?, [2, 6]);
    check_eq!(written()?, []);
    store(at, 1);
    check_eq!(crate::scan::written(at, 8, false)?, [0]);
    check_eq!(load(at + 6 * PAGE), 6);
    file::close(monitor.0)?;
    Ok(())
}

fn userfault_sends_signals() -> Outcome {
    fault::arm();
    let monitor = Monitor::new(SIGBUS)?;
    let at = anon(2)?;
    monitor.register(at, 2, MISSING)?;
    match fault::read(at) {
        Err(t) => check_eq!((t.signal, t.code), (libc::SIGBUS, 2)),
        Ok(_) => check!(false, "a page that is missing was read"),
    }
    let (_, tell) = file::pipe(0)?;
    let args = [tell as usize, at, 8, 0, 0, 0];
    check_err!(call(libc::SYS_write, args), EFAULT);
    monitor.copy(at, 1, 0)?;
    check_eq!(load(at), byte_of(1));
    file::close(monitor.0)?;
    Ok(())
}

fn userfault_poisons() -> Outcome {
    fault::arm();
    let monitor = Monitor::new(FEATURE_POISON)?;
    let at = anon(2)?;
    monitor.register(at, 2, MISSING)?;
    check_eq!(monitor.fill(POISON, at)?, PAGE as u64);
    for _ in 0..2 {
        match fault::read(at) {
            // BUS_MCEERR_AR; BUS_ADRERR of a Linux without CONFIG_MEMORY_FAILURE.
            Err(t) => check!(
                t.signal == libc::SIGBUS && [4, 2].contains(&t.code),
                "{t:x?}"
            ),
            Ok(_) => check!(false, "a poisoned page was read"),
        }
    }
    madvise(at, PAGE, libc::MADV_DONTNEED)?;
    monitor.copy(at, 1, 0)?;
    check_eq!(load(at), byte_of(1));
    file::close(monitor.0)?;
    Ok(())
}

/// Pages of a memfd, mapped twice.
fn twice(pages: usize) -> std::result::Result<(usize, usize), Stop> {
    let fd = file::memfd(0)?;
    file::ftruncate(fd, (pages * PAGE) as i64)?;
    let map = || mmap(0, pages * PAGE, RW, libc::MAP_SHARED, fd, 0);
    let both = (map()?, map()?);
    file::close(fd)?;
    Ok(both)
}

fn userfault_of_shared_memory() -> Outcome {
    let monitor = Monitor::new(WP_SHMEM)?;
    let (at, other) = twice(4)?;
    monitor.register(at, 4, MISSING | WP)?;
    monitor.copy(at, 5, 0)?;
    check_eq!((load(at), load(other)), (byte_of(5), byte_of(5)));
    store(other + PAGE, 6);
    check_eq!(load(at + PAGE), 6);
    monitor.protect(at, 4, 1)?;
    store(other, 1);
    monitor.serve(
        || store(at, 2),
        |(flags, ..)| {
            check_eq!(flags, WROTE_PROTECTED);
            check_eq!(load(other), 1);
            monitor.protect(at, 1, 0)?;
            Ok(())
        },
    )?;
    check_eq!(load(other), 2);
    // The protection is the mapping's: it stays when the page goes.
    madvise(at + PAGE, PAGE, libc::MADV_DONTNEED)?;
    check!(is_protected(at + PAGE)?, "it went with the page");
    check_eq!(load(at + PAGE), 6);
    check!(is_protected(at + PAGE)?, "it went when the page came");
    file::close(monitor.0)?;
    store(at + PAGE, 7);
    check_eq!(load(other + PAGE), 7);
    Ok(())
}

fn userfault_of_cached_pages() -> Outcome {
    let monitor = Monitor::new(MINOR_SHMEM)?;
    let (at, other) = twice(2)?;
    store(other, 3);
    let ioctls = monitor.register(at, 2, MINOR)?;
    check_eq!(ioctls >> 7 & 1, 1);
    let value = monitor.serve(
        || load(at),
        |(flags, address, _)| {
            check_eq!((flags, address), (NOT_MAPPED, at));
            store(other, 4);
            check_eq!(monitor.fill(CONTINUE, at)?, PAGE as u64);
            Ok(())
        },
    )?;
    check_eq!(value, 4);
    check_err!(monitor.fill(CONTINUE, at), EEXIST);
    check_err!(monitor.fill(CONTINUE, at + PAGE), EFAULT);
    file::close(monitor.0)?;
    Ok(())
}

fn userfault_ends_with_its_file() -> Outcome {
    let monitor = Monitor::new(0)?;
    let at = anon(4)?;
    store(at + PAGE, 1);
    monitor.register(at, 4, MISSING | WP)?;
    monitor.protect(at + PAGE, 1, 1)?;
    let read = monitor.serve(
        || (load(at), store(at + PAGE, 2)),
        |_| Ok(file::close(monitor.0)?),
    )?;
    check_eq!(read.0, 0);
    check_eq!(load(at + PAGE), 2);
    Ok(())
}

fn userfault_stays_with_its_process() -> Outcome {
    let monitor = Monitor::new(0)?;
    let at = anon(4)?;
    store(at, 1);
    monitor.register(at, 4, MISSING | WP)?;
    monitor.protect(at, 1, 1)?;
    let child = in_child(|| {
        check!(!is_protected(at)?, "the child's page is protected");
        store(at, 2);
        check_eq!(load(at + PAGE), 0);
        // The file is about the parent's memory.
        monitor.copy(at + 2 * PAGE, 6, 0)?;
        check_eq!(load(at + 2 * PAGE), 0);
        Ok(0)
    })?;
    check_eq!(child, proc::Status::Exited(0));
    check!(is_protected(at)?, "the parent's page is not");
    check_eq!((load(at), load(at + 2 * PAGE)), (1, byte_of(6)));
    file::close(monitor.0)?;
    Ok(())
}

fn userfault_stays_behind() -> Outcome {
    since(6, 13)?;
    let monitor = Monitor::new(0)?;
    let at = anon(2)?;
    store(at, 1);
    monitor.register(at, 2, MISSING | WP)?;
    monitor.protect(at, 1, 1)?;
    let to = mmap(0, 2 * PAGE, libc::PROT_NONE, ANON, -1, 0)?;
    let fixed = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    mremap(at, 2 * PAGE, 2 * PAGE, fixed, to)?;
    check!(!is_protected(to)?, "the protection moved");
    store(to, 2);
    check_eq!(load(to + PAGE), 0);
    munmap(to, 2 * PAGE)?;
    file::close(monitor.0)?;
    Ok(())
}

fn userfault_is_shown() -> Outcome {
    let monitor = Monitor::new(0)?;
    let at = anon(3)?;
    monitor.register(at + PAGE, 1, MISSING | WP)?;
    let smaps = std::fs::read_to_string("/proc/self/smaps").map_err(Errno::from)?;
    let start = format!("{:x}-", at + PAGE);
    let flags = smaps
        .lines()
        .skip_while(|line| !line.starts_with(&start))
        .find(|line| line.starts_with("VmFlags"));
    let flags = flags.unwrap_or_default();
    check!(flags.contains(" um uw"), "{flags}");
    let info = format!("/proc/self/fdinfo/{}", monitor.0);
    let info = std::fs::read_to_string(info).map_err(Errno::from)?;
    check!(info.contains("pending:\t0\ntotal:\t0\nAPI:\taa:"), "{info}");
    file::close(monitor.0)?;
    Ok(())
}

fn userfault_refuses_bad_arguments() -> Outcome {
    let (monitor, second) = (Monitor::new(0)?, Monitor::new(0)?);
    let at = anon(4)?;
    fill_page(at, 1);
    check_err!(monitor.register(at, 4, 0), EINVAL);
    check_err!(monitor.register(at, 4, 8), EINVAL);
    check_err!(monitor.register(at + 1, 4, MISSING), EINVAL);
    check_err!(monitor.register(at, 0, MISSING), EINVAL);
    check_err!(monitor.register(at, 4, MINOR), EINVAL);
    monitor.register(at, 2, MISSING)?;
    check_err!(second.register(at, 4, MISSING), EBUSY);
    check_err!(monitor.protect(at, 2, 1), ENOENT);
    check_err!(monitor.protect(at, 2, 3), EINVAL);
    check_err!(monitor.copy(at + 1, 1, 0), EINVAL);
    check_err!(monitor.copy(at + PAGE, 1, 4), EINVAL);
    check_err!(monitor.copy(at + PAGE, 1, 2), EINVAL);
    check_err!(monitor.copy(at, 1, 0), EEXIST);
    check_err!(monitor.copy(at + 2 * PAGE, 1, 0), ENOENT);
    let unmapped = anon(2)?;
    munmap(unmapped, 2 * PAGE)?;
    check_err!(monitor.register(unmapped, 1, MISSING), EINVAL);
    let mut words = [(at + PAGE) as u64, unmapped as u64, PAGE as u64, 0, 0];
    check_err!(monitor.ioctl(COPY, &mut words), EFAULT);
    check_eq!(words[4] as i64, -i64::from(libc::EFAULT));
    file::close(monitor.0)?;
    file::close(second.0)?;
    Ok(())
}
