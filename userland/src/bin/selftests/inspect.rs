//! What debuggers and tools look at: core files, the memory of other processes, the memory node.
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use userland::harness::{Outcome, Stop, in_child, skip};
use userland::sys::mem::{PAGE, anon, load, madvise, mprotect, munmap, store};
use userland::sys::proc::{self, Fork, Status};
use userland::sys::trace::{ptrace, wait_raw};
use userland::sys::{call, fault, file};
use userland::{check, check_eq, check_err};

userland::tests![
    core_file_of_a_fault,
    core_file_without_what_is_not_to_be_dumped,
    core_file_within_its_limit,
    core_file_by_a_pattern,
    peek_where_nothing_may_be_read,
    process_vm_copies,
    process_vm_refuses,
    mempolicy_is_the_default,
    pages_are_on_the_node_there_is,
    node_is_described,
];

type Result<T> = std::result::Result<T, Stop>;

/// The status word of a child that `act` ends, with core files of `limit` bytes.
fn crashed(limit: u64, act: impl FnOnce() -> Result<()>) -> Result<i32> {
    match proc::fork()? {
        Fork::Child => {
            let _ = proc::setrlimit(libc::RLIMIT_CORE, limit, limit);
            let _ = act();
            proc::exit_now(98)
        }
        Fork::Parent(pid) => Ok(wait_raw(pid)?.1),
    }
}

/// Skips where core files go elsewhere.
fn needs_core_files() -> Outcome {
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern")?;
    let uses_pid = std::fs::read_to_string("/proc/sys/kernel/core_uses_pid");
    match pattern.trim() {
        "core" if uses_pid.is_ok_and(|it| it.trim() == "1") => skip("core files have other names"),
        "core" => Ok(()),
        _ => skip("core files go elsewhere"),
    }
}

/// A core file, as far as tests look at it.
struct Core(Vec<u8>);

impl Core {
    fn read() -> Result<Self> {
        Ok(Core(std::fs::read("core")?))
    }

    fn number(&self, at: usize, bytes: usize) -> u64 {
        let mut word = [0; 8];
        word[..bytes].copy_from_slice(&self.0[at..at + bytes]);
        u64::from_le_bytes(word)
    }

    /// Kind, address, place and bytes in the file, of each segment.
    fn segments(&self) -> Vec<[u64; 4]> {
        let (first, count) = (self.number(32, 8) as usize, self.number(56, 2) as usize);
        let segment = |n| {
            let at = first + 56 * n;
            let word = |offset| self.number(at + offset, 8);
            [self.number(at, 4), word(16), word(8), word(32)]
        };
        (0..count).map(segment).collect()
    }

    /// The numbers of notes of this kind.
    fn notes(&self, kind: u64) -> usize {
        let notes = self.segments().into_iter().find(|it| it[0] == 4);
        let [_, _, mut at, len] = notes.unwrap_or_default();
        let (end, mut found) = (at + len, 0);
        while at < end {
            let word = |n: u64| self.number((at + 4 * n) as usize, 4);
            found += usize::from(word(2) == kind);
            at += 12 + word(0).next_multiple_of(4) + word(1).next_multiple_of(4);
        }
        found
    }

    /// The word that was at an address, if the file has it.
    fn word(&self, address: u64) -> Option<u64> {
        let has = |it: &&[u64; 4]| it[0] == 1 && (it[1]..it[1] + it[3]).contains(&address);
        let segments = self.segments();
        let [_, start, offset, _] = segments.iter().find(has)?;
        Some(self.number((offset + address - start) as usize, 8))
    }
}

fn core_file_of_a_fault() -> Outcome {
    needs_core_files()?;
    static WORD: AtomicU64 = AtomicU64::new(1);
    let at = anon(3)?;
    let raw = crashed(u64::MAX, || {
        WORD.store(0x1234_5678_9abc_def0, Relaxed);
        store(at, 77);
        let (hear, _tell) = file::pipe(0)?;
        let thread = std::thread::spawn(move || file::read(hear, &mut [0]));
        proc::wait_for_state(proc::getpid(), "R");
        store(16, 1);
        drop(thread);
        Ok(())
    })?;
    check_eq!(raw, libc::SIGSEGV | 0x80);
    let core = Core::read()?;
    // ET_CORE; the registers of two threads, and what they were given.
    check_eq!(core.number(16, 2), 4);
    check_eq!((core.notes(1), core.notes(3), core.notes(6)), (2, 1, 1));
    check_eq!(core.word(WORD.as_ptr() as u64), Some(0x1234_5678_9abc_def0));
    check_eq!(
        (core.word(at as u64), core.word((at + PAGE) as u64)),
        (Some(77), Some(0))
    );
    Ok(munmap(at, 3 * PAGE)?)
}

