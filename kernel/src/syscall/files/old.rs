//! Calls on files that only x86_64 has; newer machines have a more general one in their place.

use super::names::UnlinkFlags;
use super::open::PipeFlags;
use super::{
    AtFlags, attributes, descriptors, directories, epoll, event, names, open, poll, select, stat,
};
use crate::fs::{DirFd, OpenFlags};
use crate::process::task::Task;
use crate::syscall::other;
use crate::syscall::rows::rows;

const CWD: DirFd = DirFd::Cwd;

rows! {
    /// Answers the call, or passes it on.
    call, other;

    open => |task: &Task, path, flags, mode| open::openat(task, CWD, path, flags, mode);
    creat => |task: &Task, path, mode| {
        let flags = OpenFlags::CREAT | OpenFlags::WRONLY | OpenFlags::TRUNC;
        open::openat(task, CWD, path, flags, mode)
    };
    pipe => |task: &Task, at| open::pipe2(task, at, PipeFlags::empty());
    dup2 => descriptors::dup2;
    stat => |task: &Task, path, into| stat::fstatat(task, CWD, path, into, AtFlags::empty());
    lstat => |task: &Task, path, into| {
        stat::fstatat(task, CWD, path, into, AtFlags::SYMLINK_NOFOLLOW)
    };
    access => |task: &Task, path, mode| stat::faccessat(task, CWD, path, mode);
    readlink => |task: &Task, path, into, size| stat::readlinkat(task, CWD, path, into, size);
    chmod => |task: &Task, path, mode| attributes::fchmodat(task, CWD, path, mode);
    chown => |task: &Task, path, uid, gid| {
        attributes::fchownat(task, CWD, path, uid, gid, AtFlags::empty())
    };
    lchown => |task: &Task, path, uid, gid| {
        attributes::fchownat(task, CWD, path, uid, gid, AtFlags::SYMLINK_NOFOLLOW)
    };
    utime => attributes::utime;
    utimes => |task: &Task, path, times| attributes::futimesat(task, CWD, path, times);
    futimesat => attributes::futimesat;
    mkdir => |task: &Task, path, mode| names::mkdirat(task, CWD, path, mode);
    mknod => |task: &Task, path, mode, device| names::mknodat(task, CWD, path, mode, device);
    rmdir => |task: &Task, path| names::unlinkat(task, CWD, path, UnlinkFlags::REMOVEDIR);
    unlink => |task: &Task, path| names::unlinkat(task, CWD, path, UnlinkFlags::empty());
    link => |task: &Task, from, to| names::linkat(task, CWD, from, CWD, to, AtFlags::empty());
    symlink => |task: &Task, target, path| names::symlinkat(task, target, CWD, path);
    rename => |task: &Task, from, to| names::renameat(task, CWD, from, CWD, to);
    getdents => directories::getdents;
    epoll_create => epoll::epoll_create;
    epoll_wait => epoll::epoll_wait, NOT_RESTARTED;
    eventfd => event::eventfd;
    poll => poll::poll, NOT_RESTARTED;
    select => select::select, NOT_RESTARTED;
}
