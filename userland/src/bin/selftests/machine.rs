//! /proc and /sys about the whole machine.
use std::fs;
use userland::counters::Table;
use userland::harness::{Outcome, Stop, skip};
use userland::sys::mem::{PAGE, anon, store};
use userland::{check, check_eq, check_err, counters};

userland::tests![
    proc_meminfo,
    proc_vmstat,
    proc_buddyinfo,
    proc_zoneinfo,
    proc_pressure,
    proc_whole_system,
    proc_refuses,
    sys_transparent_hugepage,
    sys_cpus,
];

fn proc_meminfo() -> Outcome {
    let text = fs::read_to_string("/proc/meminfo")?;
    check!(text.starts_with("MemTotal:"), "{text}");
    check!(
        text.lines()
            .filter(|l| !l.starts_with("HugePages"))
            .all(|l| l.ends_with(" kB")),
        "{text}"
    );
    let m = Table::parse("/proc/meminfo", &text);
    check!(m.get("MemTotal")? > m.get("MemFree")? && m.get("MemFree")? > 0);
    for name in [
        "MemAvailable",
        "Buffers",
        "Cached",
        "SwapTotal",
        "AnonPages",
        "Mapped",
        "Shmem",
        "PageTables",
    ] {
        m.get(name)?;
    }
    // Memory taken is missing from the free.
    let at = anon(4096)?;
    let before = m.get("AnonPages")?;
    (0..4096).for_each(|n| store(at + n * PAGE, 1));
    let after = counters::figure("/proc/meminfo", "AnonPages")?;
    check!(
        after >= before + 8192,
        "AnonPages {before} and {after} kB around 16 MiB"
    );
    Ok(())
}

fn proc_vmstat() -> Outcome {
    let before = counters::table("/proc/vmstat");
    before.get("nr_free_pages")?;
    let at = anon(100)?;
    (0..100).for_each(|n| store(at + n * PAGE, 1));
    let after = counters::table("/proc/vmstat");
    let faults = after.get("pgfault")? - before.get("pgfault")?;
    if counters::on_quire() {
        check!(faults >= 100, "pgfault moved by {faults}");
    }
    after.get("pgmajfault")?;
    Ok(())
}

/// The blocks of all orders are the free memory, but for what the per-CPU lists hold.
fn proc_buddyinfo() -> Outcome {
    let text = fs::read_to_string("/proc/buddyinfo")?;
    let mut free = 0;
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let head = [words.next(), words.next(), words.next()];
        check_eq!(head, [Some("Node"), Some("0,"), Some("zone")]);
        check!(words.next().is_some(), "no name in {line}");
        for (order, blocks) in words.enumerate() {
            free += blocks.parse::<u64>().unwrap_or(u64::MAX >> 32) << order;
        }
    }
    let counted = counters::figure("/proc/vmstat", "nr_free_pages")?;
    check!(
        free > counted / 2 && free < counted + counted / 8 + 1024,
        "{free} pages in blocks, {counted} are free"
    );
    Ok(())
}

fn proc_zoneinfo() -> Outcome {
    let text = fs::read_to_string("/proc/zoneinfo")?;
    let all = |name: &str| -> Vec<u64> {
        let value = |line: &str| line.trim().strip_prefix(name)?.trim().parse().ok();
        text.lines().filter_map(value).collect()
    };
    let (free, managed) = (all("pages free "), all("managed "));
    let (min, low, high) = (all("min "), all("low "), all("high "));
    check!(!free.is_empty() && free.len() == managed.len());
    check!(min.len() == free.len() && low.len() == free.len() && high.len() == free.len());
    for n in 0..free.len() {
        let marks = (min[n], low[n], high[n]);
        check!(marks.0 <= marks.1 && marks.1 <= marks.2, "{marks:?}");
        check!(free[n] <= managed[n], "{} of {}", free[n], managed[n]);
    }
    check!(text.contains("pagesets") && text.contains("cpu: 0"));
    Ok(())
}

fn proc_pressure() -> Outcome {
    let Ok(text) = fs::read_to_string("/proc/pressure/memory") else {
        return skip("no PSI here");
    };
    let lines: Vec<Vec<&str>> = text.lines().map(|l| l.split(' ').collect()).collect();
    check_eq!(lines.len(), 2);
    let mut totals = Vec::new();
    for (line, name) in lines.iter().zip(["some", "full"]) {
        let [first, averages @ .., total] = &line[..] else {
            return Err(Stop::Fail(text));
        };
        check_eq!((*first, averages.len()), (name, 3));
        for (field, key) in averages.iter().zip(["avg10=", "avg60=", "avg300="]) {
            let value = field.strip_prefix(key).unwrap_or_default();
            let percent: Option<f64> = value.parse().ok();
            check!(
                percent.is_some_and(|n| (0.0..=100.0).contains(&n)),
                "{text}"
            );
            check!(
                value.split_once('.').is_some_and(|n| n.1.len() == 2),
                "{text}"
            );
        }
        let total = total
            .strip_prefix("total=")
            .and_then(|n| n.parse::<u64>().ok());
        totals.push(total);
    }
    check!(totals[1].is_some() && totals[0] >= totals[1], "{text}");
    if counters::on_quire() {
        let opened = fs::OpenOptions::new()
            .write(true)
            .open("/proc/pressure/memory");
        check_eq!(
            opened.err().and_then(|why| why.raw_os_error()),
            Some(libc::EOPNOTSUPP)
        );
    }
    Ok(())
}

