//! A PS/2 keyboard at the PC's 8042 controller (or what firmware and QEMU show as one), American
//! layout, as bytes that a terminal would send.

use super::apic;
use mm::sync::Lock;
use pc_keyboard::layouts::Us104Key;
use pc_keyboard::{DecodedKey, HandleControl, KeyCode, PS2Keyboard, ScancodeSet1};
use x86_64::instructions::port::Port;

/// The keyboard's interrupt line on every PC.
pub(crate) const ISA_IRQ: u8 = 1;

const DATA: u16 = 0x60;
const STATUS: u16 = 0x64;
const OUTPUT_FULL: u8 = 1;
/// Status: the byte is from the mouse.
const FROM_MOUSE: u8 = 1 << 5;
/// No controller: the bus reads as ones.
const NOTHING_THERE: u8 = 0xff;
/// Limit of stale bytes that are discarded at initialisation.
const STALE: usize = 64;

struct Keyboard {
    decoder: PS2Keyboard<Us104Key, ScancodeSet1>,
    /// Bytes of the last key that are not read yet.
    rest: &'static [u8],
}

/// `None` until it was found. Taken under no other lock than the terminal's.
static KEYBOARD: Lock<Option<Keyboard>, 254> = Lock::new(None);

fn get(port: u16) -> u8 {
    // SAFETY: the 8042's ports; nothing else reads them, and the kernel runs with interrupts off.
    unsafe { Port::new(port).read() }
}

/// Initialises the keyboard, if there is one, and enables its interrupt. The firmware has set it to
/// scancode set 1.
pub(crate) fn init() {
    if get(STATUS) == NOTHING_THERE {
        return;
    }
    for _ in 0..STALE {
        if get(STATUS) & OUTPUT_FULL == 0 {
            break;
        }
        get(DATA);
    }
    let decoder = PS2Keyboard::new(
        ScancodeSet1::new(),
        Us104Key,
        HandleControl::MapLettersToUnicode,
    );
    *KEYBOARD.lock() = Some(Keyboard { decoder, rest: &[] });
    apic::route_isa(ISA_IRQ, apic::KEYBOARD_VECTOR);
}

/// The next byte that was typed, if any.
pub(crate) fn read() -> Option<u8> {
    let mut guard = KEYBOARD.lock();
    let keyboard = guard.as_mut()?;
    loop {
        if let Some((first, rest)) = keyboard.rest.split_first() {
            keyboard.rest = rest;
            return Some(*first);
        }
        let status = get(STATUS);
        if status & OUTPUT_FULL == 0 {
            return None;
        }
        let code = get(DATA);
        if status & FROM_MOUSE != 0 {
            continue;
        }
        // An unknown code is no key.
        let event = keyboard.decoder.add_byte(code).ok().flatten();
        match event.and_then(|event| keyboard.decoder.process_keyevent(event)) {
            Some(DecodedKey::Unicode('\n')) => return Some(b'\r'),
            // What a terminal sends for its backspace key.
            Some(DecodedKey::Unicode('\u{8}')) => return Some(0x7f),
            Some(DecodedKey::Unicode(key)) if key.is_ascii() => return Some(key as u8),
            Some(DecodedKey::RawKey(key)) => keyboard.rest = sequence(key),
            _ => {}
        }
    }
}

/// VT100 escape sequences for keys without a character.
fn sequence(key: KeyCode) -> &'static [u8] {
    match key {
        KeyCode::ArrowUp => b"\x1b[A",
        KeyCode::ArrowDown => b"\x1b[B",
        KeyCode::ArrowRight => b"\x1b[C",
        KeyCode::ArrowLeft => b"\x1b[D",
        KeyCode::Home => b"\x1b[H",
        KeyCode::End => b"\x1b[F",
        KeyCode::PageUp => b"\x1b[5~",
        KeyCode::PageDown => b"\x1b[6~",
        _ => &[],
    }
}
