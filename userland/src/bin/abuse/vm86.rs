//! IRETD with the flag for virtual-8086 mode: a processor in long mode ignores it, QEMU's does not.
//! There, code and stack segment are any numbers, and the kernel sees them in what the next trap
//! saved.
use crate::Outcome;
use userland::sys::mem::{ANON, PAGE, RW, copy_to, mmap};
use userland::sys::proc::{self, Fork, Status};
use userland::sys::{Result, real_mode};

/// What the code does in that mode.
const WAYS: &[(&str, &[u8])] = &[
    ("nothing is mapped there", &[]),
    ("an instruction only the kernel may run", &[0xf4]),
    ("an undefined instruction", &[0x0f, 0x0b]),
    ("a breakpoint", &[0xcc]),
    ("a system call", &[0x0f, 0x05]),
    ("the other system call", &[0x0f, 0x34]),
    ("an interrupt", &[0xcd, 0x80]),
    ("a loop, until a timer's interrupt", &[0xeb, 0xfe]),
    ("a division by zero", &[0x31, 0xc9, 0xf7, 0xf1]),
];

/// Segments to come from: those of the kernel, of user mode, and others.
const SEGMENTS: &[u16] = &[0x2000, 0, 8, 0x10, 0x2b, 0x33, 0x8b30, 0x8b33, 0xffff];

/// Goes there in children, which end by a signal.
pub fn virtual_8086(_: &[String]) -> Outcome {
    for (what, code) in WAYS {
        for segment in SEGMENTS {
            let status = enter(code, *segment).map_err(|e| format!("{what}: {e}"))?;
            if !matches!(status, Status::Killed(_)) {
                return Err(format!("{what}, segment {segment:#x}: {status:?}"));
            }
        }
    }
    Ok(format!("{} children ended", WAYS.len() * SEGMENTS.len()))
}

/// Runs `code` there in a child, if it can be mapped within reach of the segment.
fn enter(code: &[u8], segment: u16) -> Result<Status> {
    /// Below is what user mode may not map.
    const LOWEST: usize = 0x1_0000;
    let base = usize::from(segment) << 4;
    let at = base.max(LOWEST);
    match proc::fork()? {
        Fork::Child => {
            let fixed = ANON | libc::MAP_FIXED;
            if !code.is_empty()
                && mmap(
                    at & !(PAGE - 1),
                    2 * PAGE,
                    RW | libc::PROT_EXEC,
                    fixed,
                    -1,
                    0,
                )
                .is_ok()
            {
                copy_to(at, code);
            }
            let failed = real_mode::enter(segment, (at - base) as u16);
            println!("abuse: {failed:?}");
            proc::exit_now(1)
        }
        Fork::Parent(pid) => proc::wait_for(pid),
    }
}
