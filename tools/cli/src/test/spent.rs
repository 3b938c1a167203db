//! Where the time of a run goes: for each group of cases what its thread did from the case before
//! to its last one, with what was built for them. Groups of several threads overlap. What the last
//! run says of each group is kept, so that the next one says how long it will take.
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};
use tools::host::workspace;

/// So many groups, and so many cases, are named at the end.
const MOST: usize = 8;
/// Shorter than this none is worth a word.
const WORTH_SAYING: Duration = Duration::from_secs(5);

/// Seconds by group.
type Seconds = BTreeMap<String, f64>;

/// The time by group.
#[derive(Debug)]
pub struct Spent {
    started: Instant,
    /// When each thread's last case ended.
    last: HashMap<ThreadId, Instant>,
    groups: BTreeMap<String, Duration>,
    /// Of the last run.
    before: Seconds,
    /// Groups of `before` that this run has cases of.
    expected: BTreeSet<String>,
    /// The longest cases.
    cases: Vec<(Duration, String)>,
}

impl Default for Spent {
    fn default() -> Spent {
        Spent {
            started: Instant::now(),
            last: HashMap::new(),
            groups: BTreeMap::new(),
            before: Seconds::new(),
            expected: BTreeSet::new(),
            cases: Vec::new(),
        }
    }
}

/// The file with what the last run says, below target/.
fn file() -> PathBuf {
    workspace::target().join("test-times.tsv")
}

