//! /proc/PID/thp_orders: the sizes of large folios that a process permits itself. Linux has no such
//! file.
use crate::folio::{PMD, area, fill, folios, value, with_sizes, wrong};
use crate::thp_disable::set_disable;
use std::fs;
use std::io::ErrorKind;
use userland::counters::on_quire;
use userland::harness::{Outcome, Stop, in_child};
use userland::sys::mem::{MADV_COLLAPSE, PAGE, madvise, munmap};
use userland::sys::proc::{self, Fork, Status};
use userland::sys::{Errno, file};
use userland::{check, check_eq, check_err};

userland::tests![
    thp_orders_are_read_and_written,
    thp_orders_refuse,
    thp_orders_are_inherited,
    thp_orders_survive_exec,
    thp_orders_of_another,
    thp_orders_are_obeyed,
    thp_orders_in_status,
];

const OWN: &str = "/proc/self/thp_orders";

/// Skips where there is no such file.
fn need() -> Outcome {
    match fs::metadata(OWN) {
        Err(e) if e.kind() == ErrorKind::NotFound && !on_quire() => {
            Err(Stop::Skip("no thp_orders here".into()))
        }
        other => Ok(other.map(drop)?),
    }
}

fn get(path: &str) -> Result<String, Stop> {
    Ok(fs::read_to_string(path)?.trim_end().to_owned())
}

/// Writes in one call.
fn set(path: &str, text: &str) -> Result<(), Errno> {
    let fd = file::open(path, libc::O_WRONLY, 0)?;
    let written = file::write_all(fd, text.as_bytes());
    file::close(fd)?;
    written
}

fn thp_orders_are_read_and_written() -> Outcome {
    need()?;
    check_eq!(get(OWN)?, "all");
    for (written, read) in [
        ("64kB", "64kB"),
        ("2048kB 16kB\n", "16kB 2048kB"),
        ("16kB-64kB", "16kB 32kB 64kB"),
        ("128K,1M\0", "128kB 1024kB"),
        ("none", "none"),
        ("16kB-2048kB", "all"),
        ("all\n", "all"),
    ] {
        set(OWN, written)?;
        check_eq!(get(OWN)?, read);
        check_eq!(get("/proc/thread-self/thp_orders")?, read);
    }
    Ok(())
}

fn thp_orders_refuse() -> Outcome {
    need()?;
    set(OWN, "64kB")?;
    for bad in [
        "\n",
        "4kB",
        "48kB",
        "64",
        "some",
        "all 64kB",
        "64kB-16kB",
        "64kB,",
        "4096kB",
    ] {
        check_err!(set(OWN, bad), EINVAL);
        check_eq!(get(OWN)?, "64kB");
    }
    Ok(())
}

fn thp_orders_are_inherited() -> Outcome {
    need()?;
    set(OWN, "64kB")?;
    let status = in_child(|| {
        check_eq!(get(OWN)?, "64kB");
        set(OWN, "none")?;
        // The attribute of prctl(2) is another matter.
        set_disable(1, 0)?;
        set_disable(0, 0)?;
        check_eq!(get(OWN)?, "none");
        Ok(1)
    })?;
    check_eq!(status, Status::Exited(1));
    // What the child does is its own.
    check_eq!(get(OWN)?, "64kB");
    Ok(())
}

fn thp_orders_survive_exec() -> Outcome {
    need()?;
    let status = in_child(|| {
        set(OWN, "32kB")?;
        let me = fs::read_link("/proc/self/exe")?;
        let words = ["selftests", "--as", "thp_orders", "32kB"].map(String::from);
        Err(proc::exec(&me.to_string_lossy(), &words, &[]).into())
    })?;
    check_eq!(status, Status::Exited(1));
    Ok(())
}

/// What the program that [`thp_orders_survive_exec`] starts ends with: 1 if it has these.
pub fn has(orders: Option<&String>) -> i32 {
    let own = get(OWN).ok();
    i32::from(own.is_some() && own.as_ref() == orders)
}

fn thp_orders_of_another() -> Outcome {
    need()?;
    let (told, go) = file::pipe(libc::O_CLOEXEC)?;
    let Fork::Parent(pid) = proc::fork()? else {
        let _ = file::close(go);
        let _ = file::read(told, &mut [0]);
        proc::exit_now(has(Some(&"16kB 32kB".to_owned())));
    };
    let path = format!("/proc/{pid}/thp_orders");
    let written = set(&path, "16kB 32kB");
    file::close(go)?;
    check_eq!(proc::wait_for(pid)?, Status::Exited(1));
    file::close(told)?;
    written?;
    check_eq!(get(OWN)?, "all");
    check!(get(&path).is_err());
    Ok(())
}

fn thp_orders_are_obeyed() -> Outcome {
    /// Folios of so many kB, mapped whole, in 2 MiB that are written to.
    fn filled(kb: usize) -> Result<u64, Stop> {
        let at = area(PMD)?;
        fill(at, PMD);
        let whole = folios(at, kb)?[0];
        check_eq!(wrong(at, PMD, value), 0);
        munmap(at, PMD)?;
        Ok(whole)
    }
    with_sizes(&[16, 64, 2048], || {
        check_eq!(filled(2048)?, 1);
        set(OWN, "16kB-1024kB")?;
        check_eq!(filled(64)?, 32);
        set(OWN, "16kB 32kB")?;
        check_eq!(filled(16)?, 128);
        // What is not enabled does not become so.
        set(OWN, "32kB")?;
        check_eq!(filled(4)?, 512);
        let at = area(PMD)?;
        fill(at, PMD);
        check_err!(madvise(at, PMD, MADV_COLLAPSE), EINVAL);
        set(OWN, "2048kB")?;
        madvise(at, PMD, MADV_COLLAPSE)?;
        check_eq!(folios(at, 2048)?[0], 1);
        // What is there stays, and is written to without a copy.
        set(OWN, "none")?;
        fill(at, PMD);
        check_eq!(folios(at, 2048)?[0], 1);
        // A copy is of what is permitted now.
        let child = in_child(|| {
            fill(at, 16 * PAGE);
            check_eq!(folios(at, 4)?[0], 16);
            Ok(1)
        })?;
        check_eq!(child, Status::Exited(1));
        check_eq!(wrong(at, PMD, value), 0);
        Ok(munmap(at, PMD)?)
    })
}

fn thp_orders_in_status() -> Outcome {
    need()?;
    let enabled = || -> Result<bool, Stop> {
        let status = fs::read_to_string("/proc/self/status")?;
        Ok(status.contains("\nTHP_enabled:\t1\n"))
    };
    check!(enabled()?);
    set(OWN, "none")?;
    check!(!enabled()?);
    set(OWN, "64kB")?;
    check!(enabled()?);
    Ok(())
}
