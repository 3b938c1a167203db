//! Loading: maps the segments of a program into an address space.

use super::Refusal;
use super::interpreter::Interpreter;
use crate::base::machine::{AddressSpace, Hw};
use crate::fs::ExecFile;
use mm::addr::{PAGE_SIZE, VirtAddr, VirtRange};
use mm::vma::{Backing, Prot, VmaFlags};
use mm::{MapRequest, Place};
use parts::aslr::Offsets;
use parts::program::{Program, Segment};

/// Where a program is loaded.
pub struct Loaded {
    /// The first instruction.
    pub entry: VirtAddr,
    /// The program headers.
    pub headers: VirtAddr,
    /// From the lowest to the highest executable segment.
    pub code: VirtRange,
    /// From the lowest to the highest writable segment.
    pub data: VirtRange,
    /// Where the heap starts.
    pub brk: VirtAddr,
}

const NOTHING: VirtRange = VirtRange {
    start: VirtAddr(0),
    end: VirtAddr(0),
};

/// Maps all segments of `program`.
pub fn load(
    space: &AddressSpace,
    program: &Program,
    file: &ExecFile,
    aslr: &Offsets,
) -> Result<Loaded, Refusal> {
    space.set_mmap_top(VirtAddr(aslr.mmap_top));
    let bias = match program.position_independent {
        true => (aslr.base & !(program.align - 1)).wrapping_sub(program.start()),
        false => 0,
    };
    map_segments(space, program, bias, file)?;
    #[cfg(target_arch = "aarch64")]
    trampoline::map(space)?;
    let end = page_up(program.end().wrapping_add(bias));
    let brk = VirtAddr(end + aslr.brk_gap);
    space.set_brk(brk);
    let headers = if program.headers == 0 {
        0
    } else {
        program.headers.wrapping_add(bias)
    };
    Ok(Loaded {
        entry: VirtAddr(program.entry.wrapping_add(bias)),
        headers: VirtAddr(headers),
        code: extent(program, bias, Prot::EXEC),
        data: extent(program, bias, Prot::WRITE),
        brk,
    })
}

/// Where an interpreter is loaded.
#[derive(Clone, Copy)]
pub struct LoadedInterpreter {
    /// AT_BASE: how far it lies from where it was linked.
    pub base: VirtAddr,
    /// Its first instruction.
    pub entry: VirtAddr,
}

/// Maps all segments of an interpreter: one that is position-independent goes where mmap(2) would
/// put it.
pub fn load_interpreter(
    space: &AddressSpace,
    Interpreter { program, file }: &Interpreter,
) -> Result<LoadedInterpreter, Refusal> {
    let bias = hole(space, program)?.wrapping_sub(program.start());
    map_segments(space, program, bias, file)?;
    Ok(LoadedInterpreter {
        base: VirtAddr(bias),
        entry: VirtAddr(program.entry.wrapping_add(bias)),
    })
}

/// The start of free addresses for all of `program`, aligned as it wants; EEXIST when it can only
/// be where the main program is. They stay free: nobody else maps anything in a space that is being
/// made.
fn hole(space: &AddressSpace, program: &Program) -> Result<u64, Refusal> {
    let (start, size) = (program.start(), page_up(program.end() - program.start()));
    let (place, len) = match program.position_independent {
        true => (Place::Hint(VirtAddr(0)), size + program.align - PAGE_SIZE),
        false => (Place::FixedNoReplace(VirtAddr(start)), size),
    };
    let found = space.map(MapRequest {
        place,
        len,
        prot: Prot::empty(),
        flags: VmaFlags::NORESERVE,
        backing: Backing::Anon,
        populate: false,
    })?;
    space.unmap(found, len)?;
    Ok(match program.position_independent {
        true => found.0.next_multiple_of(program.align),
        false => start,
    })
}

fn map_segments(
    space: &AddressSpace,
    program: &Program,
    bias: u64,
    file: &ExecFile,
) -> Result<(), Refusal> {
    for segment in &program.segments {
        map_segment(space, segment, bias, file)?;
    }
    Ok(())
}

