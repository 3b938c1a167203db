//! PTRACE_GET_SYSCALL_INFO and SET: the system call at whose begin or end a thread is stopped.

use super::Request;
use crate::base::errno::{Errno, Result};
use crate::base::machine::ELF_MACHINE;
use crate::base::user_ptr::{UserBytes, UserPtr};
use crate::process::trace::{StopKind, Trace};
use linux_raw_sys::ptrace as abi;

/// A request that the bindings for one of the machines lack.
pub const SET: u32 = 0x4212;

/// AUDIT_ARCH_X86_64 or AUDIT_ARCH_AARCH64: the number of the machine in ELF files, of 64 bits and
/// little-endian.
const ARCH: u32 = 0xc000_0000 | ELF_MACHINE as u32;

/// Bytes of `struct ptrace_syscall_info` before what depends on the kind of stop, and in all.
const HEAD: usize = 24;
const WHOLE: usize = 88;

/// Writes at most `at` bytes of the structure to `data`; returns how many it has.
pub fn get(request: &Request<'_>) -> Result<u64> {
    let mut bytes = [0; WHOLE];
    let len = request.with_stopped(|trace| {
        let op = op(trace)?;
        let user = &trace.registers;
        let mut end = 0;
        let mut put = |from: &[u8]| {
            bytes[end..end + from.len()].copy_from_slice(from);
            end += from.len();
        };
        put(&op.to_ne_bytes());
        put(&ARCH.to_ne_bytes());
        put(&user.pc().to_ne_bytes());
        put(&user.sp().to_ne_bytes());
        match op {
            abi::PTRACE_SYSCALL_INFO_ENTRY => {
                put(&user.syscall_number().to_ne_bytes());
                for argument in user.first_args() {
                    put(&argument.to_ne_bytes());
                }
            }
            abi::PTRACE_SYSCALL_INFO_EXIT => {
                let value = user.return_value();
                put(&value.to_ne_bytes());
                put(&[u8::from((-4095..0).contains(&(value as i64)))]);
            }
            _ => end = HEAD,
        }
        Ok(end)
    })?;
    let wanted = len.min(request.at as usize);
    let into = UserBytes {
        first: request.data.into(),
        len: wanted as u64,
    };
    into.write(0, &bytes[..wanted])?;
    Ok(len as u64)
}

/// What kind of stop the structure is about.
fn op(trace: &mut Trace) -> Result<u32> {
    Ok(match trace.stop().ok_or(Errno::ESRCH)?.kind {
        StopKind::CallEntry => abi::PTRACE_SYSCALL_INFO_ENTRY,
        StopKind::CallExit => abi::PTRACE_SYSCALL_INFO_EXIT,
        _ => abi::PTRACE_SYSCALL_INFO_NONE,
    })
}

/// Sets the number and the arguments of the call that begins, or the result of the one that ends,
/// to those of the structure of `at` bytes at `data`. EINVAL: the structure is short, has flags or
/// is about a stop of another kind; ERANGE: the number has more than 32 bits.
pub fn set(request: &Request<'_>) -> Result {
    if request.at < WHOLE as u64 {
        return Err(Errno::EINVAL);
    }
    let words: [u64; WHOLE / 8] = UserPtr::from(request.data).read()?;
    request.with_stopped(|trace| {
        let op = op(trace)?;
        // Above the byte of the kind: one that is reserved, and the flags.
        if words[0] as u32 != op {
            return Err(Errno::EINVAL);
        }
        let user = &mut trace.registers;
        match (op, words) {
            (abi::PTRACE_SYSCALL_INFO_ENTRY, [_, _, _, number, a, b, c, d, e, f, _]) => {
                if number as i32 as u64 != number {
                    return Err(Errno::ERANGE);
                }
                let is_none = number as i32 == -1;
                user.set_syscall(number, (!is_none).then_some([a, b, c, d, e, f]));
                if is_none {
                    // On aarch64 the result's register holds an argument.
                    user.set_return(Errno::ENOSYS.to_return());
                }
            }
            (abi::PTRACE_SYSCALL_INFO_EXIT, [_, _, _, value, ..]) => user.set_return(value),
            _ => return Err(Errno::EINVAL),
        }
        Ok(())
    })
}
