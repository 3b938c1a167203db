//! The segments of a program, each checked.

use super::Flaw;
use alloc::vec::Vec;
use elf::abi;
use elf::segment::ProgramHeader;
use mm::addr::PAGE_SIZE;
use mm::vma::Prot;

/// A loadable segment, as linked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Its place in the table of program headers.
    pub index: usize,
    /// Where it is linked.
    pub address: u64,
    /// Bytes in memory.
    pub size: u64,
    /// Where its bytes lie in the file.
    pub offset: u64,
    /// Bytes in the file; the rest is zeros.
    pub file_size: u64,
    /// How it may be used.
    pub prot: Prot,
}

/// The segments to load, each checked, in the order of addresses.
pub(super) fn read(
    headers: &[ProgramHeader],
    file_len: u64,
    user_end: u64,
) -> Result<Vec<Segment>, Flaw> {
    let loads = headers
        .iter()
        .enumerate()
        .filter(|(_, h)| h.p_type == abi::PT_LOAD && h.p_memsz > 0);
    let mut segments = Vec::new();
    for (i, h) in loads {
        fallible::push(&mut segments, segment(i, h, file_len, user_end)?)?;
    }
    segments.sort_unstable_by_key(|s| s.address);
    for pair in segments.windows(2) {
        if pair[0].address + pair[0].size > pair[1].address {
            return Err(Flaw::Overlap(pair[0].index, pair[1].index));
        }
    }
    if segments.is_empty() {
        return Err(Flaw::Headers("there is no segment to load"));
    }
    Ok(segments)
}

fn segment(
    index: usize,
    header: &ProgramHeader,
    file_len: u64,
    user_end: u64,
) -> Result<Segment, Flaw> {
    let end = header.p_vaddr.checked_add(header.p_memsz);
    if end.is_none_or(|end| end > user_end) {
        return Err(Flaw::OutsideUser(index, header.p_vaddr));
    }
    if header.p_filesz > header.p_memsz {
        return Err(Flaw::Headers(
            "a segment is larger in the file than in memory",
        ));
    }
    if header.p_vaddr % PAGE_SIZE != header.p_offset % PAGE_SIZE {
        return Err(Flaw::Headers(
            "a segment's address and file offset differ within the page",
        ));
    }
    match header.p_offset.checked_add(header.p_filesz) {
        Some(end) if end <= file_len => {}
        end => {
            return Err(Flaw::Truncated {
                segment: index,
                end: end.unwrap_or(u64::MAX),
                len: file_len,
            });
        }
    }
    let allowed = |bit, prot| {
        if header.p_flags & bit != 0 {
            prot
        } else {
            Prot::empty()
        }
    };
    Ok(Segment {
        index,
        address: header.p_vaddr,
        size: header.p_memsz,
        offset: header.p_offset,
        file_size: header.p_filesz,
        prot: allowed(abi::PF_R, Prot::READ)
            | allowed(abi::PF_W, Prot::WRITE)
            | allowed(abi::PF_X, Prot::EXEC),
    })
}
