//! Children that end, and children that become another program.
use crate::meter::{Meter, Sample};
use crate::ops::{clone, populated};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use userland::measuring::{Line, ends_well};
use userland::sys::proc;
use userland::sys::{Errno, Result, call};

/// The end of a child with as much memory of its own as a region has, from the message that it may
/// end to its status, less that of a child without.
pub fn exit(meter: &mut Meter) -> Result<Sample> {
    let without = meter.quietly(exit_bare)?;
    Ok(end(meter, meter.pages)?.beyond(&without))
}

/// The same of a child without memory of its own.
pub fn exit_bare(meter: &mut Meter) -> Result<Sample> {
    end(meter, 0)
}

fn end(meter: &mut Meter, pages: usize) -> Result<Sample> {
    let (ours, theirs) = Line::pair()?;
    let pid = clone()?;
    if pid == 0 {
        let lived = populated(meter, pages).and_then(|region| {
            region.check_touched()?;
            theirs.round_trip()?;
            // Not unmapped before it ends.
            std::mem::forget(region);
            Ok(())
        });
        proc::exit_now(i32::from(lived.is_err()));
    }
    ours.hear()?;
    let sample = meter.timed(pages, || {
        ours.say()?;
        ends_well(pid)
    })?;
    [ours, theirs].into_iter().try_for_each(Line::close)?;
    Ok(sample)
}

/// The whole life of a child of a large parent that becomes a program that does nothing.
pub fn fork_exec(meter: &mut Meter) -> Result<Sample> {
    let region = populated(meter, meter.pages)?;
    let path = nothing().ok_or(Errno(libc::ENOENT))?;
    let path = CString::new(path.as_os_str().as_bytes()).map_err(|_| Errno(libc::EINVAL))?;
    // Made here, so that the child needs no memory for them.
    let args = [path.as_ptr() as usize, 0];
    let [args, environment] = [&args[..], &args[1..]].map(|list| list.as_ptr() as usize);
    let sample = meter.timed(0, || {
        let pid = clone()?;
        if pid == 0 {
            let program = path.as_ptr() as usize;
            let _ = call(libc::SYS_execve, [program, args, environment, 0, 0, 0]);
            proc::exit_now(127)
        }
        ends_well(pid)
    })?;
    region.check_touched()?;
    Ok(sample)
}

/// Why there is no [`fork_exec`] here.
pub fn no_program() -> Option<String> {
    match nothing() {
        Some(_) => None,
        None => Some("there is no program nothing beside this one".to_owned()),
    }
}

/// The program that does nothing.
fn nothing() -> Option<PathBuf> {
    let path = std::env::current_exe().ok()?.with_file_name("nothing");
    path.exists().then_some(path)
}
