//! The terminal's line discipline, termios(3): what becomes of typed bytes and of written ones.
//! Pure: bytes and settings in, bytes and signals out.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use linux_raw_sys::general as c;

/// Input that is not read is kept up to this many bytes, as in Linux.
const ROOM: usize = 4095;
const BELL: u8 = 7;

/// The kernel's struct termios: 36 bytes, the same on both architectures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Termios {
    /// Input modes (ICRNL ...).
    pub input: u32,
    /// Output modes (OPOST ...).
    pub output: u32,
    /// Control modes: the line's speed and format.
    pub control: u32,
    /// Local modes (ICANON, ECHO ...).
    pub local: u32,
    /// The number of the line discipline: always 0.
    pub discipline: u8,
    /// Control characters, by VINTR ...
    pub characters: [u8; 19],
}

impl Default for Termios {
    /// As Linux sets up a console.
    fn default() -> Self {
        let mut characters = [0; 19];
        for (index, value) in [
            (c::VINTR, 3),
            (c::VQUIT, 28),
            (c::VERASE, 127),
            (c::VKILL, 21),
            (c::VEOF, 4),
            (c::VMIN, 1),
            (c::VSTART, 17),
            (c::VSTOP, 19),
            (c::VSUSP, 26),
            (c::VREPRINT, 18),
            (c::VDISCARD, 15),
            (c::VWERASE, 23),
            (c::VLNEXT, 22),
        ] {
            characters[index as usize] = value;
        }
        Termios {
            input: c::ICRNL | c::IXON,
            output: c::OPOST | c::ONLCR,
            control: c::B115200 | c::CS8 | c::CREAD | c::HUPCL | c::CLOCAL,
            local: c::ISIG
                | c::ICANON
                | c::ECHO
                | c::ECHOE
                | c::ECHOK
                | c::ECHOCTL
                | c::ECHOKE
                | c::IEXTEN,
            discipline: 0,
            characters,
        }
    }
}

impl Termios {
    fn canonical(&self) -> bool {
        self.local & c::ICANON != 0
    }
    fn echoes(&self) -> bool {
        self.local & c::ECHO != 0
    }
    /// Whether `byte` is the control character `which`; 0 switches one off.
    fn is(&self, byte: u8, which: u32) -> bool {
        byte != 0 && self.characters[which as usize] == byte
    }
    fn is_extension(&self, byte: u8, which: u32) -> bool {
        self.local & c::IEXTEN != 0 && self.is(byte, which)
    }
}

/// What a control character asks for, to be sent to the foreground process group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// ^C: SIGINT.
    Interrupt,
    /// ^\: SIGQUIT.
    Quit,
    /// ^Z: SIGTSTP.
    Suspend,
}

/// One terminal's state.
#[derive(Default)]
pub struct Line {
    termios: Termios,
    /// The line that is being typed.
    editing: Vec<u8>,
    /// What can be read.
    ready: VecDeque<u8>,
    /// Canonical mode: the lengths of the lines in `ready`. A length of 0 is an end of file.
    ends: VecDeque<usize>,
    /// The next byte is taken as it is (^V).
    literal: bool,
    /// ^S was typed: writers wait.
    stopped: bool,
    /// Where the cursor stands, and stood when the line was begun.
    column: usize,
    start_column: usize,
}

impl Line {
    /// The settings.
    pub fn termios(&self) -> Termios {
        self.termios
    }

    /// Changes the settings; typed bytes stay readable in the new mode.
    pub fn set_termios(&mut self, new: Termios) {
        if self.termios.canonical() != new.canonical() {
            self.ends.clear();
            self.ready.extend(self.editing.drain(..));
            if new.canonical() && !self.ready.is_empty() {
                self.ends.push_back(self.ready.len());
            }
        }
        self.termios = new;
        self.stopped &= new.input & c::IXON != 0;
    }

    /// Forgets everything typed and not read (TCIFLUSH).
    pub fn flush_input(&mut self) {
        self.editing.clear();
        self.ready.clear();
        self.ends.clear();
    }

