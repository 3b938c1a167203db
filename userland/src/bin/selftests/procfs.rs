//! The formats of /proc and /sys, as programs parse them.
use std::fs;
use std::os::unix::fs::MetadataExt;
use userland::harness::{Outcome, Stop, in_child, skip};
use userland::sys::mem::{ANON, PAGE, RW, anon, mmap, store};
use userland::sys::{call, file, proc};
use userland::{check, check_eq, check_err, counters};

userland::tests![
    proc_maps_format,
    proc_maps_of_a_mapping,
    proc_smaps_fields,
    proc_smaps_counts,
    proc_oom_score_follows_adjustment,
    proc_status,
    proc_status_of_many_groups,
    proc_stat_has_52_fields,
    proc_statm,
    proc_cmdline_and_exe,
    proc_fd,
    proc_is_one_file_system,
    proc_of_another_process,
    proc_small_reads,
    proc_maps_of_many,
];

fn proc_maps_format() -> Outcome {
    let text = fs::read_to_string("/proc/self/maps")?;
    let mut last = 0;
    for line in text.lines() {
        let f: Vec<&str> = line.split_whitespace().collect();
        check!(f.len() == 5 || f.len() >= 6, "{line}");
        let (start, end) = f[0].split_once('-').unwrap_or_default();
        check!(start.len() >= 8 && end.len() >= 8, "{line}");
        let hex = |s| usize::from_str_radix(s, 16).map_err(|_| Stop::Fail(line.to_string()));
        let (start, end) = (hex(start)?, hex(end)?);
        check!(
            last <= start && start < end && start % PAGE == 0 && end % PAGE == 0,
            "{line}"
        );
        last = end;
        let rights = f[1].as_bytes();
        check!(
            rights.len() == 4
                && "r-".contains(rights[0] as char)
                && "ps".contains(rights[3] as char),
            "{line}"
        );
        check!(
            f[2].len() == 8 && f[3].contains(':') && f[4].parse::<u64>().is_ok(),
            "{line}"
        );
        if let Some(name) = f.get(5) {
            // Names start in column 73.
            check_eq!(line.find(name), Some(73));
        }
    }
    check!(text.lines().any(|l| l.ends_with("[stack]")), "no [stack]");
    Ok(())
}

fn proc_maps_of_a_mapping() -> Outcome {
    fs::write("mapped", vec![0u8; 3 * PAGE])?;
    let fd = file::open("mapped", libc::O_RDONLY, 0)?;
    let at = mmap(0, 2 * PAGE, libc::PROT_READ, libc::MAP_SHARED, fd, PAGE)?;
    let text = fs::read_to_string("/proc/self/maps")?;
    let want = format!("{at:08x}-{:08x} r--s 00001000 ", at + 2 * PAGE);
    let Some(line) = text.lines().find(|l| l.starts_with(&want)) else {
        return Err(Stop::Fail(format!("no line {want} in\n{text}")));
    };
    let path = std::env::current_dir()?.join("mapped");
    check!(line.ends_with(&format!(" {}", path.display())), "{line}");
    use std::os::unix::fs::MetadataExt;
    check_eq!(
        line.split_whitespace().nth(4).and_then(|n| n.parse().ok()),
        Some(fs::metadata("mapped")?.ino())
    );
    Ok(())
}

/// Fields of smaps every Linux of today has, in order.
const SMAPS: [&str; 23] = [
    "Size",
    "KernelPageSize",
    "MMUPageSize",
    "Rss",
    "Pss",
    "Pss_Dirty",
    "Shared_Clean",
    "Shared_Dirty",
    "Private_Clean",
    "Private_Dirty",
    "Referenced",
    "Anonymous",
    "LazyFree",
    "AnonHugePages",
    "ShmemPmdMapped",
    "FilePmdMapped",
    "Shared_Hugetlb",
    "Private_Hugetlb",
    "Swap",
    "SwapPss",
    "Locked",
    "THPeligible",
    "VmFlags",
];