fn core_file_without_what_is_not_to_be_dumped() -> Outcome {
    needs_core_files()?;
    let at = anon(1)?;
    let raw = crashed(u64::MAX, || {
        store(at, 77);
        madvise(at, PAGE, libc::MADV_DONTDUMP)?;
        proc::kill(proc::getpid(), libc::SIGABRT)?;
        Ok(())
    })?;
    check_eq!(raw, libc::SIGABRT | 0x80);
    check_eq!(Core::read()?.word(at as u64), None);
    Ok(munmap(at, PAGE)?)
}

fn core_file_within_its_limit() -> Outcome {
    needs_core_files()?;
    let quit = || Ok(proc::kill(proc::getpid(), libc::SIGQUIT)?);
    check_eq!(crashed(0, quit)?, libc::SIGQUIT);
    check!(
        !std::path::Path::new("core").exists(),
        "a core file without room for one"
    );
    crashed(5 * PAGE as u64, quit)?;
    let len = std::fs::metadata("core")?.len();
    check!((1..=5 * PAGE as u64).contains(&len), "{len} bytes");
    Ok(())
}

/// core(5): where a file goes, and what it is called. Not on a host whose files are others'.
fn core_file_by_a_pattern() -> Outcome {
    let path = "/proc/sys/kernel/core_pattern";
    needs_core_files()?;
    if std::fs::read_to_string("/proc/version")?.contains("Quire") {
        let folder = std::env::current_dir()?;
        let pattern = format!("{}/dump-%e-%s-%p%%", folder.display());
        std::fs::write(path, &pattern)?;
        check_eq!(std::fs::read_to_string(path)?.trim(), pattern);
        let raw = crashed(u64::MAX, || Ok(proc::kill(proc::getpid(), libc::SIGQUIT)?));
        for wrong in ["|/bin/sh", &"x".repeat(128)] {
            check_err!(std::fs::write(path, wrong), EINVAL);
        }
        std::fs::write(path, "core")?;
        check_eq!(raw?, libc::SIGQUIT | 0x80);
        let comm = std::fs::read_to_string("/proc/self/comm")?;
        let begin = format!("dump-{}-3-", comm.trim());
        for entry in std::fs::read_dir(&folder)? {
            let entry = entry?;
            let name = entry.file_name().into_string().unwrap_or_default();
            let pid = name
                .strip_prefix(&begin)
                .and_then(|rest| rest.strip_suffix('%'));
            if pid.is_some_and(|pid| pid.parse::<i32>().is_ok()) {
                check!(entry.metadata()?.len() > 0);
                std::fs::remove_file(entry.path())?;
                return Ok(());
            }
        }
        check!(false, "no file {begin}PID%");
    }
    skip("the pattern is the host's")
}

/// A child that waits, with what lies at an address of its own and this process's.
fn sleeping(act: impl FnOnce() -> Result<()>) -> Result<(i32, i32)> {
    let (hear, tell) = file::pipe(0)?;
    match proc::fork()? {
        Fork::Child => {
            let _ = file::close(tell);
            let done = act().and_then(|()| Ok(file::read(hear, &mut [0])?));
            proc::exit_now(i32::from(done.is_err()))
        }
        Fork::Parent(pid) => {
            file::close(hear)?;
            proc::wait_until_asleep(pid);
            Ok((pid, tell))
        }
    }
}

fn wake(pid: i32, tell: i32) -> Outcome {
    file::close(tell)?;
    check_eq!(proc::wait_for(pid)?, Status::Exited(0));
    Ok(())
}

