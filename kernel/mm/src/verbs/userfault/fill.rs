//! Pages that a monitor puts where there are none: UFFDIO_COPY, UFFDIO_ZEROPAGE, UFFDIO_CONTINUE,
//! UFFDIO_POISON.

use crate::addr::{Pfn, VirtAddr, VirtRange};
use crate::arch::{Attrs, Level, Machine};
use crate::fault::{Access, fresh_attrs};
use crate::folio::Folio;
use crate::frame::zone::Reserve;
use crate::space::{AddressSpace, Error, Inner, Locked, Result};
use crate::table::{Cursor, Marker};
use crate::vma::{Slot, Vma, VmaFlags};

/// What a page gets.
#[derive(Clone, Copy, Debug)]
pub enum Content<'a> {
    /// These bytes, a page of them.
    Bytes(&'a [u8]),
    /// Zeros.
    Zeros,
    /// What the object has there already.
    Object,
    /// Nothing: accesses are memory errors.
    Poison,
}

/// Where a monitor fills pages.
#[derive(Clone, Copy)]
pub struct Filling<'a> {
    /// All of it, which is to lie in one registered VMA.
    whole: VirtRange,
    /// Whether the memory is changing and the monitor was not told of it yet.
    changing: Option<&'a dyn Fn() -> bool>,
}

impl<'a> Filling<'a> {
    /// In `whole`, unless `changing` says, asked under the lock of the space, that the memory is.
    pub fn unless(whole: VirtRange, changing: &'a dyn Fn() -> bool) -> Self {
        let changing = Some(changing);
        Filling { whole, changing }
    }
}

impl From<VirtRange> for Filling<'_> {
    /// Of memory that does not change.
    fn from(whole: VirtRange) -> Self {
        let changing = None;
        Filling { whole, changing }
    }
}

impl<M: Machine> AddressSpace<M> {
    /// Fills the page at `at`; with `protect` it is write-protected at once. ENOENT: there is no
    /// such VMA; EEXIST: there is a page; EINVAL: it cannot be protected; EFAULT: the object has no
    /// such page; EAGAIN: the memory is changing; ENOMEM. Of huge pages all of the page is filled,
    /// with [`Content::Object`] or [`Content::Poison`] only: else EINVAL.
    pub fn userfault_fill<'a>(
        &self,
        filling: impl Into<Filling<'a>>,
        at: VirtAddr,
        content: Content<'_>,
        protect: bool,
    ) -> Result {
        // With the claim: a verb that has ended the protection of a part, or copied the VMAs for a
        // child, meets what is filled.
        let mut inner = self.areas()?;
        let slot = inner.fillable(filling.into(), at, protect)?;
        match inner.vmas.get(slot).huge_order() {
            Some(_) => inner.fill_huge(slot, at, content, protect),
            None => inner.fill(slot, at, content, protect),
        }
    }
}

impl<M: Machine> Locked<'_, M> {
    /// The VMA of a page that can be filled. Errors as of [`AddressSpace::userfault_fill`].
    pub(super) fn fillable(
        &mut self,
        filling: Filling<'_>,
        at: VirtAddr,
        protect: bool,
    ) -> Result<Slot> {
        if filling.changing.is_some_and(|changing| changing()) {
            return Err(Error::Again);
        }
        let slot = self.vmas.find(at).ok_or(Error::NoEnt)?;
        let vma = self.vmas.get(slot);
        if !vma.range.covers(&filling.whole) || !vma.flags.has_monitor() {
            return Err(Error::NoEnt);
        }
        if protect && !vma.flags.is_uffd_wp() {
            return Err(Error::Inval);
        }
        self.edit(|edit| edit.unshare(at, Reserve::User))?;
        self.check_hole(at)?;
        Ok(slot)
    }

    /// EEXIST unless the page at `at` is absent, or a marker of userfaultfd's.
    fn check_hole(&mut self, at: VirtAddr) -> Result {
        let mm = self.mm();
        let leaf = Cursor::new(mm, &mut self.table, at).leaf();
        match leaf.map(|leaf| Marker::of(leaf.attrs)) {
            None | Some(Some(Marker::WriteProtected | Marker::Poison)) => Ok(()),
            Some(None | Some(Marker::Guard)) => Err(Error::Exist),
        }
    }

    /// Maps a page at `at`, where none is.
    fn fill(&mut self, slot: Slot, at: VirtAddr, content: Content<'_>, protect: bool) -> Result {
        let space = self.space;
        let vma = self.vmas.get(slot);
        let private = !vma.shared() && !matches!(content, Content::Object | Content::Poison);
        let zeros = vma.object_page(at).is_none() && matches!(content, Content::Zeros);
        if private && !zeros && !vma.has_anon {
            self.vmas.prepare_write(slot);
        }
        let Inner {
            vmas, table, rss, ..
        } = &mut **self;
        let vma = vmas.get(slot);
        let mut cursor = Cursor::new(&space.mm, table, at);
        cursor.prepare(Level::Pte)?;
        let page = match content {
            Content::Poison => Page::Poison,
            _ if zeros => Page::Zeros,
            _ if private => Page::Private(match content {
                Content::Bytes(bytes) => Folio::filled(&space.mm, bytes)?,
                _ => Folio::anon(&space.mm)?,
            }),
            _ => Page::Object(object_page(vma, at, content)?),
        };
        if !cursor.is_absent() {
            cursor.take_marker();
        }
        let attrs = |access| filled_attrs(vma, access, protect);
        match page {
            Page::Poison => {
                cursor.install_poison();
                vmas.get_mut(slot).flags |= VmaFlags::POISONED;
            }
            Page::Zeros => cursor.install_zero_page(attrs(Access::Read)),
            Page::Private(folio) => {
                cursor.install_anon(folio, attrs(Access::Write), &space.id.owner);
                rss.add_anon(1);
            }
            Page::Object(pfn) => {
                cursor.install_page(pfn, attrs(object_access(vma)));
                rss.add(vma, 0, 1);
            }
        }
        Ok(())
    }
}

/// The attributes of a page that is put there.
pub(super) fn filled_attrs<M: Machine>(vma: &Vma<M>, access: Access, protect: bool) -> Attrs {
    let attrs = fresh_attrs(vma, access);
    match protect {
        true => (attrs - Attrs::WRITE) | Attrs::UFFD_WP,
        false => attrs,
    }
}

/// The access that a page of an object is mapped for.
pub(super) fn object_access<M: Machine>(vma: &Vma<M>) -> Access {
    match vma.shared() {
        true => Access::Write,
        false => Access::Read,
    }
}

/// What is mapped; a page with the reference that the entry gets.
enum Page {
    Private(Folio),
    Object(Pfn),
    Zeros,
    Poison,
}

/// A reference to the page of the VMA's object at `at`: a new one, or the one that is there.
fn object_page<M: Machine>(vma: &Vma<M>, at: VirtAddr, content: Content<'_>) -> Result<Pfn> {
    let (object, index) = vma.object_page(at).ok_or(Error::Inval)?;
    let bytes = match content {
        Content::Bytes(bytes) => Some(bytes),
        Content::Object => {
            let page = object.page_if_there(index)?.ok_or(Error::Fault)?;
            return Ok(page.into_pfn());
        }
        _ => None,
    };
    match object.fill_hole(index, bytes)? {
        Ok(page) => Ok(page.into_pfn()),
        Err(true) => Err(Error::Exist),
        Err(false) => Err(Error::Fault),
    }
}
