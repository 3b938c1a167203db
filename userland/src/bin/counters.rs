//! `counters PROGRAM [ARGUMENT ...]`: runs a program and prints, as one JSON line at the end, what
//! its run cost: its exit status (128 and the signal that ended it), nanoseconds of the monotonic
//! clock, the largest resident size of a process of it, and how far each counter of
//! /proc/vmstat and /sys/kernel/mm/quire/counters moved. Runs on Linux, too, with what that counts.
//!
//! Under QEMU's -icount the nanoseconds are guest instructions (`instructions`). What is counted
//! begins before the program is started and ends after it was waited for. The exit status is 0
//! when the line was printed: the program's own is in it.
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, exit};
use userland::readings::{self, Readings};
use userland::sys::proc::{self, Usage};
use userland::sys::{Errno, Result, time};

/// How long the machine is left alone at first, in nanoseconds.
const SETTLE: u64 = 5_000_000_000;

/// What a run cost.
struct Cost {
    status: i32,
    ns: u64,
    usage: Usage,
    /// Those that moved, by name; levels may fall.
    counters: Vec<(String, i64)>,
}

/// The shell's `$?`.
fn code(status: ExitStatus) -> i32 {
    let killed = || 128 + status.signal().unwrap_or(0);
    status.code().unwrap_or_else(killed)
}

/// Runs the program to its end.
fn measure(words: &[String]) -> Result<Cost> {
    let mut readings = Readings::new()?;
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    let run = || {
        let start = time::now();
        let status = command.status()?;
        Ok::<_, Errno>((status, time::now() - start))
    };
    let (ran, counters) = readings.around(run)?;
    let (status, ns) = ran?;
    Ok(Cost {
        status: code(status),
        ns,
        usage: proc::rusage(libc::RUSAGE_CHILDREN)?,
        counters,
    })
}

impl Cost {
    /// The line.
    fn json(&self, instructions: bool) -> String {
        format!(
            "{{\"counted\":true,\"status\":{},\"ns\":{},\"instructions\":{instructions},\"max_rss_kb\":{},\"counters\":{{{}}}}}",
            self.status,
            self.ns,
            self.usage.max_rss_kb,
            readings::json(&self.counters)
        )
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.is_empty() {
        eprintln!("usage: counters PROGRAM [ARGUMENT ...]");
        exit(2);
    }
    let instructions = time::counts_instructions();
    if instructions {
        // The kernel's background work after boot ends meanwhile; idle time passes at once.
        let _ = time::sleep(SETTLE);
    }
    match measure(&words) {
        // The program may have ended within a line.
        Ok(cost) => println!("\n{}", cost.json(instructions)),
        Err(error) => {
            eprintln!("counters: {}: {error}", words[0]);
            exit(if error.0 == libc::ENOENT { 127 } else { 126 });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_everything() {
        let cost = Cost {
            status: 3,
            ns: 12,
            usage: Usage {
                max_rss_kb: 8,
                ..Usage::default()
            },
            counters: vec![("pgfault".into(), 4), ("nr_free_pages".into(), -2)],
        };
        assert_eq!(
            cost.json(true),
            "{\"counted\":true,\"status\":3,\"ns\":12,\"instructions\":true,\"max_rss_kb\":8,\
             \"counters\":{\"pgfault\":4,\"nr_free_pages\":-2}}"
        );
    }

    #[test]
    fn signals_are_told_as_a_shell_does() {
        assert_eq!(code(ExitStatus::from_raw(5 << 8)), 5);
        assert_eq!(code(ExitStatus::from_raw(libc::SIGSEGV)), 139);
    }
}
