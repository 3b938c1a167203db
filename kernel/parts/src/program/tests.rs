//! Good programs read, and each flaw found.

use super::headers::HEADER;
use super::*;
use alloc::vec;
use mm::vma::Prot;

const TARGET: Target = Target {
    machine: abi::EM_X86_64,
    user_end: 1 << 47,
    executable_stack: false,
};

impl Bytes for Vec<u8> {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> usize {
        let from = (offset as usize).min(self.len());
        let n = into.len().min(self.len() - from);
        into[..n].copy_from_slice(&self[from..from + n]);
        n
    }
    fn size(&self) -> u64 {
        self.len() as u64
    }
}

/// p_type, p_flags, p_offset, p_vaddr, p_filesz, p_memsz.
type Header = (u32, u32, u64, u64, u64, u64);
const TEXT: Header = (abi::PT_LOAD, 5, 0, 0x40_0000, 0x200, 0x200);
const DATA: Header = (abi::PT_LOAD, 6, 0x200, 0x40_1200, 0x100, 0x3000);

/// A program of 0x1000 bytes with these headers behind the ELF header.
fn program(headers: &[Header]) -> Vec<u8> {
    let mut bytes = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0];
    bytes.resize(16, 0);
    for half in [abi::ET_EXEC, abi::EM_X86_64, 1, 0] {
        bytes.extend(half.to_le_bytes());
    }
    for word in [0x40_0100u64, HEADER as u64, 0] {
        bytes.extend(word.to_le_bytes());
    }
    for half in [0, 0, 64, 56, headers.len() as u16, 0, 0, 0u16] {
        bytes.extend(half.to_le_bytes());
    }
    for (kind, flags, offset, address, in_file, in_memory) in headers {
        bytes.extend(kind.to_le_bytes());
        bytes.extend(flags.to_le_bytes());
        for word in [*offset, *address, *address, *in_file, *in_memory, 0x1000] {
            bytes.extend(word.to_le_bytes());
        }
    }
    bytes.resize(0x1000, 0);
    bytes
}

fn flaw(headers: &[Header]) -> Flaw {
    Program::read(&program(headers), &TARGET).expect_err("it is refused")
}

#[test]
fn segments_come_in_the_order_of_addresses() {
    let read = Program::read(&program(&[DATA, TEXT]), &TARGET).expect("a good program");
    let places: Vec<_> = read.segments.iter().map(|s| (s.index, s.address)).collect();
    assert_eq!(places, [(1, 0x40_0000), (0, 0x40_1200)]);
    assert_eq!(read.segments[0].prot, Prot::READ | Prot::EXEC);
    assert_eq!((read.entry, read.end()), (0x40_0100, 0x40_4200));
    assert_eq!((read.headers, read.header_count), (0x40_0040, 2));
    assert!(!read.position_independent && !read.executable_stack);
}

#[test]
fn the_stack_is_as_the_program_or_the_machine_says() {
    let stack = |flags| (abi::PT_GNU_STACK, flags, 0, 0, 0, 0);
    for (headers, machine, wanted) in [
        (&[TEXT][..], true, true),
        (&[TEXT], false, false),
        (&[TEXT, stack(7)], false, true),
        (&[TEXT, stack(6)], true, false),
    ] {
        let executable_stack = machine;
        let target = Target {
            executable_stack,
            ..TARGET
        };
        let read = Program::read(&program(headers), &target).expect("a good program");
        assert_eq!(read.executable_stack, wanted);
    }
}

#[test]
fn bad_segments_are_refused_each_with_its_reason() {
    let truncated = |end| Flaw::Truncated {
        segment: 0,
        end,
        len: 0x1000,
    };
    let of = |change: fn(&mut Header)| {
        let mut header = TEXT;
        change(&mut header);
        flaw(&[header])
    };
    assert_eq!(of(|h| (h.4, h.5) = (0x1001, 0x1001)), truncated(0x1001));
    assert_eq!(
        of(|h| h.2 = u64::MAX - 0xfff),
        truncated(u64::MAX - 0xfff + 0x200)
    );
    assert_eq!(of(|h| h.3 = 1 << 47), Flaw::OutsideUser(0, 1 << 47));
    assert_eq!(of(|h| h.5 = u64::MAX), Flaw::OutsideUser(0, 0x40_0000));
    assert!(matches!(of(|h| h.5 = 0x100), Flaw::Headers(_)));
    assert!(matches!(of(|h| h.3 += 8), Flaw::Headers(_)));
    assert!(matches!(flaw(&[]), Flaw::Headers(_)));
    let inside = (abi::PT_LOAD, 6, 0x100, 0x40_0100, 0x10, 0x10);
    assert_eq!(flaw(&[inside, TEXT]), Flaw::Overlap(1, 0));
}

#[test]
fn what_is_no_program_for_this_machine() {
    let read = |bytes: Vec<u8>| Program::read(&bytes, &TARGET).expect_err("it is refused");
    assert_eq!(read(Vec::new()), Flaw::NotElf);
    assert_eq!(read(b"#!/bin/sh".to_vec()), Flaw::NotElf);
    assert!(matches!(
        read(program(&[TEXT])[..63].to_vec()),
        Flaw::Headers(_)
    ));
    let mut other = program(&[TEXT]);
    other[18] = abi::EM_AARCH64 as u8;
    assert_eq!(read(other), Flaw::Machine(abi::EM_AARCH64));
    let mut object = program(&[TEXT]);
    object[16] = abi::ET_REL as u8;
    assert!(matches!(read(object), Flaw::Headers(_)));
}

/// A program with `bytes` at 0x800 and a PT_INTERP of `size` bytes at `offset`.
fn dynamic(offset: u64, size: u64, bytes: &[u8]) -> Result<Program, Flaw> {
    let interp = (abi::PT_INTERP, 4, offset, 0, size, size);
    // Of two the first counts.
    let mut file = program(&[TEXT, interp, (abi::PT_INTERP, 4, 0, 0, 0, 0)]);
    file[0x800..0x800 + bytes.len()].copy_from_slice(bytes);
    Program::read(&file, &TARGET)
}

#[test]
fn the_interpreter_is_what_the_first_header_names() {
    let name = |size, bytes| dynamic(0x800, size, bytes).map(|program| program.interpreter);
    assert_eq!(name(7, b"/ld.so\0"), Ok(Some(b"/ld.so".to_vec())));
    assert_eq!(name(7, b"/ld\0so\0"), Ok(Some(b"/ld".to_vec())));
    assert_eq!(name(2, b"\0\0"), Ok(Some(Vec::new())));
    let plain = Program::read(&program(&[TEXT]), &TARGET);
    assert_eq!(plain.map(|program| program.interpreter), Ok(None));
    for size in [0, 1, 6, 4097, u64::MAX] {
        assert!(
            matches!(name(size, b"/ld.so\0"), Err(Flaw::Headers(_))),
            "{size}"
        );
    }
    let (segment, len) = (1, 0x1000);
    for offset in [0xffa, 0x1000, u64::MAX] {
        let end = offset.saturating_add(7);
        let cut = Flaw::Truncated { segment, end, len };
        assert_eq!(dynamic(offset, 7, b"").expect_err("it is refused"), cut);
    }
}
