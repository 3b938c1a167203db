//! PTRACE_GET_SYSCALL_INFO: the system call at whose begin or end a thread is stopped.

use super::Request;
use crate::base::errno::{Errno, Result};
use crate::base::machine::ELF_MACHINE;
use crate::base::user_ptr::UserBytes;
use crate::process::trace::StopKind;
use linux_raw_sys::ptrace as abi;

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
        let kind = trace.stop().ok_or(Errno::ESRCH)?.kind;
        let user = &trace.registers;
        let mut end = 0;
        let mut put = |from: &[u8]| {
            bytes[end..end + from.len()].copy_from_slice(from);
            end += from.len();
        };
        let op = match kind {
            StopKind::CallEntry => abi::PTRACE_SYSCALL_INFO_ENTRY,
            StopKind::CallExit => abi::PTRACE_SYSCALL_INFO_EXIT,
            _ => abi::PTRACE_SYSCALL_INFO_NONE,
        };
        put(&op.to_ne_bytes());
        put(&ARCH.to_ne_bytes());
        put(&user.pc().to_ne_bytes());
        put(&user.sp().to_ne_bytes());
        match kind {
            StopKind::CallEntry => {
                put(&user.syscall_number().to_ne_bytes());
                for argument in user.syscall_args() {
                    put(&argument.to_ne_bytes());
                }
            }
            StopKind::CallExit => {
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
