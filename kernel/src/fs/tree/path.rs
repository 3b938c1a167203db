//! Path walk: from a path to a file.

use crate::base::errno::{Errno, Result};
use crate::fs::tree::context::FsContext;
use crate::fs::tree::inode::{FileKind, LinkTarget, Location};
use crate::sched;
use alloc::vec::Vec;
use parts::path::Rest;
pub use parts::path::{NAME_MAX, PATH_MAX};

/// Symbolic links that one walk follows at most, as in Linux.
const MAX_LINKS: usize = 40;
/// Names that are walked between two pauses.
const STEP: usize = 128;

/// Whether a symbolic link at the end of a path is followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Last {
    /// The link is followed.
    Follow,
    /// The link itself is meant.
    Keep,
}

/// Result of a walk: every name but the last one exists.
pub struct Walked {
    /// The directory of the last name; for a path without one ("/", "a/..") the place itself.
    pub dir: Location,
    /// The last name.
    pub name: LastName,
    /// The path ended with a slash: only a directory will do.
    pub slash: bool,
    /// The file that the path leads to, if it exists.
    pub found: Option<Location>,
}

/// The last name of a path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LastName {
    /// A name that can be created or removed.
    Name(Vec<u8>),
    /// ".": the path ends with it.
    Dot,
    /// "..": the path ends with it.
    DotDot,
    /// The path is "/" or a link that leads to a place without a path.
    Root,
}

impl Walked {
    /// What is there; ENOENT when nothing is, ENOTDIR when a slash follows something else than a
    /// directory.
    pub fn existing(self) -> Result<Location> {
        let found = self.found.ok_or(Errno::ENOENT)?;
        if self.slash && found.inode.node().kind != FileKind::Directory {
            return Err(Errno::ENOTDIR);
        }
        Ok(found)
    }
}

/// Walks to what `path` leads to. `base` is where a relative path starts.
pub fn resolve(context: &FsContext, base: Location, path: &[u8], last: Last) -> Result<Location> {
    walk(context, base, path, last)?.existing()
}

/// Walks as far as the last name. ENOENT for an empty path and missing directories, ENOTDIR, ELOOP,
/// ENAMETOOLONG; EINTR: the thread is to end. The caller holds no lock.
pub fn walk(context: &FsContext, base: Location, path: &[u8], last: Last) -> Result<Walked> {
    if path.is_empty() {
        return Err(Errno::ENOENT);
    }
    let root = context.root();
    let mut walker = Walker {
        here: base,
        rest: Rest::of(path),
        links: 0,
        root,
    };
    walker.start();
    for n in 1.. {
        // Links make a path of 4096 bytes forty times as long.
        if n % STEP == 0 && sched::breathe() {
            break;
        }
        let Some(name) = walker.rest.next_name() else {
            let here = walker.here;
            return Ok(Walked {
                found: Some(here.clone()),
                dir: here,
                name: LastName::Root,
                slash: true,
            });
        };
        if let Some(walked) = walker.step(name, last)? {
            return Ok(walked);
        }
    }
    Err(Errno::EINTR)
}

struct Walker {
    here: Location,
    rest: Rest,
    links: usize,
    root: Location,
}

impl Walker {
    /// An absolute path starts at the root.
    fn start(&mut self) {
        if self.rest.is_absolute() {
            self.here = self.root.clone();
        }
    }

    /// Walks one name; returns the result when it was the last one.
    fn step(&mut self, name: Vec<u8>, last: Last) -> Result<Option<Walked>> {
        let slash = self.rest.skip_slashes();
        let is_last = self.rest.is_empty();
        let directory = self.here.inode.directory().ok_or(Errno::ENOTDIR)?;
        if name.len() > NAME_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        let name = match &name[..] {
            b"." => LastName::Dot,
            b".." => LastName::DotDot,
            _ => LastName::Name(name),
        };
        let found = match &name {
            LastName::Dot | LastName::Root => Some(self.here.clone()),
            LastName::DotDot => Some(self.here.parent(&self.root)),
            LastName::Name(name) => match directory.lookup(name) {
                Ok(inode) => {
                    inode.node().adopt(&self.here.inode, name);
                    Some(self.here.beside(inode).cross())
                }
                Err(Errno::ENOENT) => None,
                Err(error) => return Err(error),
            },
        };
        let is_link = found
            .as_ref()
            .is_some_and(|f| f.inode.node().kind == FileKind::Symlink);
        if is_link && (!is_last || slash || last == Last::Follow) {
            let link = found.ok_or(Errno::ENOENT)?;
            return self.follow(&link, slash).map(|place| {
                // A link to a place ends the walk when it was the last name.
                let place = place.filter(|_| is_last)?;
                Some(Walked {
                    found: Some(place.clone()),
                    dir: place,
                    name: LastName::Root,
                    slash,
                })
            });
        }
        if is_last {
            return Ok(Some(Walked {
                dir: self.here.clone(),
                name,
                slash,
                found,
            }));
        }
        self.here = found.ok_or(Errno::ENOENT)?;
        Ok(None)
    }

    /// Puts a link's target in front of the rest of the path; the place, when it leads to one
    /// directly.
    fn follow(&mut self, link: &Location, slash: bool) -> Result<Option<Location>> {
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(Errno::ELOOP);
        }
        match link.inode.target()? {
            LinkTarget::Place(place) => {
                self.here = place.clone();
                Ok(Some(place))
            }
            LinkTarget::Path(path) => {
                if path.is_empty() {
                    return Err(Errno::ENOENT);
                }
                self.rest.follow(path, slash)?;
                self.start();
                Ok(None)
            }
        }
    }
}
