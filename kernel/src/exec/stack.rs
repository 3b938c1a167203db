//! The stack a program finds: strings at the top, below them the auxiliary vector, environment,
//! arguments and their count, as the psABI and Linux lay them out.

use super::aslr::Offsets;
use super::breathe_between;
use super::layout::Loaded;
use super::{Refusal, Strings};
use crate::arch::cpu;
use crate::base::errno::Errno;
use crate::base::machine::AddressSpace;
use crate::base::random;
use crate::process::task::{Limits, Process, Resource};
use alloc::vec::Vec;
use linux_raw_sys::auxvec as at;
use mm::addr::{PAGE_SIZE, VirtAddr, VirtRange};
use mm::vma::{Backing, Prot, VmaFlags};
use mm::{MapRequest, Place};
use parts::program::Program;

/// Where things on the stack are.
pub struct Stack {
    /// The stack pointer to start with; 16-byte aligned.
    pub pointer: VirtAddr,
    /// The argument strings.
    pub args: VirtRange,
    /// The environment strings.
    pub env: VirtRange,
    /// The auxiliary vector.
    pub auxv: VirtRange,
}

/// One string, with its NUL (MAX_ARG_STRLEN).
pub const MAX_STRING: usize = 32 * PAGE_SIZE as usize;
/// All strings together, whatever the stack limit.
pub const MAX_STRINGS: usize = 6 << 20;
/// Bytes that are written to the stack before others are let in.
const PIECE: usize = 32 << 10;
/// Mapped below the strings from the start.
const ROOM: u64 = 128 << 10;
/// Clock ticks per second that times(2) counts in.
const CLOCK_TICKS: u64 = 100;

/// E2BIG when strings and pointers take more than a quarter of the stack limit.
pub fn check_size(strings: &Strings, limits: &Limits) -> Result<(), Refusal> {
    let all = strings.args.iter().chain(&strings.env);
    let size: u64 = all.map(|string| string.len() as u64 + 1 + 8).sum();
    let most = (limits.soft(Resource::Stack) / 4).clamp(ROOM, MAX_STRINGS as u64);
    if size > most {
        Err(Errno::E2BIG.into())
    } else {
        Ok(())
    }
}

/// Bytes that grow downwards from the top of the stack.
struct Builder {
    top: VirtAddr,
    /// In reverse: the first byte is the highest.
    reversed: Vec<u8>,
}

impl Builder {
    fn pointer(&self) -> u64 {
        self.top.0 - self.reversed.len() as u64
    }

    fn push(&mut self, bytes: &[u8]) -> u64 {
        self.reversed.extend(bytes.iter().rev());
        self.pointer()
    }

    fn push_string(&mut self, string: &[u8]) -> u64 {
        self.reversed.push(0);
        self.push(string)
    }

    /// Strings so that the first is the lowest; returns their addresses and the range they take.
    fn push_strings(&mut self, strings: &[Vec<u8>]) -> Result<(Vec<u64>, VirtRange), Refusal> {
        let end = self.pointer();
        let mut addresses = Vec::new();
        make_room(&mut addresses, strings.len())?;
        for string in strings.iter().rev() {
            let before = self.reversed.len();
            addresses.push(self.push_string(string));
            breathe_between(before, self.reversed.len())?;
        }
        addresses.reverse();
        let range = VirtRange::new(VirtAddr(self.pointer()), VirtAddr(end));
        Ok((addresses, range))
    }

    fn skip_to(&mut self, pointer: u64) {
        let len = (self.top.0 - pointer) as usize;
        self.reversed.resize(len, 0);
    }
}

/// Room for `n` more elements; ENOMEM. What a program is told may be megabytes.
fn make_room<T>(vec: &mut Vec<T>, n: usize) -> Result<(), Refusal> {
    Ok(fallible::reserve(vec, n)?)
}

