//! `#!` scripts, execve(2) "Interpreter scripts".

use alloc::vec::Vec;
use fallible::OutOfMemory;

/// The first line of a script.
#[derive(PartialEq, Eq, Debug)]
pub struct Script {
    /// The program that runs it.
    pub interpreter: Vec<u8>,
    /// At most one argument: all the rest of the line.
    pub argument: Option<Vec<u8>>,
}

/// How much of the first line counts, with the `#!`.
pub const LINE: usize = 255;

/// The first line names nothing, or the name does not fit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoInterpreter;

/// The first line, when the file is a script. `bytes` are its first [`LINE`], or all of it.
pub fn parse(bytes: &[u8]) -> Result<Option<Script>, NoInterpreter> {
    let Some(line) = bytes.strip_prefix(b"#!") else {
        return Ok(None);
    };
    let end = line.iter().position(|b| *b == b'\n' || *b == 0);
    let whole = end.is_some() || bytes.len() < LINE;
    let line = line[..end.unwrap_or(line.len())].trim_ascii();
    let name_end = line.iter().position(|b| matches!(b, b' ' | b'\t'));
    let (name, rest) = line.split_at(name_end.unwrap_or(line.len()));
    if name.is_empty() || (name_end.is_none() && !whole) {
        return Err(NoInterpreter);
    }
    let rest = rest.trim_ascii();
    Ok(Some(Script {
        interpreter: name.to_vec(),
        argument: (!rest.is_empty()).then(|| rest.to_vec()),
    }))
}

impl Script {
    /// The arguments of the interpreter: its name, the argument, the script, then the script's
    /// arguments.
    pub fn rewrite(&self, args: &mut Vec<Vec<u8>>, script: &[u8]) -> Result<(), OutOfMemory> {
        // There may be very many arguments: room for the new ones is all that is needed.
        fallible::reserve(args, 3)?;
        let first = [Some(self.interpreter.clone()), self.argument.clone()];
        let first = first.into_iter().flatten().chain([script.to_vec()]);
        let own_name = ..args.len().min(1);
        args.splice(own_name, first);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn script(name: &str, argument: Option<&str>) -> Result<Option<Script>, NoInterpreter> {
        Ok(Some(Script {
            interpreter: name.into(),
            argument: argument.map(Into::into),
        }))
    }

    #[test]
    fn one_name_and_one_argument() {
        for (line, wanted) in [
            ("#!/bin/sh\nexit", script("/bin/sh", None)),
            ("#! \t/bin/sh  -e -x \n", script("/bin/sh", Some("-e -x"))),
            ("#!/bin/sh", script("/bin/sh", None)),
            ("#!/bin/sh\0 -e", script("/bin/sh", None)),
            ("#!\n/bin/sh", Err(NoInterpreter)),
            ("#!", Err(NoInterpreter)),
            ("# !/bin/sh", Ok(None)),
            ("", Ok(None)),
        ] {
            assert_eq!(parse(line.as_bytes()), wanted, "{line:?}");
        }
    }

    #[test]
    fn a_name_that_may_go_on_is_none() {
        let mut line = b"#!/".to_vec();
        line.resize(LINE, b'x');
        assert_eq!(parse(&line), Err(NoInterpreter));
        // An argument that is cut off is one all the same.
        line[10] = b' ';
        assert!(matches!(
            parse(&line),
            Ok(Some(Script {
                argument: Some(_),
                ..
            }))
        ));
    }

    #[test]
    fn the_script_stands_before_its_arguments() {
        let words =
            |words: &[&str]| -> Vec<Vec<u8>> { words.iter().map(|w| (*w).into()).collect() };
        let script = Script {
            interpreter: "/bin/sh".into(),
            argument: Some("-e".into()),
        };
        for (mut args, wanted) in [
            (words(&["./x", "a"]), words(&["/bin/sh", "-e", "/x", "a"])),
            (vec![], words(&["/bin/sh", "-e", "/x"])),
        ] {
            script.rewrite(&mut args, b"/x").expect("memory");
            assert_eq!(args, wanted);
        }
    }
}
