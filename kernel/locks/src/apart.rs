//! False sharing, avoided: a CPU that writes a word takes its whole line from the others.

use core::ops::Deref;

/// A value on cache lines of its own: one that is written often, or one that all read and hardly
/// anybody writes, so that its neighbours in memory do not disturb it, nor it them.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Apart<T>(pub T);

impl<T> Deref for Apart<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}
