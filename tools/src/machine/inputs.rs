//! Archives to boot, right and wrong.
use super::tinyelf::{self, PT_INTERP, PT_LOAD, Segment, Tiny};
use crate::host::arch::Arch;
use crate::machine::initramfs::Archive;
use anyhow::{Context, Result, ensure};
use flate2::write::GzEncoder;
use flate2::{Compress, Compression, Crc, FlushCompress};
use std::io::Write;

/// An archive with this /init.
pub fn with_init(init: &[u8]) -> Result<Vec<u8>> {
    let mut archive = Archive::default();
    archive.directory("dev")?.file("init", 0o755, init)?;
    archive.finish()
}

/// An archive without /init.
pub fn without_init() -> Result<Vec<u8>> {
    let mut archive = Archive::default();
    archive.directory("bin")?;
    archive.finish()
}

/// /init is a script, run by a program that ends with 42.
pub fn script(arch: Arch) -> Result<Vec<u8>> {
    let mut archive = Archive::default();
    archive
        .directory("bin")?
        .file("bin/interpreter", 0o755, &tinyelf::exit(arch, 42))?;
    archive.file("init", 0o755, b"#!/bin/interpreter with one argument\n")?;
    archive.finish()
}

/// A program with an interpreter that does not exist.
pub fn dynamic(arch: Arch) -> Vec<u8> {
    with_interpreter(Tiny::new(arch, Vec::new())).bytes()
}

/// [`dynamic`] that ends with `status` when it is started without its interpreter.
pub fn dynamic_that_exits(arch: Arch, status: u8) -> Vec<u8> {
    with_interpreter(Tiny::new(arch, tinyelf::exit_code(arch, status))).bytes()
}

/// The name of the interpreter comes behind the code.
fn with_interpreter(mut program: Tiny) -> Tiny {
    let path = b"/lib/ld-nowhere.so.1\0";
    let load = &mut program.segments[0];
    let offset = load.file_size;
    let size = path.len() as u64;
    load.file_size += size;
    load.memory_size += size;
    let address = load.address + offset;
    program.code.extend(path);
    program.with(Segment {
        kind: PT_INTERP,
        address,
        offset,
        file_size: size,
        memory_size: size,
    })
}

/// A sound program with one more segment at `address`.
pub fn with_segment(arch: Arch, address: u64) -> Vec<u8> {
    let size = 0x10;
    let segment = Segment {
        kind: PT_LOAD,
        address,
        offset: 0,
        file_size: size,
        memory_size: size,
    };
    Tiny::new(arch, tinyelf::exit_code(arch, 0))
        .with(segment)
        .bytes()
}

/// A program with a segment beyond the end of the file, as after an incomplete copy.
pub fn cut(arch: Arch) -> Vec<u8> {
    let mut program = Tiny::new(arch, vec![0; 4]);
    program.segments[0].file_size = 1 << 20;
    program.segments[0].memory_size = 1 << 20;
    program.bytes()
}

/// gzip, as `gzip -n` would.
pub fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

/// An archive with a file of so many `mebibytes`, in a gzip of a thousandth of that.
pub fn bomb(arch: Arch, mebibytes: usize) -> Result<Vec<u8>> {
    let mut archive = Archive::default();
    archive.file("init", 0o755, &tinyelf::exit(arch, 0))?;
    archive.file("large", 0o644, &[])?;
    let mut head = archive.finish()?;
    let name = head
        .windows(6)
        .position(|bytes| bytes == b"large\0")
        .context("the archive has no file called large")?;
    // cpio(5): the name is right behind the 110 bytes of its header, where the size is at 54, in
    // hexadecimal.
    let size = name - 110 + 54;
    head[size..size + 8].copy_from_slice(format!("{:08x}", mebibytes << 20).as_bytes());
    head.truncate((name + 6).next_multiple_of(4));
    zipped_with_zeros(&head, mebibytes)
}

/// RFC 1952 around RFC 1951: `head`, then zeros. A mebibyte of them is compressed once and stands
/// there many times; a full flush makes pieces that need nothing from those before.
fn zipped_with_zeros(head: &[u8], mebibytes: usize) -> Result<Vec<u8>> {
    let piece = |bytes: &[u8], flush| -> Result<Vec<u8>> {
        let mut out = Vec::with_capacity(bytes.len() + 1024);
        let mut deflate = Compress::new(Compression::fast(), false);
        deflate.compress_vec(bytes, &mut out, flush)?;
        ensure!(
            deflate.total_in() == bytes.len() as u64,
            "not all was compressed"
        );
        Ok(out)
    };
    let crc = |bytes: &[u8]| {
        let mut crc = Crc::new();
        crc.update(bytes);
        crc
    };
    let zeros = vec![0; 1 << 20];
    let (zipped, zeros) = (piece(&zeros, FlushCompress::Full)?, crc(&zeros));
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    out.extend(piece(head, FlushCompress::Full)?);
    let mut sum = crc(head);
    for _ in 0..mebibytes {
        out.extend(&zipped);
        sum.combine(&zeros);
    }
    out.extend(piece(&[], FlushCompress::Finish)?);
    out.extend(sum.sum().to_le_bytes());
    out.extend(sum.amount().to_le_bytes());
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn a_bomb_is_a_sound_gzip() {
        let bomb = bomb(Arch::X86_64, 3).unwrap();
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(&*bomb)
            .read_to_end(&mut bytes)
            .unwrap();
        let zeros = bytes.iter().rev().take_while(|byte| **byte == 0).count();
        assert!(
            zeros >= 3 << 20 && bomb.len() < 100_000,
            "{zeros} {}",
            bomb.len()
        );
        assert!(bytes.windows(8).any(|text| text == b"00300000"));
    }
}
