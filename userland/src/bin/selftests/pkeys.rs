//! Protection keys: memory that a thread may use or not, as a register of its own says. Where the
//! machine has none, what is asked for is refused as Linux does.
use crate::areas::{areas, put, room};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use userland::counters::smaps_of;
use userland::harness::{Outcome, Stop, in_child, need};
use userland::sys::keys::{self, NO_ACCESS, NO_WRITE};
use userland::sys::mem::{
    ANON, PAGE, RW, anon, load, madvise, mincore, mmap, mprotect, mremap, store,
};
use userland::sys::proc::{self, Status};
use userland::sys::{Errno, fault, file, sig};
use userland::{check, check_eq, check_err};

userland::tests![
    pkeys_none_left,
    pkeys_refuse_bad_arguments,
    pkeys_refuse_data,
    pkeys_of_areas,
    pkeys_go_with_their_memory,
    pkeys_of_2_mib,
    pkeys_count_for_the_kernel,
    pkeys_of_a_child,
    pkeys_of_threads,
    pkeys_of_a_handler,
    pkeys_refuse_before_there_is_a_page,
    pkeys_for_execute_only,
];

const READ: i32 = libc::PROT_READ;
const SEGV_PKUERR: i32 = 4;
/// The register of a new program.
const INITIAL: u32 = 0x5555_5554;

/// Quire has keys where x86_64's CPUs do; on aarch64 never.
const NONE: &str = match cfg!(target_arch = "aarch64") {
    true => "no protection keys on this machine",
    false => "the CPU has no protection keys",
};

/// A key that refuses nothing yet.
pub fn key() -> Result<i32, Stop> {
    fault::arm();
    match keys::alloc(0, 0) {
        Err(error) if means_none(error) => Err(Stop::Skip(NONE.into())),
        key => need(key, "pkey_alloc"),
    }
}

/// Whether this is how the first key is refused where there are none: pkey_alloc(2) says ENOSPC,
/// and Linux 6.18 EINVAL on a CPU without them.
fn means_none(error: Errno) -> bool {
    matches!(error, Errno(libc::ENOSPC | libc::EINVAL))
}

/// So many pages with a key, each written once.
pub fn with_key(pages: usize, key: i32) -> Result<usize, Stop> {
    let at = anon(pages)?;
    (0..pages).for_each(|n| store(at + n * PAGE, 7));
    keys::protect(at, pages * PAGE, RW, key)?;
    Ok(at)
}

/// The access was refused by this key at this address.
fn check_refused<T: std::fmt::Debug>(probe: fault::Probe<T>, at: usize, key: i32) -> Outcome {
    let trap = probe.err();
    let seen = trap.map(|trap| (trap.signal, trap.code, trap.addr));
    check_eq!(seen, Some((libc::SIGSEGV, SEGV_PKUERR, at)));
    check_eq!(fault::last_key(), key);
    Ok(())
}

fn pkeys_none_left() -> Outcome {
    fault::arm();
    let at = anon(1)?;
    let (mut all, mut next) = (Vec::new(), keys::alloc(0, 0));
    while let Ok(key) = next {
        all.push(key);
        next = keys::alloc(0, 0);
    }
    let expected = match next {
        Err(error) if all.is_empty() => means_none(error),
        next => next == Err(Errno(libc::ENOSPC)),
    };
    if !expected {
        need(next, "pkey_alloc")?;
    }
    if all.is_empty() {
        // No key is given, and mprotect(2) by its other name works.
        keys::protect(at, PAGE, READ, -1)?;
        check!(fault::write(at, 1).is_err());
        check_err!(keys::protect(at, PAGE, RW, 1), EINVAL);
        check_err!(keys::free(1), EINVAL);
        return Ok(());
    }
    check_eq!(all, (1..16).collect::<Vec<i32>>());
    for key in all {
        keys::protect(at, PAGE, RW, key)?;
    }
    keys::free(9)?;
    check_err!(keys::free(9), EINVAL);
    check_err!(keys::protect(at, PAGE, RW, 9), EINVAL);
    check_eq!(keys::alloc(0, 0)?, 9);
    Ok(())
}

