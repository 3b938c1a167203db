//! The table of mounts.
//!
//! Mounts on one directory make a stack: the first is on the directory, the *ground*, each other
//! one on the root of the one below. A path walk uses the top of a stack; the path leads to its
//! ground. Both are found in constant time, however high the stack is.

use crate::base::errno::{Errno, Result};
use crate::base::ranks;
use crate::base::room;
use crate::fs::tree::inode::{FileKind, Inode, Location, Mount};
use crate::fs::tree::node::same_file;
use crate::sched;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicI64, Ordering};
use mm::sync::{Guard, Lock};
use spin::Once;

/// The most mounts that there may be: fs.mount-max.
pub static MAX_MOUNTS: AtomicI64 = AtomicI64::new(100_000);

/// A line of the mount table.
#[derive(Clone)]
pub struct Mounted {
    /// The mount.
    pub mount: Arc<Mount>,
    /// Its mount point; `None` for the root.
    pub point: Option<Point>,
}

/// Where a mount is.
#[derive(Clone)]
pub struct Point {
    /// The directory that it is on.
    pub on: Location,
    /// The ground of its stack.
    pub ground: Location,
    /// How many mounts are below it in the stack.
    below: usize,
}

/// A directory in a mount: the mount's number, and the address of a node that is kept as long as
/// something is mounted there.
type Key = (u32, usize);

fn key(place: &Location) -> Key {
    let node = core::ptr::from_ref(place.inode.node());
    (place.mount.id, node.addr())
}

struct MountTable {
    /// By their numbers, in the order of mounting.
    mounts: BTreeMap<u32, Mounted>,
    /// Their numbers by what they are on.
    points: BTreeMap<Key, u32>,
    /// The number of the top of each stack by its ground.
    tops: BTreeMap<Key, u32>,
    /// How often a mount was moved.
    moves: u64,
}

static TABLE: Lock<MountTable, { ranks::MOUNTS }> = Lock::new(MountTable {
    mounts: BTreeMap::new(),
    points: BTreeMap::new(),
    tops: BTreeMap::new(),
    moves: 0,
});
static ROOT: Once<Arc<Mount>> = Once::new();

impl MountTable {
    /// Where the mount is, of which `place` is the root.
    fn point(&self, place: &Location) -> Option<&Point> {
        let is_root = same_file(&place.inode, &place.mount.root);
        let found = is_root.then(|| self.mounts.get(&place.mount.id));
        found.flatten()?.point.as_ref()
    }
    /// The top of the stack that `place` is the ground of, or a part, if there is another one.
    fn top(&self, place: &Location) -> Option<&Arc<Mount>> {
        let ground = self.point(place).map_or(place, |point| &point.ground);
        let number = self.tops.get(&key(ground))?;
        let mount = &self.mounts.get(number)?.mount;
        (*number != place.mount.id).then_some(mount)
    }
    /// Puts a mount on a place that has none.
    fn insert(&mut self, mount: Arc<Mount>, on: Location) {
        let (ground, below) = match self.point(&on) {
            Some(point) => (point.ground.clone(), point.below + 1),
            None => (on.clone(), 0),
        };
        // Relaxed, here and below: changed under the lock, and looked at only to save a look at the
        // table.
        on.inode.node().mounts.fetch_add(1, Ordering::Relaxed);
        self.points.insert(key(&on), mount.id);
        self.tops.insert(key(&ground), mount.id);
        let point = Some(Point { on, ground, below });
        self.mounts.insert(mount.id, Mounted { mount, point });
    }
    /// Takes off a mount that no other one is on.
    fn remove(&mut self, number: u32) -> Option<Mounted> {
        let gone = self.mounts.remove(&number)?;
        if let Some(Point { on, ground, below }) = &gone.point {
            on.inode.node().mounts.fetch_sub(1, Ordering::Relaxed);
            self.points.remove(&key(on));
            match below {
                0 => self.tops.remove(&key(ground)),
                _ => self.tops.insert(key(ground), on.mount.id),
            };
        }
        Some(gone)
    }
    /// The number of a mount that is on a directory of this one.
    fn child(&self, number: u32) -> Option<u32> {
        let all = (number, 0)..=(number, usize::MAX);
        self.points.range(all).next().map(|(_, child)| *child)
    }
}

/// The root file system's mount. Panics before [`set_root`].
pub fn root() -> &'static Arc<Mount> {
    ROOT.get().expect("the root is mounted at boot")
}

/// Called once, by boot.
pub fn set_root(mount: Arc<Mount>) {
    ROOT.call_once(|| mount.clone());
    let root = Mounted { mount, point: None };
    TABLE.lock().mounts.insert(root.mount.id, root);
}

/// The first mount with this number or a higher one: the table in the order of mounting.
pub fn from(number: u32) -> Option<Mounted> {
    let table = TABLE.lock();
    let (_, mounted) = table.mounts.range(number..).next()?;
    Some(mounted.clone())
}

