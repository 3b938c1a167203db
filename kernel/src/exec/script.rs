//! `#!` scripts, execve(2) "Interpreter scripts".

use super::{Refusal, Strings};
use crate::base::errno::Errno;
use crate::fs::ExecFile;
use alloc::vec::Vec;

/// The first line of a script.
pub struct Script {
    /// The program that runs it.
    pub interpreter: Vec<u8>,
    /// At most one argument: all the rest of the line.
    pub argument: Option<Vec<u8>>,
}

/// How much of the first line counts, with the `#!`.
const LINE: usize = 255;

/// The first line, when the file is a script. ENOEXEC: the line names nothing, or the name does not fit.
pub fn parse(file: &ExecFile) -> Result<Option<Script>, Refusal> {
    let mut bytes = [0; LINE];
    let len = file.read_at(0, &mut bytes);
    let Some(line) = bytes[..len].strip_prefix(b"#!") else {
        return Ok(None);
    };
    let end = line.iter().position(|b| *b == b'\n' || *b == 0);
    let whole = end.is_some() || len < LINE;
    let line = line[..end.unwrap_or(line.len())].trim_ascii();
    let name_end = line.iter().position(|b| matches!(b, b' ' | b'\t'));
    let (name, rest) = line.split_at(name_end.unwrap_or(line.len()));
    if name.is_empty() || (name_end.is_none() && !whole) {
        return Err(Refusal::NotElf);
    }
    let rest = rest.trim_ascii();
    Ok(Some(Script {
        interpreter: name.to_vec(),
        argument: (!rest.is_empty()).then(|| rest.to_vec()),
    }))
}

impl Script {
    /// The arguments of the interpreter: its name, the argument, the script, then the script's
    /// arguments. ENOMEM.
    pub fn rewrite(&self, strings: &mut Strings, script: &[u8]) -> Result<(), Errno> {
        let args = &mut strings.args;
        // There may be very many arguments: room for the new ones is all that is needed.
        fallible::reserve(args, 3)?;
        let first = [Some(self.interpreter.clone()), self.argument.clone()];
        let first = first.into_iter().flatten().chain([script.to_vec()]);
        let own_name = ..args.len().min(1);
        args.splice(own_name, first);
        Ok(())
    }
}