fn peek_where_nothing_may_be_read() -> Outcome {
    let at = anon(1)?;
    let (pid, tell) = sleeping(|| {
        store(at, 0x55);
        Ok(mprotect(at, PAGE, libc::PROT_NONE)?)
    })?;
    ptrace(libc::PTRACE_ATTACH as usize, pid, 0, 0)?;
    wait_raw(pid)?;
    let mut word = 0u64;
    ptrace(
        libc::PTRACE_PEEKDATA as usize,
        pid,
        at,
        &raw mut word as usize,
    )?;
    check_eq!(word, 0x55);
    let memory = file::open(&format!("/proc/{pid}/mem"), libc::O_RDONLY, 0)?;
    let mut bytes = [0; 8];
    check_eq!(file::pread(memory, &mut bytes, at as i64)?, 8);
    check_eq!(bytes[0], 0x55);
    file::close(memory)?;
    // Another one's call has no more rights than the process.
    check_err!(
        vm(
            libc::SYS_process_vm_readv,
            pid,
            &[word_range(&word)],
            &[[at, 8]]
        ),
        EFAULT
    );
    ptrace(libc::PTRACE_DETACH as usize, pid, 0, 0)?;
    wake(pid, tell)?;
    Ok(munmap(at, PAGE)?)
}

fn vm(
    number: libc::c_long,
    pid: i32,
    local: &[[usize; 2]],
    remote: &[[usize; 2]],
) -> userland::sys::Result<usize> {
    let list = |ranges: &[[usize; 2]]| (ranges.as_ptr() as usize, ranges.len());
    let ((from, n), (to, m)) = (list(local), list(remote));
    call(number, [pid as usize, from, n, to, m, 0])
}

fn word_range(word: &u64) -> [usize; 2] {
    [&raw const *word as usize, 8]
}

fn process_vm_copies() -> Outcome {
    let at = anon(4)?;
    let (pid, tell) = sleeping(|| {
        (0..4 * PAGE / 8).for_each(|n| store(at + 8 * n, n as u64));
        Ok(())
    })?;
    let words = vec![0u64; 3 * PAGE / 8];
    let base = words.as_ptr() as usize;
    // Two parts into three, across pages.
    let local = [[base, 8], [base + 8, 0], [base + 8, 2 * PAGE + 80]];
    let remote = [[at + PAGE - 16, 24], [at + 8, 2 * PAGE + 64]];
    check_eq!(
        vm(libc::SYS_process_vm_readv, pid, &local, &remote)?,
        2 * PAGE + 88
    );
    check_eq!(load(base), (PAGE / 8 - 2) as u64);
    check_eq!((load(base + 16), load(base + 24)), ((PAGE / 8) as u64, 1));
    store(base, 99);
    check_eq!(
        vm(libc::SYS_process_vm_writev, pid, &[[base, 8]], &[[at, 8]])?,
        8
    );
    check_eq!(
        vm(
            libc::SYS_process_vm_readv,
            pid,
            &[[base + 8, 8]],
            &[[at, 8]]
        )?,
        8
    );
    check_eq!(load(base + 8), 99);
    // Up to where there is nothing.
    let past = [[at + 4 * PAGE - 8, 8], [16, 8]];
    check_eq!(
        vm(libc::SYS_process_vm_readv, pid, &[[base, 16]], &past)?,
        8
    );
    wake(pid, tell)?;
    drop(words);
    Ok(munmap(at, 4 * PAGE)?)
}

fn process_vm_refuses() -> Outcome {
    let word = 0u64;
    let own = [word_range(&word)];
    let me = proc::getpid();
    let read = libc::SYS_process_vm_readv;
    check_err!(vm(read, 0x3f_fff0, &own, &own), ESRCH);
    check_err!(vm(read, me, &own, &[[16, 8]]), EFAULT);
    check_err!(vm(read, me, &[[16, 8]], &own), EFAULT);
    check_err!(vm(read, me, &own, &[[usize::MAX - 7, 8]]), EFAULT);
    check_err!(vm(read, me, &own, &[[16, usize::MAX]]), EINVAL);
    check_eq!(vm(read, me, &own, &[])?, 0);
    let at = own.as_ptr() as usize;
    check_err!(call(read, [me as usize, at, 1, at, 1, 1]), EINVAL);
    check_err!(call(read, [me as usize, at, 1, at, 1025, 0]), EINVAL);
    // What the other one may only read.
    let constant = &raw const *b"constant" as usize;
    check_err!(
        vm(libc::SYS_process_vm_writev, me, &own, &[[constant, 8]]),
        EFAULT
    );
    check_eq!(fault::read(constant).ok(), Some(b'c'));
    Ok(())
}

