//! /proc/PID/fd and fdinfo.

use super::dir::{Subject, node};
use crate::base::errno::{Errno, Result};
use crate::fs::kinds::pseudo::{PseudoFile, PseudoLink, Text};
use crate::fs::tree::inode::{DirEntry, Directory, FileKind, Inode, LinkTarget, Node};
use crate::fs::{Fd, FdTable, OpenFile, OpenFlags};
use alloc::boxed::Box;
use alloc::format;
use alloc::sync::Arc;

/// A directory with an entry for each open file.
struct Files {
    node: Node,
    subject: Subject,
    kind: FileKind,
}

/// fd: links to what is open.
pub fn links(subject: &Subject) -> Arc<dyn Inode> {
    let node = node(subject, FileKind::Directory, 0o500, 2);
    Arc::new(Files {
        node,
        subject: subject.clone(),
        kind: FileKind::Symlink,
    })
}

/// fdinfo: texts about what is open.
pub fn infos(subject: &Subject) -> Arc<dyn Inode> {
    let node = node(subject, FileKind::Directory, 0o555, 3);
    Arc::new(Files {
        node,
        subject: subject.clone(),
        kind: FileKind::Regular,
    })
}

impl Files {
    fn table(&self) -> Option<Arc<FdTable>> {
        self.subject.thread().and_then(|task| task.try_files())
    }
    /// Numbers of the entries lie above those of the process's other files.
    fn index(&self, fd: Fd) -> u64 {
        (fd.0 as u64 & 0x7fff) << 1 | 0x100 | u64::from(self.kind == FileKind::Symlink)
    }
}

impl Inode for Files {
    fn node(&self) -> &Node {
        &self.node
    }
    fn directory(&self) -> Option<&dyn Directory> {
        Some(self)
    }
}

impl Directory for Files {
    fn lookup(&self, name: &[u8]) -> Result<Arc<dyn Inode>> {
        let fd = if name == b"0" {
            Some(0)
        } else {
            super::parse_number(name)
        };
        let fd = Fd(fd.ok_or(Errno::ENOENT)?);
        let table = self.table().ok_or(Errno::ENOENT)?;
        let file = table.get(fd).map_err(|_| Errno::ENOENT)?;
        let index = self.index(fd);
        if self.kind == FileKind::Symlink {
            let mode = 0o100
                | if file.readable() { 0o400 } else { 0 }
                | if file.writable() { 0o200 } else { 0 };
            let node = node(&self.subject, FileKind::Symlink, mode, index);
            // The link must not keep the file open: it looks again each time.
            return Ok(PseudoLink::with_node(node, move || {
                Ok(LinkTarget::Place(
                    table.get(fd).map_err(|_| Errno::ENOENT)?.place.clone(),
                ))
            }));
        }
        let show = Box::new(move |out: &mut Text| {
            describe(
                &*table.get(fd).map_err(|_| Errno::ENOENT)?,
                table.closes_on_exec(fd)?,
                out,
            );
            Ok(())
        });
        Ok(PseudoFile::with_node(
            node(&self.subject, FileKind::Regular, 0o400, index),
            Some(show),
            None,
        ))
    }

    fn entries(&self, after: u64, emit: &mut dyn FnMut(DirEntry<'_>) -> bool) {
        let Some(table) = self.table() else {
            return;
        };
        let mut from = Fd(i32::try_from(after).unwrap_or(i32::MAX));
        while let Some(fd) = table.next_number(from) {
            from = Fd(fd.0 + 1);
            let name = format!("{}", fd.0);
            let number = super::dir::number_of(self.subject.number(), self.index(fd));
            if !emit(DirEntry {
                next: fd.0 as u64 + 1,
                number,
                kind: self.kind,
                name: name.as_bytes(),
            }) {
                return;
            }
        }
    }
}

fn describe(file: &OpenFile, close_on_exec: bool, out: &mut Text) {
    let mut flags = file.flags() | OpenFlags::LARGEFILE;
    flags.set(OpenFlags::CLOEXEC, close_on_exec);
    let flags = flags.bits();
    out.put(format_args!(
        "pos:\t{}\nflags:\t0{flags:o}\nmnt_id:\t{}\nino:\t{}\n",
        file.position(),
        file.place.mount.id,
        file.place.inode.node().number
    ));
    file.ops().describe(out);
}
