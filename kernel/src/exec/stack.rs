//! The stack that a program starts with, mapped and filled; its layout is `parts::stack`.

use super::layout::Loaded;
use super::{Refusal, breathe_between};
use crate::arch::cpu;
use crate::base::errno::Errno;
use crate::base::machine::AddressSpace;
use crate::base::random;
use crate::process::task::{Process, Resource, ResourceLimits};
use linux_raw_sys::auxvec as at;
use mm::addr::{PAGE_SIZE, VirtAddr};
use mm::vma::{Backing, Prot, VmaFlags};
use mm::{MapRequest, Place};
use parts::aslr::Offsets;
use parts::program::Program;
use parts::stack::{Addresses, Inputs, Stack, Strings, Top};

/// Bytes that are written to the stack before other threads may run.
const PIECE: usize = 32 << 10;
/// Mapped below the strings from the start.
const ROOM: u64 = 128 << 10;
/// Clock ticks per second that times(2) counts in.
const CLOCK_TICKS: u64 = 100;

/// A program that is loaded, as far as its stack depends on it.
pub struct StackInputs<'a> {
    /// Its headers.
    pub program: &'a Program,
    /// Where it is.
    pub loaded: &'a Loaded,
    /// Where its interpreter is; 0 without one.
    pub interpreter: VirtAddr,
    /// Arguments and environment.
    pub strings: &'a Strings,
    /// The path that was executed.
    pub name: &'a [u8],
    /// The process that becomes it.
    pub process: &'a Process,
}

/// Maps the stack and fills it.
pub fn build(
    space: &AddressSpace,
    start: &StackInputs<'_>,
    limits: &ResourceLimits,
    aslr: &Offsets,
) -> Result<Stack, Refusal> {
    let mut seed = [0; 16];
    random::fill(&mut seed);
    let contents = Inputs {
        strings: start.strings,
        name: start.name,
        platform: cpu::NAME.as_bytes(),
        seed,
    };
    let top = Top {
        address: aslr.stack_top,
        shift: aslr.stack_shift,
    };
    let pause = |before, after| breathe_between(before, after).map_err(Refusal::from);
    let mut stack = Stack::build(
        &contents,
        top,
        |addresses| auxiliary_vector(start, addresses),
        pause,
    )?;
    map(space, start.program, top.address, stack.pointer, limits)?;
    let mut at = VirtAddr(stack.pointer);
    for piece in stack.pieces(PIECE) {
        if space.write(at, piece, true) < piece.len() {
            return Err(Errno::ENOMEM.into());
        }
        at += piece.len() as u64;
        breathe_between(0, PIECE)?;
    }
    Ok(stack)
}

fn map(
    space: &AddressSpace,
    program: &Program,
    top: u64,
    pointer: u64,
    limits: &ResourceLimits,
) -> Result<(), Refusal> {
    let used = top - pointer;
    let size = (used + ROOM)
        .min(limits.soft(Resource::Stack).max(used))
        .next_multiple_of(PAGE_SIZE);
    let mut prot = Prot::READ | Prot::WRITE;
    prot.set(Prot::EXEC, program.executable_stack);
    space.map(MapRequest {
        place: Place::Fixed(VirtAddr(top - size)),
        len: size,
        prot,
        flags: VmaFlags::GROWSDOWN | VmaFlags::STACK,
        backing: Backing::Anon,
        populate: false,
    })?;
    Ok(())
}

/// Pairs of key and value, getauxval(3), in Linux's order.
fn auxiliary_vector(start: &StackInputs<'_>, addresses: Addresses) -> [[u64; 2]; 20] {
    let (hwcap, hwcap2) = cpu::hwcap();
    let (uid, gid) = start.process.credentials(|c| (c.uid, c.gid));
    let pair = |key: u32, value: u64| [u64::from(key), value];
    [
        pair(at::AT_MINSIGSTKSZ, crate::arch::trap::min_signal_stack()),
        pair(at::AT_HWCAP, hwcap),
        pair(at::AT_PAGESZ, PAGE_SIZE),
        pair(at::AT_CLKTCK, CLOCK_TICKS),
        pair(at::AT_PHDR, start.loaded.headers.0),
        pair(at::AT_PHENT, 56),
        pair(at::AT_PHNUM, start.program.header_count),
        pair(at::AT_BASE, start.interpreter.0),
        pair(at::AT_FLAGS, 0),
        pair(at::AT_ENTRY, start.loaded.entry.0),
        pair(at::AT_UID, u64::from(uid[0])),
        pair(at::AT_EUID, u64::from(uid[1])),
        pair(at::AT_GID, u64::from(gid[0])),
        pair(at::AT_EGID, u64::from(gid[1])),
        pair(at::AT_SECURE, 0),
        pair(at::AT_RANDOM, addresses.seed),
        pair(at::AT_HWCAP2, hwcap2),
        pair(at::AT_EXECFN, addresses.name),
        pair(at::AT_PLATFORM, addresses.platform),
        pair(at::AT_NULL, 0),
    ]
}
