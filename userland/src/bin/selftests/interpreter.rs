//! execve of dynamic programs: interpreters that cannot be used.
use super::exec::refusal;
use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, symlink};
use userland::harness::{Outcome, Stop};
use userland::{check, check_eq};

userland::tests![
    exec_interpreter_names,
    exec_interpreter_is_missing,
    exec_interpreter_is_no_program,
];

const HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;
const PT_LOAD: u32 = 1;
const PT_INTERP: u32 = 3;
/// Where the test program's one segment is linked, and the interpreter's name in its file.
const BASE: u64 = 0x40_0000;
const NAME_AT: usize = 0x800;

fn me() -> Result<Vec<u8>, Stop> {
    Ok(std::fs::read(std::env::current_exe()?)?)
}

/// A program for this machine whose PT_INTERP has the first `size` bytes of `name`.
fn dynamic(name: &[u8], size: usize) -> Result<Vec<u8>, Stop> {
    let mut file = me()?[..HEADER].to_vec();
    // e_type (ET_EXEC), e_entry, e_phoff, e_phentsize, e_phnum.
    file[16] = 2;
    file[24..32].copy_from_slice(&BASE.to_le_bytes());
    file[32..40].copy_from_slice(&(HEADER as u64).to_le_bytes());
    file[54..56].copy_from_slice(&(PROGRAM_HEADER as u16).to_le_bytes());
    file[56..58].copy_from_slice(&2u16.to_le_bytes());
    for (kind, offset, size) in [(PT_LOAD, 0, 0x1000), (PT_INTERP, NAME_AT, size)] {
        let address = BASE + offset as u64;
        // Read and execute.
        file.extend([kind.to_le_bytes(), 5u32.to_le_bytes()].as_flattened());
        for word in [
            offset as u64,
            address,
            address,
            size as u64,
            size as u64,
            0x1000,
        ] {
            file.extend(word.to_le_bytes());
        }
    }
    file.resize(NAME_AT, 0);
    file.extend(name);
    file.resize(0x2000, 0);
    Ok(file)
}

/// What exec says to a program with this interpreter.
fn with(name: &str) -> Result<String, Stop> {
    let name = [name.as_bytes(), b"\0"].concat();
    refusal("program", &dynamic(&name, name.len())?)
}

/// What exec says to a program whose interpreter is a file of these bytes.
fn with_file(bytes: &[u8]) -> Result<String, Stop> {
    std::fs::write("interpreter", bytes)?;
    std::fs::set_permissions("interpreter", Permissions::from_mode(0o755))?;
    with("./interpreter")
}

fn exec_interpreter_names() -> Outcome {
    for (name, size, said) in [
        (&b"/nowhere\0"[..], 9, "ENOENT"),
        // The name ends at its first NUL.
        (b"/nowhere\0/bin/sh\0", 17, "ENOENT"),
        (b"/nowhere\0", 8, "ENOEXEC"),
        (b"/nowhere\0", 1, "ENOEXEC"),
        (b"/nowhere\0", 0, "ENOEXEC"),
        (b"/nowhere\0", 4097, "ENOEXEC"),
    ] {
        check_eq!(
            (size, refusal("program", &dynamic(name, size)?)?.as_str()),
            (size, said)
        );
    }
    Ok(())
}

fn exec_interpreter_is_missing() -> Outcome {
    check_eq!(with("./nowhere")?, "ENOENT");
    check_eq!(with("/dev/null/x")?, "ENOTDIR");
    check_eq!(with("/")?, "EACCES");
    check_eq!(with("/dev/null")?, "EACCES");
    symlink("loop", "loop")?;
    check_eq!(with("./loop")?, "ELOOP");
    std::fs::write("plain", me()?)?;
    check_eq!(with("./plain")?, "EACCES");
    Ok(())
}

fn exec_interpreter_is_no_program() -> Outcome {
    let good = me()?;
    check_eq!(with_file(b"")?, "EIO");
    check_eq!(with_file(&good[..HEADER - 1])?, "EIO");
    check_eq!(with_file(&[b'x'; 100])?, "ELIBBAD");
    // Scripts are no interpreters of ELF files.
    check_eq!(
        with_file(format!("#!/bin/sh\n{:100}", "").as_bytes())?,
        "ELIBBAD"
    );
    // It ends inside its program headers.
    check_eq!(with_file(&good[..HEADER + 10])?, "ELIBBAD");
    let mut other = good.clone();
    // e_machine: neither of ours.
    (other[18], other[19]) = (0x08, 0);
    check_eq!(with_file(&other)?, "ELIBBAD");
    // Segments that the file does not hold: refused, or the program dies; never more than that.
    let said = with_file(&good[..8192])?;
    check!(said == "ELIBBAD" || said.starts_with("Killed"), "{said}");
    Ok(())
}
