//! One bootable file: the kernel with a payload (symbols, default initramfs) right behind its last
//! byte.
//!
//! The payload starts at the linker script's `__payload`: `"QUIREPAY"`, then little-endian u64s:
//! version 1, symbols offset and length, initramfs offset and length, total length; offsets count
//! from the payload's first byte. As an ELF the kernel gets one more `PT_LOAD` and keeps its PVH
//! note: PVH and Limine load it. As a flat Image
//! (<https://docs.kernel.org/arch/arm64/booting.html>), aarch64 only, its `image_size` covers the
//! payload.
use crate::host::arch::Arch;
use anyhow::{Context, Result, bail, ensure};
use object::elf::{FileHeader64, PF_R, PF_W, PT_LOAD, PT_NOTE, ProgramHeader64};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{LittleEndian as LE, U16, U32, U64, pod};

type Header = FileHeader64<LE>;
type Segment = ProgramHeader64<LE>;

const PAGE: u64 = 4096;
const HEADER_BYTES: u64 = 64;
/// The boundary that the kernel must be loaded at.
const IMAGE_ALIGN: u64 = 2 << 20;

/// Header, symbols and archive in one piece, a whole number of pages.
pub fn payload(symbols: &[u8], archive: &[u8]) -> Vec<u8> {
    let archive_at = (HEADER_BYTES + symbols.len() as u64).next_multiple_of(PAGE);
    let total = (archive_at + archive.len() as u64).next_multiple_of(PAGE);
    let mut bytes = b"QUIREPAY".to_vec();
    for word in [
        1,
        HEADER_BYTES,
        symbols.len() as u64,
        archive_at,
        archive.len() as u64,
        total,
    ] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.resize(HEADER_BYTES as usize, 0);
    bytes.extend(symbols);
    bytes.resize(archive_at as usize, 0);
    bytes.extend(archive);
    bytes.resize(total as usize, 0);
    bytes
}

/// Builds the file for QEMU's `-kernel` from the linked kernel and its payload.
pub fn direct(arch: Arch, elf: &[u8], payload: &[u8]) -> Result<Vec<u8>> {
    match arch {
        Arch::X86_64 => one_elf(elf, payload),
        Arch::Aarch64 => flat(elf, payload),
    }
}

fn parse(elf: &[u8]) -> Result<(&Header, &[Segment])> {
    let header = Header::parse(elf).context("the kernel is not a 64-bit ELF file")?;
    let segments = header
        .program_headers(LE, elf)
        .context("the kernel has no program headers")?;
    Ok((header, segments))
}

fn loads(segments: &[Segment]) -> impl Iterator<Item = &Segment> {
    segments
        .iter()
        .filter(|segment| segment.p_type(LE) == PT_LOAD)
}

/// Where the image ends and the payload begins: (physical, virtual), page-aligned.
fn end(segments: &[Segment]) -> Result<(u64, u64)> {
    let last = loads(segments)
        .max_by_key(|segment| segment.p_paddr(LE))
        .context("the kernel has nothing to load")?;
    let end = (last.p_paddr(LE) + last.p_memsz(LE)).next_multiple_of(PAGE);
    Ok((end, last.p_vaddr(LE) - last.p_paddr(LE) + end))
}

fn content<'a>(elf: &'a [u8], segment: &Segment) -> Result<&'a [u8]> {
    segment
        .data(LE, elf)
        .ok()
        .context("a segment of the kernel lies outside its file")
}

/// The ELF again with only what is loaded, the note, and the payload as one more segment.
pub fn one_elf(elf: &[u8], payload: &[u8]) -> Result<Vec<u8>> {
    let (header, segments) = parse(elf)?;
    let (physical, virtual_) = end(segments)?;
    let mut file = vec![0; PAGE as usize];
    let mut placed = Vec::new();
    for segment in loads(segments) {
        let mut segment = *segment;
        let bytes = content(elf, &segment)?;
        segment.p_offset = U64::new(LE, file.len() as u64);
        // Limine puts the image on the largest boundary that a segment asks for.
        let first = placed.is_empty();
        segment.p_align = U64::new(LE, if first { IMAGE_ALIGN } else { PAGE });
        file.extend(bytes);
        file.resize(file.len().next_multiple_of(PAGE as usize), 0);
        placed.push(segment);
    }
    placed.push(Segment {
        p_type: U32::new(LE, PT_LOAD),
        p_flags: U32::new(LE, PF_R | PF_W),
        p_offset: U64::new(LE, file.len() as u64),
        p_vaddr: U64::new(LE, virtual_),
        p_paddr: U64::new(LE, physical),
        p_filesz: U64::new(LE, payload.len() as u64),
        p_memsz: U64::new(LE, payload.len() as u64),
        p_align: U64::new(LE, PAGE),
    });
    file.extend(payload);
    for note in segments
        .iter()
        .filter(|segment| segment.p_type(LE) == PT_NOTE)
    {
        let home = placed.iter().find(|load| {
            let start = load.p_vaddr(LE);
            (start..start + load.p_filesz(LE)).contains(&note.p_vaddr(LE))
        });
        let home = home.context("the kernel's PVH note is not in a loaded segment")?;
        let mut note = *note;
        note.p_offset = U64::new(LE, home.p_offset(LE) + note.p_vaddr(LE) - home.p_vaddr(LE));
        placed.push(note);
    }
    let mut header = *header;
    header.e_phoff = U64::new(LE, size_of::<Header>() as u64);
    header.e_phnum = U16::new(LE, placed.len() as u16);
    header.e_shoff = U64::new(LE, 0);
    header.e_shnum = U16::new(LE, 0);
    header.e_shstrndx = U16::new(LE, object::elf::SymbolSection(0));
    let head = [pod::bytes_of(&header), pod::bytes_of_slice(&placed)].concat();
    ensure!(
        head.len() <= PAGE as usize,
        "the kernel has too many segments"
    );
    file[..head.len()].copy_from_slice(&head);
    Ok(file)
}

