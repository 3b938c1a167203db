//! STUB of proc.
