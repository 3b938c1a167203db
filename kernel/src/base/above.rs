//! Calls from a floor to the floors above it.
//!
//! A floor names nothing above it. Where it needs an answer from there, it declares a trait and
//! calls that for [`Above`]; the floor that knows the answer implements it. The compiler binds the
//! two: nothing is registered at boot, and such a call costs what any other does.
//!
//! The compiler puts what is implemented for [`Above`] beside it, far from the floor that answers:
//! an answer is `#[inline]`, or a call of a function that stands where it belongs.

/// The floors above the one that asks.
pub struct Above;
