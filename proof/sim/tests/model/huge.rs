//! Walks in memory of huge pages (hugetlb): how it is mapped.

use super::steps::{Shape, Step};
use super::*;
use mm::MapRequest;
use mm::vma::Backing;

/// Pages that the pool has of its own; the others are surplus.
const OWN: u64 = 4;
/// The most pins: each may keep a page.
const PINS: usize = 8;

/// An empty object of the walk.
pub(super) fn object<F: PteFormat>(world: &World<F>, shape: Shape) -> Arc<Object<Sim<F>>> {
    if !shape.huge {
        return Object::new(&world.mm);
    }
    world.mm.resize_hugetlb(shape.order(), OWN);
    world.mm.set_hugetlb_overcommit(shape.order(), u64::MAX);
    Object::huge(&world.mm, shape.order(), None)
}

/// Fills the holes of an object of huge pages: a private mapping would have them for itself from
/// the first access on, which the model does not know.
pub(super) fn fill<F: PteFormat>(object: &Object<Sim<F>>) {
    if object.huge_order().is_some() {
        object.reserve(0, object.len()).expect("there is memory");
    }
}

impl<F: PteFormat> Bench<F> {
    /// The request, or the same of huge pages.
    pub(super) fn in_huge_pages(
        &self,
        process: &Process<F>,
        mut request: MapRequest<Sim<F>>,
    ) -> MapRequest<Sim<F>> {
        if !self.shape.huge {
            return request;
        }
        let (below, offset) = match &request.backing {
            Backing::Anon => (None, 0),
            Backing::Object { object, offset, .. } => (Some(object.object().clone()), *offset),
        };
        if !request.flags.contains(VmaFlags::SHARED) {
            let (mm, order) = (&self.world.mm, self.shape.order());
            request.backing = Backing::Object {
                object: Object::huge_private(mm, order, below, process.root()).into(),
                offset,
                file: None,
            };
        }
        request.flags |= VmaFlags::HUGETLB;
        request
    }

    /// Whether the step would pin another page, and there are many pins.
    pub(super) fn has_many_pins(&self, step: &Step) -> bool {
        matches!(step, Step::Pin(..)) && self.pins.len() >= PINS
    }
}