fn pkeys_refuse_bad_arguments() -> Outcome {
    fault::arm();
    check_err!(keys::alloc(1, 0), EINVAL);
    check_err!(keys::alloc(0, 4), EINVAL);
    check_err!(keys::alloc(0, 1 << 32), EINVAL);
    let at = anon(2)?;
    for no_key in [1, 15, 16, 99, -2, i32::MAX] {
        check_err!(keys::free(no_key), EINVAL);
        check_err!(keys::protect(at, PAGE, RW, no_key), EINVAL);
        // What does nothing asks for no key.
        keys::protect(at, 0, RW, no_key)?;
    }
    check_err!(keys::free(-1), EINVAL);
    check_err!(keys::protect(at + 1, PAGE, RW, -1), EINVAL);
    check_err!(keys::protect(at, PAGE, 0x80, -1), EINVAL);
    keys::protect(at, PAGE, READ, -1)?;
    check_eq!(fault::write(at, 1).map_err(|trap| trap.code), Err(2));
    Ok(())
}

fn pkeys_refuse_data() -> Outcome {
    let key = key()?;
    let at = with_key(3, key)?;
    let last = at + 2 * PAGE;
    check_eq!((load(at), fault::write(at, 1)), (7, Ok(())));
    keys::refuse(key, NO_WRITE);
    check_eq!(fault::load(last), Ok(7));
    check_refused(fault::write(last, 1), last, key)?;
    keys::refuse(key, NO_ACCESS);
    check_refused(fault::load(last), last, key)?;
    check_refused(fault::write(last + 5, 1), last + 5, key)?;
    // Pages that nothing is in yet.
    madvise(at, 3 * PAGE, libc::MADV_DONTNEED)?;
    check_refused(fault::load(at), at, key)?;
    check_refused(fault::store(at + PAGE, 1), at + PAGE, key)?;
    // Rights that the memory does not have are another matter, if the key does not refuse it, too.
    mprotect(at, PAGE, libc::PROT_NONE)?;
    check_refused(fault::load(at), at, key)?;
    keys::refuse(key, 0);
    check_eq!(fault::read(at).map_err(|trap| trap.code), Err(2));
    mprotect(at, PAGE, RW)?;
    check_eq!(fault::load(at + PAGE), Ok(0));
    // A key may come with what it refuses.
    let other = keys::alloc(0, NO_WRITE as usize)?;
    keys::protect(at, PAGE, RW, other)?;
    check_eq!(fault::load(at), Ok(0));
    check_refused(fault::store(at, 1), at, other)
}

/// The key of the area that begins at `at`, as smaps has it.
fn shown(at: usize) -> Option<u64> {
    smaps_of(at)?.get("ProtectionKey").ok()
}

fn pkeys_of_areas() -> Outcome {
    let key = key()?;
    let at = room(4)?;
    put(at, 0, 4, RW)?;
    keys::protect(at + PAGE, 2 * PAGE, RW, key)?;
    check_eq!(areas(at, 4)?, "0-1 rw-p, 1-3 rw-p, 3-4 rw-p");
    let all = || [0, 1, 3].map(|n| shown(at + n * PAGE));
    check_eq!(all(), [Some(0), Some(key as u64), Some(0)]);
    // mprotect(2), by either name, leaves the key; key 0 is one.
    mprotect(at + PAGE, 2 * PAGE, READ)?;
    keys::protect(at + PAGE, 2 * PAGE, RW, -1)?;
    check_eq!(all(), [Some(0), Some(key as u64), Some(0)]);
    keys::protect(at + PAGE, 2 * PAGE, RW, 0)?;
    check_eq!(areas(at, 4)?, "0-4 rw-p");
    Ok(())
}

fn pkeys_go_with_their_memory() -> Outcome {
    let key = key()?;
    let at = with_key(2, key)?;
    let to = anon(4)?;
    let moves = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    check_eq!(mremap(at, 2 * PAGE, 4 * PAGE, moves, to)?, to);
    keys::refuse(key, NO_ACCESS);
    check_refused(fault::load(to), to, key)?;
    check_refused(fault::load(to + 3 * PAGE), to + 3 * PAGE, key)?;
    // New memory in its place has none.
    mmap(to, PAGE, RW, ANON | libc::MAP_FIXED, -1, 0)?;
    check_eq!(fault::load(to), Ok(0));
    Ok(())
}

