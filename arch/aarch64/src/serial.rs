//! SKELETON: the console.
/// Writes bytes, waiting for room. Works from the first instruction of `kernel_main` on.
pub fn write(_bytes: &[u8]) { todo!() }
/// A byte that has arrived, if any.
pub fn read() -> Option<u8> { todo!() }
