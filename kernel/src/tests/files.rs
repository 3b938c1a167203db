//! The file layer without processes: a tree of its own for each test.

use crate::base::errno::Errno;
use crate::fs::OpenFlags;
use crate::fs::open::io::{Sink, Source};
use crate::fs::tree::inode::New;
use crate::fs::tree::mount::MountFlags;
use crate::fs::tree::names::{self, Rename};
use crate::fs::tree::path::{self, Last, Walked};
use crate::fs::tree::types;
use crate::fs::{FsContext, OpenFile, open};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use ktest::{check, check_eq, check_ok, ktest};

type Result<T = ()> = crate::base::errno::Result<T>;

/// A process's view of an empty file system: its root is all it sees.
struct Tree(FsContext);

impl Tree {
    fn new() -> Result<Tree> {
        Tree::with(b"mode=755")
    }
    fn with(options: &[u8]) -> Result<Tree> {
        Tree::of(b"tmpfs", options)
    }
    fn of(kind: &[u8], options: &[u8]) -> Result<Tree> {
        let fs = types::get(kind, options)?;
        let root = fs.root.clone();
        let mount =
            crate::fs::tree::inode::Mount::new(fs, root, "test".into(), MountFlags::empty());
        let context = FsContext::new();
        context.set_root(mount.top())?;
        context.set_cwd(mount.top())?;
        Ok(Tree(context))
    }
    fn walk(&self, path: &str) -> Result<Walked> {
        path::walk(&self.0, self.0.cwd(), path.as_bytes(), Last::Keep)
    }
    fn make(&self, path: &str, new: New) -> Result {
        names::create(&self.walk(path)?, new, 0o755).map(drop)
    }
    fn mkdir(&self, path: &str) -> Result {
        self.make(path, New::Directory)
    }
    fn symlink(&self, target: &str, path: &str) -> Result {
        self.make(path, New::Symlink(target.into()))
    }
    fn open(&self, path: &str, flags: OpenFlags) -> Result<Arc<OpenFile>> {
        open::open(&self.0, self.0.cwd(), path.as_bytes(), flags, 0o644)
    }
    fn write(&self, path: &str, text: &str) -> Result {
        let file = self.open(
            path,
            OpenFlags::WRONLY | OpenFlags::CREAT | OpenFlags::TRUNC,
        )?;
        file.write(&mut Source::kernel(text.as_bytes())).map(drop)
    }
    fn read(&self, path: &str) -> Result<String> {
        let file = self.open(path, OpenFlags::empty())?;
        let mut bytes = vec![0; 100];
        let n = file.read(&mut Sink::kernel(&mut bytes))?;
        Ok(String::from_utf8_lossy(&bytes[..n]).into_owned())
    }
    fn rename(&self, from: &str, to: &str, how: Rename) -> Result {
        names::rename(&self.walk(from)?, &self.walk(to)?, how)
    }
    fn unlink(&self, path: &str) -> Result {
        names::remove(&self.walk(path)?, false)
    }
    fn rmdir(&self, path: &str) -> Result {
        names::remove(&self.walk(path)?, true)
    }
    fn links(&self, path: &str) -> Result<u32> {
        Ok(self.walk(path)?.existing()?.inode.node().attributes().links)
    }
    /// The path of what `path` leads to, as this tree's processes see it.
    fn real(&self, path: &str) -> Result<String> {
        let place = path::resolve(&self.0, self.0.cwd(), path.as_bytes(), Last::Follow)?;
        let path = place.path_from(&self.0.root())?;
        Ok(String::from_utf8_lossy(&path).into_owned())
    }
}

ktest! {
    /// What is written is read, after a rename too, and link counts follow.
    fn written_is_read(ctx) {
        let tree = check_ok!(ctx, Tree::new());
        check_ok!(ctx, tree.mkdir("/d"));
        check_ok!(ctx, tree.write("/d/a", "hello"));
        check_eq!(ctx, check_ok!(ctx, tree.read("d/../d/./a")), "hello");
        check_ok!(ctx, names::link(&check_ok!(ctx, tree.walk("/b")), &check_ok!(ctx, check_ok!(ctx, tree.walk("/d/a")).existing())));
        check_eq!(ctx, check_ok!(ctx, tree.links("/b")), 2);
        check_ok!(ctx, tree.rename("/d/a", "/c", Rename::Replace));
        check_ok!(ctx, tree.unlink("/b"));
        check_eq!(ctx, check_ok!(ctx, tree.read("/c")), "hello");
        check_eq!(ctx, check_ok!(ctx, tree.links("/c")), 1);
        check_ok!(ctx, tree.rmdir("/d"));
        check_eq!(ctx, check_ok!(ctx, tree.links("/")), 2);
    }
}