fn proc_smaps_fields() -> Outcome {
    use std::io::Read;
    // Room for both texts first: taking it between the readings would change what they show.
    let (mut maps, mut text) = (
        String::with_capacity(1 << 16),
        String::with_capacity(1 << 20),
    );
    fs::File::open("/proc/self/maps")?.read_to_string(&mut maps)?;
    fs::File::open("/proc/self/smaps")?.read_to_string(&mut text)?;
    let mut entries = 0;
    let mut fields: Vec<&str> = Vec::new();
    for line in text.lines().chain(["0-0 end"]) {
        if counters::is_header(line) {
            if entries > 0 {
                // Kernels add fields (KSM, our own): the known ones keep their order.
                let known: Vec<&str> = fields
                    .iter()
                    .copied()
                    .filter(|f| SMAPS.contains(f))
                    .collect();
                check_eq!(known, SMAPS);
            }
            entries += 1;
            fields.clear();
        } else {
            let (name, value) = line.split_once(':').unwrap_or_default();
            let plain = ["VmFlags", "THPeligible", "ProtectionKey"].contains(&name);
            if !plain && !name.starts_with("Folios-") {
                check!(value.trim_start().ends_with(" kB"), "{line}");
            }
            fields.push(name);
        }
    }
    let lines = maps.lines().count();
    check!(
        entries - 1 == lines,
        "{} entries in\n{text}\nfor\n{maps}",
        entries - 1
    );
    Ok(())
}

fn proc_smaps_counts() -> Outcome {
    // Unlike its neighbours, so that it stays a mapping of its own.
    let at = mmap(0, 18 * PAGE, libc::PROT_NONE, ANON, -1, 0)? + PAGE;
    userland::sys::mem::mprotect(at, 16 * PAGE, RW)?;
    // Pages that are written and copied one by one, whatever sizes are on and wherever the mapping
    // lies.
    let _ = userland::sys::mem::madvise(at, 16 * PAGE, libc::MADV_NOHUGEPAGE);
    (0..4).for_each(|n| store(at + n * PAGE, 1));
    // Reads map the page of zeros, which is no process's memory.
    userland::sys::mem::load(at + 5 * PAGE);
    let figure = |name: &str| counters::smaps_of(at).and_then(|s| s.get(name).ok());
    let figures = [
        "Size",
        "Rss",
        "Anonymous",
        "Private_Dirty",
        "Shared_Dirty",
        "Pss",
    ]
    .map(figure);
    if figures[1] > Some(16) {
        return skip("this kernel maps more than was touched");
    }
    check_eq!(figures, [64, 16, 16, 16, 0, 16].map(Some));
    let status = in_child(|| {
        let shared = ["Rss", "Private_Dirty", "Shared_Dirty", "Pss"].map(figure);
        check_eq!(shared, [16, 0, 16, 8].map(Some));
        store(at, 2);
        let after = ["Rss", "Private_Dirty", "Shared_Dirty"].map(figure);
        check_eq!(after, [16, 4, 12].map(Some));
        Ok(1)
    })?;
    check_eq!(status, proc::Status::Exited(1));
    Ok(())
}

fn proc_oom_score_follows_adjustment() -> Outcome {
    let number = |name: &str| -> Result<i64, Stop> {
        let text = fs::read_to_string(format!("/proc/self/{name}"))?;
        Ok(text.trim().parse().unwrap_or(i64::MIN))
    };
    let (score, before) = (number("oom_score")?, number("oom_score_adj")?);
    let adjustment = (before + 300).min(1000);
    // Every user may raise its own score.
    fs::write("/proc/self/oom_score_adj", format!("{adjustment}\n"))?;
    check_eq!(number("oom_score_adj")?, adjustment);
    check!(number("oom_score")? > score || adjustment == before);
    let inherited = in_child(|| Ok((number("oom_score_adj")? == adjustment) as i32))?;
    check_eq!(inherited, proc::Status::Exited(1));
    for bad in ["1001", "-1001", "much"] {
        check_err!(fs::write("/proc/self/oom_score_adj", bad), EINVAL);
    }
    check_eq!(number("oom_score_adj")?, adjustment);
    Ok(())
}

