//! What a machine has spent. Limits are about that and not about the time that passes: on a slow or
//! busy computer a machine takes longer and has not hung, and neither has one that was stopped.
use rustix::process::Pid;
use std::fs;
use std::time::{Duration, Instant};

/// Between two looks at the clocks.
pub const STEP: Duration = Duration::from_secs(1);
/// The most that counts of the time between two looks: when more has passed, this program or the
/// computer was stopped.
const MOST: Duration = Duration::from_secs(2);
/// A machine that uses less than this part of a CPU is idle.
const IDLE_PART: u32 = 50;
/// How long a machine may be idle at the least, whatever the limit is: its programs may sleep.
const IDLE: Duration = Duration::from_secs(180);

/// What a machine has spent, or may spend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// CPU time of QEMU. Where the system does not tell it, the time in which this program ran.
    pub cpu: Duration,
    /// The time in which this program ran, QEMU was not stopped, and used hardly any CPU time.
    pub idle: Duration,
}

impl From<Duration> for Spent {
    /// A limit to CPU time, and a generous one to being idle.
    fn from(cpu: Duration) -> Self {
        let idle = cpu.max(IDLE);
        Spent { cpu, idle }
    }
}

impl Spent {
    /// What has been spent when `more` has been spent after this, by a machine with so many CPUs:
    /// each may use the CPU time.
    pub fn after(self, more: Spent, cpus: u32) -> Spent {
        Spent {
            cpu: self.cpu + more.cpu * cpus,
            idle: self.idle + more.idle,
        }
    }

    /// Whether a limit is reached.
    pub fn is_over(&self, limit: &Spent) -> bool {
        self.cpu >= limit.cpu || self.idle >= limit.idle
    }
}

/// The clocks of one process.
#[derive(Debug)]
pub struct Meter {
    pid: Pid,
    last: Instant,
    /// Its CPU time at the last look.
    used: Duration,
    spent: Spent,
}

impl Meter {
    /// Of a process that has just started.
    pub fn new(pid: Pid) -> Meter {
        Meter {
            pid,
            last: Instant::now(),
            used: Duration::ZERO,
            spent: Spent::default(),
        }
    }

    /// What it has spent, as of the last step.
    pub fn spent(&mut self) -> Spent {
        let passed = self.last.elapsed();
        if passed >= STEP {
            self.last += passed;
            self.count(passed.min(MOST), process(self.pid));
        }
        self.spent
    }

    fn count(&mut self, ran: Duration, process: Option<Process>) {
        let Some(process) = process else {
            self.spent.cpu += ran;
            return;
        };
        let used = process.used.saturating_sub(self.used);
        self.used += used;
        self.spent.cpu += used;
        if !process.stopped && used < ran / IDLE_PART {
            self.spent.idle += ran;
        }
    }
}

/// The CPU time of all processes that this one has started and waited for; `None`: the system does
/// not say it.
pub fn children() -> Option<Duration> {
    process(rustix::process::getpid()).map(|own| own.children)
}

/// What the system says of a process.
#[derive(Debug, PartialEq, Eq)]
struct Process {
    /// The CPU time of all its threads.
    used: Duration,
    /// That of its children that it has waited for.
    children: Duration,
    stopped: bool,
}

/// `None`: the system does not say it.
fn process(pid: Pid) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    parse(&stat, rustix::param::clock_ticks_per_second())
}

/// /proc/PID/stat, in which times are in `ticks` a second. Source: proc_pid_stat(5).
fn parse(stat: &str, ticks: u64) -> Option<Process> {
    // The name, field 2, may contain anything.
    let (_, fields) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = fields.split(' ').collect();
    let field = |number: usize| fields.get(number - 3).copied();
    let time = |number| field(number)?.parse::<u64>().ok();
    let spent = |ticks_used: u64| Duration::from_millis(ticks_used * 1000 / ticks);
    Some(Process {
        used: spent(time(14)? + time(15)?),
        children: spent(time(16)? + time(17)?),
        stopped: matches!(field(3)?, "T" | "t"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn stat() {
        let stat = "17 (a ) b) T 1 2 3 4 5 6 7 8 9 10 250 51 14 15 20";
        let stopped = Process {
            used: Duration::from_millis(3010),
            children: Duration::from_millis(290),
            stopped: true,
        };
        assert_eq!(parse(stat, 100), Some(stopped));
        assert_eq!(parse("17 (sh) S 1", 100), None);
        let own = process(rustix::process::getpid());
        assert!(own.is_none_or(|own| !own.stopped));
    }

    #[test]
    fn what_counts() {
        let mut meter = Meter::new(rustix::process::getpid());
        let mut used = Duration::ZERO;
        let mut step = |more: Duration, stopped| {
            used += more;
            meter.count(
                S,
                Some(Process {
                    used,
                    children: Duration::ZERO,
                    stopped,
                }),
            );
            meter.spent
        };
        let spent = |cpu, idle| Spent { cpu, idle };
        assert_eq!(step(2 * S, false), spent(2 * S, Duration::ZERO));
        assert_eq!(step(S / 100, false), spent(2 * S + S / 100, S));
        assert_eq!(step(S / 100, true), spent(2 * S + S / 50, S), "stopped");
        assert_eq!(step(S / 50, false), spent(2 * S + S / 25, S));
        meter.count(MOST, None);
        assert_eq!(meter.spent, spent(4 * S + S / 25, S), "no clock");
    }

    #[test]
    fn limits() {
        let limit = Spent::default().after(Spent::from(S), 4);
        assert_eq!((limit.cpu, limit.idle), (4 * S, IDLE));
        let spent = |cpu, idle| Spent { cpu, idle };
        assert!(!spent(3 * S, 179 * S).is_over(&limit));
        assert!(spent(4 * S, S).is_over(&limit) && spent(S, IDLE).is_over(&limit));
        assert_eq!(Spent::from(500 * S).idle, 500 * S);
    }
}