fn proc_whole_system() -> Outcome {
    for name in [
        "cpuinfo",
        "stat",
        "uptime",
        "version",
        "filesystems",
        "mounts",
        "loadavg",
    ] {
        check!(
            !fs::read_to_string(format!("/proc/{name}"))?.is_empty(),
            "{name}"
        );
    }
    check!(fs::read_to_string("/proc/version")?.contains(' '));
    let uptime = fs::read_to_string("/proc/uptime")?;
    check_eq!(
        uptime
            .split_whitespace()
            .filter(|f| f.parse::<f64>().is_ok())
            .count(),
        2
    );
    check!(
        fs::read_to_string("/proc/mounts")?
            .lines()
            .all(|l| l.split(' ').count() == 6)
    );
    let stat = fs::read_to_string("/proc/stat")?;
    check!(
        stat.starts_with("cpu  ") && stat.contains("\nbtime ") && stat.contains("\nctxt "),
        "{stat}"
    );
    let overcommit = fs::read_to_string("/proc/sys/vm/overcommit_memory")?;
    check!(["0", "1", "2"].contains(&overcommit.trim()), "{overcommit}");
    Ok(())
}

fn proc_refuses() -> Outcome {
    check_err!(fs::read("/proc/999999/maps"), ENOENT);
    check_err!(fs::read("/proc/self/nothing"), ENOENT);
    check_err!(fs::read("/proc/self/maps/x"), ENOTDIR);
    check!(fs::write("/proc/version", "x").is_err());
    check!(fs::create_dir("/proc/dir").is_err());
    Ok(())
}

fn sys_transparent_hugepage() -> Outcome {
    let dir = "/sys/kernel/mm/transparent_hugepage";
    let Ok(enabled) = fs::read_to_string(format!("{dir}/enabled")) else {
        return skip("no huge pages here");
    };
    check_eq!(enabled.replace(['[', ']'], ""), "always madvise never\n");
    check!(enabled.contains('[') && enabled.contains(']'));
    Ok(())
}

fn sys_cpus() -> Outcome {
    let Ok(online) = fs::read_to_string("/sys/devices/system/cpu/online") else {
        return skip("no /sys here");
    };
    check!(
        online.starts_with('0') && online.ends_with('\n'),
        "{online}"
    );
    let list = |name: &str| -> Result<Vec<usize>, Stop> {
        let text = fs::read_to_string(format!("/sys/devices/system/cpu/{name}"))?;
        Ok(cpu_list(text.trim_end()))
    };
    let [online, offline] = [list("online")?, list("offline")?];
    let [present, possible] = [list("present")?, list("possible")?];
    let within = |part: &[usize], whole: &[usize]| part.iter().all(|cpu| whole.contains(cpu));
    check!(
        !online.is_empty() && within(&online, &present),
        "{online:?}"
    );
    check!(within(&present, &possible), "{present:?} {possible:?}");
    check!(
        !within(&offline, &online) || offline.is_empty(),
        "{offline:?}"
    );
    check_eq!(online.len() + offline.len(), possible.len());
    let most = fs::read_to_string("/sys/devices/system/cpu/kernel_max")?;
    check!(
        most.trim_end()
            .parse()
            .is_ok_and(|most: usize| within(&possible, &Vec::from_iter(0..=most)))
    );
    for cpu in &present {
        check!(fs::metadata(format!("/sys/devices/system/cpu/cpu{cpu}"))?.is_dir());
    }
    // Every list of CPUs that can be used has the same number.
    let lines = |file: &str, prefix: &str| -> Result<usize, Stop> {
        let text = fs::read_to_string(file)?;
        Ok(text.lines().filter(|line| line.starts_with(prefix)).count())
    };
    check_eq!(lines("/proc/cpuinfo", "processor\t:")?, online.len());
    check_eq!(lines("/proc/stat", "cpu")?, online.len() + 1);
    check!(std::thread::available_parallelism()?.get() <= online.len());
    Ok(())
}

/// The CPUs in a list like "0-3,7".
fn cpu_list(text: &str) -> Vec<usize> {
    let parts = text.split(',').filter(|part| !part.is_empty());
    parts
        .flat_map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let number = |text: &str| text.parse().unwrap_or(usize::MAX - 1);
            number(first)..=number(last)
        })
        .collect()
}
