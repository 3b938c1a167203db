//! The rest: uname, getrandom, identity, calls that are not there.
use userland::harness::{Outcome, in_child};
use userland::sys::mem::anon;
use userland::sys::proc::Status;
use userland::sys::{call, mem};
use userland::{check, check_eq, check_err, counters};

userland::tests![
    uname_says,
    getrandom_fills,
    getpid_is_stable,
    setuid_refuses,
    capabilities_there_are,
    sysinfo_says,
    affinity_has_a_cpu,
    sched_policy_is_kept,
    unknown_call_is_enosys,
    unknown_call_is_listed,
];

fn uname_says() -> Outcome {
    let at = anon(1)?;
    call(libc::SYS_uname, [at, 0, 0, 0, 0, 0])?;
    let field = |n: usize| -> String {
        (0..65)
            .map(|i| mem::byte(at + n * 65 + i))
            .take_while(|&b| b != 0)
            .map(char::from)
            .collect()
    };
    check_eq!(field(0), "Linux");
    check_eq!(field(4), std::env::consts::ARCH);
    let release = field(2);
    let major = release
        .split('.')
        .next()
        .and_then(|n| n.parse::<u32>().ok());
    // glibc refuses to start on anything it thinks too old.
    check!(major.is_some_and(|n| n >= 4), "{release}");
    Ok(())
}

fn getrandom_fills() -> Outcome {
    let mut seen = std::collections::BTreeSet::new();
    for len in [1usize, 7, 16, 256] {
        let mut buf = [0u8; 256];
        check_eq!(
            call(
                libc::SYS_getrandom,
                [buf.as_mut_ptr() as usize, len, 0, 0, 0, 0]
            )?,
            len
        );
        check!(buf[len..].iter().all(|&b| b == 0));
        if len >= 16 {
            check!(seen.insert(buf));
        }
    }
    let mut buf = [0u8; 8];
    check_err!(
        call(
            libc::SYS_getrandom,
            [buf.as_mut_ptr() as usize, 8, 0xff00, 0, 0, 0]
        ),
        EINVAL
    );
    Ok(())
}

fn getpid_is_stable() -> Outcome {
    let pid = call(libc::SYS_getpid, [0; 6])?;
    for _ in 0..10_000 {
        check_eq!(call(libc::SYS_getpid, [0; 6])?, pid);
    }
    Ok(())
}

fn sysinfo_says() -> Outcome {
    let at = anon(1)?;
    call(libc::SYS_sysinfo, [at, 0, 0, 0, 0, 0])?;
    let word = |n: usize| mem::load(at + n * 8);
    // Total and free memory in units, then the unit itself.
    let total = counters::figure("/proc/meminfo", "MemTotal")? * 1024;
    let unit = mem::load(at + 104) & 0xffff_ffff;
    check_eq!(word(4) * unit, total);
    check!(word(5) * unit < total);
    Ok(())
}

fn affinity_has_a_cpu() -> Outcome {
    let mut mask = [0u64; 16];
    let n = call(
        libc::SYS_sched_getaffinity,
        [0, 128, mask.as_mut_ptr() as usize, 0, 0, 0],
    )?;
    check!((8..=128).contains(&n) && n % 8 == 0 && mask.iter().any(|&w| w != 0));
    check_err!(
        call(
            libc::SYS_sched_getaffinity,
            [0, 1, mask.as_mut_ptr() as usize, 0, 0, 0]
        ),
        EINVAL
    );
    Ok(())
}

/// sched_setscheduler(2): what it has set is what sched_getscheduler(2) says, and what children
/// begin with.
fn sched_policy_is_kept() -> Outcome {
    let priority = 0u32;
    let at = &raw const priority as usize;
    let set = |policy: i32| {
        call(
            libc::SYS_sched_setscheduler,
            [0, policy as usize, at, 0, 0, 0],
        )
    };
    let get = || call(libc::SYS_sched_getscheduler, [0; 6]).map(|policy| policy as i32);
    let policy = get()?;
    check_eq!(in_child(|| Ok(get()?))?, Status::Exited(policy));
    for policy in [libc::SCHED_BATCH, libc::SCHED_IDLE, libc::SCHED_OTHER] {
        for flag in [0, libc::SCHED_RESET_ON_FORK] {
            set(policy | flag)?;
            check_eq!(get()?, policy | flag);
            // The flag is not inherited, and resets only policies of privileged processes.
            check_eq!(in_child(|| Ok(get()?))?, Status::Exited(policy));
        }
    }
    check_err!(set(77), EINVAL);
    check_err!(
        call(libc::SYS_sched_getscheduler, [0x3f_fff0, 0, 0, 0, 0, 0]),
        ESRCH
    );
    Ok(())
}

fn unknown_call_is_enosys() -> Outcome {
    for nr in [5000i64, 100_000, 0x7fff_ffff, -1] {
        check_err!(call(nr, [0; 6]), ENOSYS);
    }
    Ok(())
}

fn unknown_call_is_listed() -> Outcome {
    if !counters::on_quire() {
        return userland::harness::skip("not Quire");
    }
    check_err!(call(777, [0; 6]), ENOSYS);
    let list = std::fs::read_to_string("/proc/sys/quire/unknown_syscalls")?;
    check!(list.lines().any(|l| l.starts_with("777 ")), "{list}");
    Ok(())
}

fn setuid_refuses() -> Outcome {
    let nobody = u32::MAX as usize;
    for nr in [libc::SYS_setuid, libc::SYS_setgid] {
        check_err!(call(nr, [nobody, 0, 0, 0, 0, 0]), EINVAL);
    }
    // There, it leaves a number as it is.
    for nr in [libc::SYS_setresuid, libc::SYS_setresgid] {
        check_eq!(call(nr, [nobody, nobody, nobody, 0, 0, 0])?, 0);
    }
    Ok(())
}

fn capabilities_there_are() -> Outcome {
    const LAST: usize = 40;
    let bounding = |number: usize| {
        let option = libc::PR_CAPBSET_READ as usize;
        call(libc::SYS_prctl, [option, number, 0, 0, 0, 0])
    };
    check_eq!(bounding(0)?, 1);
    check!(bounding(LAST).is_ok());
    check_err!(bounding(99), EINVAL);
    Ok(())
}
