//! Multi-size THP as programs see it: the files of `/sys/kernel/mm/transparent_hugepage`, prctl,
//! smaps.
//!
//! A host's settings are its owner's: on Linux the tests write what a file refuses or holds
//! already, and nothing else.
use crate::thp_disable::{need_flag, set_disable};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use userland::controls::Controls;
use userland::counters::on_quire;
use userland::harness::{Outcome, Stop, in_child};
use userland::sys::Errno;
use userland::sys::mem::{PAGE, anon, load, madvise, store};
use userland::sys::proc::Status;
use userland::{check, check_eq, check_err, counters};

userland::tests![
    thp_words,
    thp_sizes,
    thp_statistics,
    thp_numbers,
    thp_refuses,
    thp_takes_words,
    thp_takes_numbers,
    thp_switches,
    thp_eligible,
    thp_smaps_folios,
    thp_memory_is_compacted,
];

const ROOT: &str = "/sys/kernel/mm/transparent_hugepage";

/// A file's text; the test is skipped where there is none.
pub fn read(path: &str) -> Result<String, Stop> {
    let text = fs::read_to_string(format!("{ROOT}/{path}"));
    Ok(text
        .map_err(|e| Stop::Skip(format!("{path}: {e}")))?
        .trim_end()
        .into())
}

/// Writes a file.
pub fn write(path: &str, text: &str) -> Result<(), Errno> {
    Ok(fs::write(format!("{ROOT}/{path}"), text)?)
}

/// The word in brackets; there must be one, and only one.
pub fn chosen(path: &str) -> Result<String, Stop> {
    let text = read(path)?;
    let in_brackets = |word: &str| Some(word.strip_prefix('[')?.strip_suffix(']')?.to_owned());
    let words: Vec<String> = text.split(' ').filter_map(in_brackets).collect();
    check!(words.len() == 1, "{path}: {text}");
    Ok(words[0].clone())
}

/// `hugepages-<size>kB` of what every Linux with multi-size THP has.
pub fn size_names() -> impl Iterator<Item = String> {
    (4..=11).map(|n| format!("hugepages-{}kB", 1 << n))
}

fn thp_words() -> Outcome {
    for (path, words) in [
        ("enabled", "always madvise never"),
        ("defrag", "always defer defer+madvise madvise never"),
        (
            "shmem_enabled",
            "always within_size advise never deny force",
        ),
        ("hugepages-64kB/enabled", "always inherit madvise never"),
        (
            "hugepages-64kB/shmem_enabled",
            "always inherit within_size advise never",
        ),
    ] {
        chosen(path)?;
        check_eq!(read(path)?.replace(['[', ']'], ""), words);
    }
    check_eq!(read("hpage_pmd_size")?, "2097152");
    for path in ["use_zero_page", "shrink_underused"] {
        check!(["0", "1"].contains(&read(path)?.as_str()), "{path}");
    }
    Ok(())
}

fn thp_sizes() -> Outcome {
    let mut found = Vec::new();
    for entry in fs::read_dir(ROOT).map_err(|e| Stop::Skip(format!("{ROOT}: {e}")))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.starts_with("hugepages-") && name != "hugepages-8kB" {
            found.push(name);
        }
    }
    let mut wanted: Vec<String> = size_names().collect();
    found.sort();
    wanted.sort();
    check_eq!(found, wanted);
    for size in size_names() {
        chosen(&format!("{size}/enabled"))?;
    }
    Ok(())
}

fn thp_statistics() -> Outcome {
    for size in size_names() {
        for name in [
            "anon_fault_alloc",
            "anon_fault_fallback",
            "anon_fault_fallback_charge",
            "nr_anon",
            "nr_anon_partially_mapped",
            "shmem_alloc",
            "split",
            "split_deferred",
            "split_failed",
            "swpin",
            "swpout",
            "zswpout",
        ] {
            let text = read(&format!("{size}/stats/{name}"))?;
            check!(text.parse::<u64>().is_ok(), "{size} {name}: {text}");
        }
    }
    Ok(())
}