ktest! {
    /// Symbolic links in the middle and at the end, absolute and relative, dangling and in circles.
    fn symbolic_links(ctx) {
        let tree = check_ok!(ctx, Tree::new());
        check_ok!(ctx, tree.mkdir("/d"));
        check_ok!(ctx, tree.mkdir("/d/e"));
        check_ok!(ctx, tree.symlink("d/e", "/short"));
        check_ok!(ctx, tree.symlink("/d", "/d/e/up"));
        check_eq!(ctx, check_ok!(ctx, tree.real("short/up/e/up/")), "/d");
        check_ok!(ctx, tree.symlink("nowhere", "/dangling"));
        check_eq!(ctx, tree.read("/dangling").err(), Some(Errno::ENOENT));
        check_ok!(ctx, tree.write("/dangling", "made"));
        check_eq!(ctx, check_ok!(ctx, tree.read("/nowhere")), "made");
        check_ok!(ctx, tree.symlink("b", "/a"));
        check_ok!(ctx, tree.symlink("a", "/b"));
        check_eq!(ctx, tree.read("/a").err(), Some(Errno::ELOOP));
        check_eq!(ctx, tree.open("/a", OpenFlags::empty() | OpenFlags::NOFOLLOW).err(), Some(Errno::ELOOP));
    }
}

ktest! {
    /// Each refusal has its own error number.
    fn refusals(ctx) {
        let tree = check_ok!(ctx, Tree::new());
        check_ok!(ctx, tree.mkdir("/d"));
        check_ok!(ctx, tree.write("/f", ""));
        check_ok!(ctx, tree.write("/d/x", ""));
        let of = |result: Result| result.err();
        check_eq!(ctx, of(tree.mkdir("/d")), Some(Errno::EEXIST));
        check_eq!(ctx, of(tree.mkdir("/no/d")), Some(Errno::ENOENT));
        check_eq!(ctx, of(tree.mkdir("/f/d")), Some(Errno::ENOTDIR));
        check_eq!(ctx, of(tree.mkdir(&format!("/{:256}", ""))), Some(Errno::ENAMETOOLONG));
        check_eq!(ctx, of(tree.unlink("/d")), Some(Errno::EISDIR));
        check_eq!(ctx, of(tree.rmdir("/f")), Some(Errno::ENOTDIR));
        check_eq!(ctx, of(tree.rmdir("/d")), Some(Errno::ENOTEMPTY));
        check_eq!(ctx, of(tree.rmdir("/d/.")), Some(Errno::EINVAL));
        check_eq!(ctx, of(tree.rmdir("/")), Some(Errno::EBUSY));
        check_eq!(ctx, of(tree.unlink("/f/")), Some(Errno::ENOTDIR));
        check_eq!(ctx, of(tree.write("/d", "")), Some(Errno::EISDIR));
        check_eq!(ctx, of(tree.write("/new/", "")), Some(Errno::EISDIR));
        check_eq!(ctx, of(tree.rename("/d", "/d/e", Rename::Replace)), Some(Errno::EINVAL));
        check_eq!(ctx, of(tree.rename("/f", "/d", Rename::Replace)), Some(Errno::EISDIR));
        check_eq!(ctx, of(tree.rename("/d", "/f", Rename::Replace)), Some(Errno::ENOTDIR));
        check_eq!(ctx, of(tree.rename("/f", "/d/x", Rename::NoReplace)), Some(Errno::EEXIST));
        check_eq!(ctx, of(tree.rename("/f", "/g", Rename::Exchange)), Some(Errno::ENOENT));
    }
}

