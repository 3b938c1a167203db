//! What the programs that measure have in common: their options, the lines around their cells, the
//! sizes of folios, the memory that is measured, and children at the other end of two pipes.
use crate::controls::Controls;
use crate::counters::on_quire;
use crate::sys::mem::{self, ANON};
use crate::sys::proc::{self, Status};
use crate::sys::{Errno, Result, file, time};
use std::fs;
use std::process::exit;
use std::str::FromStr;

/// Folio sizes in kB, those of Linux's controls; 4 is "all others never".
pub const SIZES: [usize; 9] = [4, 16, 32, 64, 128, 256, 512, 1024, 2048];

/// Gives each option of the command line and its value to `take`. One that it refuses ends the
/// program, with the usage.
pub fn options(usage: &str, mut take: impl FnMut(&str, &str) -> Option<()>) {
    let words: Vec<String> = std::env::args().skip(1).collect();
    for pair in words.chunks(2) {
        let taken = match pair {
            [name, value] => take(name, value),
            _ => None,
        };
        if taken.is_none() {
            eprintln!(
                "cannot do {}\nusage: {usage}\nsizes (kB): {SIZES:?}",
                pair.join(" ")
            );
            exit(2);
        }
    }
}

/// The values behind an option, with commas between, if each of them will do.
pub fn list<T: FromStr>(text: &str, known: impl Fn(&T) -> bool) -> Option<Vec<T>> {
    let values: Option<Vec<T>> = text.split(',').map(|word| word.parse().ok()).collect();
    values.filter(|values| values.iter().all(known))
}

/// Folio sizes behind an option.
pub fn sizes(text: &str) -> Option<Vec<usize>> {
    list(text, |size| SIZES.contains(size))
}

/// Which of two words an option has.
pub fn word(text: &str, this: &str, other: &str) -> Option<bool> {
    (text == this || text == other).then_some(text == this)
}

/// The name of this program.
fn name() -> String {
    let path = std::env::args().next().unwrap_or_default();
    path.rsplit('/').next().unwrap_or_default().to_owned()
}

/// Says what is wrong, as an error.
pub fn wrong(what: &str) -> Errno {
    eprintln!("{}: {what}", name());
    Errno(libc::EIO)
}

/// What the kernel calls its version.
pub fn release() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    text.trim().to_owned()
}

/// Has the kernel use folios of so many kB alone; says so where it has none.
pub fn only(controls: &Controls, kb: usize) -> Result<bool> {
    let has = controls.only(kb)?;
    if !has {
        println!("{{\"skipped\":{kb},\"why\":\"this kernel has no folios of {kb} kB\"}}");
    }
    Ok(has)
}

/// Measures, between the line that begins and the one that says how many cells were printed. An
/// error ends the program.
pub fn run(instructions: bool, measure: impl FnOnce() -> Result<usize>) {
    println!(
        "{{\"begin\":true,\"quire\":{},\"release\":\"{}\",\"instructions\":{instructions},\"size_controls\":{}}}",
        on_quire(),
        release(),
        Controls::take().each_size()
    );
    match measure() {
        Ok(cells) => println!("{{\"done\":true,\"cells\":{cells}}}"),
        Err(error) => {
            eprintln!("{}: {error}", name());
            exit(1);
        }
    }
}

/// Private memory of nothing yet that begins at a multiple of so many bytes.
pub fn reserve(len: usize, multiple: usize, prot: i32) -> Result<usize> {
    let flags = ANON | libc::MAP_NORESERVE;
    let all = mem::mmap(0, len + multiple, prot, flags, -1, 0)?;
    let at = all.next_multiple_of(multiple);
    if at > all {
        mem::munmap(all, at - all)?;
    }
    mem::munmap(at + len, all + multiple - at)?;
    Ok(at)
}

/// A clock, and what it takes to read it.
pub struct Clock {
    id: i32,
    reading: u64,
}

impl Clock {
    /// The clock of this number.
    pub fn new(id: i32) -> Clock {
        let clock = Clock { id, reading: 0 };
        let reading = (0..8).map(|_| clock.time(|| ()).1).min();
        let reading = reading.unwrap_or(0);
        Clock { id, reading }
    }

    fn now(&self) -> u64 {
        time::clock(self.id).unwrap_or(0)
    }

    /// Does something, and says how many nanoseconds it took without reading the clock; 0 in a
    /// process that began meanwhile.
    #[inline]
    pub fn time<T>(&self, work: impl FnOnce() -> T) -> (T, u64) {
        let start = self.now();
        let done = work();
        let spent = self.now().saturating_sub(start);
        (done, spent.saturating_sub(self.reading))
    }
}

/// Waits for a child that must have done what it was to do.
#[inline]
pub fn ends_well(pid: i32) -> Result<()> {
    match proc::wait_for(pid)? {
        Status::Exited(0) => Ok(()),
        other => Err(wrong(&format!("a child ended with {other:?}"))),
    }
}

/// One end of a pair of pipes.
#[derive(Clone, Copy)]
pub struct Line {
    /// What the other end says.
    pub from: i32,
    /// What this one says.
    pub to: i32,
}

impl Line {
    /// Both ends.
    pub fn pair() -> Result<(Line, Line)> {
        let (here, there) = (file::pipe(libc::O_CLOEXEC)?, file::pipe(libc::O_CLOEXEC)?);
        let end = |from, to| Line { from, to };
        Ok((end(here.0, there.1), end(there.0, here.1)))
    }

    /// Sends a byte.
    #[inline]
    pub fn say(self) -> Result<()> {
        file::write(self.to, &[0]).map(drop)
    }

    /// Waits for a byte.
    #[inline]
    pub fn hear(self) -> Result<()> {
        match file::read(self.from, &mut [0])? {
            1 => Ok(()),
            _ => Err(wrong("the other end of the pipes has gone")),
        }
    }

    /// Sends a byte and waits for one.
    #[inline]
    pub fn round_trip(self) -> Result<()> {
        self.say()?;
        self.hear()
    }

    /// Sends each byte back until there are no more.
    pub fn echo(self) -> Result<()> {
        while file::read(self.from, &mut [0])? == 1 {
            self.say()?;
        }
        Ok(())
    }

    /// Closes this end.
    pub fn close(self) -> Result<()> {
        file::close(self.from)?;
        file::close(self.to)
    }
}

/// A child at the other end of two pipes, with a copy of the memory.
pub struct Child {
    /// Its process number.
    pub pid: i32,
    /// Our end.
    pub line: Line,
}

impl Child {
    /// Forks one that does something with its end of the pipes, and ends.
    pub fn start(work: impl FnOnce(Line) -> Result<()>) -> Result<Child> {
        let (line, theirs) = Line::pair()?;
        let pid = proc::child(|| {
            line.close()?;
            work(theirs)
        })?;
        theirs.close()?;
        Ok(Child { pid, line })
    }

    /// Closes the pipes, which a child that reads takes for a sign to end, and waits until it has.
    pub fn end(self) -> Result<()> {
        self.line.close()?;
        ends_well(self.pid)
    }
}
