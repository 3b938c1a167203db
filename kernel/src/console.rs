//! Where the kernel's words and the terminal's output go: the serial line and, when the loader set one up, the screen.

#![allow(unsafe_code)]

use crate::arch;
use crate::arch::boot::{BootInfo, DIRECT_MAP};
use arch_boot::Framebuffer;
use screen::{Console, Pixels};
use spin::Mutex;

/// `None` without a screen. Not a ranked lock: it is taken under any other, and who finds it taken (a panic) goes without.
static SCREEN: Mutex<Option<Console<Screen>>> = Mutex::new(None);

/// Takes the loader's screen.
pub fn init(info: &BootInfo) {
    *SCREEN.lock() = info.framebuffer.map(|buffer| Console::new(Screen(buffer)));
}

/// Shows bytes everywhere.
pub fn write(bytes: &[u8]) {
    arch::serial::write(bytes);
    if let Some(mut guard) = SCREEN.try_lock()
        && let Some(console) = guard.as_mut()
    {
        console.write(bytes);
    }
}

/// Rows and columns, for TIOCGWINSZ: the screen's, or the 25 by 80 that a serial terminal begins with.
pub fn size() -> [u16; 2] {
    let guard = SCREEN.try_lock();
    let size = guard
        .as_ref()
        .and_then(|screen| screen.as_ref())
        .map(Console::size);
    size.map_or([25, 80], |(columns, rows)| [rows as u16, columns as u16])
}

struct Screen(Framebuffer);

impl Pixels for Screen {
    fn size(&self) -> (usize, usize) {
        (self.0.width as usize, self.0.height as usize)
    }

    fn put(&mut self, x: usize, y: usize, intensity: u8) {
        let screen = &self.0;
        let scaled = |(bits, shift): (u8, u8)| (u32::from(intensity) << bits >> 8) << shift;
        let pixel = screen
            .colours
            .map(scaled)
            .iter()
            .fold(0, |all, part| all | part);
        let bytes = usize::from(screen.bytes_per_pixel);
        let at = DIRECT_MAP
            + screen.window.start.0
            + u64::from(screen.pitch) * y as u64
            + (x * bytes) as u64;
        // SAFETY: the pixel lies in the screen's window, which the direct map covers and only this console writes. A row may
        // begin anywhere, so only whole aligned words are written at once.
        unsafe {
            match bytes {
                4 if at.is_multiple_of(4) => (at as *mut u32).write_volatile(pixel),
                _ => {
                    for (n, byte) in pixel.to_le_bytes().into_iter().take(bytes).enumerate() {
                        (at as *mut u8).add(n).write_volatile(byte);
                    }
                }
            }
        }
    }
}
