//! Reading and writing the registers of a stopped thread.

use super::{GETFPREGS, GETREGS, Request, SETFPREGS, SETREGS};
use crate::arch::trap::{Breakpoints, Refused, UserContext};
use crate::base::errno::{Errno, Result};
use crate::base::room;
use crate::base::user_ptr::{UserBytes, UserPtr};
use alloc::boxed::Box;
use alloc::vec::Vec;
use elf::abi;
use linux_raw_sys::ptrace;

const NT_PRSTATUS: u32 = abi::NT_PRSTATUS as u32;
const NT_PRFPREG: u32 = abi::NT_PRFPREG as u32;

impl From<Refused> for Errno {
    fn from(why: Refused) -> Errno {
        match why {
            Refused::Io => Errno::EIO,
            Refused::Invalid => Errno::EINVAL,
        }
    }
}

/// The requests about registers. EIO: no such request on this machine.
pub fn request(request: &Request<'_>, number: u32) -> Result {
    let whole = |note| -> Result<UserBytes> {
        Ok(UserBytes {
            first: request.data.into(),
            len: UserContext::set_size(note).ok_or(Errno::EIO)? as u64,
        })
    };
    let has_requests = cfg!(target_arch = "x86_64");
    match number {
        ptrace::PTRACE_GETREGSET => of_iovec(request, get),
        ptrace::PTRACE_SETREGSET => of_iovec(request, set),
        ptrace::PTRACE_PEEKUSR => {
            let word =
                request.with_stopped(|trace| Ok(trace.registers.user_word(request.at)?))?;
            UserPtr::from(request.data).write(&word)
        }
        ptrace::PTRACE_POKEUSR => {
            let mut spare = spare()?;
            request.with_stopped(|trace| {
                let registers = &mut trace.registers;
                Ok(registers.set_user_word(request.at, request.data, &mut spare)?)
            })
        }
        GETREGS if has_requests => get(request, NT_PRSTATUS, whole(NT_PRSTATUS)?),
        SETREGS if has_requests => set(request, NT_PRSTATUS, whole(NT_PRSTATUS)?),
        GETFPREGS if has_requests => get(request, NT_PRFPREG, whole(NT_PRFPREG)?),
        SETFPREGS if has_requests => set(request, NT_PRFPREG, whole(NT_PRFPREG)?),
        _ => Err(Errno::EIO),
    }
}

/// Memory for the thread's first breakpoint.
fn spare() -> Result<Option<Box<Breakpoints>>> {
    room::check(Errno::ENOMEM)?;
    Ok(Some(Box::default()))
}

/// Copies the set that a request is about from or to the `struct iovec` at `data`: of its bytes
/// only as many count as the set has, which the structure tells afterwards.
fn of_iovec(request: &Request<'_>, copy: fn(&Request<'_>, u32, UserBytes) -> Result) -> Result {
    let note = u32::try_from(request.at).map_err(|_| Errno::EINVAL)?;
    let size = UserContext::set_size(note).ok_or(Errno::EINVAL)?;
    let [first, len]: [u64; 2] = UserPtr::from(request.data).read()?;
    // Sets are of words, but for one that is a number.
    let unit = size.min(8) as u64;
    if len % unit != 0 {
        return Err(Errno::EINVAL);
    }
    let bytes = UserBytes {
        first: first.into(),
        len: len.min(size as u64),
    };
    copy(request, note, bytes)?;
    UserPtr::<u64>::from(request.data)
        .element(1)
        .write(&bytes.len)
}

fn get(request: &Request<'_>, note: u32, into: UserBytes) -> Result {
    let size = UserContext::set_size(note).ok_or(Errno::EIO)?;
    let mut bytes: Vec<u8> = fallible::filled(0, size)?;
    request.with_stopped(|trace| {
        trace.registers.copy_set(note, &mut bytes);
        Ok(())
    })?;
    into.write(0, &bytes[..into.len as usize])
}

fn set(request: &Request<'_>, note: u32, from: UserBytes) -> Result {
    let mut bytes: Vec<u8> = fallible::filled(0, from.len as usize)?;
    from.read(&mut bytes)?;
    let mut spare = spare()?;
    request.with_stopped(|trace| Ok(trace.registers.replace_set(note, &bytes, &mut spare)?))
}