fn mempolicy_is_the_default() -> Outcome {
    const ADDR: usize = 2;
    const ALLOWED: usize = 4;
    let mode_at = anon(1)?;
    let nodes_at = mode_at + 8;
    store(mode_at, u64::MAX);
    store(nodes_at, u64::MAX);
    let get = |a: [usize; 5]| call(libc::SYS_get_mempolicy, [a[0], a[1], a[2], a[3], a[4], 0]);
    if get([0; 5]).is_err() {
        return skip("no memory policies here");
    }
    get([mode_at, nodes_at, 64, 0, 0])?;
    check_eq!((load(nodes_at), load(mode_at) as i32), (0, 0));
    get([0, nodes_at, 64, 0, ALLOWED])?;
    check_eq!(load(nodes_at) & 1, 1);
    get([mode_at, 0, 0, mode_at, ADDR])?;
    check_err!(get([mode_at, 0, 0, 16, ADDR]), EFAULT);
    check_err!(get([mode_at, 0, 0, mode_at, 0]), EINVAL);
    check_err!(get([mode_at, 0, 0, 0, 1 << 10]), EINVAL);
    Ok(munmap(mode_at, PAGE)?)
}

fn pages_are_on_the_node_there_is() -> Outcome {
    const MOVE: usize = 2;
    let pages = anon(4)?;
    store(pages, 1);
    check_eq!(load(pages + 3 * PAGE), 0);
    let list = anon(1)?;
    let (nodes, status) = (list + 64, list + 128);
    // One that is there, one that is absent, one that is not mapped, the page of zeros.
    let wanted = [0, PAGE + 7, 2 * PAGE, 3 * PAGE].map(|at| pages + at);
    for (n, page) in wanted.into_iter().enumerate() {
        store(list + 8 * n, page as u64);
    }
    munmap(pages + 2 * PAGE, PAGE)?;
    let get = |a: [usize; 6]| call(libc::SYS_move_pages, a);
    if get([0; 6]).is_err() {
        return skip("no memory nodes here");
    }
    let expected = [0, -libc::ENOENT, -libc::EFAULT, -libc::EFAULT];
    let found = || [0, 1, 2, 3].map(|n| (load(status + 8 * (n / 2)) >> (32 * (n % 2))) as i32);
    for nodes in [0, nodes] {
        store(status, u64::MAX);
        store(status + 8, u64::MAX);
        get([0, 4, list, nodes, status, MOVE])?;
        check_eq!(found(), expected);
    }
    let me = std::process::id() as usize;
    get([me, 1, list, 0, status, 0])?;
    check_err!(get([0, 1, list, nodes, status, 1 << 10]), EINVAL);
    check_err!(get([0, 1, 16, nodes, status, MOVE]), EFAULT);
    check_err!(get([0, 1, list, nodes, 16, MOVE]), EFAULT);
    store(nodes, 1 << 30);
    check_err!(get([0, 1, list, nodes, status, MOVE]), ENODEV);
    let migrate = |a: [usize; 4]| call(libc::SYS_migrate_pages, [a[0], a[1], a[2], a[3], 0, 0]);
    store(nodes, 1);
    check_eq!(migrate([0, 2, nodes, nodes])?, 0);
    check_err!(migrate([0, 2, nodes, 0]), EINVAL);
    check_err!(migrate([0, 2, nodes, 16]), EFAULT);
    check_err!(migrate([0, 1 << 40, nodes, nodes]), EINVAL);
    munmap(list, PAGE)?;
    Ok(munmap(pages, 4 * PAGE)?)
}

fn node_is_described() -> Outcome {
    let node = |name: &str| std::fs::read_to_string(format!("/sys/devices/system/node/{name}"));
    if node("online").is_err() {
        return skip("no memory nodes here");
    }
    check!(
        node("node0/distance")?.starts_with("10"),
        "{:?}",
        node("node0/distance")
    );
    let meminfo = node("node0/meminfo")?;
    check!(
        meminfo.starts_with("Node 0 MemTotal:") && meminfo.contains(" kB\n"),
        "{meminfo}"
    );
    check!(
        node("node0/numastat")?.starts_with("numa_hit "),
        "no figures"
    );
    let (list, map) = (node("node0/cpulist")?, node("node0/cpumap")?);
    let bits = u64::from_str_radix(&map.trim().replace(',', ""), 16).unwrap_or(0);
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online")?;
    check!(bits & 1 == 1 && list == online, "{list} {map}");
    let status = in_child(|| Ok(i32::from(node("node0/cpu0/topology/core_id").is_err())))?;
    check_eq!(status, Status::Exited(0));
    Ok(())
}
