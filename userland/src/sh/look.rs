//! Commands that look at the machine: ls, ps, free, the clock behind `time`, the names of signals.
use super::output::{complain, print};
use crate::counters::{self, Missing, Table};
use crate::sys::{file, proc, time};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

const SIGNALS: &[(i32, &str, &str)] = &[
    (libc::SIGHUP, "HUP", "Hangup"),
    (libc::SIGINT, "INT", ""),
    (libc::SIGQUIT, "QUIT", "Quit"),
    (libc::SIGILL, "ILL", "Illegal instruction"),
    (libc::SIGTRAP, "TRAP", "Trace or breakpoint trap"),
    (libc::SIGABRT, "ABRT", "Aborted"),
    (libc::SIGBUS, "BUS", "Bus error"),
    (libc::SIGFPE, "FPE", "Floating point exception"),
    (libc::SIGKILL, "KILL", "Killed"),
    (libc::SIGUSR1, "USR1", "User signal 1"),
    (libc::SIGSEGV, "SEGV", "Segmentation fault"),
    (libc::SIGUSR2, "USR2", "User signal 2"),
    (libc::SIGPIPE, "PIPE", ""),
    (libc::SIGALRM, "ALRM", "Alarm clock"),
    (libc::SIGTERM, "TERM", "Terminated"),
    (libc::SIGCHLD, "CHLD", ""),
    (libc::SIGCONT, "CONT", ""),
    (libc::SIGSTOP, "STOP", "Stopped"),
    (libc::SIGTSTP, "TSTP", "Stopped"),
    (libc::SIGTTIN, "TTIN", "Stopped"),
    (libc::SIGTTOU, "TTOU", "Stopped"),
    (libc::SIGSYS, "SYS", "Bad system call"),
];

/// `9`, `KILL` or `SIGKILL` as a number.
pub fn signal_number(name: &str) -> Option<i32> {
    let short = name.trim_start_matches("SIG");
    let known = SIGNALS.iter().find(|s| s.1 == short).map(|s| s.0);
    known.or_else(|| name.parse().ok().filter(|n| (0..=64).contains(n)))
}

/// The name of a signal, `Signal N` without one.
pub fn signal_text(sig: i32) -> String {
    match SIGNALS.iter().find(|s| s.0 == sig) {
        Some((_, name, "")) => format!("SIG{name}"),
        Some((_, _, text)) => (*text).to_owned(),
        None => format!("Signal {sig}"),
    }
}

/// Prints the signal that killed a program in the foreground.
pub fn say_signal(sig: i32) {
    let text = match SIGNALS.iter().find(|s| s.0 == sig) {
        Some((libc::SIGINT, ..)) => "\n".into(),
        Some((_, _, "")) => return,
        Some((_, _, text)) => format!("{text}\n"),
        None => format!("{}\n", signal_text(sig)),
    };
    let _ = file::write_all(2, text.as_bytes());
}

/// Clock and children's processor time.
pub struct Clocks(u64, proc::Usage);

/// The clocks now.
pub fn clocks() -> Clocks {
    Clocks(
        time::now(),
        proc::rusage(libc::RUSAGE_CHILDREN).unwrap_or_default(),
    )
}

/// Prints the times since `before`.
pub fn report(before: &Clocks) {
    let now = clocks();
    let seconds = |us: u64| format!("{}.{:06}s", us / 1_000_000, us % 1_000_000);
    let text = format!(
        "real {}  user {}  sys {}  faults {}\n",
        seconds((now.0 - before.0) / 1000),
        seconds(now.1.user_us - before.1.user_us),
        seconds(now.1.system_us - before.1.system_us),
        now.1.minor_faults - before.1.minor_faults,
    );
    let _ = file::write_all(2, text.as_bytes());
}

/// `free`: kB, from /proc/meminfo.
pub fn free() -> i32 {
    match memory(&counters::table("/proc/meminfo")) {
        Ok(text) => print(&text),
        Err(missing) => {
            complain(&missing.to_string());
            1
        }
    }
}

fn memory(m: &Table) -> Result<String, Missing> {
    let cache = m.get("Buffers")? + m.get("Cached")? + m.get("SReclaimable")?;
    let used = m.get("MemTotal")?.saturating_sub(m.get("MemFree")? + cache);
    Ok(format!(
        "kB {:>12} {:>12} {:>12} {:>12} {:>12}\n   {:>12} {used:>12} {:>12} {:>12} {cache:>12}\n",
        "total",
        "used",
        "free",
        "shared",
        "cache",
        m.get("MemTotal")?,
        m.get("MemFree")?,
        m.get("Shmem")?,
    ))
}

