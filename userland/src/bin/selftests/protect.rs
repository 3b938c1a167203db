//! mprotect: rights that shrink are gone at once, rights that grow come back, code can be made.
use userland::harness::{Outcome, Stop};
use userland::sys::fault::{self, Probe};
use userland::sys::mem::{
    ANON, PAGE, RW, anon, copy_to, load, mmap, mprotect, munmap, store, sync_code,
};
use userland::sys::{file, proc};
use userland::{check, check_eq, check_err};

userland::tests![
    protect_takes_away_at_once,
    protect_gives_back,
    protect_keeps_data,
    protect_refuses_bad_arguments,
    protect_hole_stops_there,
    protect_makes_code,
    protect_read_only_file,
    protect_shared_page_stays_shared,
    protect_in_child_is_the_childs,
];

fn denied<T>(result: Probe<T>) -> Result<(), Stop> {
    match result {
        Err(t) if t.signal == libc::SIGSEGV && t.code == 2 => Ok(()),
        Err(t) => Err(Stop::Fail(format!("{t:x?} instead of SEGV_ACCERR"))),
        Ok(_) => Err(Stop::Fail("the access did not trap".into())),
    }
}

fn protect_takes_away_at_once() -> Outcome {
    fault::arm();
    let at = anon(4)?;
    for round in 0..100u64 {
        // The entry is in the TLB with the old rights when it changes.
        store(at, round);
        mprotect(at, PAGE, libc::PROT_READ)?;
        denied(fault::write(at, 1))?;
        check_eq!(load(at), round);
        mprotect(at, PAGE, libc::PROT_NONE)?;
        denied(fault::read(at))?;
        mprotect(at, PAGE, RW)?;
    }
    Ok(())
}

fn protect_gives_back() -> Outcome {
    fault::arm();
    let at = mmap(0, 2 * PAGE, libc::PROT_READ, ANON, -1, 0)?;
    // The page of zeros is mapped first; a later right to write must not reach it.
    check_eq!(load(at), 0);
    mprotect(at, 2 * PAGE, RW)?;
    store(at, 1);
    check_eq!(load(at + PAGE), 0);
    let other = anon(1)?;
    check_eq!(load(other), 0);
    Ok(())
}

fn protect_keeps_data() -> Outcome {
    let at = anon(64)?;
    (0..64).for_each(|n| store(at + n * PAGE, n as u64));
    mprotect(at + 10 * PAGE, 20 * PAGE, libc::PROT_NONE)?;
    mprotect(at + 15 * PAGE, 5 * PAGE, libc::PROT_READ)?;
    check!((15..20).all(|n| load(at + n * PAGE) == n as u64));
    mprotect(at, 64 * PAGE, RW)?;
    check!((0..64).all(|n| load(at + n * PAGE) == n as u64));
    Ok(())
}

fn protect_refuses_bad_arguments() -> Outcome {
    let at = anon(2)?;
    check_err!(mprotect(at + 1, PAGE, RW), EINVAL);
    check_err!(mprotect(at, PAGE, 0x100), EINVAL);
    check_err!(mprotect(at, usize::MAX & !(PAGE - 1), RW), ENOMEM);
    mprotect(at, 0, RW)?;
    store(at, 1);
    Ok(())
}

fn protect_hole_stops_there() -> Outcome {
    fault::arm();
    let at = anon(3)?;
    munmap(at + PAGE, PAGE)?;
    check_err!(mprotect(at, 3 * PAGE, libc::PROT_READ), ENOMEM);
    // What lies before the hole was changed, as on Linux; what lies behind was not.
    denied(fault::write(at, 1))?;
    fault::write(at + 2 * PAGE, 1)?;
    Ok(())
}

#[cfg(target_arch = "x86_64")]
const RETURN: [u8; 1] = [0xc3];
#[cfg(target_arch = "aarch64")]
const RETURN: [u8; 4] = 0xd65f_03c0u32.to_le_bytes();

fn protect_makes_code() -> Outcome {
    fault::arm();
    let at = anon(1)?;
    copy_to(at, &RETURN);
    denied(fault::execute(at))?;
    sync_code(at);
    mprotect(at, PAGE, libc::PROT_READ | libc::PROT_EXEC)?;
    fault::execute(at)?;
    denied(fault::write(at, 0))?;
    mprotect(at, PAGE, RW)?;
    denied(fault::execute(at))
}

fn protect_read_only_file() -> Outcome {
    std::fs::write("f", vec![1u8; PAGE])?;
    let fd = file::open("f", libc::O_RDONLY, 0)?;
    check_err!(mmap(0, PAGE, RW, libc::MAP_SHARED, fd, 0), EACCES);
    let at = mmap(0, PAGE, libc::PROT_READ, libc::MAP_SHARED, fd, 0)?;
    check_err!(mprotect(at, PAGE, RW), EACCES);
    // A private copy may be written whatever the file allows.
    let private = mmap(0, PAGE, RW, libc::MAP_PRIVATE, fd, 0)?;
    store(private, 2);
    check_eq!(load(at), 0x0101_0101_0101_0101);
    let write_only = file::open("f", libc::O_WRONLY, 0)?;
    check_err!(
        mmap(0, PAGE, libc::PROT_READ, libc::MAP_PRIVATE, write_only, 0),
        EACCES
    );
    Ok(())
}

fn protect_shared_page_stays_shared() -> Outcome {
    let at = anon(1)?;
    store(at, 1);
    let status = userland::harness::in_child(|| {
        // Taking and giving the right to write must not let a write reach the frame shared with the
        // parent.
        mprotect(at, PAGE, libc::PROT_READ)?;
        mprotect(at, PAGE, RW)?;
        store(at, 2);
        Ok(load(at) as i32)
    })?;
    check_eq!(status, proc::Status::Exited(2));
    check_eq!(load(at), 1);
    Ok(())
}

fn protect_in_child_is_the_childs() -> Outcome {
    let at = anon(1)?;
    store(at, 1);
    let status = userland::harness::in_child(|| {
        mprotect(at, PAGE, libc::PROT_NONE)?;
        Ok(0)
    })?;
    check_eq!(status, proc::Status::Exited(0));
    store(at, 3);
    check_eq!(load(at), 3);
    Ok(())
}
