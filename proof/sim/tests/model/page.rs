//! What the model knows of the pages of a process.

use mm::vma::Prot;
use std::collections::BTreeMap;
use std::ops::Range;

/// What was asked for where a page lies.
#[derive(Clone, Copy, Default)]
pub(super) struct Area {
    /// MADV_DONTFORK.
    pub absent_in_child: bool,
    /// MADV_WIPEONFORK.
    pub zero_in_child: bool,
    pub locked: bool,
    /// MAP_GROWSDOWN.
    pub stack: bool,
}

/// One page of a process.
#[derive(Clone, Copy)]
pub(super) struct Page {
    pub prot: Prot,
    pub backing: Backed,
    pub area: Area,
    /// MADV_GUARD_INSTALL.
    pub guard: bool,
    /// Whether a userfaultfd write-protects it, asynchronously; `None`: that is not known.
    pub protected: Option<bool>,
    /// Soft-dirty must say so. Where it is not, it may say so all the same: areas are joined.
    pub written: bool,
}

#[derive(Clone, Copy)]
pub(super) enum Backed {
    Anon(u8),
    /// Object, its page, and the process's own copy.
    Private(usize, u64, Option<u8>),
    Shared(usize, u64),
}

impl Backed {
    /// What the page is when what was mapped has gone.
    pub fn dropped(self) -> Backed {
        match self {
            Backed::Anon(_) => Backed::Anon(0),
            Backed::Private(o, index, _) => Backed::Private(o, index, None),
            shared => shared,
        }
    }
    /// What lies so many pages behind, in the same mapping.
    pub fn later(self, pages: u64) -> Backed {
        match self {
            Backed::Anon(_) => Backed::Anon(0),
            Backed::Private(o, index, _) => Backed::Private(o, index + pages, None),
            Backed::Shared(o, index) => Backed::Shared(o, index + pages),
        }
    }
}

impl Page {
    /// Fresh memory, which counts as written.
    pub fn new(prot: Prot, backing: Backed, area: Area) -> Page {
        Page {
            prot,
            backing,
            area,
            guard: false,
            protected: Some(false),
            written: true,
        }
    }
    /// What was mapped goes; a guard stays, and in memory of objects the write protection.
    pub fn discard(&mut self) {
        if matches!(self.backing, Backed::Anon(_)) {
            self.protected = Some(false);
        }
        self.backing = self.backing.dropped();
        self.written = false;
    }
}

#[derive(Clone, Default)]
pub(super) struct Model {
    pub pages: BTreeMap<u64, Page>,
}

impl Model {
    /// Whether all of a range is mapped.
    pub fn covers(&self, mut range: Range<u64>) -> bool {
        range.all(|n| self.pages.contains_key(&n))
    }

    /// What a child begins with. What it can fault in by itself is not copied, and so are no locks.
    pub fn forked(&self) -> Model {
        let mut child = self.clone();
        child.pages.retain(|_, page| !page.area.absent_in_child);
        for page in child.pages.values_mut() {
            page.area.locked = false;
            page.protected = Some(false);
            if page.area.zero_in_child {
                page.discard();
                page.guard = false;
            }
            page.written &= matches!(
                page.backing,
                Backed::Anon(_) | Backed::Private(_, _, Some(_))
            );
        }
        child
    }

    /// These pages of an object are mapped nowhere any more, private `copies` of them either.
    pub fn drop_object(&mut self, object: usize, gone: Range<u64>, copies: bool) {
        for page in self.pages.values_mut() {
            match page.backing {
                Backed::Private(o, index, own)
                    if o == object && gone.contains(&index) && (copies || own.is_none()) =>
                {
                    page.discard()
                }
                Backed::Shared(o, index) if o == object && gone.contains(&index) => page.discard(),
                _ => {}
            }
        }
    }

    /// The write protection of these pages of an object goes with them, as it does of huge pages.
    pub fn unprotect_object(&mut self, object: usize, gone: Range<u64>) {
        for page in self.pages.values_mut() {
            match page.backing {
                Backed::Private(o, index, _) | Backed::Shared(o, index)
                    if o == object && gone.contains(&index) =>
                {
                    page.protected = Some(false);
                }
                _ => {}
            }
        }
    }

    /// An access to page `n`, where nothing is mapped, extends the stack above it down to there. It
    /// keeps its distance to what lies below, which is more than all the pages here; a mapping
    /// without access is distance enough, and so is another stack.
    pub fn grow_stack(&mut self, n: u64) {
        let Some((&start, &above)) = self.pages.range(n..).next() else {
            return;
        };
        let below = self.pages.range(..n).next_back();
        let near = below.is_some_and(|(_, page)| !page.prot.is_none() && !page.area.stack);
        if !above.area.stack || near {
            return;
        }
        for page in n..start {
            let grown = Page {
                backing: Backed::Anon(0),
                guard: false,
                protected: Some(false),
                written: false,
                ..above
            };
            self.pages.insert(page, grown);
        }
    }
}
