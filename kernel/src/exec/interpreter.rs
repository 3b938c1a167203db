//! ELF interpreters (PT_INTERP): ld.so, which the kernel starts in the place of a dynamic program.

use super::refusal::BadInterpreter;
use super::{Refusal, TARGET};
use crate::base::errno::Errno;
use crate::fs::{self, ExecFile, FsContext};
use alloc::boxed::Box;
use alloc::string::String;
use parts::program::{Bytes, HEADER, Program};

/// An interpreter that can be loaded.
pub struct Interpreter {
    /// Its headers. One that names an interpreter of its own starts without it, as on Linux.
    pub program: Program,
    /// Its file.
    pub file: ExecFile,
}

impl Interpreter {
    /// The interpreter that `program` asks for, opened and checked; `None` for a static program.
    pub fn of(context: &FsContext, program: &Program) -> Result<Option<Self>, Refusal> {
        let Some(path) = &program.interpreter else {
            return Ok(None);
        };
        Self::open(context, path)
            .map(Some)
            .map_err(|why| match why {
                Refusal::Errno(Errno::ENOMEM) => why,
                why => Refusal::Interpreter(Box::new(BadInterpreter {
                    path: String::from_utf8_lossy(path).into_owned(),
                    why,
                })),
            })
    }

    fn open(context: &FsContext, path: &[u8]) -> Result<Self, Refusal> {
        let file = fs::open_exec(context, path)?;
        if file.size() < HEADER as u64 {
            return Err(Errno::EIO.into());
        }
        let program = Program::read(&file, &TARGET)?;
        Ok(Self { program, file })
    }
}
