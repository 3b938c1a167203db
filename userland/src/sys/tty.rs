//! The terminal: its modes, its size, its foreground process group.
use super::{Result, check};

/// Whether `fd` is a terminal.
pub fn is_tty(fd: i32) -> bool {
    get_modes(fd).is_ok()
}

/// TCGETS.
pub fn get_modes(fd: i32) -> Result<libc::termios> {
    // SAFETY: an all-zero termios is a valid value.
    let mut t: libc::termios = unsafe { std::mem::zeroed() };
    // SAFETY: `t` is ours and lives through the call.
    check(unsafe { libc::tcgetattr(fd, &mut t) })?;
    Ok(t)
}

/// TCSETSW: the modes, once what was written is out.
pub fn set_modes(fd: i32, modes: &libc::termios) -> Result<()> {
    // SAFETY: `modes` is a whole termios.
    check(unsafe { libc::tcsetattr(fd, libc::TCSADRAIN, modes) }).map(|_| ())
}

/// Waits until what was written is out.
pub fn drain(fd: i32) -> Result<()> {
    // SAFETY: only a number goes over.
    check(unsafe { libc::tcdrain(fd) }).map(|_| ())
}

/// The process group in the foreground of the caller's terminal.
pub fn foreground(fd: i32) -> Result<i32> {
    // SAFETY: only a number goes over.
    check(unsafe { libc::tcgetpgrp(fd) }).map(|n| n as i32)
}

/// Puts a process group of the caller's session in the foreground of its terminal.
pub fn set_foreground(fd: i32, group: i32) -> Result<()> {
    // SAFETY: only numbers go over.
    check(unsafe { libc::tcsetpgrp(fd, group) }).map(|_| ())
}

/// TIOCGWINSZ: (rows, columns).
pub fn size(fd: i32) -> Result<(u16, u16)> {
    // SAFETY: an all-zero winsize is a valid value.
    let mut w: libc::winsize = unsafe { std::mem::zeroed() };
    // SAFETY: `w` is ours and lives through the call.
    check(unsafe { libc::ioctl(fd, libc::TIOCGWINSZ as _, &mut w) })?;
    Ok((w.ws_row, w.ws_col))
}

/// Makes the terminal on `fd` the caller's controlling terminal.
pub fn take(fd: i32) -> Result<()> {
    // SAFETY: only numbers go over.
    check(unsafe { libc::ioctl(fd, libc::TIOCSCTTY as _, 0) }).map(|_| ())
}
