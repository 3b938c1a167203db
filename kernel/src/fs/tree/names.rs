//! Changing the tree: making, linking, removing and renaming files. One lock orders all changes, so
//! that what was checked still holds when it is done; lookups continue meanwhile.

use crate::base::errno::{Errno, Result};
use crate::base::ranks;
use crate::fs::room;
use crate::fs::tree::inode::{Directory, FileKind, Inode, Location, New};
use crate::fs::tree::mounts;
use crate::fs::tree::node::same_file;
use crate::fs::tree::path::{LastName, Walked};
use crate::sched;
use alloc::sync::Arc;
use mm::sync::{Guard, Lock};

/// Held while names are changed: how often rename(2) did.
static TREE: Lock<u64, { ranks::TREE }> = Lock::new(0);
/// Directories on the way up that are examined between two pauses.
const STEP: usize = 1024;

/// Highest st_nlink, as on Linux's larger file systems.
const MAX_LINKS: u32 = 65_000;

impl Walked {
    /// The name to be created; EEXIST when it is there, ENOENT for a name with a slash that is not
    /// a directory's.
    fn free_name(&self, directory: bool) -> Result<&[u8]> {
        match &self.name {
            _ if self.found.is_some() => Err(Errno::EEXIST),
            LastName::Name(_) if self.slash && !directory => Err(Errno::ENOENT),
            LastName::Name(name) => Ok(name),
            _ => Err(Errno::EEXIST),
        }
    }
}

fn directory_of(place: &Location) -> Result<&dyn Directory> {
    place.inode.directory().ok_or(Errno::ENOTDIR)
}

/// Makes a file under a free name. `mode` has the umask applied.
pub fn create(walked: &Walked, new: New, mode: u32) -> Result<Location> {
    let is_dir = matches!(new, New::Directory);
    let name = walked.free_name(is_dir)?;
    walked.dir.check_writable()?;
    let directory = directory_of(&walked.dir)?;
    let inode = directory.make(new, mode)?;
    let _tree = TREE.lock();
    enter(&walked.dir, name, &inode)?;
    if is_dir {
        walked.dir.inode.node().change(|a| a.links += 1);
        inode.node().change(|a| a.links = 2);
    }
    Ok(walked.dir.beside(inode))
}

/// link(2): another name for a file. EPERM for directories, EXDEV for another file system.
pub fn link(walked: &Walked, file: &Location) -> Result {
    let name = walked.free_name(false)?;
    walked.dir.check_writable()?;
    let node = file.inode.node();
    if node.device != walked.dir.inode.node().device {
        return Err(Errno::EXDEV);
    }
    if node.kind == FileKind::Directory {
        return Err(Errno::EPERM);
    }
    room::check_files(1)?;
    let _tree = TREE.lock();
    if node.attributes().links >= MAX_LINKS {
        return Err(Errno::EMLINK);
    }
    enter(&walked.dir, name, &file.inode)?;
    node.change(|a| a.links += 1);
    Ok(())
}

/// unlink(2) with `dir` false, rmdir(2) with `dir` true.
pub fn remove(walked: &Walked, dir: bool) -> Result {
    let name = match &walked.name {
        LastName::Name(name) => name,
        LastName::Dot if dir => return Err(Errno::EINVAL),
        LastName::DotDot if dir => return Err(Errno::ENOTEMPTY),
        LastName::Root if dir => return Err(Errno::EBUSY),
        _ => return Err(Errno::EISDIR),
    };
    let file = walked.found.as_ref().ok_or(Errno::ENOENT)?;
    if !Arc::ptr_eq(&file.mount, &walked.dir.mount) {
        return Err(if dir { Errno::EBUSY } else { Errno::EISDIR });
    }
    walked.dir.check_writable()?;
    let _tree = TREE.lock();
    check_removable(&file.inode, dir)?;
    if walked.slash && !dir {
        return Err(Errno::ENOTDIR);
    }
    leave(&walked.dir, name, &file.inode)
}

/// renameat2(2)'s flags that are known here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rename {
    /// Replaces what is there.
    Replace,
    /// RENAME_NOREPLACE.
    NoReplace,
    /// RENAME_EXCHANGE.
    Exchange,
}

/// rename(2).
pub fn rename(from: &Walked, to: &Walked, how: Rename) -> Result {
    let (LastName::Name(old), LastName::Name(new)) = (&from.name, &to.name) else {
        return Err(Errno::EBUSY);
    };
    let file = from.found.as_ref().ok_or(Errno::ENOENT)?;
    if !Arc::ptr_eq(&from.dir.mount, &to.dir.mount) {
        return Err(Errno::EXDEV);
    }
    from.dir.check_writable()?;
    let is_dir = file.inode.node().kind == FileKind::Directory;
    if (from.slash || to.slash) && !is_dir {
        return Err(Errno::ENOTDIR);
    }
    // A longer name needs memory, and must find it once the old one is gone.
    room::check_files(1)?;
    let covered = |found: &Location| !Arc::ptr_eq(&found.mount, &from.dir.mount);
    if covered(file) || to.found.as_ref().is_some_and(covered) {
        return Err(Errno::EBUSY);
    }
    let (mut tree, nesting) = Nesting::of(from, file, to)?;
    if nesting.into_itself {
        return Err(Errno::EINVAL);
    }
    *tree += 1;
    match (&to.found, how) {
        (Some(_), Rename::NoReplace) => return Err(Errno::EEXIST),
        (Some(other), Rename::Exchange) => {
            if nesting.out_of_target {
                return Err(Errno::EINVAL);
            }
            return exchange(from, old, to, new, &file.inode, &other.inode);
        }
        (None, Rename::Exchange) => return Err(Errno::ENOENT),
        // Two names of one file: nothing happens, says rename(2).
        (Some(other), _) if same_file(&other.inode, &file.inode) => return Ok(()),
        (Some(other), _) => {
            if is_dir && other.inode.node().kind != FileKind::Directory {
                return Err(Errno::ENOTDIR);
            }
            if nesting.out_of_target {
                return Err(Errno::ENOTEMPTY);
            }
            check_removable(&other.inode, is_dir)?;
            leave(&to.dir, new, &other.inode)?;
        }
        (None, _) => {}
    }
    directory_of(&from.dir)?.remove(old)?;
    directory_of(&to.dir)?.insert(new, &file.inode)?;
    moved(&from.dir, &to.dir, &file.inode);
    settle(&to.dir, new, &file.inode);
    from.dir.inode.node().touch_modified();
    Ok(())
}

