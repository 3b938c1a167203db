//! ptrace(2), as its tests call it.

use super::{Result, call, check};

/// `linux/elf.h`: the general registers.
pub const NT_PRSTATUS: usize = 1;

/// ptrace(2) with any arguments.
pub fn ptrace(request: usize, pid: i32, at: usize, data: usize) -> Result<usize> {
    let arguments = [request, pid as usize, at, data, 0, 0];
    call(libc::SYS_ptrace, arguments)
}

/// waitpid(2) with __WALL: the number and the status word.
pub fn wait_raw(pid: i32) -> Result<(i32, i32)> {
    let mut raw = 0;
    loop {
        // SAFETY: the status word is ours and lives through the call.
        match check(unsafe { libc::waitpid(pid, &mut raw, libc::__WALL) }) {
            Err(super::Errno(libc::EINTR)) => {}
            found => return Ok((found? as i32, raw)),
        }
    }
}

/// The signal and the event of a stop (PTRACE_EVENT_*, 0 for none), from a status word.
pub fn stop_of(raw: i32) -> (i32, i32) {
    (raw >> 8 & 0xff, raw >> 16)
}

/// A set of registers (NT_*) of a stopped thread, in words; shorter where the machine has fewer.
pub fn registers(pid: i32, note: usize) -> Result<Vec<u64>> {
    let mut words = vec![0u64; 512];
    let mut range = [words.as_mut_ptr() as usize, size_of_val(&words[..])];
    ptrace(
        libc::PTRACE_GETREGSET as usize,
        pid,
        note,
        range.as_mut_ptr() as usize,
    )?;
    words.truncate(range[1].div_ceil(8));
    Ok(words)
}

/// Replaces the first words of a set of registers.
pub fn set_registers(pid: i32, note: usize, words: &[u64]) -> Result<()> {
    let mut range = [words.as_ptr() as usize, size_of_val(words)];
    let range = range.as_mut_ptr() as usize;
    ptrace(libc::PTRACE_SETREGSET as usize, pid, note, range).map(|_| ())
}

/// si_signo, si_code and si_addr of a stop.
pub fn siginfo(pid: i32) -> Result<(i32, i32, u64)> {
    let mut words = [0u64; 16];
    let into = words.as_mut_ptr() as usize;
    ptrace(libc::PTRACE_GETSIGINFO as usize, pid, 0, into)?;
    Ok((words[0] as i32, words[1] as i32, words[2]))
}

/// PTRACE_GETEVENTMSG.
pub fn message(pid: i32) -> Result<u64> {
    let mut message = 0u64;
    ptrace(
        libc::PTRACE_GETEVENTMSG as usize,
        pid,
        0,
        &raw mut message as usize,
    )?;
    Ok(message)
}

/// Which word of [`NT_PRSTATUS`] is what on this machine.
#[cfg(target_arch = "x86_64")]
pub mod word {
    /// What a system call has returned.
    pub const RESULT: usize = 10;
    /// The program counter.
    pub const PC: usize = 16;
    /// The stack pointer.
    pub const SP: usize = 19;
    /// What holds privileges: the code segment.
    pub const PRIVILEGE: usize = 17;
}

/// Which word of [`NT_PRSTATUS`] is what on this machine.
#[cfg(target_arch = "aarch64")]
pub mod word {
    /// What a system call has returned.
    pub const RESULT: usize = 0;
    /// The program counter.
    pub const PC: usize = 32;
    /// The stack pointer.
    pub const SP: usize = 31;
    /// What holds privileges: the exception level.
    pub const PRIVILEGE: usize = 33;
}

/// The system call at whose begin a thread is stopped becomes another one.
pub fn set_call(pid: i32, number: i32) -> Result<()> {
    if cfg!(target_arch = "x86_64") {
        const ORIG_RAX: usize = 15 * 8;
        ptrace(6, pid, ORIG_RAX, number as usize).map(|_| ())
    } else {
        const NT_ARM_SYSTEM_CALL: usize = 0x404;
        let mut range = [&raw const number as usize, 4];
        let range = range.as_mut_ptr() as usize;
        ptrace(
            libc::PTRACE_SETREGSET as usize,
            pid,
            NT_ARM_SYSTEM_CALL,
            range,
        )
        .map(|_| ())
    }
}

/// Has the CPU stop a thread at a write to the aligned word at `at` (`Some`), or not any more.
pub fn set_watchpoint(pid: i32, at: Option<usize>) -> Result<()> {
    if cfg!(target_arch = "x86_64") {
        // Slot 0: eight bytes, written.
        let control = if at.is_some() { 0x9_0001 } else { 0 };
        set_debug_registers(pid, at, control)
    } else {
        set_slot(pid, 0x403, at, 0xff << 5 | 2 << 3)
    }
}

/// Has the CPU stop a thread before the instruction at `at`, or not any more.
pub fn set_breakpoint(pid: i32, at: Option<usize>) -> Result<()> {
    if cfg!(target_arch = "x86_64") {
        set_debug_registers(pid, at, at.map_or(0, |_| 1))
    } else {
        set_slot(pid, 0x402, at, 0xf << 5)
    }
}

/// DR0 and DR7, `struct user` of x86_64.
fn set_debug_registers(pid: i32, at: Option<usize>, control: usize) -> Result<()> {
    const POKEUSER: usize = 6;
    const U_DEBUGREG: usize = 848;
    ptrace(POKEUSER, pid, U_DEBUGREG + 7 * 8, 0)?;
    if let Some(at) = at {
        ptrace(POKEUSER, pid, U_DEBUGREG, at)?;
    }
    ptrace(POKEUSER, pid, U_DEBUGREG + 7 * 8, control).map(|_| ())
}

/// The first slot of `struct user_hwdebug_state` of aarch64.
fn set_slot(pid: i32, note: usize, at: Option<usize>, control: u64) -> Result<()> {
    let enabled = u64::from(at.is_some());
    set_registers(pid, note, &[0, at.unwrap_or(0) as u64, control | enabled])
}
