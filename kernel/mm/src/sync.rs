#![allow(missing_docs)]
//! SKELETON: the only file that names atomics; `Lock<T, RANK>` checks the lock order.
use core::ops::{Deref, DerefMut};
/// A spin lock; RANK orders nesting (a lock may be taken only while every held lock has a lower rank).
pub struct Lock<T, const RANK: u8>(core::cell::UnsafeCell<T>);
/// Unlocks on drop.
pub struct Guard<'a, T, const RANK: u8>(&'a Lock<T, RANK>);
impl<T, const RANK: u8> Lock<T, RANK> {
    pub const fn new(value: T) -> Self { Self(core::cell::UnsafeCell::new(value)) }
    pub fn lock(&self) -> Guard<'_, T, RANK> { todo!() }
}
impl<T, const RANK: u8> Deref for Guard<'_, T, RANK> { type Target = T; fn deref(&self) -> &T { todo!() } }
impl<T, const RANK: u8> DerefMut for Guard<'_, T, RANK> { fn deref_mut(&mut self) -> &mut T { todo!() } }
#[allow(unsafe_code)]
// SAFETY: skeleton.
unsafe impl<T: Send, const RANK: u8> Sync for Lock<T, RANK> {}
/// How many ranked locks this CPU holds (debug builds; 0 otherwise): the scheduler asserts 0.
pub fn held() -> usize { 0 }
