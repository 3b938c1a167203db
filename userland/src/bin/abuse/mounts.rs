//! Very many mounts on one directory, and mounts of directories whose paths are longer than a path
//! may be.
use super::Outcome;
use std::fs;
use std::io::Read;
use userland::sys::{Errno, Result, call, proc};

/// Mounts that are stacked unless the words say how many.
const HIGH: usize = 10_000;
/// Looks at the top of the stack.
const LOOKS: usize = 1000;
/// Directories inside of each other: a path of half a megabyte.
const DEEP: usize = 2000;

/// Stacks mounts and looks at them, at the bottom and in the table.
pub fn stack(words: &[String]) -> Outcome {
    let high = words.first().and_then(|word| word.parse().ok());
    stack_up(high.unwrap_or(HIGH)).map_err(|error| format!("{error}"))
}

fn stack_up(high: usize) -> Result<String> {
    fs::create_dir_all("top")?;
    let point = std::env::current_dir()?.join("top").display().to_string();
    for _ in 0..high {
        proc::mount(".", &point, "", libc::MS_BIND)?;
    }
    for _ in 0..LOOKS {
        fs::metadata(&point)?;
    }
    let (mounts, info) = (
        length("/proc/self/mounts")?,
        length("/proc/self/mountinfo")?,
    );
    for _ in 0..high {
        unmount(&point)?;
    }
    Ok(format!("{mounts} and {info} bytes of {high} mounts"))
}

fn unmount(path: &str) -> Result<()> {
    let path = std::ffi::CString::new(path).unwrap_or_default();
    call(libc::SYS_umount2, [path.as_ptr() as usize, 0, 0, 0, 0, 0]).map(drop)
}

/// Bytes of a file, which are not kept.
fn length(path: &str) -> Result<usize> {
    let (mut file, mut buffer, mut sum) = (fs::File::open(path)?, [0; 4096], 0);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(sum),
            n => sum += n,
        }
    }
}

/// A mount of a directory far down, shown while memory is full, too.
pub fn far_down(_: &[String]) -> Outcome {
    far().map_err(|error| format!("{error}"))
}

fn far() -> Result<String> {
    let (base, top) = (std::env::current_dir()?, "/mnt");
    fs::create_dir_all("point")?;
    fs::create_dir_all(top)?;
    proc::mount("far", top, "tmpfs", 0)?;
    std::env::set_current_dir(top)?;
    let name = "d".repeat(255);
    for _ in 0..DEEP {
        fs::create_dir(&name)?;
        std::env::set_current_dir(&name)?;
    }
    let point = base.join("point").display().to_string();
    proc::mount(".", &point, "", libc::MS_BIND)?;
    std::env::set_current_dir(&base)?;
    let shown = length("/proc/self/mountinfo")?;
    let filling = super::full::fill()?;
    let full = (0..LOOKS).try_for_each(|_| length("/proc/self/mountinfo").map(drop));
    filling.empty();
    unmount(&point)?;
    unmount(top)?;
    match full {
        Err(error) if error != Errno(libc::ENOMEM) => Err(error),
        _ => Ok(format!(
            "{shown} bytes of mountinfo, {full:?} while memory is full"
        )),
    }
}
