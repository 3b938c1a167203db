//! PID 1: mounts what programs expect, runs what its arguments say or the tour and a shell, reaps,
//! and ends with the status of what it ran (128 and the signal when it was killed). The end of PID
//! 1 is the end of the machine.
use userland::sh::exec::{default_signals, exec_in};
use userland::sys::{Errno, file, proc, tty};

const PATH: &str = "/bin:/sbin:/usr/bin:/usr/sbin";

fn main() {
    mount_all();
    open_console();
    for (name, value) in [("PATH", PATH), ("HOME", "/"), ("TERM", "linux")] {
        if std::env::var_os(name).is_none() {
            proc::set_env(name, value);
        }
    }
    let _ = std::env::set_current_dir("/");
    let args: Vec<String> = std::env::args().skip(1).collect();
    let status = match args.is_empty() {
        false => run(&args),
        true => {
            if tty::is_tty(0) {
                run(&["/bin/memtour".into()]);
            }
            run(&["/bin/sh".into()])
        }
    };
    // Linux ends with its init at once, and with it what the console has not sent.
    let _ = tty::drain(1);
    std::process::exit(status);
}

fn say(text: &str) {
    let _ = file::write_all(2, format!("init: {text}\n").as_bytes());
}

/// Descriptors 0 to 2, when the kernel gave none: std has put /dev/null there.
fn open_console() {
    use std::os::unix::fs::MetadataExt;
    let null = std::fs::metadata("/dev/null").map(|m| m.rdev()).ok();
    let standard_input = std::fs::metadata("/proc/self/fd/0").map(|m| m.rdev()).ok();
    if proc::getpid() != 1 || null.is_none() || standard_input != null {
        return;
    }
    if let Ok(fd) = file::open("/dev/console", libc::O_RDWR | libc::O_CLOEXEC, 0) {
        for n in 0..3 {
            let _ = file::dup2(fd, n);
        }
    }
}

/// What is mounted already is no news (EBUSY); anything else is said and lived with. Only PID 1
/// mounts: the program may be tried on any machine.
fn mount_all() {
    if proc::getpid() != 1 {
        return;
    }
    for (kind, dir, mode) in [
        ("proc", "/proc", 0o555),
        ("sysfs", "/sys", 0o555),
        ("debugfs", "/sys/kernel/debug", 0o700),
        ("devtmpfs", "/dev", 0o755),
        ("tmpfs", "/tmp", 0o1777),
    ] {
        use std::os::unix::fs::DirBuilderExt;
        let _ = std::fs::DirBuilder::new().mode(mode).create(dir);
        match proc::mount(kind, dir, kind, 0) {
            Ok(()) | Err(Errno(libc::EBUSY)) => {}
            Err(e) => say(&format!("mounting {dir}: {e}")),
        }
    }
}

/// Runs one program with the console as its session's terminal and reaps all children until it
/// does.
fn run(words: &[String]) -> i32 {
    let main = match proc::fork() {
        Ok(proc::Fork::Child) => {
            if proc::getppid() == 1 {
                // Without a console to take the program runs all the same.
                let _ = proc::setsid().and_then(|_| tty::take(0));
            }
            default_signals();
            let e = exec_in(PATH, words, &proc::environ());
            say(&format!("{}: {e}", words[0]));
            proc::exit_now(if e.0 == libc::ENOENT { 127 } else { 126 });
        }
        Ok(proc::Fork::Parent(pid)) => pid,
        Err(e) => {
            say(&format!("fork: {e}"));
            return 1;
        }
    };
    loop {
        match proc::wait(-1, 0) {
            Ok(Some((pid, status))) if pid == main => return status.code(),
            Ok(_) | Err(Errno(libc::EINTR)) => {}
            Err(e) => {
                say(&format!("wait: {e}"));
                return 1;
            }
        }
    }
}
