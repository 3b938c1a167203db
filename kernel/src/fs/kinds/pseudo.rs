//! Pseudo files and links, whose contents are generated when they are read.

use crate::base::errno::{Errno, Result};
use crate::base::ranks;
pub use crate::fs::kinds::text::Text;
use crate::fs::open::flags::OpenFlags;
use crate::fs::open::io::{Sink, Source};
use crate::fs::open::ops::{At, FileOps};
use crate::fs::room;
use crate::fs::tree::inode::{FileKind, Inode, LinkTarget, Node};
use alloc::boxed::Box;
use alloc::sync::Arc;
use mm::sync::Lock;

/// Longest text that may be written to such a file.
const MAX_WRITE: usize = 4096;

/// Generates a file's text.
pub type Show = Box<dyn Fn(&mut Text) -> Result + Send + Sync>;
/// Handles a write, without the NULs and blanks at its end.
pub type Store = Box<dyn Fn(&str) -> Result + Send + Sync>;

/// A file that [`Show`] generates and whose writes [`Store`] handles.
pub struct PseudoFile {
    node: Node,
    show: Option<Show>,
    store: Option<Store>,
    /// Why it cannot be opened to write.
    refused: Option<Errno>,
}

impl PseudoFile {
    /// A file of file system `device`; the permissions follow from what it can do.
    pub fn new(device: u64, show: Option<Show>, store: Option<Store>) -> Arc<PseudoFile> {
        let readable = if show.is_some() { 0o444 } else { 0 };
        let writable = if store.is_some() { 0o200 } else { 0 };
        let node = Node::new(device, FileKind::Regular, readable | writable);
        PseudoFile::with_node(node, show, store)
    }

    /// A file with a node of the caller's.
    pub fn with_node(node: Node, show: Option<Show>, store: Option<Store>) -> Arc<PseudoFile> {
        Arc::new(PseudoFile {
            node,
            show,
            store,
            refused: None,
        })
    }

    /// A file of file system `device` that nobody can open to write.
    pub fn read_only(device: u64, refused: Errno, show: Show) -> Arc<PseudoFile> {
        Arc::new(PseudoFile {
            node: Node::new(device, FileKind::Regular, 0o444),
            show: Some(show),
            store: None,
            refused: Some(refused),
        })
    }
}

impl Inode for PseudoFile {
    fn node(&self) -> &Node {
        &self.node
    }
    fn open(self: Arc<Self>, flags: OpenFlags) -> Result<Arc<dyn FileOps>> {
        if let Some(errno) = self.refused.filter(|_| flags.writes()) {
            return Err(errno);
        }
        Ok(Arc::new(OpenPseudo {
            file: self,
            text: Lock::new(None),
        }))
    }
    fn resize(&self, _len: u64) -> Result {
        // O_TRUNC is how shells write.
        Ok(())
    }
}

/// An open pseudo file. The text is generated when the file is read from the start, so that its
/// pieces are consistent.
struct OpenPseudo {
    file: Arc<PseudoFile>,
    text: Lock<Option<Arc<Text>>, { ranks::OPEN_FILE }>,
}

impl OpenPseudo {
    fn text(&self, at: u64) -> Result<Arc<Text>> {
        if at > 0
            && let Some(text) = &*self.text.lock()
        {
            return Ok(text.clone());
        }
        let text = Arc::new(room::insist(|| self.generate())?);
        let _old = self.text.lock().replace(text.clone());
        Ok(text)
    }
    fn generate(&self) -> Result<Text> {
        let mut text = Text::default();
        self.file.show.as_ref().ok_or(Errno::EINVAL)?(&mut text)?;
        text.finish()
    }
}

impl FileOps for OpenPseudo {
    fn read(&self, at: At, sink: &mut Sink<'_>) -> Result<usize> {
        self.text(at.position)?.read(at.position, sink)
    }

    fn write(&self, _at: At, source: &mut Source<'_>) -> Result<usize> {
        let store = self.file.store.as_ref().ok_or(Errno::EACCES)?;
        let bytes = source.take_all(MAX_WRITE)?;
        // Programs write "1", "1\n" and "1\0".
        let text = core::str::from_utf8(&bytes).map_err(|_| Errno::EINVAL)?;
        store(text.trim_matches(|ch: char| ch == '\0' || ch.is_ascii_whitespace()))?;
        Ok(bytes.len())
    }
}

/// A symbolic link whose target is generated when it is read.
pub struct PseudoLink<F>(Node, F);

impl<F: Fn() -> Result<LinkTarget> + Send + Sync + 'static> PseudoLink<F> {
    /// A link of file system `device`.
    pub fn new(device: u64, target: F) -> Arc<Self> {
        PseudoLink::with_node(Node::new(device, FileKind::Symlink, 0o777), target)
    }

    /// A link with a node of the caller's.
    pub fn with_node(node: Node, target: F) -> Arc<Self> {
        Arc::new(PseudoLink(node, target))
    }
}

impl<F: Fn() -> Result<LinkTarget> + Send + Sync + 'static> Inode for PseudoLink<F> {
    fn node(&self) -> &Node {
        &self.0
    }
    fn open(self: Arc<Self>, _flags: OpenFlags) -> Result<Arc<dyn FileOps>> {
        Err(Errno::ELOOP)
    }
    fn target(&self) -> Result<LinkTarget> {
        (self.1)()
    }
}
