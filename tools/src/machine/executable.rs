//! Programs for the guest: whether Quire can run a file, and on which machine.
use crate::host::arch::Arch;
use object::LittleEndian;
use object::elf::{EM_AARCH64, EM_X86_64, ET_DYN, ET_EXEC, FileHeader64, PT_INTERP};
use object::read::elf::{FileHeader, ProgramHeader};

/// The machine that a program is for; `None` for a script, which runs on any. The error says why
/// the file cannot be run.
pub fn machine(bytes: &[u8]) -> Result<Option<Arch>, String> {
    if bytes.starts_with(b"#!") {
        return Ok(None);
    }
    if !bytes.starts_with(b"\x7fELF") {
        return Err("is no program: it begins neither as an ELF file nor with #!".to_owned());
    }
    let damaged = |error: object::Error| format!("is a damaged program: {error}");
    let header = FileHeader64::<LittleEndian>::parse(bytes)
        .map_err(|_| "is no program of 64 bits, little-endian".to_owned())?;
    let endian = header.endian().map_err(damaged)?;
    let arch = match header.e_machine.get(endian) {
        EM_X86_64 => Arch::X86_64,
        EM_AARCH64 => Arch::Aarch64,
        other => {
            return Err(format!(
                "is for a machine that Quire does not run on (ELF's number {other})"
            ));
        }
    };
    if ![ET_EXEC, ET_DYN].contains(&header.e_type.get(endian)) {
        return Err("is no program yet: it was not linked".to_owned());
    }
    let headers = header.program_headers(endian, bytes).map_err(damaged)?;
    match headers.iter().find(|one| one.p_type(endian) == PT_INTERP) {
        None => Ok(Some(arch)),
        Some(one) => {
            let path = one.data(endian, bytes).unwrap_or_default();
            let path = String::from_utf8_lossy(path);
            Err(format!(
                "is not static: it needs {}, and only the program itself is packed; link it with -static",
                path.trim_end_matches('\0')
            ))
        }
    }
}

/// [`machine`], when `arch` was asked for.
pub fn machine_or(bytes: &[u8], arch: Option<Arch>) -> Result<Option<Arch>, String> {
    match (machine(bytes)?, arch) {
        (Some(found), Some(asked)) if found != asked => {
            Err(format!("is for {found}, and --arch is {asked}"))
        }
        (found, asked) => Ok(found.or(asked)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{inputs, tinyelf};

    #[test]
    fn what_runs_here() {
        for arch in Arch::ALL {
            let program = tinyelf::exit(arch, 0);
            assert_eq!(machine(&program), Ok(Some(arch)));
            assert_eq!(machine_or(&program, Some(arch)), Ok(Some(arch)));
            let error = machine_or(&program, Some(arch.other())).unwrap_err();
            assert_eq!(
                error,
                format!("is for {arch}, and --arch is {}", arch.other())
            );
        }
        assert_eq!(machine(b"#!/bin/sh\n"), Ok(None));
        let script = machine_or(b"#!/bin/sh\n", Some(Arch::Aarch64));
        assert_eq!(script, Ok(Some(Arch::Aarch64)));
    }

    #[test]
    fn what_does_not_says_why() {
        let refused = |bytes: &[u8]| machine(bytes).unwrap_err();
        assert!(refused(b"").starts_with("is no program"));
        assert!(refused(b"int main() {}").starts_with("is no program"));
        assert!(refused(b"\x7fELF\x01\x01\x01").starts_with("is no program of 64 bits"));
        let error = refused(&inputs::dynamic(Arch::X86_64));
        assert!(error.contains("needs /lib/ld-nowhere.so.1,"), "{error}");
        let mut other = tinyelf::exit(Arch::X86_64, 0);
        other[18] = 0xf3; // e_machine: RISC-V
        assert!(refused(&other).contains("ELF's number 243"));
        let mut object = tinyelf::exit(Arch::X86_64, 0);
        object[16] = 1; // e_type: ET_REL
        assert!(refused(&object).ends_with("not linked"));
    }
}