/// Maps the stack and fills it.
#[expect(
    clippy::too_many_arguments,
    reason = "a stack tells the program about all of these"
)]
pub fn build(
    space: &AddressSpace,
    program: &Program,
    loaded: &Loaded,
    strings: &Strings,
    name: &[u8],
    limits: &Limits,
    aslr: &Offsets,
    process: &Process,
) -> Result<Stack, Refusal> {
    let mut builder = Builder {
        top: aslr.stack_top,
        reversed: Vec::new(),
    };
    let all = || strings.args.iter().chain(&strings.env);
    // Each string has a NUL and an address; what else there is takes less than a page, and
    // alignment.
    let size: usize = all().map(|string| string.len() + 9).sum();
    let more = name.len() + aslr.stack_shift as usize + PAGE_SIZE as usize;
    make_room(&mut builder.reversed, size + more)?;
    builder.push(&[0; 8]);
    let exec_name = builder.push_string(name);
    let (env_addresses, env) = builder.push_strings(&strings.env)?;
    let (arg_addresses, args) = builder.push_strings(&strings.args)?;
    builder.skip_to((builder.pointer() - aslr.stack_shift) & !15);
    let platform = builder.push_string(cpu::NAME.as_bytes());
    let mut seed = [0; 16];
    random::fill(&mut seed);
    let seed = builder.push(&seed);
    let auxv = auxiliary_vector(program, loaded, process, exec_name, platform, seed);

    let mut words = Vec::new();
    make_room(&mut words, all().count() + 3 + 2 * auxv.len())?;
    words.push(arg_addresses.len() as u64);
    words.extend(arg_addresses);
    words.push(0);
    words.extend(env_addresses);
    words.push(0);
    let auxv_at = words.len() as u64 * 8;
    words.extend(auxv.iter().flatten());
    let size = words.len() as u64 * 8;
    let pointer = (builder.pointer() - size) & !15;
    builder.skip_to(pointer + size);
    for word in words.iter().rev() {
        let before = builder.reversed.len();
        builder.push(&word.to_le_bytes());
        breathe_between(before, builder.reversed.len())?;
    }

    map(space, program, aslr.stack_top, pointer, limits)?;
    let mut at = VirtAddr(pointer);
    for piece in builder.reversed.rchunks_mut(PIECE) {
        piece.reverse();
        if space.write(at, piece, true) < piece.len() {
            return Err(Errno::ENOMEM.into());
        }
        at += piece.len() as u64;
        breathe_between(0, PIECE)?;
    }
    let auxv_start = VirtAddr(pointer + auxv_at);
    Ok(Stack {
        pointer: VirtAddr(pointer),
        args,
        env,
        auxv: VirtRange::new(auxv_start, auxv_start + auxv.len() as u64 * 16),
    })
}

fn map(
    space: &AddressSpace,
    program: &Program,
    top: VirtAddr,
    pointer: u64,
    limits: &Limits,
) -> Result<(), Refusal> {
    let used = top.0 - pointer;
    let size = (used + ROOM)
        .min(limits.soft(Resource::Stack).max(used))
        .next_multiple_of(PAGE_SIZE);
    let mut prot = Prot::READ | Prot::WRITE;
    prot.set(Prot::EXEC, program.executable_stack);
    space.map(MapRequest {
        place: Place::Fixed(VirtAddr(top.0 - size)),
        len: size,
        prot,
        flags: VmaFlags::GROWSDOWN | VmaFlags::STACK,
        backing: Backing::Anon,
        populate: false,
    })?;
    Ok(())
}

/// Key and value pairs, getauxval(3), in Linux's order.
fn auxiliary_vector(
    program: &Program,
    loaded: &Loaded,
    process: &Process,
    exec_name: u64,
    platform: u64,
    seed: u64,
) -> [[u64; 2]; 20] {
    let (hwcap, hwcap2) = cpu::hwcap();
    let (uid, gid) = process.credentials(|c| (c.uid, c.gid));
    let pair = |key: u32, value: u64| [u64::from(key), value];
    [
        pair(at::AT_MINSIGSTKSZ, crate::arch::trap::min_signal_stack()),
        pair(at::AT_HWCAP, hwcap),
        pair(at::AT_PAGESZ, PAGE_SIZE),
        pair(at::AT_CLKTCK, CLOCK_TICKS),
        pair(at::AT_PHDR, loaded.headers.0),
        pair(at::AT_PHENT, 56),
        pair(at::AT_PHNUM, program.header_count),
        pair(at::AT_BASE, 0),
        pair(at::AT_FLAGS, 0),
        pair(at::AT_ENTRY, loaded.entry.0),
        pair(at::AT_UID, u64::from(uid[0])),
        pair(at::AT_EUID, u64::from(uid[1])),
        pair(at::AT_GID, u64::from(gid[0])),
        pair(at::AT_EGID, u64::from(gid[1])),
        pair(at::AT_SECURE, 0),
        pair(at::AT_RANDOM, seed),
        pair(at::AT_HWCAP2, hwcap2),
        pair(at::AT_EXECFN, exec_name),
        pair(at::AT_PLATFORM, platform),
        pair(at::AT_NULL, 0),
    ]
}
