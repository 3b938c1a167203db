//! Where the time of a run went: for each group of cases, from the case before the first to the
//! last, with what was built for them. Groups of several threads overlap.
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

/// Runs that are shorter say nothing.
const WORTH_SAYING: Duration = Duration::from_secs(600);
/// So many groups are named.
const MOST: usize = 16;

/// The time by group.
#[derive(Debug)]
pub struct Spent {
    started: Instant,
    /// When each thread's last case ended.
    last: HashMap<ThreadId, Instant>,
    groups: BTreeMap<String, Duration>,
}

impl Default for Spent {
    fn default() -> Spent {
        Spent {
            started: Instant::now(),
            last: HashMap::new(),
            groups: BTreeMap::new(),
        }
    }
}

impl Spent {
    /// A case of this name ends now, in this thread.
    pub fn add(&mut self, name: &str) {
        let now = Instant::now();
        // A thread begins where all had got to.
        let before = self.last.values().max().copied().unwrap_or(self.started);
        let before = self
            .last
            .insert(thread::current().id(), now)
            .unwrap_or(before);
        *self.groups.entry(group(name).to_owned()).or_default() += now - before;
    }

    /// A line for each of the groups that took longest, if it was long.
    pub fn text(&self) -> String {
        let mut text = String::new();
        if self.started.elapsed() < WORTH_SAYING {
            return text;
        }
        let mut groups: Vec<_> = self.groups.iter().collect();
        groups.sort_by_key(|(_, spent)| std::cmp::Reverse(**spent));
        for (name, spent) in groups.iter().take(MOST) {
            let _ = writeln!(text, "time: {:>5} s  {name}", spent.as_secs());
        }
        text
    }
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
        spent.started -= WORTH_SAYING;
        spent.add("host.a.b");
        spent.add("host.c.d");
        let text = spent.text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines, ["time:   600 s  host.a", "time:     0 s  host.c"]);
        assert_eq!(Spent::default().text(), "");
    }
}