/// The top of the stack on a directory, unless that is its root.
pub fn top_at(place: &Location) -> Option<Arc<Mount>> {
    if !is_point(&place.inode) {
        return None;
    }
    TABLE.lock().top(place).cloned()
}

/// The place under the root of a mount, as a process whose root is `root` sees it: the ground of
/// the stack, or `root` when that is a part of the stack further down. `None` when the mount is not
/// attached.
pub fn under(place: &Location, root: Option<&Location>) -> Option<Location> {
    let table = TABLE.lock();
    let point = table.point(place)?;
    let stops = root.filter(|root| {
        table
            .point(root)
            .is_some_and(|root| root.below < point.below && key(&root.ground) == key(&point.ground))
    });
    Some(stops.unwrap_or(&point.ground).clone())
}

/// Mounts on top of what is mounted on a directory. ENOTDIR when one of the two is none, ENOSPC
/// when there are too many mounts, ENOMEM.
pub fn attach(mount: Arc<Mount>, point: Location) -> Result {
    let is_dir = |inode: &Arc<dyn Inode>| inode.node().kind == FileKind::Directory;
    if !is_dir(&mount.root) || !is_dir(&point.inode) {
        return Err(Errno::ENOTDIR);
    }
    room::check(Errno::ENOMEM)?;
    let mut table = TABLE.lock();
    // Relaxed: the limit stands for itself.
    if table.mounts.len() as i64 >= MAX_MOUNTS.load(Ordering::Relaxed) {
        return Err(Errno::ENOSPC);
    }
    let top = table.top(&point).map(|top| top.top());
    table.insert(mount, top.unwrap_or(point));
    Ok(())
}

/// MS_MOVE: `mount` is on `point` from now on. EINVAL for the root, for what is not mounted or
/// under another mount, and for a point inside of it. EINTR.
pub fn relocate(mount: &Arc<Mount>, point: Location) -> Result {
    let mut table = outside(mount, &point)?;
    let movable = |mounted: &Mounted| mounted.point.is_some();
    if !table.mounts.get(&mount.id).is_some_and(movable) || table.top(&mount.top()).is_some() {
        return Err(Errno::EINVAL);
    }
    let old = table.remove(mount.id);
    let top = table.top(&point).map(|top| top.top());
    table.insert(mount.clone(), top.unwrap_or(point));
    table.moves += 1;
    drop(table);
    drop(old);
    Ok(())
}

/// The table, once it is known that `point` is not in the mount, nor in one below it; EINVAL when
/// it is.
fn outside(
    mount: &Arc<Mount>,
    point: &Location,
) -> Result<Guard<'static, MountTable, { ranks::MOUNTS }>> {
    loop {
        let moves = TABLE.lock().moves;
        let mut above = Some(point.clone());
        while let Some(place) = above {
            if Arc::ptr_eq(&place.mount, mount) {
                return Err(Errno::EINVAL);
            }
            if sched::breathe() {
                return Err(Errno::EINTR);
            }
            above = under(&place.mount.top(), None);
        }
        let table = TABLE.lock();
        if table.moves == moves {
            return Ok(table);
        }
    }
}

/// Unmounts what `place`, the only reference of the caller's, is the root of, `lazily` with all
/// that is mounted in it. EINVAL when that is no mount's root, EBUSY while files of it are in use,
/// unless `lazily`.
pub fn detach(place: Location, lazily: bool) -> Result {
    if !same_file(&place.inode, &place.mount.root) {
        return Err(Errno::EINVAL);
    }
    let mut table = TABLE.lock();
    let mounted = table.mounts.get(&place.mount.id).ok_or(Errno::EINVAL)?;
    if mounted.point.is_none() {
        return Err(Errno::EBUSY);
    }
    if lazily {
        drop(table);
        detach_all(place.mount.id);
        return Ok(());
    }
    // Every place in it, open file, working directory, mapping and mount in it holds the mount; so
    // do the table and `place`.
    if Arc::strong_count(&place.mount) > 2 {
        return Err(Errno::EBUSY);
    }
    let gone = table.remove(place.mount.id);
    drop(table);
    drop(gone);
    Ok(())
}

/// Unmounts a mount and all that is mounted in it, from the innermost on.
fn detach_all(number: u32) {
    let (mut at, mut moves) = (number, None);
    loop {
        let mut table = TABLE.lock();
        if moves != Some(table.moves) || !table.mounts.contains_key(&at) {
            // What was found may be elsewhere now.
            (at, moves) = (number, Some(table.moves));
        }
        if let Some(child) = table.child(at) {
            at = child;
            drop(table);
        } else {
            let gone = table.remove(at);
            drop(table);
            if at == number {
                return;
            }
            let outer = gone.as_ref().and_then(|gone| gone.point.as_ref());
            at = outer.map_or(number, |point| point.on.mount.id);
        }
        sched::breathe();
    }
}

/// Whether something is mounted on the directory, in whatever mount.
pub fn is_point(inode: &Arc<dyn Inode>) -> bool {
    inode.node().mounts.load(Ordering::Relaxed) > 0
}
