//! open, pipe, memfd_create.

use super::{read_path, start_of};
use crate::base::errno::{Errno, Result};
use crate::base::uaccess;
use crate::fs::DirFd;
use crate::fs::kinds::ramfile::RamFile;
use crate::fs::kinds::{anonymous, fifo};
use crate::fs::{OpenFile, open};
use crate::process::task::Task;
use linux_raw_sys::general as c;

/// Flags that openat2(2) knows.
const KNOWN: u32 = c::O_ACCMODE
    | c::O_CREAT
    | c::O_EXCL
    | c::O_NOCTTY
    | c::O_TRUNC
    | c::O_APPEND
    | c::O_NONBLOCK
    | c::O_SYNC
    | c::FASYNC
    | c::O_DIRECT
    | c::O_LARGEFILE
    | c::O_DIRECTORY
    | c::O_NOFOLLOW
    | c::O_NOATIME
    | c::O_CLOEXEC
    | c::O_PATH
    | c::O_TMPFILE;

/// openat(2); unknown flags are ignored, as there.
pub fn openat(task: &Task, dir: DirFd, path: u64, flags: u64, mode: u64) -> Result<u64> {
    let path = read_path(path)?;
    let flags = flags as u32 & KNOWN;
    let base = start_of(task, dir, &path)?;
    let file = open::open(&task.fs(), base, &path, flags, mode as u32)?;
    install(task, file, flags)
}

/// openat2(2): no way of resolving is refused, so RESOLVE_* flags are not known.
pub fn openat2(task: &Task, dir: DirFd, path: u64, how: u64, size: u64) -> Result<u64> {
    if size < 24 {
        return Err(Errno::EINVAL);
    }
    let [flags, mode, resolve]: [u64; 3] = uaccess::read(how)?;
    if flags & !u64::from(KNOWN) != 0 || resolve != 0 || mode & !0o7777 != 0 {
        return Err(Errno::EINVAL);
    }
    openat(task, dir, path, flags, mode)
}

fn install(task: &Task, file: alloc::sync::Arc<OpenFile>, flags: u32) -> Result<u64> {
    Ok(task
        .files()
        .install(file, flags & c::O_CLOEXEC != 0)?
        .to_return())
}

/// pipe2(2).
pub fn pipe(task: &Task, at: u64, flags: u64) -> Result<u64> {
    let flags = super::check_flags(flags, c::O_CLOEXEC | c::O_NONBLOCK | c::O_DIRECT)?;
    let (inode, reader, writer) = fifo::pair();
    let place = anonymous::place(inode);
    let files = task.files();
    let reader = OpenFile::new(place.clone(), reader, c::O_RDONLY | flags);
    let writer = OpenFile::new(place, writer, c::O_WRONLY | flags);
    let close_on_exec = flags & c::O_CLOEXEC != 0;
    let first = files.install(reader, close_on_exec)?;
    let second = match files.install(writer, close_on_exec) {
        Ok(second) => second,
        Err(error) => return files.close(first).and(Err(error)),
    };
    match uaccess::write(at, &[first.0, second.0]) {
        Ok(()) => Ok(0),
        Err(error) => files.close(first).and(files.close(second)).and(Err(error)),
    }
}

/// memfd_create(2).
pub fn memfd_create(task: &Task, name: u64, flags: u64) -> Result<u64> {
    let flags = super::check_flags(
        flags,
        c::MFD_CLOEXEC | c::MFD_ALLOW_SEALING | c::MFD_NOEXEC_SEAL | c::MFD_EXEC,
    )?;
    let name = uaccess::read_cstr(name, 250).map_err(|error| match error {
        Errno::ENAMETOOLONG => Errno::EINVAL,
        other => other,
    })?;
    let (mode, seals) = match flags & !c::MFD_CLOEXEC {
        both if both & (c::MFD_NOEXEC_SEAL | c::MFD_EXEC) == c::MFD_NOEXEC_SEAL | c::MFD_EXEC => {
            return Err(Errno::EINVAL);
        }
        noexec if noexec & c::MFD_NOEXEC_SEAL != 0 => (0o666, c::F_SEAL_EXEC),
        sealable if sealable & c::MFD_ALLOW_SEALING != 0 => (0o777, 0),
        _ => (0o777, c::F_SEAL_SEAL),
    };
    let file = RamFile::memfd(anonymous::device(), &name, mode, seals);
    let open = OpenFile::new(anonymous::place(file.clone()), file, c::O_RDWR);
    install(
        task,
        open,
        if flags & c::MFD_CLOEXEC != 0 {
            c::O_CLOEXEC
        } else {
            0
        },
    )
}