fn pkeys_of_2_mib() -> Outcome {
    const HUGE: usize = 512 * PAGE;
    let key = key()?;
    let at = mmap(0, 3 * HUGE, RW, ANON, -1, 0)?.next_multiple_of(HUGE);
    let _ = madvise(at, 2 * HUGE, libc::MADV_HUGEPAGE);
    (0..HUGE)
        .step_by(PAGE)
        .for_each(|n| store(at + n, n as u64));
    keys::protect(at, 2 * HUGE, RW, key)?;
    store(at + HUGE, 1);
    // One page of each half with another key, and the rest has it still.
    keys::protect(at + 9 * PAGE, PAGE, RW, 0)?;
    keys::protect(at + HUGE + 9 * PAGE, PAGE, RW, 0)?;
    keys::refuse(key, NO_ACCESS);
    for n in [0, 8, 10, 511, 512, 520, 522, 1023] {
        check_refused(fault::load(at + n * PAGE), at + n * PAGE, key)?;
    }
    check_eq!(fault::load(at + 9 * PAGE), Ok(9 * PAGE as u64));
    check_eq!(fault::load(at + HUGE + 9 * PAGE), Ok(0));
    // Together again.
    keys::refuse(key, 0);
    keys::protect(at, 2 * HUGE, RW, key)?;
    let _ = madvise(at, HUGE, userland::sys::mem::MADV_COLLAPSE);
    check_eq!(load(at + 10 * PAGE), 10 * PAGE as u64);
    keys::refuse(key, NO_WRITE);
    check_refused(fault::store(at + 9 * PAGE, 1), at + 9 * PAGE, key)
}

fn pkeys_count_for_the_kernel() -> Outcome {
    use userland::sys::call;
    let key = key()?;
    let at = with_key(1, key)?;
    let (out, into) = file::pipe(0)?;
    let write = || call(libc::SYS_write, [into as usize, at, 1, 0, 0, 0]);
    let read = || call(libc::SYS_read, [out as usize, at, 1, 0, 0, 0]);
    check_eq!((write()?, read()?, write()?), (1, 1, 1));
    keys::refuse(key, NO_WRITE);
    check_err!(read(), EFAULT);
    check_eq!(write()?, 1);
    check_eq!(file::vmsplice(into, at, 1, 0)?, 1);
    keys::refuse(key, NO_ACCESS);
    check_err!(write(), EFAULT);
    check_err!(file::vmsplice(into, at, 1, 0), EFAULT);
    // By /proc the memory is read as a stranger's.
    let mem = file::open("/proc/self/mem", libc::O_RDONLY, 0)?;
    let mut byte = [0];
    check_eq!(file::pread(mem, &mut byte, at as i64)?, 1);
    check_eq!(byte, [7]);
    Ok(())
}

fn pkeys_of_a_child() -> Outcome {
    let key = key()?;
    let at = with_key(1, key)?;
    keys::refuse(key, NO_WRITE);
    let register = keys::register();
    let status = in_child(|| {
        check_eq!(keys::register(), register);
        check_eq!(fault::load(at), Ok(7));
        check_refused(fault::store(at, 8), at, key)?;
        // The keys are its own from now on.
        keys::refuse(key, 0);
        store(at, 9);
        check_refused_after_copy(at, key)?;
        keys::free(key)?;
        Ok(0)
    })?;
    check_eq!(status, Status::Exited(0));
    check_eq!((fault::load(at), keys::register()), (Ok(7), register));
    keys::free(key)?;
    // A new program begins with none.
    let me = std::env::current_exe()?;
    let status = in_child(|| {
        keys::set_register(0);
        let words = ["x", "--as", "pkeys"].map(String::from);
        Err(proc::exec(&me.to_string_lossy(), &words, &[]).into())
    })?;
    check_eq!(status, Status::Exited(0));
    Ok(())
}

