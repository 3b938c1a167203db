//! A trace of what an allocator asks of the kernel: its calls about private anonymous memory and
//! the first write to each page, in a form that is small enough to keep. `examples/record.rs` makes
//! one of a program on Linux, `bench --op replay` repeats it.
//!
//! A file is [`HEADER`] and then the steps: a byte that says which, and its numbers as LEB128. The
//! first number is where it begins, in pages, as its distance from where the step before ended,
//! with the sign in the lowest bit.

/// What a file begins with.
pub const HEADER: &[u8] = b"quire trace 1\n";

/// Pages, by their number from the trace's own beginning on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pages {
    /// The first one.
    pub at: u64,
    /// How many.
    pub count: u64,
}

impl Pages {
    /// The one behind the last one.
    pub fn end(&self) -> u64 {
        self.at + self.count
    }
}

/// One thing that the program did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// mmap with this protection, or a break that grew.
    Map(Pages, i32),
    /// munmap, or a break that shrank.
    Unmap(Pages),
    /// mprotect with this protection.
    Protect(Pages, i32),
    /// madvise with this advice.
    Advise(Pages, i32),
    /// mremap to as many pages at another place, or at the same one.
    Move(Pages, Pages),
    /// Pages that were not there are written to.
    Touch(Pages),
}

impl Step {
    /// Where it is.
    pub fn pages(&self) -> Pages {
        match *self {
            Step::Map(pages, _)
            | Step::Unmap(pages)
            | Step::Protect(pages, _)
            | Step::Advise(pages, _)
            | Step::Move(pages, _)
            | Step::Touch(pages) => pages,
        }
    }

    /// Which it is, and its numbers beside where it begins.
    fn fields(&self) -> (u8, Vec<u64>) {
        match *self {
            Step::Map(pages, prot) => (0, vec![pages.count, prot as u64]),
            Step::Unmap(pages) => (1, vec![pages.count]),
            Step::Protect(pages, prot) => (2, vec![pages.count, prot as u64]),
            Step::Advise(pages, advice) => (3, vec![pages.count, advice as u64]),
            Step::Move(from, to) => (4, vec![from.count, to.at, to.count]),
            Step::Touch(pages) => (5, vec![pages.count]),
        }
    }
}

/// The file of these steps.
pub fn write(steps: &[Step]) -> Vec<u8> {
    let mut bytes = HEADER.to_vec();
    let mut last = 0;
    for step in steps {
        let (kind, numbers) = step.fields();
        let pages = step.pages();
        bytes.push(kind);
        let apart = pages.at.abs_diff(last);
        number(&mut bytes, apart << 1 | u64::from(pages.at < last));
        numbers.iter().for_each(|n| number(&mut bytes, *n));
        last = pages.end();
    }
    bytes
}

fn number(bytes: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        bytes.push(n as u8 | 0x80);
        n >>= 7;
    }
    bytes.push(n as u8);
}

/// The steps of a file; `None` where it is no such file.
pub fn read(bytes: &[u8]) -> Option<Vec<Step>> {
    let mut reader = Reader(bytes.strip_prefix(HEADER)?);
    let (mut steps, mut last) = (Vec::new(), 0);
    while !reader.0.is_empty() {
        let step = reader.step(last)?;
        last = step.pages().end();
        steps.push(step);
    }
    Some(steps)
}

/// What is left of a file.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn number(&mut self) -> Option<u64> {
        let mut n = 0;
        for shift in (0..63).step_by(7) {
            let byte = self.byte()?;
            n |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(n);
            }
        }
        None
    }

    /// A number that the C library takes as an `int`.
    fn int(&mut self) -> Option<i32> {
        self.number()?.try_into().ok()
    }

    /// The next step, after one that ended at page `last`.
    fn step(&mut self, last: u64) -> Option<Step> {
        let kind = self.byte()?;
        let apart = self.number()?;
        let at = match apart & 1 {
            0 => last.checked_add(apart >> 1)?,
            _ => last.checked_sub(apart >> 1)?,
        };
        let count = self.number()?;
        let pages = Pages { at, count };
        at.checked_add(count)?;
        Some(match kind {
            0 => Step::Map(pages, self.int()?),
            1 => Step::Unmap(pages),
            2 => Step::Protect(pages, self.int()?),
            3 => Step::Advise(pages, self.int()?),
            4 => {
                let (at, count) = (self.number()?, self.number()?);
                at.checked_add(count)?;
                Step::Move(pages, Pages { at, count })
            }
            5 => Step::Touch(pages),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEPS: [Step; 6] = [
        Step::Map(pages(1000, 300), 3),
        Step::Touch(pages(1000, 2)),
        Step::Advise(pages(900, 128), 4),
        Step::Move(pages(1000, 4), pages(70_000, 8)),
        Step::Protect(pages(70_000, 1), 0),
        Step::Unmap(pages(0, 1 << 20)),
    ];

    const fn pages(at: u64, count: u64) -> Pages {
        Pages { at, count }
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes = write(&STEPS);
        assert_eq!(read(&bytes).as_deref(), Some(&STEPS[..]));
        assert_eq!(read(HEADER), Some(vec![]));
    }

    #[test]
    fn half_a_file_is_none() {
        let bytes = write(&STEPS);
        let whole = |end: usize| read(&bytes[..end]).is_some_and(|steps| !steps.is_empty());
        let whole: Vec<usize> = (0..=bytes.len()).filter(|end| whole(*end)).collect();
        assert_eq!(
            (whole.len(), whole.last()),
            (STEPS.len(), Some(&bytes.len()))
        );
        assert_eq!(read(b"quire trace 2\n"), None);
        let wrong: [&[u8]; 3] = [&[9, 0, 0], &[1, 3, 1], &[1, 0x80]];
        for steps in wrong {
            assert_eq!(read(&[HEADER, steps].concat()), None, "{steps:?}");
        }
    }
}