/// The memory image from the first loaded byte on, bss included as zeros, and the payload behind
/// it.
fn flat(elf: &[u8], payload: &[u8]) -> Result<Vec<u8>> {
    let (_, segments) = parse(elf)?;
    let start = loads(segments)
        .map(|segment| segment.p_paddr(LE))
        .min()
        .context("the kernel has nothing to load")?;
    let (physical, _) = end(segments)?;
    let mut file = vec![0; (physical - start) as usize];
    for segment in loads(segments) {
        let at = (segment.p_paddr(LE) - start) as usize;
        let bytes = content(elf, segment)?;
        file[at..at + bytes.len()].copy_from_slice(bytes);
    }
    file.extend(payload);
    // The arm64 header: magic "ARM\x64" at 56, image_size at 16.
    if file.get(56..60) != Some(b"ARM\x64") {
        bail!("the kernel does not begin with an arm64 Image header");
    }
    let size = (file.len() as u64).to_le_bytes();
    file[16..24].copy_from_slice(&size);
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel with text (and a note in it) at 2 MiB and a data segment with bss behind it.
    fn kernel() -> Vec<u8> {
        let base = 0xffff_ffff_8000_0000u64;
        let mut header: Header = *pod::from_bytes(&[0u8; 64]).unwrap().0;
        header.e_ident.magic = object::elf::ELFMAG;
        header.e_ident.class = object::elf::ELFCLASS64;
        header.e_ident.data = object::elf::ELFDATA2LSB;
        header.e_ident.version = object::elf::EV_CURRENT;
        header.e_version = U32::new(LE, 1);
        header.e_phoff = U64::new(LE, 64);
        header.e_phentsize = U16::new(LE, 56);
        header.e_phnum = U16::new(LE, 3);
        let segment = |kind, offset, address: u64, filesz, memsz| Segment {
            p_type: U32::new(LE, kind),
            p_flags: U32::new(LE, object::elf::ProgramFlags(5)),
            p_offset: U64::new(LE, offset),
            p_vaddr: U64::new(LE, base + address),
            p_paddr: U64::new(LE, address),
            p_filesz: U64::new(LE, filesz),
            p_memsz: U64::new(LE, memsz),
            p_align: U64::new(LE, 4096),
        };
        let segments = [
            segment(PT_LOAD, 0x400, 0x20_0000, 0x80, 0x80),
            segment(PT_LOAD, 0x480, 0x20_1000, 4, 0x1004),
            segment(PT_NOTE, 0x460, 0x20_0060, 0x20, 0x20),
        ];
        let mut file = [pod::bytes_of(&header), pod::bytes_of_slice(&segments)].concat();
        file.resize(0x400, 0);
        file.extend([0x11; 0x38]);
        file.extend(b"ARM\x64");
        file.resize(0x460, 0x11);
        file.extend([0x22; 0x20]);
        file.extend([1, 2, 3, 4]);
        file
    }

    #[test]
    fn x86_64_gets_one_more_segment() {
        let payload = payload(b"symbols", b"archive");
        let file = direct(Arch::X86_64, &kernel(), &payload).unwrap();
        let header = Header::parse(&*file).unwrap();
        let segments = header.program_headers(LE, &*file).unwrap();
        assert_eq!(segments.len(), 4);
        let last = &segments[2];
        assert_eq!((last.p_type(LE), last.p_paddr(LE)), (PT_LOAD, 0x20_3000));
        assert_eq!(last.p_vaddr(LE), 0xffff_ffff_8020_3000);
        assert_eq!(last.data(LE, &*file).unwrap(), payload);
        assert_eq!(segments[1].data(LE, &*file).unwrap(), [1, 2, 3, 4]);
        assert_eq!(segments[1].p_memsz(LE), 0x1004);
        assert_eq!(segments[3].p_type(LE), PT_NOTE);
        assert_eq!(segments[3].data(LE, &*file).unwrap(), [0x22; 0x20]);
    }

    #[test]
    fn aarch64_is_flat() {
        let payload = payload(b"symbols", b"archive");
        let file = direct(Arch::Aarch64, &kernel(), &payload).unwrap();
        assert_eq!(file.len(), 0x3000 + payload.len());
        assert_eq!(file[16..24], (file.len() as u64).to_le_bytes());
        assert_eq!(file[0x1000..0x1005], [1, 2, 3, 4, 0]);
        assert_eq!(file[0x3000..], payload);
    }

    #[test]
    fn payload_layout() {
        let payload = payload(b"symbols", b"archive");
        let word =
            |n: usize| u64::from_le_bytes(payload[8 * n..8 * n + 8].try_into().unwrap()) as usize;
        assert_eq!(&payload[..8], b"QUIREPAY");
        assert_eq!(word(1), 1);
        assert_eq!(&payload[word(2)..word(2) + word(3)], b"symbols");
        assert_eq!(&payload[word(4)..word(4) + word(5)], b"archive");
        assert_eq!(
            (word(4) % 4096, word(6), payload.len() % 4096),
            (0, payload.len(), 0)
        );
    }

    #[test]
    fn not_a_kernel() {
        assert!(direct(Arch::X86_64, b"#!/bin/sh", &[]).is_err());
    }
}
