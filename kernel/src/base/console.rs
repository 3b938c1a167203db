//! The console, for the kernel's log and the terminal's output: the serial line and, when the
//! loader set one up, the screen.

use crate::arch;
use crate::arch::boot::BootInfo;
use arch_boot::Framebuffer;
use screen::{Console, Pixels};
use spin::Mutex;

/// `None` without a screen. Not a ranked lock: it is taken under any other, and a caller that finds
/// it taken (a panic) goes without.
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

/// Rows and columns, for TIOCGWINSZ: the screen's, or the 25 by 80 that a serial terminal begins
/// with.
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
        self.0.put(x, y, intensity);
    }
}
