//! A harness of isolated tests: each runs in a child process of its own with a deadline, and its
//! outcome is a line of KTAP 1. A crash, a hang or leaked frames fail that test only.
use crate::counters::{Missing, OWN, figure, free_frames, on_quire};
use crate::heap_fail;
use crate::listen;
use crate::stretch::Record;
use crate::sys::time::{self, Running};
use crate::sys::{Errno, file, proc, sig};
use ktap::{Line, Note, TestResult};
use std::fmt::Display;
use std::panic::Location;
use std::path::PathBuf;

pub use ktap::Totals;

/// The reason why a test did not pass.
#[derive(Debug)]
pub enum Stop {
    /// The system lacks what the test needs.
    Skip(String),
    /// A check failed.
    Fail(String),
}

/// The result of a test.
pub type Outcome = Result<(), Stop>;

/// A test and its name.
pub struct Test {
    /// `family_what_it_shows`.
    pub name: &'static str,
    /// Runs in a child process, in an empty directory of its own.
    pub run: fn() -> Outcome,
}

/// An unexpected error fails the test at the `?` that met it.
impl From<Errno> for Stop {
    #[track_caller]
    fn from(e: Errno) -> Self {
        Stop::Fail(format!("{}: {e:?}: {e}", Location::caller()))
    }
}

impl From<std::io::Error> for Stop {
    #[track_caller]
    fn from(e: std::io::Error) -> Self {
        Stop::Fail(format!("{}: {e}", Location::caller()))
    }
}

/// An unexpected trap fails the test at the `?` that met it.
impl From<crate::sys::fault::Trap> for Stop {
    #[track_caller]
    fn from(t: crate::sys::fault::Trap) -> Self {
        Stop::Fail(format!("{}: {t:x?}", Location::caller()))
    }
}

/// A test fails where a figure is missing, but for Quire's own figures on another kernel: there it
/// is skipped.
impl From<Missing> for Stop {
    fn from(missing: Missing) -> Stop {
        of_missing(&missing, on_quire())
    }
}

fn of_missing(missing: &Missing, on_quire: bool) -> Stop {
    match missing.path == OWN && !on_quire {
        true => Stop::Skip(format!("{missing}: this kernel does not count that")),
        false => Stop::Fail(missing.to_string()),
    }
}

/// Fails the test when the condition does not hold.
#[macro_export]
macro_rules! check {
    ($cond:expr) => { $crate::check!($cond, "{}", stringify!($cond)) };
    ($cond:expr, $($text:tt)+) => {
        if !$cond {
            return Err($crate::harness::Stop::Fail(format!("{}:{}: {}", file!(), line!(), format_args!($($text)+))));
        }
    };
}

/// Fails the test when the two differ, and prints both.
#[macro_export]
macro_rules! check_eq {
    ($left:expr, $right:expr) => {
        match (&$left, &$right) {
            (left, right) => {
                $crate::check!(
                    left == right,
                    "{} is {left:?}, not {right:?}",
                    stringify!($left)
                )
            }
        }
    };
}

/// Fails the test when the call succeeds or gives another error than the one named.
#[macro_export]
macro_rules! check_err {
    ($call:expr, $errno:ident) => {{
        let got = $call.map(|_| ()).map_err($crate::sys::Errno::from);
        let want = $crate::sys::Errno(libc::$errno);
        $crate::check!(
            got == Err(want),
            "{}: {got:?}, not {want:?}",
            stringify!($call)
        );
    }};
}

/// The tests of a file, named after their functions.
#[macro_export]
macro_rules! tests {
    ($($name:ident),* $(,)?) => {
        /// The tests of this family.
        pub const TESTS: &[$crate::harness::Test] =
            &[$($crate::harness::Test { name: stringify!($name), run: $name }),*];
    };
}

/// Ends the test as skipped.
pub fn skip(why: &str) -> Outcome {
    Err(Stop::Skip(why.into()))
}

/// Skips the test where a call does not exist.
pub fn need<T>(result: crate::sys::Result<T>, what: &str) -> Result<T, Stop> {
    match result {
        Err(Errno(libc::ENOSYS)) => Err(Stop::Skip(format!("no {what} here"))),
        other => Ok(other?),
    }
}

/// Options of a run.
pub struct RunOptions {
    /// Seconds a test may take; fewer, a minute, while the machine has nothing to do.
    pub timeout: u64,
    /// Names, or patterns of names, that are not run because this is an emulator and no kernel.
    pub skip: &'static [&'static str],
    /// The calls of a test find no memory from this heap allocation on, see [`heap_fail`]; 0
    /// for none.
    pub heap_fail: u32,
}