/// From the start of the first to the end of the last segment that may be used like `prot`.
fn extent(program: &Program, bias: u64, prot: Prot) -> VirtRange {
    let mut of = program.segments.iter().filter(|s| s.prot.contains(prot));
    let Some(first) = of.next() else {
        return NOTHING;
    };
    let last = of.next_back().unwrap_or(first);
    let at = |address: u64| VirtAddr(address.wrapping_add(bias));
    VirtRange::new(at(first.address), at(last.address + last.size))
}

fn page_down(address: u64) -> u64 {
    address & !(PAGE_SIZE - 1)
}

fn page_up(address: u64) -> u64 {
    page_down(address + PAGE_SIZE - 1)
}

/// The pages that have bytes in the file are mapped from it, the rest is anonymous; what the file
/// has behind the segment on its last page is overwritten with zeros when the segment continues
/// there.
fn map_segment(
    space: &AddressSpace,
    segment: &Segment,
    bias: u64,
    file: &ExecFile,
) -> Result<(), Refusal> {
    let start = segment.address.wrapping_add(bias);
    let (file_end, end) = (start + segment.file_size, start + segment.size);
    let mut anonymous = page_down(start);
    if segment.file_size > 0 {
        let backing = Backing::Object {
            object: file.object().clone().into(),
            offset: segment.offset / PAGE_SIZE,
            file: Some(file.mapped_file()),
        };
        anonymous = page_up(file_end);
        map(space, page_down(start), anonymous, segment.prot, backing)?;
        let tail = anonymous.min(page_up(end)) - file_end;
        if end > file_end && tail > 0 {
            zero(space, file_end, tail as usize)?;
        }
    }
    if page_up(end) > anonymous {
        map(space, anonymous, page_up(end), segment.prot, Backing::Anon)?;
    }
    Ok(())
}

fn map(
    space: &AddressSpace,
    start: u64,
    end: u64,
    prot: Prot,
    backing: Backing<Hw>,
) -> Result<(), Refusal> {
    space.map(MapRequest {
        place: Place::Fixed(VirtAddr(start)),
        len: end - start,
        prot,
        flags: VmaFlags::empty(),
        backing,
        populate: false,
    })?;
    Ok(())
}

fn zero(space: &AddressSpace, start: u64, len: usize) -> Result<(), Refusal> {
    const ZEROS: [u8; PAGE_SIZE as usize] = [0; PAGE_SIZE as usize];
    if space.write(VirtAddr(start), &ZEROS[..len], true) < len {
        return Err(Refusal::Errno(crate::base::errno::Errno::ENOMEM));
    }
    Ok(())
}

/// One past the highest stack.
#[cfg(target_arch = "x86_64")]
pub const STACK_END: u64 = {
    use mm::arch::PteFormat;
    crate::arch::pte::Format::USER_END.0
};
/// One past the highest stack: a page below what handlers return to.
#[cfg(target_arch = "aarch64")]
pub const STACK_END: u64 = crate::arch::trap::SIGRETURN_PAGE - PAGE_SIZE;

/// What signal handlers return to on arm64, where C libraries bring no restorer (Linux: in the
/// vDSO).
#[cfg(target_arch = "aarch64")]
mod trampoline {
    use super::*;
    use crate::arch::trap::{SIGRETURN_CODE, SIGRETURN_PAGE};
    use crate::base::errno::Errno;
    use crate::base::machine::{Object, mm};
    use alloc::sync::Arc;
    use mm::sync::Lock;

    /// One page for all programs.
    static PAGE: Lock<Option<Arc<Object>>, { crate::base::ranks::SCHEDULER }> = Lock::new(None);

    fn page() -> Result<Arc<Object>, Refusal> {
        if let Some(page) = &*PAGE.lock() {
            return Ok(page.clone());
        }
        let page = Object::new(mm());
        let code: alloc::vec::Vec<u8> = SIGRETURN_CODE
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        page.write_at(0, &code)?;
        *PAGE.lock() = Some(page.clone());
        Ok(page)
    }

    pub fn map(space: &AddressSpace) -> Result<(), Refusal> {
        let backing = Backing::Object {
            object: page()?.into(),
            offset: 0,
            file: None,
        };
        super::map(
            space,
            SIGRETURN_PAGE,
            SIGRETURN_PAGE + PAGE_SIZE,
            Prot::READ | Prot::EXEC,
            backing,
        )
        .map_err(|_| Refusal::Errno(Errno::ENOMEM))
    }
}
