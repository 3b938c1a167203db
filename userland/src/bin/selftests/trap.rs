//! What bad instructions and bad jumps become: signals with the right code and address, and nothing
//! worse.
use userland::harness::{Outcome, Stop, in_child, skip};
use userland::sys::fault::{self, Probe, Trap};
use userland::sys::mem::{ANON, PAGE, RW, anon, load, mmap, mprotect, store};
use userland::sys::proc::{self, Fork, Status};
use userland::sys::segments::{self, Selectors, USER_DATA, USER_DATA_0};
use userland::sys::{file, sig};
use userland::{check, check_eq};

userland::tests![
    trap_undefined_instruction,
    trap_privileged_instruction,
    trap_breakpoint,
    trap_divide_by_zero,
    trap_jump_to_nowhere,
    trap_jump_into_data,
    trap_default_kills,
    trap_ignored_or_blocked_kills,
    trap_fixed_up_by_handler,
    trap_in_handler,
    trap_ten_thousand,
    trap_keeps_flags,
    segments_are_the_threads_own,
    segments_of_a_thread_pointer,
];

fn trap<T>(result: Probe<T>) -> Result<Trap, Stop> {
    result.map_or_else(Ok, |_| {
        Err(Stop::Fail("the instruction did not trap".into()))
    })
}

fn trap_undefined_instruction() -> Outcome {
    fault::arm();
    let t = trap(fault::undefined())?;
    check_eq!(t.signal, libc::SIGILL);
    // The address is the instruction's.
    check!(t.addr != 0);
    Ok(())
}

fn trap_privileged_instruction() -> Outcome {
    fault::arm();
    let want = if cfg!(target_arch = "x86_64") {
        libc::SIGSEGV
    } else {
        libc::SIGILL
    };
    check_eq!(trap(fault::privileged())?.signal, want);
    Ok(())
}

fn trap_breakpoint() -> Outcome {
    fault::arm();
    check_eq!(trap(fault::breakpoint())?.signal, libc::SIGTRAP);
    Ok(())
}

fn trap_divide_by_zero() -> Outcome {
    fault::arm();
    if cfg!(target_arch = "aarch64") {
        // The machine defines the answer: zero, and no trap.
        return Ok(fault::divide_by_zero()?);
    }
    let t = trap(fault::divide_by_zero())?;
    // FPE_INTDIV is 1.
    check_eq!((t.signal, t.code), (libc::SIGFPE, 1));
    Ok(())
}

fn trap_jump_to_nowhere() -> Outcome {
    fault::arm();
    for at in [0usize, 0x10, 0x1234_5000, 0x7000_0000_0000] {
        let t = trap(fault::execute(at))?;
        check_eq!((t.signal, t.code, t.addr), (libc::SIGSEGV, 1, at));
    }
    Ok(())
}

fn trap_jump_into_data() -> Outcome {
    fault::arm();
    let at = anon(1)?;
    store(at, u64::from_le_bytes([0xc3; 8]));
    check_eq!(
        trap(fault::execute(at))?,
        Trap {
            signal: libc::SIGSEGV,
            code: 2,
            addr: at
        }
    );
    // The stack is data too.
    let local = [0xc3u8; 64];
    let t = trap(fault::execute((local.as_ptr() as usize + 15) & !15))?;
    check_eq!((t.signal, t.code), (libc::SIGSEGV, 2));
    Ok(())
}

fn trap_default_kills() -> Outcome {
    // RECOVER is armed, but the default action is what counts.
    let killed = |act: fn() -> bool| {
        in_child(|| {
            proc::setrlimit(libc::RLIMIT_CORE, 0, 0)?;
            Ok(act() as i32)
        })
    };
    check_eq!(
        killed(|| fault::read(0).is_ok())?,
        Status::Killed(libc::SIGSEGV)
    );
    check_eq!(
        killed(|| fault::execute(8).is_ok())?,
        Status::Killed(libc::SIGSEGV)
    );
    check_eq!(
        killed(|| fault::undefined().is_ok())?,
        Status::Killed(libc::SIGILL)
    );
    check_eq!(
        killed(|| fault::breakpoint().is_ok())?,
        Status::Killed(libc::SIGTRAP)
    );
    Ok(())
}