fn proc_status() -> Outcome {
    let at = anon(256)?;
    (0..256).for_each(|n| store(at + n * PAGE, 1));
    let text = fs::read_to_string("/proc/self/status")?;
    let value = |name: &str| {
        text.lines()
            .find_map(|l| l.strip_prefix(name)?.strip_prefix(":\t"))
            .map(|v| v.trim().to_string())
    };
    let kb = |name: &str| value(name).and_then(|v| v.strip_suffix(" kB")?.parse::<u64>().ok());
    check_eq!(value("Pid"), Some(proc::getpid().to_string()));
    check_eq!(value("Tgid"), Some(proc::getpid().to_string()));
    check_eq!(value("PPid"), Some(proc::getppid().to_string()));
    check!(value("Name").is_some_and(|n| !n.is_empty()));
    check!(value("State").is_some_and(|s| s.starts_with("R (running)")));
    check_eq!(value("Threads").as_deref(), Some("1"));
    check_eq!(value("Uid").map(|u| u.split('\t').count()), Some(4));
    check!(
        kb("VmSize").is_some_and(|n| n > 1024) && kb("VmRSS").is_some_and(|n| n >= 1024),
        "{text}"
    );
    check!(
        kb("RssAnon") >= Some(900) && kb("VmHWM") >= kb("VmRSS"),
        "{text}"
    );
    for name in ["SigPnd", "SigBlk", "SigIgn", "SigCgt"] {
        check!(value(name).is_some_and(|v| v.len() == 16), "{name}");
    }
    Ok(())
}

fn proc_stat_has_52_fields() -> Outcome {
    let text = fs::read_to_string("/proc/self/stat")?;
    let (head, tail) = text.trim_end().rsplit_once(") ").unwrap_or_default();
    let f: Vec<&str> = tail.split(' ').collect();
    check_eq!(f.len() + 2, 52);
    check_eq!(
        head.split_once(" (").map(|h| h.0),
        Some(proc::getpid().to_string().as_str())
    );
    check_eq!((f[0], f[1]), ("R", proc::getppid().to_string().as_str()));
    // Group 5, threads 20, vsize 23, rss 24.
    check_eq!((f[2].parse().ok(), f[17]), (Some(proc::getpgid(0)?), "1"));
    let number = |n: usize| f[n - 3].parse::<u64>().unwrap_or(0);
    check!(number(23) > 1 << 20 && number(24) > 10, "{text}");
    Ok(())
}

fn proc_statm() -> Outcome {
    let text = fs::read_to_string("/proc/self/statm")?;
    let f: Vec<u64> = text
        .split_whitespace()
        .filter_map(|n| n.parse().ok())
        .collect();
    check_eq!(f.len(), 7);
    check!(f[0] > f[1] && f[1] > 0 && f[4] == 0 && f[6] == 0, "{text}");
    Ok(())
}

fn proc_cmdline_and_exe() -> Outcome {
    let words = fs::read("/proc/self/cmdline")?;
    let want: Vec<u8> = std::env::args()
        .flat_map(|a| [a.into_bytes(), vec![0]].concat())
        .collect();
    check_eq!(words, want);
    let exe = fs::read_link("/proc/self/exe")?;
    check!(exe.is_absolute() && fs::metadata(&exe).is_ok(), "{exe:?}");
    check_eq!(
        fs::read_link("/proc/self")?.to_str(),
        Some(proc::getpid().to_string().as_str())
    );
    check_eq!(fs::read_link("/proc/self/cwd")?, std::env::current_dir()?);
    Ok(())
}

fn proc_fd() -> Outcome {
    fs::write("f", "x")?;
    let fd = file::open("f", libc::O_RDONLY, 0)?;
    check_eq!(
        fs::read_link(format!("/proc/self/fd/{fd}"))?,
        std::env::current_dir()?.join("f")
    );
    let (hear, _tell) = file::pipe(0)?;
    let pipe = fs::read_link(format!("/proc/self/fd/{hear}"))?;
    check!(pipe.to_string_lossy().starts_with("pipe:["), "{pipe:?}");
    check!(fs::read_dir("/proc/self/fd")?.count() >= 5);
    check_err!(fs::read_link("/proc/self/fd/999"), ENOENT);
    Ok(())
}

