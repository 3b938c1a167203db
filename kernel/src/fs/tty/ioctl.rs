//! ioctl_tty(2).

use super::{TerminalState, terminal};
use crate::base::above::Above;
use crate::base::errno::{Errno, Result};
use crate::base::uaccess;
use crate::fs::caller::Caller;
use linux_raw_sys::general as c;
use linux_raw_sys::ioctl::*;
use parts::line::Termios;
use parts::signal::SIGWINCH;

/// One ioctl on the terminal; ENOTTY for what no terminal knows.
pub fn call(command: u32, argument: u64) -> Result<u64> {
    match command {
        TCGETS => uaccess::write(argument, &to_words(&with(|s| s.line.termios())))?,
        TCGETS2 => {
            // The same with the speeds, 115200 both ways, after it.
            uaccess::write(argument, &to_words(&with(|s| s.line.termios())))?;
            uaccess::write(argument + 36, &[115_200u32; 2])?;
        }
        TCSETS2 | TCSETSW2 | TCSETSF2 => set_termios(command - TCSETS2 + TCSETS, argument)?,
        TCSETS | TCSETSW | TCSETSF => set_termios(command, argument)?,
        TCFLSH => flush(argument)?,
        TCSBRK | TCXONC | TIOCEXCL | TIOCNXCL | TCSBRKP => {}
        TIOCGWINSZ => uaccess::write(argument, &with(|s| s.window))?,
        TIOCSWINSZ => set_window(argument)?,
        TIOCGPGRP => uaccess::write(argument, &own(|s| s.foreground)?)?,
        TIOCSPGRP => set_foreground(uaccess::read(argument)?)?,
        TIOCGSID => uaccess::write(argument, &own(|s| s.session)?)?,
        TIOCSCTTY => acquire()?,
        TIOCNOTTY => release()?,
        FIONREAD => uaccess::write(argument, &with(|s| s.line.available() as i32))?,
        TIOCOUTQ => uaccess::write(argument, &0i32)?,
        _ => return Err(Errno::ENOTTY),
    }
    Ok(0)
}

fn with<T>(f: impl FnOnce(&mut TerminalState) -> T) -> T {
    f(&mut terminal().state.lock())
}

/// As [`with`]; ENOTTY unless it is the terminal of the caller's session.
fn own<T>(f: impl FnOnce(&mut TerminalState) -> T) -> Result<T> {
    let sid = Above::ids().sid;
    with(|state| {
        if state.belongs_to(sid) {
            Ok(f(state))
        } else {
            Err(Errno::ENOTTY)
        }
    })
}

fn to_words(termios: &Termios) -> [u8; 36] {
    let mut bytes = [0; 36];
    for (into, word) in bytes.chunks_exact_mut(4).zip([
        termios.input,
        termios.output,
        termios.control,
        termios.local,
    ]) {
        into.copy_from_slice(&word.to_ne_bytes());
    }
    bytes[16] = termios.discipline;
    bytes[17..].copy_from_slice(&termios.characters);
    bytes
}

fn from_words(bytes: &[u8; 36]) -> Termios {
    let word = |i: usize| {
        u32::from_ne_bytes([
            bytes[4 * i],
            bytes[4 * i + 1],
            bytes[4 * i + 2],
            bytes[4 * i + 3],
        ])
    };
    let mut characters = [0; 19];
    characters.copy_from_slice(&bytes[17..]);
    Termios {
        input: word(0),
        output: word(1),
        control: word(2),
        local: word(3),
        discipline: bytes[16],
        characters,
    }
}

fn set_termios(command: u32, argument: u64) -> Result {
    let termios = from_words(&uaccess::read(argument)?);
    with(|state| {
        if command == TCSETSF {
            state.line.flush_input();
        }
        state.line.set_termios(termios);
    });
    terminal().readable.wake_all();
    terminal().writable.wake_all();
    Ok(())
}

fn flush(which: u64) -> Result {
    match which as u32 {
        c::TCIFLUSH | c::TCIOFLUSH => with(|s| s.line.flush_input()),
        c::TCOFLUSH => {}
        _ => return Err(Errno::EINVAL),
    }
    Ok(())
}

fn set_window(argument: u64) -> Result {
    let window: [u16; 4] = uaccess::read(argument)?;
    let (changed, foreground) = with(|state| {
        let changed = core::mem::replace(&mut state.window, window) != window;
        (changed, state.foreground)
    });
    if changed && foreground != 0 {
        Above::signal_group(foreground, SIGWINCH);
    }
    Ok(())
}

/// tcsetpgrp(3): EPERM for a group of another session.
fn set_foreground(pgid: i32) -> Result {
    let sid = Above::ids().sid;
    own(|_| ())?;
    if pgid < 0 {
        return Err(Errno::EINVAL);
    }
    if Above::session_of(pgid) != Some(sid) {
        return Err(Errno::EPERM);
    }
    own(|state| state.foreground = pgid)
}

/// TIOCSCTTY: only session leaders; another session loses it.
fn acquire() -> Result {
    let caller = Above::ids();
    if !caller.leads_session() {
        return Err(Errno::EPERM);
    }
    with(|state| {
        if state.session != caller.sid {
            state.give_to(&caller);
        }
    });
    Ok(())
}

/// TIOCNOTTY.
fn release() -> Result {
    let caller = Above::ids();
    own(|_| ())?;
    if caller.leads_session() {
        super::session_ended(caller.sid);
    }
    Ok(())
}