fn exchange(
    from: &Walked,
    old: &[u8],
    to: &Walked,
    new: &[u8],
    file: &Arc<dyn Inode>,
    other: &Arc<dyn Inode>,
) -> Result {
    let (source, target) = (directory_of(&from.dir)?, directory_of(&to.dir)?);
    source.remove(old)?;
    target.remove(new)?;
    source.insert(old, other)?;
    target.insert(new, file)?;
    moved(&from.dir, &to.dir, file);
    moved(&to.dir, &from.dir, other);
    settle(&from.dir, old, other);
    settle(&to.dir, new, file);
    Ok(())
}

/// A directory's ".." is a link to its parent.
fn moved(from: &Location, to: &Location, inode: &Arc<dyn Inode>) {
    if inode.node().kind == FileKind::Directory {
        from.inode.node().change(|a| a.links -= 1);
        to.inode.node().change(|a| a.links += 1);
    }
}

/// The file is in `dir` now.
fn settle(dir: &Location, name: &[u8], inode: &Arc<dyn Inode>) {
    inode.node().set_home(&dir.inode, name);
    let now = crate::fs::tree::clock::now();
    inode.node().change(|a| a.changed = now);
    dir.inode.node().touch_modified();
}

fn enter(dir: &Location, name: &[u8], inode: &Arc<dyn Inode>) -> Result {
    // A directory that has been removed takes no new entries.
    if dir.inode.node().attributes().links == 0 {
        return Err(Errno::ENOENT);
    }
    directory_of(dir)?.insert(name, inode)?;
    settle(dir, name, inode);
    Ok(())
}

fn leave(dir: &Location, name: &[u8], inode: &Arc<dyn Inode>) -> Result {
    directory_of(dir)?.remove(name)?;
    let node = inode.node();
    node.leave_home(dir.inode.node(), name);
    let is_dir = node.kind == FileKind::Directory;
    let now = crate::fs::tree::clock::now();
    node.change(|a| {
        a.links = if is_dir { 0 } else { a.links.saturating_sub(1) };
        a.changed = now;
    });
    if is_dir {
        dir.inode.node().change(|a| a.links -= 1);
    }
    dir.inode.node().touch_modified();
    Ok(())
}

/// Whether the name can be removed: a directory by rmdir only, when it is empty and nothing is
/// mounted on it.
fn check_removable(inode: &Arc<dyn Inode>, dir: bool) -> Result {
    match (inode.directory(), dir) {
        (Some(_), false) => Err(Errno::EISDIR),
        (None, true) => Err(Errno::ENOTDIR),
        (Some(directory), true) if !directory.is_empty() => Err(Errno::ENOTEMPTY),
        (Some(_), true) if mounts::is_point(inode) => Err(Errno::EBUSY),
        _ => Ok(()),
    }
}

/// Nesting of the two ends of a rename(2).
struct Nesting {
    /// The new name is below the renamed directory.
    into_itself: bool,
    /// The old name is below the directory that has the new one.
    out_of_target: bool,
}

impl Nesting {
    /// Checks without the lock, since the ways up may be long, and again when names have changed
    /// meanwhile. EINTR: the thread is to end.
    fn of(
        from: &Walked,
        file: &Location,
        to: &Walked,
    ) -> Result<(Guard<'static, u64, { ranks::TREE }>, Nesting)> {
        loop {
            let before = *TREE.lock();
            let out_of_target = match &to.found {
                Some(other) => is_inside(&from.dir.inode, &other.inode)?,
                None => false,
            };
            let nesting = Nesting {
                into_itself: is_inside(&to.dir.inode, &file.inode)?,
                out_of_target,
            };
            let tree = TREE.lock();
            if *tree == before {
                return Ok((tree, nesting));
            }
        }
    }
}

/// Whether `inode` is the directory `top` or lies below it.
fn is_inside(inode: &Arc<dyn Inode>, top: &Arc<dyn Inode>) -> Result<bool> {
    if top.node().kind != FileKind::Directory {
        return Ok(false);
    }
    let above = core::iter::successors(Some(inode.clone()), |inode| inode.node().parent());
    for (inode, n) in above.zip(1..) {
        if same_file(&inode, top) {
            return Ok(true);
        }
        if n % STEP == 0 && sched::breathe() {
            return Err(Errno::EINTR);
        }
    }
    Ok(false)
}