/// Whether two files are one, programs ask by st_dev and st_ino.
fn proc_is_one_file_system() -> Outcome {
    let stat = |name: &str| fs::metadata(format!("/proc/{name}"));
    let device = stat(".")?.dev();
    for name in [
        "self",
        "self/status",
        "self/fd",
        "self/task",
        "self/maps",
        "sys/vm",
    ] {
        check_eq!((name, stat(name)?.dev()), (name, device));
    }
    check_eq!(stat("self/status")?.ino(), stat("self/status")?.ino());
    Ok(())
}

fn proc_of_another_process() -> Outcome {
    let (hear, tell) = file::pipe(0)?;
    let proc::Fork::Parent(pid) = proc::fork()? else {
        let _ = file::close(tell);
        let _ = file::read(hear, &mut [0]);
        proc::exit_now(0)
    };
    check!(!fs::read_to_string(format!("/proc/{pid}/maps"))?.is_empty());
    check!(fs::read_dir("/proc")?.any(|e| e.is_ok_and(|e| e.file_name() == *pid.to_string())));
    file::close(tell)?;
    proc::waitid(libc::P_PID, pid as u32, libc::WEXITED | libc::WNOWAIT)?;
    // Ended and not waited for: a name without memory.
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    check!(stat.contains(") Z "), "{stat}");
    check_eq!(fs::read(format!("/proc/{pid}/cmdline"))?, b"");
    proc::wait_for(pid)?;
    check_err!(fs::metadata(format!("/proc/{pid}")), ENOENT);
    Ok(())
}

fn proc_small_reads() -> Outcome {
    // In pieces of a few bytes the text is the same.
    let fd = file::open("/proc/self/status", libc::O_RDONLY, 0)?;
    let mut all = Vec::new();
    let mut buf = [0u8; 7];
    loop {
        match file::read(fd, &mut buf)? {
            0 => break,
            n => all.extend_from_slice(&buf[..n]),
        }
    }
    let text = String::from_utf8_lossy(&all).into_owned();
    check!(
        text.starts_with("Name:\t") && text.contains(&format!("\nPid:\t{}\n", proc::getpid())),
        "{text}"
    );
    Ok(())
}

/// As many supplementary groups as there may be: set, got, and shown.
fn proc_status_of_many_groups() -> Outcome {
    const MOST: usize = 65_536;
    let mut list: Vec<u32> = (0..MOST as u32).collect();
    let at = list.as_mut_ptr() as usize;
    let groups = move |nr, n| call(nr, [n, at, 0, 0, 0, 0]);
    const REFUSED: i32 = 9;
    let status = in_child(|| {
        if groups(libc::SYS_setgroups, MOST).is_err() {
            return Ok(REFUSED);
        }
        list.fill(0);
        let n = groups(libc::SYS_getgroups, MOST)?;
        let text = fs::read_to_string("/proc/self/status")?;
        let line = text.lines().find_map(|line| line.strip_prefix("Groups:"));
        let shown: Vec<u32> = line
            .unwrap_or_default()
            .split_whitespace()
            .filter_map(|group| group.parse().ok())
            .collect();
        let same = n == MOST && list == shown && shown.iter().copied().eq(0..MOST as u32);
        Ok(i32::from(!same))
    })?;
    if status == proc::Status::Exited(REFUSED) {
        return skip("setgroups(2) is for root");
    }
    check_eq!(status, proc::Status::Exited(0));
    Ok(())
}

/// The texts of a process with many mappings are longer than any one piece of a kernel's memory.
fn proc_maps_of_many() -> Outcome {
    const MANY: usize = 6_000;
    let at = mmap(0, MANY * PAGE, libc::PROT_READ, ANON, -1, 0)?;
    for page in (0..MANY).step_by(2) {
        userland::sys::mem::mprotect(at + page * PAGE, PAGE, RW)?;
    }
    let lines = fs::read_to_string("/proc/self/maps")?.lines().count();
    check!(lines >= MANY, "{lines}");
    let rollup = fs::read_to_string("/proc/self/smaps_rollup")?;
    check!(rollup.contains("[rollup]"), "{rollup}");
    // All of smaps, 5 MB here, is made when its first bytes are read.
    let fd = file::open("/proc/self/smaps", libc::O_RDONLY, 0)?;
    let mut bytes = [0; 100];
    check_eq!(file::read(fd, &mut bytes)?, 100);
    userland::sys::mem::munmap(at, MANY * PAGE)?;
    Ok(())
}
