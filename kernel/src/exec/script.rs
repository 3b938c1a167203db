//! `#!` scripts, execve(2) "Interpreter scripts".

use super::{Refusal, Strings};
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
    /// The arguments of the interpreter: its name, the argument, the script, then the script's arguments.
    pub fn rewrite(&self, strings: &mut Strings, script: &[u8]) {
        let mut args = Vec::from([self.interpreter.clone()]);
        args.extend(self.argument.clone());
        args.push(script.to_vec());
        args.extend(strings.args.drain(..).skip(1));
        strings.args = args;
    }
}
