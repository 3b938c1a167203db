//! Calls that open a file: open(2), pipe(2), memfd_create(2).

use super::{read_path, start_of};
use crate::base::errno::{Errno, Result};
use crate::base::user_ptr::{UserPtr, UserStr};
use crate::fs::DirFd;
use crate::fs::kinds::ramfile::RamFile;
use crate::fs::kinds::{anonymous, fifo, hugefile};
use crate::fs::{OpenFile, OpenFlags, open};
use crate::process::task::Task;
use crate::syscall::door::flag_arguments;
use linux_raw_sys::general as c;

bitflags::bitflags! {
    /// Flags of pipe2(2).
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct PipeFlags: u32 {
        /// O_CLOEXEC.
        const CLOEXEC = c::O_CLOEXEC;
        /// O_NONBLOCK.
        const NONBLOCK = c::O_NONBLOCK;
        /// O_DIRECT, without effect.
        const DIRECT = c::O_DIRECT;
    }

    /// MFD_*.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct MemfdFlags: u32 {
        /// MFD_CLOEXEC.
        const CLOEXEC = c::MFD_CLOEXEC;
        /// MFD_ALLOW_SEALING.
        const ALLOW_SEALING = c::MFD_ALLOW_SEALING;
        /// MFD_NOEXEC_SEAL: not executable, and sealed so.
        const NOEXEC_SEAL = c::MFD_NOEXEC_SEAL;
        /// MFD_EXEC: executable.
        const EXEC = c::MFD_EXEC;
        /// MFD_HUGETLB: of huge pages.
        const HUGETLB = c::MFD_HUGETLB;
        /// Their size, with MFD_HUGETLB: see [`hugefile::size_of`].
        const HUGE_SIZE = c::MFD_HUGE_MASK << c::MFD_HUGE_SHIFT;
    }
}

flag_arguments!(PipeFlags: invalid, MemfdFlags: invalid);

/// openat(2); unknown flags are ignored, as there.
pub fn openat(task: &Task, dir: DirFd, path: UserStr, flags: OpenFlags, mode: u32) -> Result<u64> {
    let path = read_path(path)?;
    let base = start_of(task, dir, &path)?;
    let file = open::open(&task.fs(), base, &path, flags, mode)?;
    install(task, file, flags)
}

/// `struct open_how`: flags, mode, resolve.
pub type OpenHow = [u64; 3];

/// openat2(2): no way of resolving is refused, so RESOLVE_* flags are not known.
pub fn openat2(
    task: &Task,
    dir: DirFd,
    path: UserStr,
    how: UserPtr<OpenHow>,
    size: u64,
) -> Result<u64> {
    if size < size_of::<OpenHow>() as u64 {
        return Err(Errno::EINVAL);
    }
    let [flags, mode, resolve] = how.read()?;
    let flags = u32::try_from(flags).ok().and_then(OpenFlags::from_bits);
    let flags = flags.ok_or(Errno::EINVAL)?;
    if resolve != 0 || mode & !0o7777 != 0 {
        return Err(Errno::EINVAL);
    }
    openat(task, dir, path, flags, mode as u32)
}

fn install(task: &Task, file: alloc::sync::Arc<OpenFile>, flags: OpenFlags) -> Result<u64> {
    Ok(task
        .files()
        .install(file, flags.contains(OpenFlags::CLOEXEC))?
        .to_return())
}

/// pipe2(2).
pub fn pipe2(task: &Task, into: UserPtr<[i32; 2]>, flags: PipeFlags) -> Result<u64> {
    let open_flags = OpenFlags::from_bits_truncate(flags.bits());
    let (inode, reader, writer) = fifo::pair();
    let place = anonymous::place(inode);
    let files = task.files();
    let reader = OpenFile::new(place.clone(), reader, open_flags);
    let writer = OpenFile::new(place, writer, open_flags | OpenFlags::WRONLY);
    let close_on_exec = flags.contains(PipeFlags::CLOEXEC);
    let first = files.install(reader, close_on_exec)?;
    let second = match files.install(writer, close_on_exec) {
        Ok(second) => second,
        Err(error) => return files.close(first).and(Err(error)),
    };
    match into.write(&[first.0, second.0]) {
        Ok(()) => Ok(0),
        Err(error) => files.close(first).and(files.close(second)).and(Err(error)),
    }
}

/// memfd_create(2).
pub fn memfd_create(task: &Task, name: UserStr, flags: MemfdFlags) -> Result<u64> {
    let name = name.read(250).map_err(|error| match error {
        Errno::ENAMETOOLONG => Errno::EINVAL,
        other => other,
    })?;
    if flags.contains(MemfdFlags::NOEXEC_SEAL | MemfdFlags::EXEC) {
        return Err(Errno::EINVAL);
    }
    let (mode, seals) = match flags {
        noexec if noexec.contains(MemfdFlags::NOEXEC_SEAL) => (0o666, c::F_SEAL_EXEC),
        sealable if sealable.contains(MemfdFlags::ALLOW_SEALING) => (0o777, 0),
        _ => (0o777, c::F_SEAL_SEAL),
    };
    let huge = flags.contains(MemfdFlags::HUGETLB);
    if !huge && flags.intersects(MemfdFlags::HUGE_SIZE) {
        return Err(Errno::EINVAL);
    }
    let order = match huge {
        true => Some(hugefile::size_of(flags.bits()).ok_or(Errno::ENODEV)?),
        false => None,
    };
    let file = RamFile::memfd(&name, mode, seals, order);
    let place = anonymous::place(file.clone());
    let mut open_flags = OpenFlags::RDWR;
    open_flags.set(OpenFlags::CLOEXEC, flags.contains(MemfdFlags::CLOEXEC));
    install(task, OpenFile::new(place, file, open_flags), open_flags)
}
