//! Targets: the figures promised for folios, for the account of their owners, and for switches
//! against each other.
use super::cells::{Cell, Key};
use tools::host::arch::Arch;

/// Pages of 1 GiB.
const GIB: u64 = 1 << 18;

/// The cost of an area in a read of /proc/PID/maps, and of smaps: a line of 50 bytes, and 35 lines
/// of 1,150 in all, that are written once and copied to the user once.
const MAPS_AREA: f64 = 500.0;
const SMAPS_AREA: f64 = 2800.0;

/// The verdict on a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// There is no target.
    None,
    /// The target is met.
    Met,
    /// The target is missed; the figure that would meet it.
    Missed(f64),
    /// The target is that no CPU waits for another one: how often one did.
    Waited(u64),
}

/// Instructions for clearing one page with the primitive that both kernels use.
pub const fn clearing(arch: Arch) -> f64 {
    match arch {
        // rep stosq: one for each word.
        Arch::X86_64 => 512.0,
        // dc zva, 512 bytes each on this CPU, and the loop around it.
        Arch::Aarch64 => 28.0,
    }
}

/// Judges one cell. `linux` is its figure there; `few` is the figure of the same operation with one
/// VMA or thread.
pub fn judge(arch: Arch, key: &Key, cell: &Cell, linux: Option<f64>, few: Option<f64>) -> Verdict {
    if let (Some(part), Some(linux)) = (part_of_linux(arch, key), linux) {
        return at_most(cell, part * linux);
    }
    let limit = match (key.op.as_str(), linux, few) {
        ("munmap", Some(linux), _) => linux / 2.0,
        // Above the clearing: half of Linux's, or within 5 instructions of that.
        ("fault", Some(linux), _) => (linux - clearing(arch)) / 2.0 + 5.0 + clearing(arch),
        ("mremap", Some(linux), _) => 0.15 * linux,
        ("vmas", _, Some(few)) => 2.0 * few,
        ("beside", ..) if waited(key, cell) > 0 => return Verdict::Waited(waited(key, cell)),
        ("beside", _, Some(few)) => 1.05 * few,
        ("maps", ..) => MAPS_AREA,
        ("smaps", ..) => SMAPS_AREA,
        ("touch1g", ..) => return exact(key, cell),
        ("updates", ..) => return one_for_each_folio(key, cell),
        ("survivor", ..) => return copies_nothing(key, cell),
        ("cost/getpid", ..) => 150.0,
        ("cost/pipe_round_trip", ..) => 6_000.0,
        // Without the pages, each of which is a trap and 512 words.
        ("cost/fork_exit_wait", ..) => 60_000.0 + 2_000.0 * cell.counter("pages_copied") as f64,
        _ => match move_limit(key) {
            Some(limit) => limit,
            None => return Verdict::None,
        },
    };
    at_most(cell, limit)
}

/// The most that one mremap of the program `moves` may cost: of 512 GiB and more by PGD entries the
/// whole call; of 1 GiB and more by PUD entries for each GiB, by PMD entries for each of them, by
/// PTEs for each of them.
fn move_limit(key: &Key) -> Option<f64> {
    const PGD: f64 = 512.0 * 1024.0;
    let (level, mib) = key.op.strip_prefix("move=")?.split_once('/')?;
    let mib: f64 = mib.parse().ok()?;
    let per_gib = match (level, key.kb) {
        ("pgd", _) if mib >= PGD => return Some(2_000.0),
        // Sparse: there is one entry of each level in a GiB.
        _ if mib >= PGD => return None,
        ("pud" | "pgd", _) => 2_000.0,
        ("pmd", _) => 60.0 * 512.0,
        ("pte", 64) => 12.0 * 512.0 * 512.0,
        ("pte", 4) => 25.0 * 512.0 * 512.0,
        _ => return None,
    };
    (mib >= 1024.0).then_some(per_gib * mib / 1024.0)
}

/// Locks of what brings threads to sleep and wakes them.
const OF_SLEEP: [&str; 4] = ["futex", "timers", "wait_queue", "scheduler"];

/// How often a lock was not free, without those that the threads need to begin and to end, and
/// without the zone's if each thread has waited for it less than once: QEMU has stopped a CPU that
/// had it, and the others came to fill their lists before its next turn.
fn waited(key: &Key, cell: &Cell) -> u64 {
    let by_chance = |(rank, waits)| rank == "zone" && waits < key.vmas;
    let others = cell.waits().filter(|(rank, _)| !OF_SLEEP.contains(rank));
    others
        .filter(|other| !by_chance(*other))
        .map(|(_, waits)| waits)
        .sum()
}

/// Met, or missed with this limit.
fn met(is_met: bool, limit: f64) -> Verdict {
    match is_met {
        true => Verdict::Met,
        false => Verdict::Missed(limit),
    }
}

fn at_most(cell: &Cell, limit: f64) -> Verdict {
    met(cell.figure <= limit, limit)
}

/// The part of Linux's figure that an operation may cost at 4, 64 and 2048 kB.
fn part_of_linux(arch: Arch, key: &Key) -> Option<f64> {
    let parts = match (key.op.as_str(), arch) {
        ("fork", Arch::X86_64) => [0.40, 0.20, 0.15],
        ("fork", Arch::Aarch64) => [0.40, 0.25, 0.20],
        ("munmap", _) => [0.30, 0.30, 0.40],
        ("cow-byte", _) => [0.50, 0.35, 0.35],
        ("reuse-byte", _) => [0.40, 0.10, 0.03],
        ("dontneed", _) => [0.30, 0.35, 0.35],
        _ => return None,
    };
    let size = [4, 64, 2048].iter().position(|kb| *kb == key.kb)?;
    Some(parts[size])
}

