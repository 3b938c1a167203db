//! Names of sockets: a path leads to an inode, by whose number the socket is found; an abstract
//! name, which begins with a NUL, is in no directory.

use super::{Endpoint, Style};
use crate::base::errno::{Errno, Result};
use crate::base::ranks;
use crate::fs::tree::inode::Inode;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::sync::{Arc, Weak};
use mm::sync::Lock;

/// What stands in `sun_path`: a path with its NUL, or an abstract name.
pub type Name = Arc<[u8]>;

/// By what a socket is found.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// An abstract name: one for each style.
    Abstract(Style, Name),
    /// Device and number of an inode.
    Inode(u64, u64),
}

impl Key {
    /// The key of a path's inode.
    pub fn of(inode: &Arc<dyn Inode>) -> Key {
        Key::Inode(inode.node().device, inode.node().number)
    }
}

static NAMES: Lock<BTreeMap<Key, Weak<Endpoint>>, { ranks::OPEN_FILE }> =
    Lock::new(BTreeMap::new());

/// The open socket of a key. ECONNREFUSED.
pub fn find(key: &Key) -> Result<Arc<Endpoint>> {
    let names = NAMES.lock();
    let found = names.get(key).and_then(Weak::upgrade);
    drop(names);
    found.ok_or(Errno::ECONNREFUSED)
}

/// A socket's entry under its name; dropped, the name is free.
pub struct Bound {
    key: Key,
    /// Its number is not given to another file meanwhile.
    _inode: Option<Arc<dyn Inode>>,
}

impl Drop for Bound {
    fn drop(&mut self) {
        NAMES.lock().remove(&self.key);
    }
}

impl Endpoint {
    /// EINVAL: it has a name.
    pub fn check_nameless(&self) -> Result {
        match self.state.lock().name {
            Some(_) => Err(Errno::EINVAL),
            None => Ok(()),
        }
    }

    /// bind(2). EADDRINUSE, EINVAL: it has a name; ENOMEM.
    pub fn bind(&self, name: Name, key: Key, inode: Option<Arc<dyn Inode>>) -> Result {
        self.check_nameless()?;
        fallible::check()?;
        let mut names = NAMES.lock();
        if names.contains_key(&key) {
            return Err(Errno::EADDRINUSE);
        }
        names.insert(key.clone(), self.me.clone());
        drop(names);
        let mut state = self.state.lock();
        state.bound = Some(Bound { key, _inode: inode });
        state.name = Some(name);
        Ok(())
    }

    /// bind(2) without a name: a free one of five hexadecimal digits. ENOSPC.
    pub fn bind_any(&self) -> Result {
        for number in 0..=0xfffff {
            let name = Name::from(format!("\0{number:05x}").into_bytes());
            match self.bind(name.clone(), Key::Abstract(self.style, name), None) {
                Err(Errno::EADDRINUSE) => _ = crate::sched::breathe(),
                result => return result,
            }
        }
        Err(Errno::ENOSPC)
    }
}
