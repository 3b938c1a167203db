//! Frames that are out of use for good: their memory has failed, or is about to (hwpoison.rst).
//!
//! Nothing on the way of a free asks for them, as such a frame never gets there:
//!
//! ```text
//!  in use --mark--> in use, marked --unmapped everywhere, one reference left--> out of use
//! ```
//! Who marks a single page has a reference to it, and hands that to [`Mm::retire`]. If a pipe has
//! the page, too, it is kept until the pipe drops its own. A huge page stays one until its last
//! reference is dropped, and is dissolved then instead of going back to its pool.

use super::Mm;
use crate::addr::{Order, Pfn};
use crate::arch::{Cpu, Machine};
use crate::frame::Kind;
use crate::mutant::{self, Mutant};
use crate::sync::Ordering;

impl<M: Machine> Mm<M> {
    /// Frames that are out of use, or will be when their last reference is dropped
    /// (HardwareCorrupted of /proc/meminfo). Relaxed: the number stands for itself.
    pub fn hwpoisoned(&self) -> u64 {
        self.hwpoisoned.load(Ordering::Relaxed)
    }

    /// Marks a page, to which the caller or an object has a reference. It is a single one, or of a
    /// huge page.
    pub(crate) fn mark_hwpoison(&self, page: Pfn) {
        let meta = self.frames().get(page);
        if meta.is_hwpoison() {
            return;
        }
        meta.set_hwpoison();
        self.hwpoisoned.fetch_add(1, Ordering::Relaxed);
        let head = self.frames().get(self.frames().head(page));
        if head.is_hugetlb() {
            head.set_has_hwpoison();
        }
    }

    /// Retires a single page that is marked, by the caller's plain reference to it. Returns whether
    /// that was the last: else it is a pin from now on, and the page goes with the others
    /// ([`Mm::unpinned`]). Nothing maps the page, so there will be no more references.
    pub(crate) fn retire(&self, page: Pfn) -> bool {
        let last = self.references(page) == 1 && self.frames().get(page).take_hwpoison();
        match last {
            true => self.end_of(page),
            false => self.add_pins(1),
        }
        last
    }
    /// Retires a single private page to which nobody has a reference.
    pub(crate) fn retire_unused(&self, page: Pfn) {
        self.hwpoisoned.fetch_add(1, Ordering::Relaxed);
        self.allocator.retire(self.machine().cpu().id(), page);
    }
    /// Retires a page that had a pin, and is marked, if the reference of [`Mm::retire`] is all that
    /// is left.
    #[cold]
    pub(crate) fn unpinned(&self, page: Pfn) {
        let meta = self.frames().get(page);
        let single = !self.frames().get(self.frames().head(page)).is_hugetlb();
        if single && self.references(page) == 1 && meta.take_hwpoison() {
            self.add_pins(-1);
            self.end_of(page);
        }
    }
    /// Drops the last reference to a page that was marked.
    fn end_of(&self, page: Pfn) {
        let meta = self.frames().get(page);
        match meta.kind() {
            Kind::Anon => drop(self.sub_plain(page, Order(0))),
            _ => drop(meta.put_ref()),
        }
        match mutant::on(Mutant::FreeHwPoison) {
            true => self.free(&[page]),
            false => self.allocator.retire(self.machine().cpu().id(), page),
        }
    }

    /// Frees the frames of a huge page without references, which is of no pool any more, and
    /// retires those that are marked.
    pub(super) fn dissolve_huge(&self, page: Pfn, order: Order) {
        for frame in (0..order.pages()).map(|i| page + i) {
            let meta = self.frames().get(frame);
            let marked = meta.is_hwpoison();
            meta.set(Kind::Hugetlb, Order(0));
            meta.set_refs(0);
            match marked {
                true => self.allocator.retire(self.machine().cpu().id(), frame),
                false => self.free(&[frame]),
            }
        }
    }
}
