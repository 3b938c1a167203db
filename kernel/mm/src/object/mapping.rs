//! Who maps an object: the areas' part in it, and what that adds up to by space.

use super::Object;
use crate::arch::Machine;
use crate::manager::{Result, SpaceKey};
use crate::sync::{Lock, rank};
use alloc::sync::Arc;
use core::ops::Deref;
use fallible::SortedMap;

/// The mappings of an object (Linux: i_mmap, i_mmap_writable).
pub(super) struct Mappers(Lock<Mapped, { rank::MAPPERS }>);

struct Mapped {
    /// How many areas each space has of it.
    areas: SortedMap<SpaceKey, u32>,
    /// Mappings that may write to it.
    writable: u32,
    /// There are none, and will be none.
    sealed: bool,
}

/// Writing through mappings was ruled out ([`Object::seal_writes`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sealed;

/// The part that an area has in its object: while it lives, the object counts its space among those
/// that may map its pages. It is made before the first entry, and dropped with the area, after the
/// last entry has gone and was flushed.
pub struct Mapping<M: Machine> {
    object: Arc<Object<M>>,
    part: Part,
}

/// The space, none yet for a mapping that is asked for, and in the lowest bit whether writes may
/// reach the object: a word, as areas are copied often.
#[derive(Clone, Copy)]
struct Part(u64);

impl Part {
    fn new(space: SpaceKey, writable: bool) -> Part {
        Part(space.number() << 1 | u64::from(writable))
    }
    fn space(self) -> SpaceKey {
        SpaceKey::from_number(self.0 >> 1)
    }
    fn writable(self) -> bool {
        self.0 & 1 != 0
    }
}

impl Mappers {
    pub(super) fn new() -> Self {
        Mappers(Lock::new(Mapped {
            areas: SortedMap::new(),
            writable: 0,
            sealed: false,
        }))
    }
}

impl Mapped {
    /// One area more.
    #[inline]
    fn enter(&mut self, space: SpaceKey) -> Result {
        *self.areas.get_or_insert(space, || 0)? += 1;
        Ok(())
    }
    fn leave(&mut self, space: SpaceKey) {
        if let Some(areas) = self.areas.get_mut(&space) {
            *areas -= 1;
            if *areas == 0 {
                self.areas.remove(&space);
            }
        }
    }
}

impl<M: Machine> From<Arc<Object<M>>> for Mapping<M> {
    /// One that is asked for: no space has it yet, and nothing writes through it.
    fn from(object: Arc<Object<M>>) -> Self {
        let part = Part::new(SpaceKey::NONE, false);
        Mapping { object, part }
    }
}

impl<M: Machine> Mapping<M> {
    /// It is one of this space from now on.
    pub(crate) fn enter(&mut self, space: SpaceKey) -> Result {
        let mut mapped = self.object.mapped();
        mapped.enter(space)?;
        mapped.leave(self.part.space());
        drop(mapped);
        self.part = Part::new(space, self.part.writable());
        Ok(())
    }
    /// The same for a child's space.
    pub(crate) fn for_child(&self, space: SpaceKey) -> Result<Self> {
        let (object, part) = (self.object.clone(), Part::new(space, self.part.writable()));
        let mut mapped = object.mapped();
        mapped.enter(space)?;
        mapped.writable += u32::from(part.writable());
        drop(mapped);
        Ok(Mapping { object, part })
    }
    /// Writes may reach the object by it, now or after mprotect(2).
    pub(crate) fn allow_writes(&mut self) -> Result<(), Sealed> {
        let mut mapped = self.object.mapped();
        if mapped.sealed {
            return Err(Sealed);
        }
        mapped.writable += u32::from(!self.part.writable());
        drop(mapped);
        self.part = Part::new(self.part.space(), true);
        Ok(())
    }
    /// Its object.
    pub fn object(&self) -> &Arc<Object<M>> {
        &self.object
    }
}

impl<M: Machine> Clone for Mapping<M> {
    /// One of the same space.
    fn clone(&self) -> Self {
        let (object, part) = (self.object.clone(), self.part);
        let mut mapped = object.mapped();
        if let Some(areas) = mapped.areas.get_mut(&part.space()) {
            *areas += 1;
        }
        mapped.writable += u32::from(part.writable());
        drop(mapped);
        Mapping { object, part }
    }
}

impl<M: Machine> Drop for Mapping<M> {
    fn drop(&mut self) {
        // One that was only asked for is nowhere.
        if self.part.0 != 0 {
            let mut mapped = self.object.mapped();
            mapped.leave(self.part.space());
            mapped.writable -= u32::from(self.part.writable());
        }
    }
}

impl<M: Machine> Deref for Mapping<M> {
    type Target = Arc<Object<M>>;
    #[inline]
    fn deref(&self) -> &Arc<Object<M>> {
        &self.object
    }
}

impl<M: Machine> Object<M> {
    fn mapped(&self) -> crate::sync::Guard<'_, Mapped, { rank::MAPPERS }> {
        self.file_object().mappers.0.lock()
    }
    /// The memory manager.
    pub(crate) fn mm(&self) -> &Arc<crate::manager::Mm<M>> {
        &self.mm
    }
    /// The first key above `space` of a space that may map its pages.
    pub(crate) fn mapper_after(&self, space: SpaceKey) -> Option<SpaceKey> {
        let mapped = self.mapped();
        let mut above = mapped.areas.from(&space).map(|(key, _)| *key);
        above.find(|key| *key != space)
    }
    /// How many areas a space has of it, for [`crate::check`].
    pub(crate) fn areas_of(&self, space: SpaceKey) -> u32 {
        self.mapped().areas.get(&space).copied().unwrap_or(0)
    }
    /// Rules out that anybody writes to it through a mapping (F_SEAL_WRITE). `false`: somebody may,
    /// and nothing has changed.
    pub fn seal_writes(&self) -> bool {
        let mut mapped = self.mapped();
        mapped.sealed |= mapped.writable == 0;
        mapped.sealed
    }
}
