//! What a dynamic program or library asks for.
use anyhow::{Context, Result};
use object::LittleEndian;
use object::elf::{DT_NEEDED, FileHeader64, PT_INTERP};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};

/// The libraries that it names.
pub fn needed(bytes: &[u8]) -> Result<Vec<String>> {
    let header = FileHeader64::<LittleEndian>::parse(bytes)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, bytes)?;
    let Some((entries, link)) = sections.dynamic(endian, bytes)? else {
        return Ok(Vec::new());
    };
    let strings = sections.strings(endian, bytes, link)?;
    let mut names = Vec::new();
    for entry in entries.iter().filter(|it| it.tag(endian) == DT_NEEDED) {
        names.push(String::from_utf8(entry.string(endian, strings)?.to_vec())?);
    }
    Ok(names)
}

/// The path of its interpreter.
pub fn interpreter(bytes: &[u8]) -> Result<String> {
    let header = FileHeader64::<LittleEndian>::parse(bytes)?;
    let endian = header.endian()?;
    let headers = header.program_headers(endian, bytes)?;
    let found = headers.iter().find(|one| one.p_type(endian) == PT_INTERP);
    let path = found.and_then(|one| one.data(endian, bytes).ok());
    let path = path.context("the program has no interpreter")?;
    Ok(String::from_utf8_lossy(path)
        .trim_end_matches('\0')
        .to_owned())
}