/// `ps`: number, parent, state, resident kB and words of each process.
pub fn ps() -> i32 {
    let mut pids: Vec<u32> = match fs::read_dir("/proc") {
        Ok(dir) => dir
            .filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok())
            .collect(),
        Err(e) => {
            complain(&format!("/proc: {}", crate::sys::Errno::from(e)));
            return 1;
        }
    };
    pids.sort();
    let lines: String = pids.into_iter().filter_map(process).collect();
    print(&format!("  PID  PPID S   RSS kB COMMAND\n{lines}"))
}

/// One line of `ps`; none when the process ended meanwhile.
fn process(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything, also parentheses: fields count from the last one.
    let (name, fields) = stat[stat.find('(')? + 1..].rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let rss = fields.get(21)?.parse::<u64>().ok()? * 4;
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = String::from_utf8_lossy(&words)
        .trim_end_matches('\0')
        .replace('\0', " ");
    let words = if words.is_empty() {
        format!("[{name}]")
    } else {
        words
    };
    Some(format!(
        "{pid:>5} {:>5} {} {rss:>8} {words}\n",
        fields.get(1)?,
        fields.first()?
    ))
}

/// `ls [-a] [-l] [FILE ...]`.
pub fn ls(args: &[String]) -> i32 {
    let (flags, paths): (Vec<_>, Vec<_>) =
        args.iter().partition(|a| a.len() > 1 && a.starts_with('-'));
    let flag = |c| flags.iter().any(|f| f.contains(c));
    let (all, long) = (flag('a'), flag('l'));
    let here = ".".to_string();
    let paths = if paths.is_empty() { vec![&here] } else { paths };
    let (mut text, mut status) = (String::new(), 0);
    for path in &paths {
        match entries(path, all) {
            Ok((dir, names)) => {
                if paths.len() > 1 && dir {
                    text += &format!("{path}:\n");
                }
                for name in names {
                    let full = if dir {
                        format!("{path}/{name}")
                    } else {
                        name.clone()
                    };
                    text += &if long {
                        details(&full, &name)
                    } else {
                        name + "\n"
                    };
                }
            }
            Err(e) => {
                complain(&format!("{path}: {}", crate::sys::Errno::from(e)));
                status = 1;
            }
        }
    }
    print(&text) | status
}

fn entries(path: &str, all: bool) -> std::io::Result<(bool, Vec<String>)> {
    if !fs::metadata(path)
        .or_else(|_| fs::symlink_metadata(path))?
        .is_dir()
    {
        return Ok((false, vec![path.into()]));
    }
    let mut names: Vec<String> = fs::read_dir(path)?
        .filter_map(|e| e.ok()?.file_name().into_string().ok())
        .filter(|n| all || !n.starts_with('.'))
        .collect();
    names.sort();
    Ok((true, names))
}

/// One line of `ls -l`.
fn details(path: &str, name: &str) -> String {
    let Ok(m) = fs::symlink_metadata(path) else {
        return format!("?????????? {name}\n");
    };
    let t = m.file_type();
    let kind = match () {
        () if t.is_dir() => 'd',
        () if t.is_symlink() => 'l',
        () if t.is_char_device() => 'c',
        () if t.is_block_device() => 'b',
        () if t.is_fifo() => 'p',
        () if t.is_socket() => 's',
        () => '-',
    };
    let rights: String = (0..9)
        .map(|n| {
            if m.mode() >> (8 - n) & 1 == 1 {
                ['r', 'w', 'x'][n % 3]
            } else {
                '-'
            }
        })
        .collect();
    let size = match kind {
        'c' | 'b' => format!("{},{}", libc::major(m.rdev()), libc::minor(m.rdev())),
        _ => m.len().to_string(),
    };
    let to = fs::read_link(path)
        .map(|t| format!(" -> {}", t.display()))
        .unwrap_or_default();
    format!(
        "{kind}{rights} {:>3} {:>3} {:>3} {size:>9} {name}{to}\n",
        m.nlink(),
        m.uid(),
        m.gid()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_by_name_and_number() {
        assert_eq!(signal_number("KILL"), Some(9));
        assert_eq!(signal_number("SIGTERM"), Some(15));
        assert_eq!(signal_number("0"), Some(0));
        assert_eq!(signal_number("65"), None);
        assert_eq!(signal_number("NONE"), None);
    }
}
