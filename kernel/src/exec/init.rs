//! PID 1: its first program.

use super::{Strings, first};
use crate::base::cmdline::CommandLine;
use crate::base::errno::Errno;
use crate::fs::{self, FsContext};
use crate::process::task::{FirstProcess, set_heap_fail};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;

/// Makes PID 1 from the program that the command line names and puts it in the queue. The error
/// says in one sentence why it cannot run and what to do about it.
pub fn spawn_init(cmdline: &CommandLine) -> Result<(), String> {
    let out_of_memory = |_: Errno| String::from("out of memory; give the machine more (--mem)");
    let context = Arc::new(FsContext::new());
    let files = fs::boot::open_console().map_err(|e| format!("no console: {e:?}"))?;
    let process = FirstProcess::new().map_err(out_of_memory)?;
    set_heap_fail(process.process(), cmdline.heap_fail);
    let name = cmdline.init.rsplit('/').next().unwrap_or_default();
    let bytes = |word: &String| word.clone().into_bytes();
    let arguments = core::iter::once(&cmdline.init).chain(&cmdline.init_args);
    let strings = Strings {
        args: arguments.map(bytes).collect(),
        env: cmdline.init_env.iter().map(bytes).collect(),
    };
    let path = cmdline.init.as_bytes();
    let user = first(process.process(), &context, path, strings)?;
    process
        .start(name.as_bytes(), user, files, context)
        .map_err(out_of_memory)
}