const KNOBS: [&str; 7] = [
    "defrag",
    "pages_to_scan",
    "scan_sleep_millisecs",
    "alloc_sleep_millisecs",
    "max_ptes_none",
    "max_ptes_swap",
    "max_ptes_shared",
];

fn thp_numbers() -> Outcome {
    for name in KNOBS.iter().chain(&["full_scans", "pages_collapsed"]) {
        let text = read(&format!("khugepaged/{name}"))?;
        check!(text.parse::<u64>().is_ok(), "{name}: {text}");
    }
    Ok(())
}

/// Skips where the files cannot be written (no rights, a read-only /sys): the value is the one that
/// is there.
fn need_rights() -> Result<(), Stop> {
    let now = chosen("enabled")?;
    write("enabled", &now).map_err(|e| Stop::Skip(format!("{ROOT} cannot be written: {e:?}")))
}

fn thp_refuses() -> Outcome {
    need_rights()?;
    for (path, bad) in [
        ("enabled", ["inherit", "", "Always", "always never", "1"]),
        ("defrag", ["sometimes", "-1", "[always]", "defer+", "2"]),
        ("shmem_enabled", ["inherit", "?", "With", "1", "denied"]),
        ("hugepages-64kB/enabled", ["defer", "", "on", "0", "nevers"]),
        (
            "hugepages-64kB/shmem_enabled",
            ["deny", "force", "madvise", "0", "within"],
        ),
        ("use_zero_page", ["2", "yes", "-1", "on", "0 1"]),
        (
            "khugepaged/max_ptes_none",
            ["512", "-1", "many", "1k", "1 2"],
        ),
        (
            "khugepaged/pages_to_scan",
            ["0", "-1", "99999999999", "x", "1.5"],
        ),
        ("khugepaged/defrag", ["2", "-1", "defer", "yes?", "11"]),
    ] {
        let before = read(path)?;
        // An empty write never reaches a file's code.
        for text in bad.iter().filter(|text| !text.is_empty()) {
            let got = write(path, text);
            check!(got == Err(Errno(libc::EINVAL)), "{path} {text:?}: {got:?}");
        }
        check_eq!(read(path)?, before);
    }
    Ok(())
}

/// Runs `act` and puts the file back as it was, also when `act` fails.
pub fn restoring(path: &str, act: impl FnOnce() -> Outcome) -> Outcome {
    let before = match read(path)? {
        text if text.contains('[') => chosen(path)?,
        text => text,
    };
    let outcome = act();
    write(path, &before)?;
    outcome
}

/// Skips on Linux.
pub fn only_here() -> Outcome {
    match on_quire() {
        true => Ok(()),
        false => Err(Stop::Skip("a host's settings stay as they are".into())),
    }
}

fn thp_takes_words() -> Outcome {
    only_here()?;
    for path in [
        "enabled",
        "hugepages-16kB/enabled",
        "hugepages-1024kB/enabled",
    ] {
        restoring(path, || {
            // As echo, as printf and as C programs write it.
            for text in ["never\n", "always", "madvise\0", "never\n\0"] {
                write(path, text)?;
                check_eq!(chosen(path)?, text.trim_end_matches(['\0', '\n']));
            }
            Ok(())
        })?;
    }
    restoring("defrag", || {
        write("defrag", "defer+madvise\n")?;
        check_eq!(
            read("defrag")?,
            "always defer [defer+madvise] madvise never"
        );
        Ok(())
    })
}

fn thp_takes_numbers() -> Outcome {
    only_here()?;
    for (name, value) in [
        ("khugepaged/max_ptes_none", "0"),
        ("khugepaged/scan_sleep_millisecs", "123"),
        ("use_zero_page", "0"),
    ] {
        restoring(name, || {
            write(name, &format!("{value}\n"))?;
            check_eq!(read(name)?, value);
            Ok(())
        })?;
    }
    Ok(())
}