fn trap_ignored_or_blocked_kills() -> Outcome {
    // A trap cannot be put off: ignoring or blocking its signal ends the process all the same.
    let status = in_child(|| {
        sig::ignore(libc::SIGSEGV)?;
        let _ = fault::read(0);
        Ok(0)
    })?;
    check_eq!(status, Status::Killed(libc::SIGSEGV));
    let status = in_child(|| {
        fault::arm();
        sig::mask(libc::SIG_BLOCK, &[libc::SIGSEGV])?;
        let _ = fault::read(0);
        Ok(0)
    })?;
    check_eq!(status, Status::Killed(libc::SIGSEGV));
    Ok(())
}

static FIX: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

extern "C" fn gives_the_page(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let at = FIX.load(std::sync::atomic::Ordering::SeqCst);
    let _ = mprotect(at, PAGE, RW);
}

fn trap_fixed_up_by_handler() -> Outcome {
    // As collectors and databases do: the handler gives the right, the same instruction runs again.
    sig::handle(libc::SIGSEGV, gives_the_page, 0)?;
    let at = mmap(0, 16 * PAGE, libc::PROT_NONE, ANON, -1, 0)?;
    for n in 0..16 {
        FIX.store(at + n * PAGE, std::sync::atomic::Ordering::SeqCst);
        store(at + n * PAGE, n as u64 + 1);
    }
    check!((0..16).all(|n| load(at + n * PAGE) == n as u64 + 1));
    Ok(())
}

extern "C" fn traps_again(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let _ = fault::read(16);
}

fn trap_in_handler() -> Outcome {
    // SIGSEGV is blocked in its own handler: a second one is the end.
    let status = in_child(|| {
        sig::handle(libc::SIGSEGV, traps_again, 0)?;
        let _ = fault::read(8);
        Ok(0)
    })?;
    check_eq!(status, Status::Killed(libc::SIGSEGV));
    Ok(())
}

fn trap_ten_thousand() -> Outcome {
    fault::arm();
    for n in 0..10_000usize {
        check_eq!(trap(fault::read(n % 4096))?.addr, n % 4096);
    }
    Ok(())
}

fn trap_keeps_flags() -> Outcome {
    let at = anon(4)?;
    for n in 0..4 {
        check!(segments::nested_flag_across_write(at + n * PAGE));
    }
    Ok(())
}

/// Sends a byte and waits for one, so that the other process has run meanwhile.
fn turn(hear: i32, tell: i32) -> Outcome {
    file::write_all(tell, b"x")?;
    check_eq!(file::read(hear, &mut [0])?, 1);
    Ok(())
}

fn segments_are_the_threads_own() -> Outcome {
    let Some(at_first) = segments::selectors() else {
        return skip("no segment registers on this machine");
    };
    check_eq!(at_first.gs, 0);
    let of_the_child = Selectors {
        ds: USER_DATA,
        es: USER_DATA_0,
        gs: USER_DATA,
    };
    let (hear, tell_parent) = file::pipe(0)?;
    let (child_hears, tell) = file::pipe(0)?;
    let pid = match proc::fork()? {
        Fork::Child => {
            let inherited = segments::selectors() == Some(at_first);
            segments::load(of_the_child);
            let mut kept = true;
            for _ in 0..20 {
                let turned = turn(child_hears, tell_parent).is_ok();
                kept &= turned && segments::selectors() == Some(of_the_child);
            }
            proc::exit_now((inherited && kept) as i32)
        }
        Fork::Parent(pid) => pid,
    };
    for _ in 0..20 {
        turn(hear, tell)?;
        check_eq!(segments::selectors(), Some(at_first));
    }
    check_eq!(proc::wait_for(pid)?, Status::Exited(1));
    // What is loaded is inherited.
    segments::load(of_the_child);
    let status = in_child(|| Ok((segments::selectors() == Some(of_the_child)) as i32))?;
    check_eq!(status, Status::Exited(1));
    Ok(())
}

fn segments_of_a_thread_pointer() -> Outcome {
    if segments::selectors().is_none() {
        return skip("no segment registers on this machine");
    }
    for selector in [USER_DATA, USER_DATA_0, 0] {
        check_eq!(segments::fs_across_yield(selector), (selector, 0));
    }
    Ok(())
}