fn parse(text: &str) -> Seconds {
    let line = |line: &str| {
        let (group, seconds) = line.split_once('\t')?;
        Some((group.to_owned(), seconds.parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

impl Spent {
    /// A run with cases of these names.
    pub fn expect<'a>(&mut self, names: impl Iterator<Item = &'a str>) {
        self.before = parse(&fs::read_to_string(file()).unwrap_or_default());
        let before = &self.before;
        self.expected = names.filter_map(|name| key(before, name)).collect();
    }

    /// What the last run took for what begins with one of `names`, in milliseconds.
    pub fn of_last(&self, names: &[String]) -> u64 {
        let begins = |group: &String| {
            let group = format!("{group}.");
            names.iter().any(|name| group.starts_with(name.as_str()))
        };
        let groups = self.before.iter().filter(|(group, _)| begins(group));
        (groups.map(|(_, seconds)| seconds).sum::<f64>() * 1000.0) as u64
    }

    /// This thread begins with something else now.
    pub fn begins(&mut self) {
        self.last.insert(thread::current().id(), Instant::now());
    }

    /// What this thread did since its last case was for `group`.
    pub fn add_to(&mut self, group: &str) {
        let now = Instant::now();
        let before = self.last.insert(thread::current().id(), now);
        let before = before.unwrap_or(self.started);
        *self.groups.entry(group.to_owned()).or_default() += now - before;
    }

    /// A case of this name ends now, in this thread; how long it took, if that is known.
    pub fn add(&mut self, name: &str, took: Option<Duration>) {
        self.add_to(group(name));
        if let Some(took) = took.filter(|took| *took >= WORTH_SAYING) {
            self.cases.push((took, name.to_owned()));
        }
    }

    /// How long the rest takes on so many threads, by what the last run says.
    pub fn left(&self, threads: usize) -> Option<Duration> {
        let left = |group: &String| {
            let spent = self.groups.get(group).map_or(0.0, Duration::as_secs_f64);
            (self.before[group] - spent).max(0.0)
        };
        let left: f64 = self.expected.iter().map(left).sum();
        (left > 0.0).then(|| Duration::from_secs_f64(left / threads as f64))
    }

    /// A line for each of the groups, and of the cases, that took longest.
    pub fn text(&self) -> String {
        let groups = longest(self.groups.iter().map(|(name, spent)| (*spent, name)));
        let cases = longest(self.cases.iter().map(|(took, name)| (*took, name)));
        let mut text = String::new();
        for (what, list) in [("group", groups), ("case ", cases)] {
            for (spent, name) in list {
                let _ = writeln!(text, "slowest {what} {:>5} s  {name}", spent.as_secs());
            }
        }
        text
    }

    /// Keeps what this run says for the next one.
    pub fn keep(&self) {
        let mut seconds = self.before.clone();
        seconds.extend(
            self.groups
                .iter()
                .map(|(name, spent)| (name.clone(), spent.as_secs_f64())),
        );
        let line = |(name, seconds): (&String, &f64)| format!("{name}\t{seconds:.1}\n");
        // Without it the next run does not say how long it takes.
        let _ = fs::write(file(), seconds.iter().map(line).collect::<String>());
    }
}

/// Those that took longest, if they are worth a word.
fn longest<'a>(times: impl Iterator<Item = (Duration, &'a String)>) -> Vec<(Duration, &'a String)> {
    let mut times: Vec<_> = times.filter(|(took, _)| *took >= WORTH_SAYING).collect();
    times.sort_by_key(|(took, _)| std::cmp::Reverse(*took));
    times.truncate(MOST);
    times
}

/// The longest group of `groups` that a name is in.
fn key(groups: &Seconds, name: &str) -> Option<String> {
    let ends = name.match_indices('.').rev().map(|(at, _)| &name[..at]);
    let known = ends.into_iter().find(|group| groups.contains_key(*group));
    known.map(str::to_owned)
}

/// `host.CRATE`, `user.ARCH.SUITE`, `user.ARCH.smp4.SUITE`.
fn group(name: &str) -> &str {
    let parts = match name.split('.').nth(2) {
        _ if name.starts_with("host.") => 2,
        Some(cpus) if cpus.starts_with("smp") => 4,
        _ => 3,
    };
    let mut dots = name.match_indices('.').map(|(at, _)| at);
    &name[..dots.nth(parts - 1).unwrap_or(name.len())]
}

/// The CPU time of this program's children that have ended, and its own, where the system says it.
pub fn cpu_seconds() -> Option<u64> {
    // Fields 14 to 17 of /proc/self/stat (proc(5)), in the 100 ticks a second of Linux's ABI; the
    // name, the second one, may have spaces.
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11).take(4);
    let ticks: Option<u64> = fields.map(|field| field.parse::<u64>().ok()).sum();
    Some(ticks? / 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_suites() {
        for (name, of) in [
            ("host.mm.a.b", "host.mm"),
            ("host.loom", "host.loom"),
            ("user.x86_64.labs.1.answer", "user.x86_64.labs"),
            ("user.aarch64.smp4.debug.torture", "user.aarch64.smp4.debug"),
            ("kernel.aarch64.smp4.mm.x", "kernel.aarch64.smp4.mm"),
        ] {
            assert_eq!(group(name), of);
        }
    }

    #[test]
    fn time_is_that_since_the_case_before() {
        let mut spent = Spent::default();
        spent.started -= Duration::from_secs(600);
        spent.add("host.a.b", Some(Duration::from_secs(7)));
        spent.add("host.c.d", None);
        let text = spent.text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "slowest group   600 s  host.a",
                "slowest case      7 s  host.a.b"
            ]
        );
        assert_eq!(Spent::default().text(), "");
    }

    #[test]
    fn the_last_run_says_how_long_it_takes() {
        let mut spent = Spent {
            before: parse("host.sim.model\t90\nuser.x86_64.abuse\t30.5\nno line\n"),
            ..Spent::default()
        };
        let names = ["host.sim.model.a", "host.sim.model.b", "host.sim.other.c"];
        spent.expected = names
            .iter()
            .filter_map(|name| key(&spent.before, name))
            .collect();
        assert_eq!(spent.left(2), Some(Duration::from_secs(45)));
        assert_eq!(spent.of_last(&["user.x86_64.abuse.".to_owned()]), 30_500);
        assert_eq!(spent.of_last(&["user.x86_64.boot.".to_owned()]), 0);
        spent.started -= Duration::from_secs(100);
        spent.add_to("host.sim.model");
        assert_eq!(spent.left(2), None);
    }

    #[test]
    fn linux_says_how_much_was_used() {
        if cfg!(target_os = "linux") {
            assert!(cpu_seconds().is_some());
        }
    }
}