/// The copy of a page has the key, too.
fn check_refused_after_copy(at: usize, key: i32) -> Outcome {
    keys::refuse(key, NO_ACCESS);
    check_refused(fault::load(at), at, key)
}

/// What the program that [`pkeys_of_a_child`] starts ends with.
pub fn begin() -> i32 {
    let first = keys::alloc(0, 0);
    // pkey_alloc(2) has set what its key refuses.
    let expected = first.map(|key| INITIAL & !(3 << (2 * key)));
    i32::from(first != Ok(1) || expected != Ok(keys::register()))
}

fn pkeys_of_threads() -> Outcome {
    let key = key()?;
    keys::refuse(key, NO_WRITE);
    let mine = keys::register();
    let turn = Arc::new(AtomicU32::new(0));
    let threads = [NO_ACCESS, 0, NO_ACCESS | NO_WRITE].map(|refused| {
        let turn = turn.clone();
        std::thread::spawn(move || {
            let inherited = keys::register();
            keys::refuse(key, refused);
            let own = keys::register();
            for _ in 0..200 {
                turn.fetch_add(1, SeqCst);
                std::thread::yield_now();
                if keys::register() != own {
                    return (inherited, false);
                }
            }
            (inherited, true)
        })
    });
    while turn.load(SeqCst) < 600 {
        std::thread::yield_now();
        check_eq!(keys::register(), mine);
    }
    for thread in threads {
        check_eq!(thread.join().ok(), Some((mine, true)));
    }
    check_eq!(keys::register(), mine);
    Ok(())
}

static IN_HANDLER: AtomicU32 = AtomicU32::new(0);

extern "C" fn on_signal(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    IN_HANDLER.store(keys::register(), SeqCst);
    // It is the handler's own, and ends with it.
    keys::set_register(0);
}

fn pkeys_of_a_handler() -> Outcome {
    let key = key()?;
    let at = with_key(1, key)?;
    sig::handle(libc::SIGUSR1, on_signal, 0)?;
    for refused in [0, NO_ACCESS, NO_WRITE] {
        keys::refuse(key, refused);
        let before = keys::register();
        sig::raise(libc::SIGUSR1);
        check_eq!(IN_HANDLER.load(SeqCst), INITIAL);
        check_eq!(keys::register(), before);
    }
    check_refused(fault::store(at, 1), at, key)
}

/// What a key refuses gets no page first.
fn pkeys_refuse_before_there_is_a_page() -> Outcome {
    let key = key()?;
    let at = anon(64)?;
    keys::protect(at, 64 * PAGE, RW, key)?;
    keys::refuse(key, NO_ACCESS);
    for page in (0..64).map(|n| at + n * PAGE) {
        check_refused(fault::write(page, 1), page, key)?;
        check_refused(fault::read(page), page, key)?;
    }
    keys::refuse(key, NO_WRITE);
    check_refused(fault::write(at + PAGE, 1), at + PAGE, key)?;
    keys::refuse(key, 0);
    check_eq!(mincore(at, 64)?, vec![0; 64]);
    Ok(())
}

fn pkeys_for_execute_only() -> Outcome {
    let own = key()?;
    let at = anon(2)?;
    let code: &[u8] = &[0xc3];
    code.iter().for_each(|byte| {
        let _ = fault::write(at, *byte);
    });
    mprotect(at, PAGE, libc::PROT_EXEC)?;
    let of_code = shown(at);
    check!(
        of_code.is_some_and(|key| key != 0 && key != own as u64),
        "{of_code:?}"
    );
    let key = of_code.unwrap_or(0) as i32;
    check_eq!(fault::execute(at), Ok(()));
    check_refused(fault::read(at), at, key)?;
    check_err!(keys::free(key), EINVAL);
    check_err!(keys::protect(at, PAGE, RW, key), EINVAL);
    // One key for all of it; and what gets other rights loses it.
    let more = mmap(0, PAGE, libc::PROT_EXEC, ANON, -1, 0)?;
    check_refused(fault::read(more), more, key)?;
    mprotect(at, PAGE, RW)?;
    check_eq!(fault::read(at), Ok(0xc3));
    Ok(())
}
