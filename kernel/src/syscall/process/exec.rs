//! execve(2) and execveat(2).

use crate::arch::trap::UserContext;
use crate::base::errno::{Errno, Result};
use crate::base::room;
use crate::base::user_ptr::{UserPtr, UserStr};
use crate::exec::{self, Strings};
use crate::fs::tree::path::PATH_MAX;
use crate::fs::{self, DirFd, ExecFile};
use crate::process::task::Task;
use crate::syscall::files::AtFlags;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// execve(2).
pub fn execve(
    task: &Arc<Task>,
    user: &mut UserContext,
    path: UserStr,
    args: UserPtr<UserStr>,
    env: UserPtr<UserStr>,
) -> Result<u64> {
    let path = path.read(PATH_MAX)?;
    let file = fs::open_exec(&task.fs(), &path)?;
    let strings = read_strings(args, env)?;
    exec::execve(task, user, file, &path, strings)
}

/// execveat(2).
pub fn execveat(
    task: &Arc<Task>,
    user: &mut UserContext,
    dir: DirFd,
    path: UserStr,
    args: UserPtr<UserStr>,
    env: UserPtr<UserStr>,
    flags: AtFlags,
) -> Result<u64> {
    let flags = flags.only(AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW)?;
    let path = path.read(PATH_MAX)?;
    let file = exec_file(task, dir, &path, flags)?;
    let strings = read_strings(args, env)?;
    exec::execve(task, user, file, &path, strings)
}

/// The program that execveat means: by path from the working directory or from an open one, or an
/// open file itself.
fn exec_file(task: &Task, dir: DirFd, path: &[u8], flags: AtFlags) -> Result<ExecFile> {
    let context = task.fs();
    if path.is_empty() {
        return if !flags.contains(AtFlags::EMPTY_PATH) {
            Err(Errno::ENOENT)
        } else {
            fs::exec_of(&*task.files().get(dir.open()?)?)
        };
    }
    let base = match dir {
        DirFd::Open(fd) if path[0] != b'/' => task.files().get(fd)?.place.clone(),
        _ => context.cwd(),
    };
    let follow = !flags.contains(AtFlags::SYMLINK_NOFOLLOW);
    fs::open_exec_at(&context, base, path, follow)
}

/// argv and envp.
fn read_strings(args: UserPtr<UserStr>, env: UserPtr<UserStr>) -> Result<Strings> {
    let mut budget = exec::MAX_STRINGS;
    let mut args = read_vector(args, &mut budget)?;
    if args.is_empty() {
        // As Linux since 5.18: a program always has a name.
        args.push(Vec::new());
    }
    Ok(Strings {
        args,
        env: read_vector(env, &mut budget)?,
    })
}

/// A null-terminated array of strings; E2BIG when they take more than `budget` bytes or one is too
/// long.
fn read_vector(array: UserPtr<UserStr>, budget: &mut usize) -> Result<Vec<Vec<u8>>> {
    let mut strings = Vec::new();
    if array.given().is_none() {
        return Ok(strings);
    }
    for n in 0.. {
        let address: u64 = array.element(n).field(0).read()?;
        let Some(string) = UserStr::from(address).given() else {
            break;
        };
        room::check(Errno::ENOMEM)?;
        fallible::reserve(&mut strings, 1)?;
        let string = string.read(exec::MAX_STRING).map_err(|error| match error {
            Errno::ENAMETOOLONG => Errno::E2BIG,
            other => other,
        })?;
        let before = *budget;
        *budget = before.checked_sub(string.len() + 9).ok_or(Errno::E2BIG)?;
        exec::breathe_between(before, *budget)?;
        strings.push(string);
    }
    Ok(strings)
}
