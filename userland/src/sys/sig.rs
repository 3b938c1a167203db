//! Signals: dispositions, masks, and a handler that counts and remembers.
use super::{Result, check};
use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering::SeqCst};

/// Signals a handler of [`count`] has seen, by number.
static SEEN: [AtomicU64; 65] = [const { AtomicU64::new(0) }; 65];
static LAST_SIGNAL: AtomicI32 = AtomicI32::new(0);
static LAST_CODE: AtomicI32 = AtomicI32::new(0);
static LAST_PID: AtomicI32 = AtomicI32::new(0);
static LAST_STACK: AtomicUsize = AtomicUsize::new(0);

extern "C" fn on_signal(sig: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    let marker = 0u8;
    if let Some(n) = SEEN.get(sig as usize) {
        n.fetch_add(1, SeqCst);
    }
    LAST_SIGNAL.store(sig, SeqCst);
    LAST_STACK.store(&raw const marker as usize, SeqCst);
    // SAFETY: installed with SA_SIGINFO, so the kernel passes a whole siginfo; the pid field is
    // there for kill and child signals and some number otherwise.
    unsafe {
        LAST_CODE.store((*info).si_code, SeqCst);
        LAST_PID.store((*info).si_pid(), SeqCst);
    }
}

/// The last handled signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Last {
    /// Its number.
    pub signal: i32,
    /// si_code.
    pub code: i32,
    /// si_pid where the kind has one.
    pub pid: i32,
    /// An address on the stack the handler ran on.
    pub stack: usize,
}

/// The last signal [`count`]'s handler saw.
pub fn last() -> Last {
    Last {
        signal: LAST_SIGNAL.load(SeqCst),
        code: LAST_CODE.load(SeqCst),
        pid: LAST_PID.load(SeqCst),
        stack: LAST_STACK.load(SeqCst),
    }
}

/// How often `sig` has been handled in this process.
pub fn seen(sig: i32) -> u64 {
    SEEN.get(sig as usize).map_or(0, |n| n.load(SeqCst))
}

fn action(sig: i32, handler: usize, flags: i32, mask: &[i32]) -> Result<()> {
    // SAFETY: an all-zero sigaction is a valid value.
    let mut act: libc::sigaction = unsafe { std::mem::zeroed() };
    act.sa_sigaction = handler;
    act.sa_flags = flags;
    act.sa_mask = set(mask);
    // SAFETY: `act` names a handler of the right type for its flags, SIG_IGN or SIG_DFL.
    check(unsafe { libc::sigaction(sig, &act, std::ptr::null_mut()) }).map(|_| ())
}

/// Handles `sig` by counting it; `flags` (SA_RESTART ...) are added to SA_SIGINFO, `mask` is
/// blocked meanwhile.
pub fn count(sig: i32, flags: i32, mask: &[i32]) -> Result<()> {
    action(
        sig,
        on_signal as *const () as usize,
        flags | libc::SA_SIGINFO,
        mask,
    )
}

/// Handles `sig` by `handler`, which may do only what signal handlers may (atomics, system calls).
pub fn handle(
    sig: i32,
    handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void),
    flags: i32,
) -> Result<()> {
    handle_with(sig, handler, flags, &[])
}

/// As [`handle`]; `mask` is blocked meanwhile.
pub fn handle_with(
    sig: i32,
    handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void),
    flags: i32,
    mask: &[i32],
) -> Result<()> {
    action(
        sig,
        handler as *const () as usize,
        flags | libc::SA_SIGINFO,
        mask,
    )
}

/// The default action of `sig`.
pub fn default(sig: i32) -> Result<()> {
    action(sig, libc::SIG_DFL, 0, &[])
}

/// Ignores `sig`.
pub fn ignore(sig: i32) -> Result<()> {
    action(sig, libc::SIG_IGN, 0, &[])
}

/// Whether `sig` has the default action now.
pub fn is_default(sig: i32) -> Result<bool> {
    // SAFETY: an all-zero sigaction is a valid value.
    let mut act: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: `act` is ours and lives through the call.
    check(unsafe { libc::sigaction(sig, std::ptr::null(), &mut act) })?;
    Ok(act.sa_sigaction == libc::SIG_DFL)
}

fn set(signals: &[i32]) -> libc::sigset_t {
    // SAFETY: an all-zero set is valid; sigaddset checks the number.
    unsafe {
        let mut s: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut s);
        for &sig in signals {
            libc::sigaddset(&mut s, sig);
        }
        s
    }
}

/// sigprocmask with SIG_BLOCK, SIG_UNBLOCK or SIG_SETMASK.
pub fn mask(how: i32, signals: &[i32]) -> Result<()> {
    let s = set(signals);
    // SAFETY: `s` is a whole set.
    check(unsafe { libc::sigprocmask(how, &s, std::ptr::null_mut()) }).map(|_| ())
}

/// Whether `sig` is blocked.
pub fn blocked(sig: i32) -> bool {
    let mut s = set(&[]);
    // SAFETY: `s` is a whole set; the call only reads the mask into it.
    unsafe {
        libc::sigprocmask(libc::SIG_BLOCK, std::ptr::null(), &mut s);
        libc::sigismember(&s, sig) == 1
    }
}

/// Whether `sig` is pending.
pub fn pending(sig: i32) -> bool {
    let mut s = set(&[]);
    // SAFETY: `s` is a whole set.
    unsafe {
        libc::sigpending(&mut s);
        libc::sigismember(&s, sig) == 1
    }
}

/// Waits with only `signals` blocked until a signal was handled; the result is always EINTR.
pub fn suspend(signals: &[i32]) -> super::Errno {
    let s = set(signals);
    // SAFETY: `s` is a whole set.
    unsafe { libc::sigsuspend(&s) };
    super::Errno::last()
}

/// Takes one of `signals` (blocked by the caller) within `ns`: its number.
pub fn timed_wait(signals: &[i32], ns: u64) -> Result<i32> {
    let s = set(signals);
    let t = libc::timespec {
        tv_sec: (ns / 1_000_000_000) as _,
        tv_nsec: (ns % 1_000_000_000) as _,
    };
    // SAFETY: set and time are whole; no siginfo is asked for.
    check(unsafe { libc::sigtimedwait(&s, std::ptr::null_mut(), &t) }).map(|n| n as i32)
}

/// Runs SA_ONSTACK handlers on the `len` bytes at `at`, which the caller keeps mapped.
pub fn alt_stack(at: usize, len: usize) -> Result<()> {
    let s = libc::stack_t {
        ss_sp: at as *mut libc::c_void,
        ss_flags: 0,
        ss_size: len,
    };
    // SAFETY: the caller mapped the stack and keeps it.
    check(unsafe { libc::sigaltstack(&s, std::ptr::null_mut()) }).map(|_| ())
}

/// Sends `sig` to this thread.
pub fn raise(sig: i32) {
    // SAFETY: only a number goes over.
    unsafe { libc::raise(sig) };
}