fn thp_switches() -> Outcome {
    let path = "/sys/kernel/mm/quire/contpte";
    let Ok(before) = fs::read_to_string(path) else {
        return Err(Stop::Skip("no switches here".into()));
    };
    check_err!(fs::write(path, "maybe"), EINVAL);
    check_eq!(fs::read_to_string(path)?, before);
    for text in ["off\n", "on\n"] {
        fs::write(path, text)?;
        check_eq!(fs::read_to_string(path)?, text);
    }
    fs::write(path, before)?;
    // What memory in use depends on is chosen at boot.
    for name in ["account", "subids", "writer", "seq"] {
        let path = format!("/sys/kernel/mm/quire/{name}");
        let before = fs::read_to_string(&path)?;
        check_eq!(fs::metadata(&path)?.permissions().mode() & 0o777, 0o444);
        check_err!(fs::write(&path, &before), EPERM);
    }
    Ok(())
}

const MIB: usize = 1 << 20;

fn thp_eligible() -> Outcome {
    read("enabled")?;
    let eligible = |at: usize| {
        let entry = counters::smaps_of(at);
        entry.and_then(|entry| entry.get("THPeligible").ok())
    };
    let guarded = anon(5 * MIB / PAGE)?;
    let at = guarded + PAGE;
    userland::sys::mem::mprotect(guarded, PAGE, libc::PROT_NONE)?;
    madvise(at, 4 * MIB, libc::MADV_NOHUGEPAGE)?;
    check_eq!(eligible(at), Some(0));
    if Controls::take().largest() == 4 {
        return Err(Stop::Skip("large folios are never allowed here".into()));
    }
    madvise(at, 4 * MIB, libc::MADV_HUGEPAGE)?;
    check_eq!(eligible(at), Some(1));
    set_disable(1, 0)?;
    check_eq!(eligible(at), Some(0));
    need_flag()?;
    check_eq!(eligible(at), Some(1));
    Ok(())
}

fn thp_smaps_folios() -> Outcome {
    only_here()?;
    let text = fs::read_to_string("/proc/self/smaps")?;
    let lines: Vec<&str> = text.lines().collect();
    let locked = lines.iter().position(|line| line.starts_with("Locked:"));
    let after = &lines[locked.ok_or(Stop::Fail("no Locked".into()))? + 1..];
    for (n, line) in after[..10].iter().enumerate() {
        let mut words = line.split_whitespace();
        check_eq!(words.next(), Some(format!("Folios-{}kB:", 4 << n).as_str()));
        let numbers: Vec<u64> = words.filter_map(|word| word.parse().ok()).collect();
        check!(numbers.len() == 3, "{line}");
    }
    check!(after[10].starts_with("THPeligible:"), "{}", after[10]);
    Ok(())
}

/// Pages that are moved for large blocks are found by all who have them.
fn thp_memory_is_compacted() -> Outcome {
    const FILE: &str = "/proc/sys/vm/compact_memory";
    // A row of 64 kB in four stays.
    const ROW: usize = 64 << 10;
    const LEN: usize = 16 << 20;
    only_here()?;
    let write = |text: &str| fs::write(FILE, text);
    check_eq!(fs::metadata(FILE)?.permissions().mode() & 0o777, 0o200);
    for refused in ["0", "2", "all"] {
        check!(write(refused).is_err(), "{refused} is no way to compact");
    }
    let at = anon(LEN / PAGE)?;
    madvise(at, LEN, libc::MADV_NOHUGEPAGE)?;
    (at..at + LEN)
        .step_by(PAGE)
        .for_each(|page| store(page, page as u64));
    for row in (at..at + LEN).step_by(4 * ROW) {
        madvise(row + ROW, 3 * ROW, libc::MADV_DONTNEED)?;
    }
    let rows = || (at..at + LEN).step_by(4 * ROW);
    let kept = || rows().flat_map(|row| (row..row + ROW).step_by(PAGE));
    let moved = || counters::figure("/proc/vmstat", "pgmigrate_success").unwrap_or(0);
    let before = moved();
    let child = in_child(|| {
        write("1")?;
        let own = kept().all(|page| load(page) == page as u64);
        kept().for_each(|page| store(page, 1));
        write("1")?;
        Ok(i32::from(!own || !kept().all(|page| load(page) == 1)))
    })?;
    check_eq!(child, Status::Exited(0));
    write("1")?;
    check!(kept().all(|page| load(page) == page as u64));
    check!(moved() > before, "nothing was moved");
    Ok(())
}
