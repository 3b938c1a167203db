//! Built-in commands that read text: cat, head, tail, grep, more, clear.
use super::output::{complain, done, print};
use super::shell::Shell;
use crate::sys::{Errno, file, tty};
use regex_lite::RegexBuilder;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};

/// A descriptor as a `std::fs::File`.
struct Input(i32);

impl Read for Input {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        file::read(self.0, buf).map_err(|e| std::io::Error::from_raw_os_error(e.0))
    }
}

/// Passes each line of the files, with its end, to `each` with the number of the line from 1 until
/// it returns `false`. Without files, standard input. The status is 1 after a file that cannot be
/// read.
fn lines(paths: &[&str], mut each: impl FnMut(&str, usize, &[u8]) -> Result<bool, Errno>) -> i32 {
    let mut status = 0;
    for path in if paths.is_empty() { &["-"] } else { paths } {
        if let Err(e) = lines_of(path, &mut each) {
            complain(&format!("{path}: {e}"));
            status = 1;
        }
    }
    status
}

fn lines_of(
    path: &str,
    each: &mut impl FnMut(&str, usize, &[u8]) -> Result<bool, Errno>,
) -> Result<(), Errno> {
    let fd = match path {
        "-" => 0,
        path => file::open(path, libc::O_RDONLY | libc::O_CLOEXEC, 0)?,
    };
    let result = each_line(fd, |number, line| each(path, number, line));
    if fd != 0 {
        let _ = file::close(fd);
    }
    result
}

fn each_line(
    fd: i32,
    mut each: impl FnMut(usize, &[u8]) -> Result<bool, Errno>,
) -> Result<(), Errno> {
    let mut input = BufReader::new(Input(fd));
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 || !each(number, &line)? {
            break;
        }
    }
    Ok(())
}

fn write(bytes: &[u8]) -> Result<(), Errno> {
    file::write_all(1, bytes)
}

/// The count of `-n N`, `-nN` or `-N` (10 without), and the files.
fn count<'a>(name: &str, args: &'a [String]) -> Option<(usize, Vec<&'a str>)> {
    let (mut count, mut paths) = (Some(10), Vec::new());
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.strip_prefix('-') {
            Some("n") => count = args.next().and_then(|n| n.parse().ok()),
            Some(n) if !n.is_empty() => count = n.trim_start_matches('n').parse().ok(),
            _ => paths.push(arg.as_str()),
        }
    }
    if count.is_none() {
        complain(&format!("{name}: -n wants a number of lines"));
    }
    Some((count?, paths))
}

/// `cat [FILE ...]`.
pub fn cat(_: &mut Shell, args: &[String]) -> i32 {
    if args.is_empty() {
        return copy("standard input", 0);
    }
    let mut status = 0;
    for path in args {
        match file::open(path, libc::O_RDONLY | libc::O_CLOEXEC, 0) {
            Ok(fd) => {
                status |= copy(path, fd);
                let _ = file::close(fd);
            }
            Err(e) => status = done(path, Err(e)),
        }
    }
    status
}

fn copy(name: &str, fd: i32) -> i32 {
    let mut buf = vec![0u8; 16384];
    loop {
        match file::read(fd, &mut buf) {
            Ok(0) => return 0,
            Ok(n) => match file::write_all(1, &buf[..n]) {
                Ok(()) => {}
                Err(e) => return done("write", Err(e)),
            },
            // ^C.
            Err(Errno(libc::EINTR)) => return 130,
            Err(e) => return done(name, Err(e)),
        }
    }
}

/// `head [-n N] [FILE ...]`.
pub fn head(_: &mut Shell, args: &[String]) -> i32 {
    let Some((count, paths)) = count("head", args) else {
        return 2;
    };
    lines(&paths, |_, number, line| {
        if number <= count {
            write(line)?;
        }
        Ok(number < count)
    })
}

/// `tail [-n N] [FILE ...]`.
pub fn tail(_: &mut Shell, args: &[String]) -> i32 {
    let Some((count, paths)) = count("tail", args) else {
        return 2;
    };
    let mut status = 0;
    for path in if paths.is_empty() { vec!["-"] } else { paths } {
        let mut last = VecDeque::new();
        status |= lines(&[path], |_, _, line| {
            last.push_back(line.to_vec());
            if last.len() > count {
                last.pop_front();
            }
            Ok(true)
        });
        if let Err(e) = last.iter().try_for_each(|line| write(line)) {
            complain(&format!("write: {e}"));
            return 1;
        }
    }
    status
}