/// Runs the tests in order and prints KTAP.
pub fn run(tests: &[&Test], options: &RunOptions) -> Totals {
    let mut totals = Totals::default();
    let mut record = Record::open();
    say(&Line::<&str>::Version);
    say(&Line::<&str>::Plan(tests.len()));
    for (before, test) in tests.iter().enumerate() {
        let start = time::now();
        let skipped = options
            .skip
            .iter()
            .any(|p| crate::sh::expand::glob(p, test.name));
        let outcome = match skipped {
            true => skip("user-mode emulation"),
            false => without_leaks(test, options, &mut record),
        };
        let micros = (time::now() - start) / 1000;
        if let Err(Stop::Fail(why)) = &outcome {
            why.lines().for_each(|line| say(&Line::Diagnostic(line)));
        }
        say(&TestResult {
            ok: !matches!(outcome, Err(Stop::Fail(_))),
            number: before + 1,
            name: test.name,
            note: Some(match &outcome {
                Err(Stop::Skip(why)) => Note::Skip(why.as_str()),
                _ => Note::Micros(micros),
            }),
        });
        *match outcome {
            Ok(()) => &mut totals.passed,
            Err(Stop::Fail(_)) => &mut totals.failed,
            Err(Stop::Skip(_)) => &mut totals.skipped,
        } += 1;
    }
    say(&Line::Diagnostic(totals));
    if let Some(record) = record {
        say(&Line::Diagnostic(record.summary()));
    }
    totals
}

/// Prints a line, in one call.
pub(crate) fn say(line: &impl Display) {
    let _ = file::write_all(1, format!("{line}\n").as_bytes());
}

/// Frames a test may keep: per-process pages the kernel frees late.
const SLACK: u64 = 8;

/// Runs a test; on Quire only, where nothing else changes them, also compares the free frames
/// around it, those that it took out of use among them, and checks the longest time in which the
/// kernel let nothing else run.
fn without_leaks(test: &Test, options: &RunOptions, record: &mut Option<Record>) -> Outcome {
    match on_quire() {
        true => keeps_frames(
            || Ok(free_frames()? + figure("/proc/meminfo", "HardwareCorrupted")? / 4),
            || lets_others_in(record, || one(test, options)),
        ),
        false => one(test, options),
    }
}

fn lets_others_in(record: &mut Option<Record>, run: impl FnOnce() -> Outcome) -> Outcome {
    let Some(record) = record else { return run() };
    record.begin().map_err(Stop::Fail)?;
    run()?;
    let longest = record.end().map_err(Stop::Fail)?;
    longest.judge().map_err(Stop::Fail)
}

/// The kernel's heap and tables may grow once for a test that needs much of them, so only a loss
/// that repeats in three runs is a leak.
fn keeps_frames(free: impl Fn() -> Result<u64, Stop>, mut run: impl FnMut() -> Outcome) -> Outcome {
    let mut lost = Vec::new();
    for _ in 0..3 {
        let before = free()?;
        run()?;
        let after = free()?;
        if after + SLACK >= before {
            return Ok(());
        }
        lost.push(before - after);
    }
    Err(Stop::Fail(format!(
        "free frames lost in three runs: {lost:?}"
    )))
}

/// A directory for one test, removed when the test is over.
struct Room(PathBuf);

