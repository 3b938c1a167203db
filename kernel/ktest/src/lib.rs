//! Tests in a linker section, reported as KTAP.
#![no_std]
