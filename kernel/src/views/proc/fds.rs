//! /proc/PID/fd and fdinfo.

use super::dir::node;
use super::subject::{Known, Subject};
use crate::base::errno::{Errno, Result};
use crate::fs::kinds::pseudo::{PseudoFile, PseudoLink, Text};
use crate::fs::tree::inode::{DirEntry, Directory, FileKind, Inode, LinkTarget, Node};
use crate::fs::{Fd, FdTable, OpenFile, OpenFlags};
use crate::process::task::Task;
use alloc::boxed::Box;
use alloc::format;
use alloc::sync::Arc;

/// A directory with an entry for each open file.
struct Files {
    node: Node,
    subject: Known,
    kind: FileKind,
}

/// fd: links to what is open.
pub fn links(subject: &Subject) -> Arc<dyn Inode> {
    let node = node(subject, FileKind::Directory, 0o500, 2);
    Arc::new(Files {
        node,
        subject: subject.known(),
        kind: FileKind::Symlink,
    })
}

/// fdinfo: texts about what is open.
pub fn infos(subject: &Subject) -> Arc<dyn Inode> {
    let node = node(subject, FileKind::Directory, 0o555, 3);
    Arc::new(Files {
        node,
        subject: subject.known(),
        kind: FileKind::Regular,
    })
}

/// The table of open files, as it is now. A file of /proc that kept it would keep itself, if it
/// stands in it. ENOENT: there is none any more.
fn table(subject: &Subject) -> Result<Arc<FdTable>> {
    let thread = subject.thread();
    let table = thread.as_deref().and_then(Task::try_files);
    table.ok_or(Errno::ENOENT)
}

/// An open file, now, and whether execve closes it. ENOENT.
fn opened(subject: &Known, fd: Fd) -> Result<(Arc<OpenFile>, bool)> {
    let found = || -> Result<_> {
        let table = table(&subject.subject()?)?;
        Ok((table.get(fd)?, table.closes_on_exec(fd)?))
    };
    found().map_err(|_| Errno::ENOENT)
}

impl Files {
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
        let (subject, known) = (self.subject.subject()?, self.subject.clone());
        let (file, _) = opened(&known, fd)?;
        let index = self.index(fd);
        if self.kind == FileKind::Symlink {
            let mode = 0o100
                | if file.readable() { 0o400 } else { 0 }
                | if file.writable() { 0o200 } else { 0 };
            let node = node(&subject, FileKind::Symlink, mode, index);
            // Neither it nor the text below keeps the file open: both look again each time.
            return Ok(PseudoLink::with_node(node, move || {
                Ok(LinkTarget::Place(opened(&known, fd)?.0.place.clone()))
            }));
        }
        let show = Box::new(move |out: &mut Text| {
            let (file, close_on_exec) = opened(&known, fd)?;
            describe(&file, close_on_exec, out);
            Ok(())
        });
        Ok(PseudoFile::with_node(
            node(&subject, FileKind::Regular, 0o400, index),
            Some(show),
            None,
        ))
    }

    fn entries(&self, after: u64, emit: &mut dyn FnMut(DirEntry<'_>) -> bool) {
        let Ok(subject) = self.subject.subject() else {
            return;
        };
        let Ok(table) = table(&subject) else {
            return;
        };
        let mut from = Fd(i32::try_from(after).unwrap_or(i32::MAX));
        while let Some(fd) = table.next_number(from) {
            from = Fd(fd.0 + 1);
            let name = format!("{}", fd.0);
            let number = super::dir::number_of(subject.number(), self.index(fd));
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