    /// Whether writers must wait (^S).
    pub fn stopped(&self) -> bool {
        self.stopped
    }

    /// Bytes that one read could return at most now; canonical mode: of the first line.
    pub fn available(&self) -> usize {
        if self.termios.canonical() {
            self.ends.front().copied().unwrap_or(0)
        } else {
            self.ready.len()
        }
    }

    /// Whether a read has something to return: data or an end of file. VMIN and VTIME are the
    /// reader's business.
    pub fn readable(&self) -> bool {
        if self.termios.canonical() {
            !self.ends.is_empty()
        } else {
            !self.ready.is_empty()
        }
    }

    /// VMIN and VTIME (tenths of a second) when they count: in raw mode.
    pub fn raw_wait(&self) -> Option<(usize, u64)> {
        let of = |which: u32| self.termios.characters[which as usize];
        (!self.termios.canonical()).then(|| (of(c::VMIN).into(), of(c::VTIME).into()))
    }

    /// Takes what can be read, at most one line in canonical mode.
    pub fn read(&mut self, into: &mut [u8]) -> usize {
        let n = self.available().min(into.len());
        for byte in &mut into[..n] {
            *byte = self.ready.pop_front().unwrap_or(0);
        }
        if self.termios.canonical()
            && let Some(left) = self.ends.front_mut()
        {
            *left -= n;
            if *left == 0 {
                self.ends.pop_front();
            }
        }
        n
    }

    /// What a program's bytes become on the wire.
    pub fn write(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let output = self.termios.output;
        for &byte in bytes {
            match byte {
                b'\n' if output & c::OPOST != 0 && output & c::ONLCR != 0 => {
                    out.extend_from_slice(b"\r\n");
                    self.column = 0;
                    continue;
                }
                b'\n' | b'\r' => self.column = 0,
                b'\t' => self.column = (self.column | 7) + 1,
                8 => self.column = self.column.saturating_sub(1),
                _ => self.column += width(byte),
            }
            out.push(byte);
        }
    }

    /// A byte was typed. What the terminal shows for it goes to `out`.
    pub fn receive(&mut self, byte: u8, out: &mut Vec<u8>) -> Option<Signal> {
        let termios = self.termios;
        let byte = if termios.input & c::ISTRIP != 0 {
            byte & 0x7f
        } else {
            byte
        };
        if core::mem::take(&mut self.literal) {
            self.keep(byte, out);
            return None;
        }
        if termios.input & c::IXON != 0 {
            match byte {
                _ if termios.is(byte, c::VSTART) => return self.set_stopped(false),
                _ if termios.is(byte, c::VSTOP) => return self.set_stopped(true),
                _ => {}
            }
        }
        if termios.local & c::ISIG != 0
            && let Some(signal) = signal_of(&termios, byte)
        {
            return Some(self.signal(signal, byte, out));
        }
        let byte = match byte {
            b'\r' if termios.input & c::IGNCR != 0 => return None,
            b'\r' if termios.input & c::ICRNL != 0 => b'\n',
            b'\n' if termios.input & c::INLCR != 0 => b'\r',
            other => other,
        };
        if !termios.canonical() || !self.edit(byte, out) {
            self.keep(byte, out);
        }
        None
    }

    fn set_stopped(&mut self, stopped: bool) -> Option<Signal> {
        self.stopped = stopped;
        None
    }

    fn signal(&mut self, signal: Signal, byte: u8, out: &mut Vec<u8>) -> Signal {
        if self.termios.local & c::NOFLSH == 0 {
            self.flush_input();
        }
        self.stopped = false;
        self.echo(byte, out);
        signal
    }

    /// Canonical mode's editing characters; `false` for any other byte.
    fn edit(&mut self, byte: u8, out: &mut Vec<u8>) -> bool {
        let termios = self.termios;
        if termios.is(byte, c::VERASE) {
            self.erase_character(out);
        } else if termios.is(byte, c::VKILL) {
            self.erase_while(out, |_| true);
        } else if termios.is_extension(byte, c::VWERASE) {
            let mut word = false;
            self.erase_while(out, |last| {
                let blank = matches!(last, b' ' | b'\t');
                word |= !blank;
                !(word && blank)
            });
        } else if termios.is_extension(byte, c::VREPRINT) {
            self.reprint(out);
        } else if termios.is_extension(byte, c::VLNEXT) {
            self.literal = true;
        } else if termios.is(byte, c::VEOF) {
            self.finish_line();
        } else {
            return false;
        }
        true
    }