/// A fork updates the account at most once for each folio of the 64 MiB, by one atomic
/// read-modify-write up to 64 kB; where it shares tables, not at all.
fn one_for_each_folio(key: &Key, cell: &Cell) -> Verdict {
    let folios = (1 << 16) / key.kb;
    let atomics = cell.counter("account_atomics");
    let few_atomics = key.kb > 64 || atomics <= folios;
    met(cell.figure <= folios as f64 && few_atomics, folios as f64)
}

/// Nothing is copied for the only one that is left, and at 64 kB each of 64 folios is taken over by
/// one fault at most.
fn copies_nothing(key: &Key, cell: &Cell) -> Verdict {
    let faults = key.kb != 64 || cell.counter("pgfault") <= 64;
    met(faults && cell.counter("pages_copied") == 0, 0.0)
}

/// What one setting of a switch may cost beside another: operation, folio size in kB (`None`: all),
/// the settings, and the largest ratio of the first to the second.
pub type Pair = (&'static str, Option<u64>, &'static str, &'static str, f64);

/// Settings against each other, judged where both were measured.
pub const PAIRS: [Pair; 5] = [
    // Batching costs pages of their own nothing.
    ("fork", Some(4), "fork=batch", "fork=per-pte", 1.01),
    ("fork", None, "contpte=on", "contpte=off", 1.0),
    // To know that a folio is exclusive costs the copies of several CPUs next to nothing.
    ("cow-seq", None, "account=unified", "account=total", 1.02),
    ("cow-rand", None, "account=unified", "account=total", 1.02),
    // 1 GiB.
    ("fork1g", Some(4), "fork=share", "fork=batch", 1.0 / 50.0),
];

/// One fault and one update of the account for each folio, no more and no less.
fn exact(key: &Key, cell: &Cell) -> Verdict {
    let folios = GIB * 4 / key.kb;
    let counters = ["pgfault", "account_updates"].map(|name| cell.counter(name));
    met(counters == [folios; 2], folios as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Verdict::{Met, Missed, Waited};
    use serde_json::{Value, json};

    /// Operations with their size, figure and Linux's, and what is said of each.
    fn assert_verdicts<const N: usize>(cells: [(&str, u64, f64, Option<f64>, Verdict); N]) {
        for (op, kb, figure, linux, verdict) in cells {
            let key = Key::new(op, kb);
            let line = json!({"pgfault": 16384, "account_updates": 16384});
            let judged = judge(Arch::Aarch64, &key, &Cell { figure, line }, linux, None);
            assert_eq!(judged, verdict, "{op} {kb} {figure}");
        }
    }

    #[test]
    fn parts_of_linux_and_counters() {
        assert_verdicts([
            ("fork", 64, 25.0, Some(100.0), Met),
            ("fork", 64, 25.1, Some(100.0), Missed(25.0)),
            ("fork", 32, 90.0, Some(100.0), Verdict::None),
            ("reuse-byte", 2048, 4.0, Some(100.0), Missed(3.0)),
            ("updates", 2048, 32.0, None, Met),
            ("updates", 64, 0.0, None, Met),
            ("updates", 64, 1025.0, None, Missed(1024.0)),
            ("survivor", 4, 1.0, None, Met),
            ("survivor", 64, 1.0, None, Missed(0.0)),
        ]);
    }

    #[test]
    fn threads_beside_each_other_against_one() {
        let key = Key {
            vmas: 8,
            ..Key::new("beside", 4)
        };
        let verdict = |figure, line: Value| {
            let cell = Cell { figure, line };
            judge(Arch::X86_64, &key, &cell, None, Some(1000.0))
        };
        assert_eq!(verdict(1050.0, json!({})), Met);
        assert_eq!(verdict(1051.0, json!({})), Missed(1050.0));
        let waits = |line| verdict(1000.0, line);
        let quiet = json!({"lock_waits": 3, "lock_waits_scheduler": 3, "lock_waits_zone": 0});
        assert_eq!(waits(quiet), Met);
        let zone = |times| json!({"lock_waits_node": 0, "lock_waits_zone": times});
        assert_eq!(waits(zone(key.vmas - 1)), Met);
        assert_eq!(waits(zone(key.vmas)), Waited(key.vmas));
        let node = json!({"lock_waits_node": 1, "lock_waits_zone": 0});
        assert_eq!(waits(node), Waited(1));
    }

    #[test]
    fn limits() {
        assert_verdicts([
            ("munmap", 16, 50.0, Some(100.0), Met),
            ("munmap", 16, 50.5, Some(100.0), Missed(50.0)),
            ("fault", 4, 83.0, Some(128.0), Met),
            ("fault", 4, 84.0, Some(128.0), Missed(83.0)),
            ("cow", 4, 1.0, Some(1.0), Verdict::None),
            ("maps", 4, 500.0, None, Met),
            ("maps", 4, 501.0, None, Missed(500.0)),
            ("smaps", 4, 2801.0, None, Missed(2800.0)),
            ("touch1g", 64, 1.0, None, Met),
            ("touch1g", 32, 1.0, None, Missed(32768.0)),
            ("cost/getpid", 0, 151.0, None, Missed(150.0)),
            ("move=pte/1024", 64, 4e6, None, Missed(3_145_728.0)),
            ("move=pmd/2048", 64, 60_000.0, None, Met),
            ("move=pgd/524288", 4, 2_001.0, None, Missed(2_000.0)),
            ("move=pud/524288", 4, 11_000.0, None, Verdict::None),
        ]);
    }
}
