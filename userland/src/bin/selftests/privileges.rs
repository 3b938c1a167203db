//! Capabilities, nice values and scheduling attributes: what programs read back.
use userland::harness::{Outcome, in_child};
use userland::sys::proc::{self, Status};
use userland::sys::{Errno, Result, call};
use userland::{check, check_eq, check_err};

userland::tests![
    capabilities_are_read,
    capabilities_are_given_up,
    nice_values,
    scheduling_attributes,
];

const VERSION: u32 = 0x2008_0522;

fn get(version: u32, pid: i32, null: bool) -> (Result<usize>, u32, [u32; 6]) {
    let (mut header, mut data) = ([version, pid as u32], [7u32; 6]);
    let (at, into) = (header.as_mut_ptr() as usize, data.as_mut_ptr() as usize);
    let into = if null { 0 } else { into };
    let result = call(libc::SYS_capget, [at, into, 0, 0, 0, 0]);
    let header = std::hint::black_box(header);
    (result, header[0], std::hint::black_box(data))
}

fn set(pid: i32, data: [u32; 6]) -> Result<usize> {
    let header = [VERSION, pid as u32];
    let (at, from) = (header.as_ptr() as usize, data.as_ptr() as usize);
    call(libc::SYS_capset, [at, from, 0, 0, 0, 0])
}

fn capabilities_are_read() -> Outcome {
    let (result, _, own) = get(VERSION, 0, false);
    result?;
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|it| it.strip_prefix("CapEff:"));
    let effective = format!("{:08x}{:08x}", own[3], own[0]);
    check_eq!(line.map(str::trim), Some(effective.as_str()));
    check_eq!(get(VERSION, proc::getpid(), false).2, own);
    // The first version has half of them.
    let (result, _, half) = get(0x1998_0330, 0, false);
    result?;
    check_eq!((half[..3].to_vec(), half[3]), (own[..3].to_vec(), 7));
    let (result, version, _) = get(7, 0, false);
    check_eq!((result, version), (Err(Errno(libc::EINVAL)), VERSION));
    let (result, version, _) = get(7, 0, true);
    check_eq!((result, version), (Ok(0), VERSION));
    check_eq!(get(VERSION, 1 << 29, false).0, Err(Errno(libc::ESRCH)));
    check_eq!(get(VERSION, -1, false).0, Err(Errno(libc::EINVAL)));
    Ok(())
}

fn capabilities_are_given_up() -> Outcome {
    let status = in_child(|| {
        let (_, _, own) = get(VERSION, 0, false);
        let none = [0, own[1], 0, 0, own[4], 0];
        set(0, none)?;
        check_eq!(get(VERSION, 0, false).2, none);
        // What is permitted comes back.
        set(0, own)?;
        check_eq!(get(VERSION, 0, false).2, own);
        set(0, [0; 6])?;
        check_err!(set(0, [0, 1, 0, 0, 0, 0]), EPERM);
        check_err!(set(0, [1, 0, 0, 0, 0, 0]), EPERM);
        check_err!(set(proc::getppid(), [0; 6]), EPERM);
        Ok(0)
    })?;
    check_eq!(status, Status::Exited(0));
    Ok(())
}

fn nice_values() -> Outcome {
    let status = in_child(|| {
        let get = |which: usize, who: usize| call(libc::SYS_getpriority, [which, who, 0, 0, 0, 0]);
        let set = |which: usize, who: usize, nice: usize| {
            call(libc::SYS_setpriority, [which, who, nice, 0, 0, 0])
        };
        // Whoever runs the tests may be as nice as can be.
        let nicer = (20 - get(0, 0)? as i32 + 1).min(19);
        set(0, 0, nicer as usize)?;
        check_eq!(get(0, 0)? as i32, 20 - nicer);
        set(0, proc::getpid() as usize, 1000)?;
        check_eq!(get(0, proc::getpid() as usize)?, 1);
        check_err!(get(3, 0), EINVAL);
        check_err!(set(3, 0, 0), EINVAL);
        check_err!(get(0, 1 << 29), ESRCH);
        check_err!(set(0, 1 << 29, 0), ESRCH);
        Ok(0)
    })?;
    check_eq!(status, Status::Exited(0));
    Ok(())
}

fn scheduling_attributes() -> Outcome {
    let status = in_child(|| {
        let get = |size: usize, flags: usize| -> Result<[u32; 12]> {
            let mut words = [7u32; 12];
            let at = words.as_mut_ptr() as usize;
            call(libc::SYS_sched_getattr, [0, at, size, flags, 0, 0])?;
            Ok(std::hint::black_box(words))
        };
        let set = |words: &[u32; 12]| {
            let at = words.as_ptr() as usize;
            call(libc::SYS_sched_setattr, [0, at, 0, 0, 0, 0])
        };
        let mut own = get(48, 0)?;
        let policy = call(libc::SYS_sched_getscheduler, [0; 6])? as u32;
        check_eq!(own[..2], [48, policy]);
        check_err!(get(47, 0), EINVAL);
        check_err!(get(4097, 0), EINVAL);
        check_err!(get(48, 1), EINVAL);
        own[1] = libc::SCHED_BATCH as u32;
        own[4] = (own[4] + 3).min(19);
        set(&own)?;
        let now = get(48, 0)?;
        check_eq!(now[..6], own[..6]);
        own[0] = 20;
        check_err!(set(&own), E2BIG);
        check!(std::hint::black_box(own)[0] >= 48, "no size that would do");
        (own[0], own[1]) = (48, 77);
        check_err!(set(&own), EINVAL);
        check_err!(call(libc::SYS_sched_setattr, [0; 6]), EINVAL);
        Ok(0)
    })?;
    check_eq!(status, Status::Exited(0));
    Ok(())
}
