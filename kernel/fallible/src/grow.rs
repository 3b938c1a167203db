//! Collections whose growth can fail.

use crate::OutOfMemory;
use crate::state::refusable;
use alloc::collections::{TryReserveError, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;

/// A collection in one piece of memory.
pub trait Growable {
    /// The capacity in elements.
    fn room(&self) -> usize;
    /// Makes room for `more` elements.
    fn try_grow(&mut self, more: usize) -> Result<(), TryReserveError>;
}

macro_rules! growable {
    ($(($($parameter:ident)?) $collection:ty,)*) => {
        $(impl<$($parameter)?> Growable for $collection {
            #[inline]
            fn room(&self) -> usize {
                self.capacity() - self.len()
            }
            fn try_grow(&mut self, more: usize) -> Result<(), TryReserveError> {
                self.try_reserve(more)
            }
        })*
    };
}

growable! {
    (T) Vec<T>,
    (T) VecDeque<T>,
    () String,
}

/// Makes room for `more` elements: that many can be added without an allocation.
#[inline]
pub fn reserve(collection: &mut impl Growable, more: usize) -> Result<(), OutOfMemory> {
    if more <= collection.room() {
        return Ok(());
    }
    refusable(|| collection.try_grow(more)).map_err(|_| OutOfMemory)
}

/// Makes room for `more` elements and no others.
pub fn reserve_exact<T>(vec: &mut Vec<T>, more: usize) -> Result<(), OutOfMemory> {
    refusable(|| vec.try_reserve_exact(more)).map_err(|_| OutOfMemory)
}

/// Adds an element at the end.
#[inline]
pub fn push<T>(vec: &mut Vec<T>, element: T) -> Result<(), OutOfMemory> {
    reserve(vec, 1)?;
    vec.push(element);
    Ok(())
}

/// The elements of an iterator. Room is made for as many as it announces, then for one after the
/// other.
pub fn collect<T>(elements: impl IntoIterator<Item = T>) -> Result<Vec<T>, OutOfMemory> {
    let elements = elements.into_iter();
    let mut vec = Vec::new();
    reserve(&mut vec, elements.size_hint().0)?;
    for element in elements {
        push(&mut vec, element)?;
    }
    Ok(vec)
}

/// `len` times `value`.
pub fn filled<T: Clone>(value: T, len: usize) -> Result<Vec<T>, OutOfMemory> {
    let mut vec = Vec::new();
    reserve(&mut vec, len)?;
    vec.resize(len, value);
    Ok(vec)
}

/// The elements of a slice; the vector is no larger.
pub fn copied<T: Clone>(slice: &[T]) -> Result<Vec<T>, OutOfMemory> {
    let mut vec = Vec::new();
    reserve_exact(&mut vec, slice.len())?;
    vec.extend_from_slice(slice);
    Ok(vec)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{check, checks, count_checks, is_refusable, set_short};

    /// The allocator sees each growth that may be refused as such, and no other.
    #[test]
    fn growth_is_announced() {
        struct Probe(usize);
        impl Growable for Probe {
            fn room(&self) -> usize {
                self.0
            }
            fn try_grow(&mut self, more: usize) -> Result<(), TryReserveError> {
                assert!(is_refusable());
                Vec::<u8>::new().try_reserve(match more {
                    7 => usize::MAX,
                    more => more,
                })
            }
        }
        assert_eq!(reserve(&mut Probe(3), 3), Ok(()));
        assert_eq!(reserve(&mut Probe(3), 4), Ok(()));
        assert_eq!(reserve(&mut Probe(3), 7), Err(OutOfMemory));
        assert!(!is_refusable());
    }

    /// A size that cannot be had is an error, and the collection stays as it was.
    #[test]
    fn what_cannot_be_had_changes_nothing() {
        let mut vec = Vec::from([1, 2, 3]);
        assert_eq!(reserve(&mut vec, usize::MAX), Err(OutOfMemory));
        assert_eq!(vec, [1, 2, 3]);
        assert_eq!(push(&mut vec, 4), Ok(()));
        assert_eq!(
            collect(vec.iter().map(|n| n * 2)),
            Ok(Vec::from([2, 4, 6, 8]))
        );
        assert_eq!(copied(&vec[..2]), Ok(Vec::from([1, 2])));
        assert_eq!(filled(7, 2), Ok(Vec::from([7, 7])));
        assert_eq!(filled(0u64, usize::MAX), Err(OutOfMemory));
    }

    /// While the reserve is not whole, small allocations without an error path are refused
    /// beforehand.
    #[test]
    fn short_is_refused() {
        assert_eq!(check(), Ok(()));
        set_short(true);
        assert_eq!(check(), Err(OutOfMemory));
        set_short(false);
        assert_eq!(check(), Ok(()));
        let before = checks();
        count_checks();
        assert_eq!(check(), Ok(()));
        set_short(false);
        assert_eq!(check(), Ok(()));
        assert_eq!(checks(), before + 1);
    }
}