impl Room {
    fn new(name: &str) -> std::io::Result<Self> {
        let path = std::env::temp_dir().join(format!("selftests-{}-{name}", proc::getpid()));
        std::fs::create_dir_all(&path)?;
        Ok(Room(path))
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// How the failure of a test begins that did not end by itself.
pub(crate) const GIVEN_UP: &str = "still running";

/// Runs a test in a child.
pub(crate) fn one(test: &Test, options: &RunOptions) -> Outcome {
    let room = Room::new(test.name)?;
    let (hear, tell) = file::pipe(libc::O_CLOEXEC)?;
    let pid = match proc::fork()? {
        proc::Fork::Child => {
            let _ = file::close(hear);
            child(test, &room, tell, options.heap_fail)
        }
        proc::Fork::Parent(pid) => pid,
    };
    let _ = file::close(tell);
    // Also by the parent, so that the group exists when it is killed.
    let _ = proc::setpgid(pid, pid);
    let said = listen::listen(hear, options.timeout);
    let _ = file::close(hear);
    if said.is_none() {
        let _ = proc::kill(pid, libc::SIGKILL);
    }
    let status = proc::wait_for(pid);
    end_group(pid);
    match (said, status?) {
        (None, _) => Err(Stop::Fail(format!(
            "{GIVEN_UP} after {} s, or idle for {} s",
            options.timeout,
            listen::IDLE
        ))),
        (Some(text), proc::Status::Exited(0)) => match text.split_at_checked(1) {
            Some(("O", _)) => Ok(()),
            Some(("S", why)) => Err(Stop::Skip(why.into())),
            Some((_, why)) => Err(Stop::Fail(why.into())),
            None => Err(Stop::Fail("ended without a word".into())),
        },
        (Some(text), status) => Err(Stop::Fail(format!("ended by {status:?} {text}"))),
    }
}

/// Ends whatever a test left running in its group, and waits until it is gone: what it had would
/// count as lost. Where another process waits for it, that may take a moment.
fn end_group(pgid: i32) {
    let mut running = Running::begin();
    let mut sent = proc::kill(-pgid, libc::SIGKILL);
    while sent.is_ok() && running.passed() < 10_000_000_000 {
        // PID 1 gets the orphans.
        let _ = proc::wait(-pgid, libc::WNOHANG);
        proc::sched_yield();
        sent = proc::kill(-pgid, 0);
    }
}

fn child(test: &Test, room: &Room, tell: i32, heap_fail: u32) -> ! {
    let _ = proc::setpgid(0, 0);
    for s in 1..32 {
        let _ = sig::default(s);
    }
    let _ = std::env::set_current_dir(&room.0);
    if let Ok(null) = file::open("/dev/null", libc::O_RDONLY, 0) {
        let _ = file::dup2(null, 0);
        let _ = file::close(null);
    }
    // A high number, out of the way of tests that count descriptors; closed when a program starts.
    let high = file::fcntl(tell, libc::F_DUPFD_CLOEXEC, 200).unwrap_or(tell);
    if high != tell {
        let _ = file::close(tell);
    }
    if heap_fail > 0 {
        heap_fail::begin(heap_fail);
    }
    let (sort, why) = match (test.run)() {
        Ok(()) => ('O', String::new()),
        Err(Stop::Skip(why)) => ('S', why),
        Err(Stop::Fail(why)) => ('F', why),
    };
    let text = format!("{sort}{why}{}", char::from(listen::END));
    let _ = file::write_all(high, text.as_bytes());
    proc::exit_now(0)
}

/// Runs `act` in a child of the test and returns its end; an error in `act` is exit status 99.
pub fn in_child(act: impl FnOnce() -> Result<i32, Stop>) -> Result<proc::Status, Stop> {
    match proc::fork()? {
        proc::Fork::Child => {
            let status = act().unwrap_or_else(|stop| {
                // Reaches the console: a child of a test has no other voice.
                let _ = file::write_all(2, format!("# in a child: {stop:?}\n").as_bytes());
                99
            });
            proc::exit_now(status)
        }
        proc::Fork::Parent(pid) => Ok(proc::wait_for(pid)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::Table;
    use std::cell::Cell;

    /// The result of keeps_frames for a test that takes `costs[n]` frames in its run n.
    fn outcome(costs: [u64; 3]) -> Outcome {
        let (free, n) = (Cell::new(1000), Cell::new(0));
        keeps_frames(
            || Ok(free.get()),
            || {
                free.set(free.get() - costs[n.get()]);
                n.set(n.get() + 1);
                Ok(())
            },
        )
    }

    #[test]
    fn only_a_loss_that_repeats_is_a_leak() {
        assert!(outcome([0, 0, 0]).is_ok());
        assert!(outcome([SLACK, 0, 0]).is_ok());
        assert!(outcome([300, 0, 0]).is_ok());
        assert!(outcome([300, 20, 3]).is_ok());
        let Err(Stop::Fail(why)) = outcome([30, 20, 20]) else {
            panic!("a leak was not seen")
        };
        assert!(why.ends_with("[30, 20, 20]"), "{why}");
    }

    #[test]
    fn only_another_kernel_may_lack_quires_counters() {
        let other = Table::parse("f", "").get("pgfault").unwrap_err();
        assert!(matches!(of_missing(&other, false), Stop::Fail(_)));
        let missing = Table::parse(OWN, "pgfault 1\n")
            .get("cow_copied")
            .unwrap_err();
        assert!(
            matches!(of_missing(&missing, true), Stop::Fail(why) if why.contains("cow_copied"))
        );
        assert!(
            matches!(of_missing(&missing, false), Stop::Skip(why) if why.contains("cow_copied"))
        );
    }
}
