//! Unpacking the initramfs into the root file system.

use crate::base::errno::Errno;
use crate::fs::tree::clock::Time;
use crate::fs::tree::context::FsContext;
use crate::fs::tree::inode::{Device, FileKind, Inode, Location, New};
use crate::fs::tree::names;
use crate::fs::tree::path::{self, Last, Walked};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use fallible::SortedMap;
use parts::cpio::{Member, Unpack};

/// Receives the members of an archive.
struct Unpacker {
    context: FsContext,
    /// The file that is being filled, and how far.
    file: Option<(Arc<dyn Inode>, u64)>,
    /// The target of the symbolic link that is being read.
    link: Option<(Member, Vec<u8>)>,
    /// Files with several names, by their identity in the archive.
    linked: SortedMap<(u32, u32, u32), Location>,
}

/// Unpacks the archives; the error says what is wrong and where.
pub fn unpack(archive: &[u8]) -> Result<(), String> {
    let mut unpacker = Unpacker {
        context: FsContext::new(),
        file: None,
        link: None,
        linked: SortedMap::new(),
    };
    parts::archive::unpack(archive, &mut unpacker).map_err(|error| format!("{error}"))
}

impl Unpack for Unpacker {
    fn member(&mut self, member: &Member) -> Result<(), String> {
        (self.file, self.link) = (None, None);
        let kind = FileKind::from_mode(member.mode)
            .ok_or_else(|| format!("file type {:o}", member.mode))?;
        if kind == FileKind::Symlink {
            self.link = Some((member.clone(), Vec::new()));
            return Ok(());
        }
        self.make(member, kind).map_err(words)
    }

    fn data(&mut self, bytes: &[u8]) -> Result<(), String> {
        if let Some((_, target)) = &mut self.link {
            target.extend_from_slice(bytes);
            return if target.len() < path::PATH_MAX {
                Ok(())
            } else {
                Err(words(Errno::ENAMETOOLONG))
            };
        }
        let Some((inode, offset)) = &mut self.file else {
            return Ok(());
        };
        let Some(object) = inode.object() else {
            return Ok(());
        };
        object
            .write_at(*offset, bytes)
            .map_err(|_| words(Errno::ENOMEM))?;
        *offset += bytes.len() as u64;
        Ok(())
    }

    fn end(&mut self) -> Result<(), String> {
        if let Some((member, target)) = self.link.take() {
            self.make_link(&member, target).map_err(words)?;
        }
        self.file = None;
        Ok(())
    }
}

impl Unpacker {
    fn walk(&self, name: &[u8]) -> crate::base::errno::Result<Walked> {
        path::walk(&self.context, self.context.root(), name, Last::Keep)
    }

    /// The place of a member that replaces what an earlier archive put there, directories excepted.
    fn clear(&self, member: &Member) -> crate::base::errno::Result<Walked> {
        let walked = self.walk(&member.name)?;
        let is_dir = |place: &Location| place.inode.node().kind == FileKind::Directory;
        match &walked.found {
            Some(place) if !is_dir(place) => {
                names::remove(&walked, false)?;
                self.walk(&member.name)
            }
            _ => Ok(walked),
        }
    }

    fn make(&mut self, member: &Member, kind: FileKind) -> crate::base::errno::Result {
        if kind == FileKind::Regular
            && member.links > 1
            && let Some(first) = self.linked.get(&member.identity)
        {
            let file = first.inode.clone();
            let walked = self.clear(member)?;
            names::link(&walked, first)?;
            self.file = Some((file, 0));
            return Ok(());
        }
        let walked = self.clear(member)?;
        let new = match kind {
            FileKind::Directory => New::Directory,
            FileKind::Regular => New::Regular,
            special => New::Special(special, Device(member.device.0, member.device.1)),
        };
        let place = match (kind, walked.found.clone()) {
            (FileKind::Directory, Some(there)) => there,
            _ => names::create(&walked, new, member.mode & 0o7777)?,
        };
        dress(&place, member);
        if kind == FileKind::Regular {
            if member.links > 1 {
                self.linked.insert(member.identity, place.clone())?;
            }
            self.file = Some((place.inode, 0));
        }
        Ok(())
    }

    fn make_link(&self, member: &Member, target: Vec<u8>) -> crate::base::errno::Result {
        let walked = self.clear(member)?;
        dress(
            &names::create(&walked, New::Symlink(target), 0o777)?,
            member,
        );
        Ok(())
    }
}

/// Owner, permissions and time of a member.
fn dress(place: &Location, member: &Member) {
    let time = Time {
        seconds: member.modified.into(),
        nanos: 0,
    };
    place.inode.node().change(|a| {
        a.mode = member.mode & 0o7777;
        (a.uid, a.gid) = (member.uid, member.gid);
        (a.modified, a.accessed) = (time, time);
    });
}

fn words(errno: Errno) -> String {
    match errno {
        Errno::ENOMEM | Errno::ENOSPC => "not enough memory; give the machine more (--mem)".into(),
        Errno::ENOENT => "its directory is missing".into(),
        other => format!("cannot be made ({other:?})"),
    }
}
