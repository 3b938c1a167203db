//! Machines: what they start from, what starts them, and what they say.

pub mod added;
pub mod build;
pub mod console;
pub mod executable;
pub mod firmware;
pub mod gdb;
pub mod guest;
pub mod image;
pub mod initramfs;
pub mod inputs;
pub mod iso;
pub mod limine;
pub mod linux;
pub mod qemu;
pub mod raspi;
pub mod rootfs;
pub mod sdcard;
pub mod session;
pub mod tinyelf;
