//! Archives to boot, right and wrong.
use super::tinyelf::{self, PT_INTERP, PT_LOAD, Segment, Tiny};
use crate::arch::Arch;
use crate::initramfs::Archive;
use anyhow::Result;
use flate2::Compression;
use flate2::write::GzEncoder;
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

/// A program that wants an interpreter that is not there.
pub fn dynamic(arch: Arch) -> Vec<u8> {
    let path = b"/lib/ld-nowhere.so.1\0";
    let mut program = Tiny::new(arch, path.to_vec());
    let load = program.segments[0];
    let offset = program.entry - load.address;
    let size = path.len() as u64;
    program = program.with(Segment {
        kind: PT_INTERP,
        address: load.address + offset,
        offset,
        file_size: size,
        memory_size: size,
    });
    program.bytes()
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

/// A program whose segment says more than the file has: what is left of a copy that broke off.
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

/// An archive that unpacks to `mebibytes` of a file, in a gzip of a few hundred KiB.
pub fn bomb(arch: Arch, mebibytes: usize) -> Result<Vec<u8>> {
    let mut archive = Archive::default();
    archive.file("init", 0o755, &tinyelf::exit(arch, 0))?;
    archive.file("large", 0o644, &vec![0; mebibytes << 20])?;
    gzip(&archive.finish()?)
}