    /// Adds a byte to the input.
    fn keep(&mut self, byte: u8, out: &mut Vec<u8>) {
        if self.editing.len() + self.ready.len() >= ROOM
            && !(self.termios.canonical() && byte == b'\n')
        {
            out.push(BELL);
            return;
        }
        if !self.termios.canonical() {
            self.ready.push_back(byte);
            self.echo(byte, out);
            return;
        }
        if self.editing.is_empty() {
            self.start_column = self.column;
        }
        self.editing.push(byte);
        let ends = byte == b'\n'
            || self.termios.is(byte, c::VEOL)
            || self.termios.is_extension(byte, c::VEOL2);
        if byte == b'\n' && self.termios.local & c::ECHONL != 0 && !self.termios.echoes() {
            self.write(b"\n", out);
        }
        self.echo(byte, out);
        if ends {
            self.finish_line();
        }
    }

    fn finish_line(&mut self) {
        self.ends.push_back(self.editing.len());
        self.ready.extend(self.editing.drain(..));
    }

    fn echo(&mut self, byte: u8, out: &mut Vec<u8>) {
        if !self.termios.echoes() {
            return;
        }
        let control = byte < 32 && !matches!(byte, b'\n' | b'\t') || byte == 127;
        if control && self.termios.local & c::ECHOCTL != 0 {
            self.write(&[b'^', byte ^ 0x40], out);
        } else {
            self.write(&[byte], out);
        }
    }

    fn erase_character(&mut self, out: &mut Vec<u8>) {
        // The bytes of one UTF-8 character go together.
        while self.editing.last().is_some_and(|b| b & 0xc0 == 0x80) {
            self.editing.pop();
        }
        if self.editing.pop().is_some() {
            self.wipe_to(self.end_column(), out);
        }
    }

    fn erase_while(&mut self, out: &mut Vec<u8>, mut more: impl FnMut(u8) -> bool) {
        while self.editing.last().is_some_and(|last| more(*last)) {
            self.editing.pop();
        }
        self.wipe_to(self.end_column(), out);
    }

    /// Where the cursor stands after the line that is being typed.
    fn end_column(&self) -> usize {
        let shows_control = self.termios.local & c::ECHOCTL != 0;
        self.editing
            .iter()
            .fold(self.start_column, |column, byte| match byte {
                b'\t' => (column | 7) + 1,
                0..32 | 127 if shows_control => column + 2,
                _ => column + width(*byte),
            })
    }

    fn wipe_to(&mut self, column: usize, out: &mut Vec<u8>) {
        if self.termios.echoes() {
            while self.column > column {
                out.extend_from_slice(b"\x08 \x08");
                self.column -= 1;
            }
        }
    }

    fn reprint(&mut self, out: &mut Vec<u8>) {
        self.echo(self.termios.characters[c::VREPRINT as usize], out);
        self.write(b"\n", out);
        self.start_column = 0;
        for byte in self.editing.clone() {
            self.echo(byte, out);
        }
    }
}

/// Columns that a printed byte takes: control characters and the later bytes of UTF-8 take none.
fn width(byte: u8) -> usize {
    usize::from(byte >= 32 && byte != 127 && byte & 0xc0 != 0x80)
}

fn signal_of(termios: &Termios, byte: u8) -> Option<Signal> {
    [
        (c::VINTR, Signal::Interrupt),
        (c::VQUIT, Signal::Quit),
        (c::VSUSP, Signal::Suspend),
    ]
    .into_iter()
    .find_map(|(which, signal)| termios.is(byte, which).then_some(signal))
}

#[cfg(test)]
#[path = "line_tests.rs"]
mod tests;