ktest! {
    /// An open file outlives its name, and its directory takes nothing new once it is gone.
    fn unlinked_files_live_on(ctx) {
        let tree = check_ok!(ctx, Tree::new());
        check_ok!(ctx, tree.mkdir("/d"));
        let file = check_ok!(ctx, tree.open("/d/f", OpenFlags::RDWR | OpenFlags::CREAT));
        check_ok!(ctx, file.write(&mut Source::kernel(b"still here")));
        check_ok!(ctx, tree.unlink("/d/f"));
        let mut bytes = [0; 10];
        check_eq!(ctx, check_ok!(ctx, file.read_at(0, &mut Sink::kernel(&mut bytes))), 10);
        check!(ctx, &bytes == b"still here");
        let path = check_ok!(ctx, file.place.path());
        check!(ctx, path.ends_with(b"/d/f (deleted)"), "{:?}", String::from_utf8_lossy(&path));
        let inside = check_ok!(ctx, tree.walk("/d/new"));
        check_ok!(ctx, tree.rmdir("/d"));
        check_eq!(ctx, names::create(&inside, New::Regular, 0o644).err(), Some(Errno::ENOENT));
    }
}

ktest! {
    /// ".." stays inside the root; a directory swapped with another knows its new parent.
    fn parents(ctx) {
        let tree = check_ok!(ctx, Tree::new());
        check_ok!(ctx, tree.mkdir("/a"));
        check_ok!(ctx, tree.mkdir("/a/b"));
        check_ok!(ctx, tree.write("/f", "file"));
        check_eq!(ctx, check_ok!(ctx, tree.real("/../../a/b/../..")), "/");
        check_ok!(ctx, tree.rename("/a/b", "/f", Rename::Exchange));
        check_eq!(ctx, check_ok!(ctx, tree.real("/f/..")), "/");
        check_eq!(ctx, check_ok!(ctx, tree.read("/a/b")), "file");
        check_eq!(ctx, [check_ok!(ctx, tree.links("/")), check_ok!(ctx, tree.links("/a"))], [4, 2]);
    }
}

ktest! {
    /// A tree far deeper than the kernel's stack is taken down without recursion. The heap keeps
    /// what it grew by.
    #[slack(1024)]
    fn deep_trees_go(ctx) {
        let tree = check_ok!(ctx, Tree::new());
        for _ in 0..1000 {
            check_ok!(ctx, tree.mkdir("d"));
            let next = check_ok!(ctx, check_ok!(ctx, tree.walk("d")).existing());
            check_ok!(ctx, tree.0.set_cwd(next));
        }
        check_ok!(ctx, tree.0.cwd().path_from(&tree.0.root()));
        for _ in 0..1100 {
            check_ok!(ctx, tree.mkdir("d"));
            let next = check_ok!(ctx, check_ok!(ctx, tree.walk("d")).existing());
            check_ok!(ctx, tree.0.set_cwd(next));
        }
        let path = tree.0.cwd().path_from(&tree.0.root());
        check_eq!(ctx, path.err(), Some(Errno::ENAMETOOLONG));
        drop(tree);
    }
}

ktest! {
    /// A file system of one page takes one page; writing over it takes nothing more, removing it
    /// makes room.
    fn a_full_file_system(ctx) {
        let tree = check_ok!(ctx, Tree::with(b"size=4k"));
        check_ok!(ctx, tree.write("/a", "one page"));
        check_eq!(ctx, tree.write("/b", "another").err(), Some(Errno::ENOSPC));
        let file = check_ok!(ctx, tree.open("/a", OpenFlags::WRONLY));
        check_ok!(ctx, file.write(&mut Source::kernel(b"over")));
        check_eq!(ctx, check_ok!(ctx, tree.read("/a")), "overpage");
        drop(file);
        check_ok!(ctx, tree.unlink("/a"));
        check_ok!(ctx, tree.write("/b", "another"));
    }
}

ktest! {
    /// Each node of /dev leads to a device; /dev/tty does so in a session with a terminal only.
    fn devices_open(ctx) {
        let tree = check_ok!(ctx, Tree::of(b"devtmpfs", b""));
        for name in [
            "null", "zero", "full", "random", "urandom", "kmsg", "console", "tty0", "userfaultfd",
        ] {
            let file = tree.open(name, OpenFlags::NOCTTY);
            check_eq!(ctx, (name, file.err()), (name, None));
        }
        check_ok!(ctx, tree.write("null", "what nobody reads"));
        check_eq!(ctx, check_ok!(ctx, tree.read("null")), "");
    }
}