/// `grep [-c] [-i] [-n] [-o] [-v] PATTERN [FILE ...]`: 0 when a line matches, 1 when none, 2 when
/// something is wrong. Patterns are extended regular expressions, as those of `grep -E`.
pub fn grep(_: &mut Shell, args: &[String]) -> i32 {
    let (flags, words): (Vec<&String>, Vec<&String>) =
        args.iter().partition(|a| a.len() > 1 && a.starts_with('-'));
    let letters: String = flags.iter().map(|flag| &flag[1..]).collect();
    let flag = |c| letters.contains(c);
    let wrong = |text: String| {
        complain(&format!("grep: {text}"));
        2
    };
    if let Some(c) = letters.chars().find(|c| !"cinov".contains(*c)) {
        return wrong(format!("there is no -{c}"));
    }
    let Some((pattern, paths)) = words.split_first() else {
        return wrong("which pattern?".to_owned());
    };
    let pattern = match RegexBuilder::new(pattern)
        .case_insensitive(flag('i'))
        .build()
    {
        Ok(pattern) => pattern,
        Err(e) => return wrong(e.to_string()),
    };
    let paths: Vec<&str> = paths.iter().map(|path| path.as_str()).collect();
    let mut found = 0;
    let status = lines(&paths, |path, number, line| {
        let text = String::from_utf8_lossy(line);
        if pattern.is_match(text.trim_end_matches('\n')) == flag('v') {
            return Ok(true);
        }
        found += 1;
        if flag('c') {
            return Ok(true);
        }
        let place = match paths.len() {
            0 | 1 => String::new(),
            _ => format!("{path}:"),
        };
        let number = if flag('n') {
            format!("{number}:")
        } else {
            String::new()
        };
        if !flag('o') {
            let end = if text.ends_with('\n') { "" } else { "\n" };
            write(format!("{place}{number}{text}{end}").as_bytes())?;
            return Ok(true);
        }
        for part in pattern.find_iter(text.trim_end_matches('\n')) {
            if !part.is_empty() {
                write(format!("{place}{number}{}\n", part.as_str()).as_bytes())?;
            }
        }
        Ok(true)
    });
    if flag('c') {
        print(&format!("{found}\n"));
    }
    match status {
        0 => i32::from(found == 0),
        _ => 2,
    }
}

/// `clear`: cursor home, erase the display.
pub fn clear(_: &mut Shell, _: &[String]) -> i32 {
    print("\x1b[H\x1b[2J")
}

/// `more [FILE ...]`: a screen at a time. Space: the next screen; return: one line more; q: the
/// end.
pub fn more(_: &mut Shell, args: &[String]) -> i32 {
    let paths: Vec<&str> = args.iter().map(String::as_str).collect();
    let mut screen = match tty::is_tty(1).then(Screen::open).flatten() {
        Some(screen) => screen,
        // Without a terminal there are no keys.
        None => return lines(&paths, |_, _, line| write(line).map(|()| true)),
    };
    let mut ended = false;
    let status = lines(&paths, |_, _, line| {
        ended = ended || !screen.make_room(line)?;
        if !ended {
            write(line)?;
        }
        Ok(!ended)
    });
    screen.close();
    status
}

/// The terminal that `more` fills and whose keys it reads.
struct Screen {
    keys: i32,
    modes: libc::termios,
    rows: usize,
    columns: usize,
    /// Rows that are still empty.
    left: usize,
}

impl Screen {
    fn open() -> Option<Screen> {
        let keys = file::open("/dev/tty", libc::O_RDWR | libc::O_CLOEXEC, 0).ok()?;
        let modes = tty::get_modes(keys).ok()?;
        let (rows, columns) = tty::size(1).ok()?;
        // A serial line does not know.
        let or = |n: u16, usual: usize| if n == 0 { usual } else { usize::from(n) };
        let rows = or(rows, 24).max(2) - 1;
        let mut raw = modes;
        raw.c_lflag &= !(libc::ICANON | libc::ECHO);
        raw.c_cc[libc::VMIN] = 1;
        raw.c_cc[libc::VTIME] = 0;
        tty::set_modes(keys, &raw).ok()?;
        Some(Screen {
            keys,
            modes,
            rows,
            columns: or(columns, 80),
            left: rows,
        })
    }

    /// Waits for a key when `line` does not fit any more; `false` when the key ends the output.
    fn make_room(&mut self, line: &[u8]) -> Result<bool, Errno> {
        let wide = String::from_utf8_lossy(line).trim_end().chars().count();
        let needs = wide.div_ceil(self.columns).max(1);
        if needs > self.left {
            match self.key()? {
                b'q' | b'Q' | 3 | 4 => return Ok(false),
                b'\r' | b'\n' => self.left = needs,
                _ => self.left = self.rows.max(needs),
            }
        }
        self.left -= needs;
        Ok(true)
    }

    fn key(&self) -> Result<u8, Errno> {
        let mut key = [0];
        write(b"--More--")?;
        let n = file::read(self.keys, &mut key)?;
        write(b"\r\x1b[K")?;
        Ok(if n == 0 { b'q' } else { key[0] })
    }

    fn close(self) {
        let _ = tty::set_modes(self.keys, &self.modes);
        let _ = file::close(self.keys);
    }
}
