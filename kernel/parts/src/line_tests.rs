use super::*;

/// Types `keys`; what the screen got, and the signals.
fn typed(line: &mut Line, keys: &[u8]) -> (Vec<u8>, Vec<Signal>) {
    let (mut out, mut signals) = (Vec::new(), Vec::new());
    for key in keys {
        signals.extend(line.receive(*key, &mut out));
    }
    (out, signals)
}

fn read(line: &mut Line) -> Vec<u8> {
    let mut buffer = [0; 64];
    let n = line.read(&mut buffer);
    buffer[..n].to_vec()
}

fn raw(line: &mut Line) {
    let mut termios = line.termios();
    termios.local &= !(c::ICANON | c::ECHO | c::ISIG);
    line.set_termios(termios);
}

#[test]
fn a_line_is_readable_when_it_is_complete() {
    let mut line = Line::default();
    assert_eq!(typed(&mut line, b"ls").0, b"ls");
    assert!(!line.readable());
    assert_eq!(typed(&mut line, b"\r").0, b"\r\n");
    assert_eq!(read(&mut line), b"ls\n");
    assert!(!line.readable());
}

#[test]
fn one_read_returns_one_line() {
    let mut line = Line::default();
    typed(&mut line, b"one\ntwo\n");
    assert_eq!(read(&mut line), b"one\n");
    assert_eq!(line.read(&mut [0; 2]), 2);
    assert_eq!(read(&mut line), b"o\n");
}

#[test]
fn erase_kill_and_word_erase() {
    let mut line = Line::default();
    assert_eq!(typed(&mut line, b"ab\x7f").0, b"ab\x08 \x08");
    assert_eq!(
        typed(&mut line, b"\x7f\x7f\x7f").0,
        b"\x08 \x08",
        "nothing left of the line's start"
    );
    typed(&mut line, b"echo one  two \x17\x17three\n");
    assert_eq!(read(&mut line), b"echo three\n");
    typed(&mut line, b"rubbish\x15good\n");
    assert_eq!(read(&mut line), b"good\n");
}

#[test]
fn erase_takes_whole_characters_and_tabs() {
    let mut line = Line::default();
    typed(&mut line, "aé".as_bytes());
    assert_eq!(typed(&mut line, b"\x7f").0, b"\x08 \x08");
    assert_eq!(typed(&mut line, b"\t").0, b"\t");
    assert_eq!(
        typed(&mut line, b"\x7f").0.len(),
        3 * 7,
        "from column 8 back to 1"
    );
    typed(&mut line, b"\n");
    assert_eq!(read(&mut line), b"a\n");
}

#[test]
fn end_of_file() {
    let mut line = Line::default();
    typed(&mut line, b"\x04");
    assert!(line.readable());
    assert_eq!(read(&mut line), b"");
    assert!(!line.readable(), "one end of file for one ^D");
    typed(&mut line, b"part\x04");
    assert_eq!(read(&mut line), b"part");
    assert!(!line.readable());
}

#[test]
fn signals_flush_the_line() {
    let mut line = Line::default();
    let (out, signals) = typed(&mut line, b"half\x03");
    assert_eq!(
        (out.as_slice(), signals.as_slice()),
        (&b"half^C"[..], &[Signal::Interrupt][..])
    );
    typed(&mut line, b"x\n");
    assert_eq!(read(&mut line), b"x\n");
    assert_eq!(
        typed(&mut line, b"\x1c\x1a").1,
        [Signal::Quit, Signal::Suspend]
    );
}

#[test]
fn raw_mode_gives_bytes_at_once() {
    let mut line = Line::default();
    raw(&mut line);
    let (out, signals) = typed(&mut line, b"\x03\x7f");
    assert!(out.is_empty() && signals.is_empty());
    assert_eq!(read(&mut line), b"\x03\x7f");
    assert_eq!(line.raw_wait(), Some((1, 0)));
}

#[test]
fn what_was_typed_survives_a_change_of_mode() {
    let mut line = Line::default();
    typed(&mut line, b"one\nhalf");
    raw(&mut line);
    assert_eq!(read(&mut line), b"one\nhalf");
    typed(&mut line, b"later");
    line.set_termios(Termios::default());
    assert_eq!(read(&mut line), b"later");
}

#[test]
fn stop_and_start() {
    let mut line = Line::default();
    typed(&mut line, b"\x13");
    assert!(line.stopped());
    typed(&mut line, b"\x11");
    assert!(!line.stopped());
    assert!(!line.readable());
}

#[test]
fn a_literal_control_character() {
    let mut line = Line::default();
    assert_eq!(
        typed(&mut line, b"\x16\x03\n"),
        (b"^C\r\n".to_vec(), Vec::new())
    );
    assert_eq!(read(&mut line), b"\x03\n");
}

#[test]
fn input_nobody_reads_is_bounded() {
    let mut line = Line::default();
    let (out, _) = typed(&mut line, &[b'x'; 5000]);
    assert_eq!(out.iter().filter(|b| **b == BELL).count(), 5000 - ROOM);
    typed(&mut line, b"\n");
    assert_eq!(line.available(), ROOM + 1);
}

#[test]
fn output_processing() {
    let mut line = Line::default();
    let mut out = Vec::new();
    line.write(b"a\nb", &mut out);
    assert_eq!(out, b"a\r\nb");
    let mut termios = line.termios();
    termios.output = 0;
    line.set_termios(termios);
    out.clear();
    line.write(b"a\nb", &mut out);
    assert_eq!(out, b"a\nb");
}
