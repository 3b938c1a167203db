//! `crash KIND`: does one forbidden thing, to see that the kernel answers with a signal and lives
//! on.
use userland::counters::on_quire;
use userland::sys::mem::{PAGE, RW, anon, load, mmap, store};
use userland::sys::{Errno, Result, fault, file, proc, sig};

/// A name, what it does, and that in words.
type Kind = (&'static str, fn() -> Result<()>, &'static str);

const KINDS: &[Kind] = &[
    ("null-read", || ignore(fault::read(0)), "reads address 0"),
    (
        "null-write",
        || ignore(fault::write(0, 1)),
        "writes address 0",
    ),
    (
        "jump",
        || ignore(fault::execute(0x1234_5000)),
        "jumps where nothing is",
    ),
    (
        "div0",
        || ignore(fault::divide_by_zero()),
        "divides by zero (aarch64: 0, no signal)",
    ),
    (
        "privileged",
        || ignore(fault::privileged()),
        "runs an instruction of the kernel's",
    ),
    (
        "undefined",
        || ignore(fault::undefined()),
        "runs no instruction at all",
    ),
    (
        "stack-overflow",
        || ignore(fault::overflow_stack(0)),
        "calls itself without end",
    ),
    (
        "kernel-read",
        || ignore(fault::read(0xffff_ffff_8020_0000)),
        "reads the kernel's code",
    ),
    (
        "kernel-write",
        || ignore(fault::write(0xffff_8000_0000_0000, 0)),
        "writes the kernel's memory",
    ),
    (
        "kernel-jump",
        || ignore(fault::execute(0xffff_ffff_8020_0000)),
        "jumps into the kernel",
    ),
    ("exec-data", exec_data, "jumps into its data"),
    ("sigbus", sigbus, "reads a mapped file behind its end"),
    ("abort", || std::process::abort(), "raises SIGABRT"),
    (
        "exit-by-signal",
        || proc::kill(proc::getpid(), libc::SIGKILL),
        "kills itself",
    ),
    (
        "forkbomb",
        forkbomb,
        "forks until it may not, and says where that was",
    ),
];

fn exec_data() -> Result<()> {
    let at = anon(1)?;
    store(at, u64::from_le_bytes([0xc3; 8]));
    ignore(fault::execute(at))
}

fn sigbus() -> Result<()> {
    let name = format!(
        "{}/crash-{}",
        std::env::temp_dir().display(),
        proc::getpid()
    );
    let fd = file::open(&name, libc::O_RDWR | libc::O_CREAT | libc::O_EXCL, 0o600)?;
    std::fs::remove_file(&name)?;
    let at = mmap(0, PAGE, RW, libc::MAP_SHARED, fd, 0)?;
    ignore(fault::read(at))
}

/// Every process forks as often as it can, until one of them is refused; then all end.
fn forkbomb() -> Result<()> {
    if !on_quire() {
        // Elsewhere only as nobody and under a small limit: this is a user's machine.
        if proc::geteuid() == 0 {
            proc::setuid(65534)?;
        }
        proc::setrlimit(libc::RLIMIT_NPROC, 200, 200)?;
    }
    // Words shared by all: the error that stopped it, and how many were made.
    let at = mmap(0, PAGE, RW, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1, 0)?;
    let first = proc::getpid();
    while load(at) == 0 {
        match proc::fork() {
            Ok(proc::Fork::Child) => {}
            // A few may be lost to two processes counting at once.
            Ok(proc::Fork::Parent(_)) => store(at + 8, load(at + 8) + 1),
            Err(e) => store(at, e.0 as u64),
        }
        proc::sched_yield();
    }
    while proc::wait(-1, 0).is_ok() {}
    if proc::getpid() == first {
        println!(
            "forkbomb: {:?} after about {} processes",
            Errno(load(at) as i32),
            load(at + 8)
        );
    }
    Ok(())
}

fn main() {
    // std's own handlers would print a message about stacks instead of dying of the signal.
    for s in [libc::SIGSEGV, libc::SIGBUS] {
        let _ = sig::default(s);
    }
    let wanted = std::env::args().nth(1).unwrap_or_default();
    let Some((_, act, _)) = KINDS.iter().find(|k| k.0 == wanted) else {
        eprintln!("usage: crash KIND");
        KINDS.iter().for_each(|k| eprintln!("  {:<16}{}", k.0, k.2));
        std::process::exit(2);
    };
    if let Err(e) = act() {
        eprintln!("crash: {wanted}: {e}");
        std::process::exit(1);
    }
}

/// What came back is of no interest: the point is whether anything does.
fn ignore<T>(_: T) -> Result<()> {
    Ok(())
}
