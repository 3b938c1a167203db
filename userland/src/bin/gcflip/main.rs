//! `gcflip [MIB..] [--marks yes]`: a compacting collector that flips its heap by mremap, as those
//! of language runtimes do: the mutators stand still while the moving space goes to another address
//! and the roots are set right; copying comes later, without them.
//!
//! A moving space of so many MiB (256 to 2048) holds objects in folios of 64 KiB, each with a
//! reference to the next; roots point into it. A flip moves the space out of the way by one mremap
//! and adds the distance to every root. The pause of a flip is printed for each setting of `move=`,
//! and for a collector that copies the space meanwhile instead. One JSON line each; after each flip
//! every object is reached from its root.
use std::process::exit;
use userland::controls::Controls;
use userland::marks::{self, Marks};
use userland::measuring;
use userland::switch::Switch;
use userland::sys::mem::{self, ANON, RW};
use userland::sys::{Errno, Result, time};

const SIZES: [usize; 4] = [256, 512, 1024, 2048];
const FLIPS: usize = 4;
/// An object: a reference to the next one, and what it carries.
const OBJECT: usize = 64 << 10;
/// Threads' stacks and globals: so many references into the space.
const ROOTS: usize = 1024;
/// Where the two places of the space are: nothing else is.
const PLACES: [usize; 2] = [1 << 44, (1 << 44) + (4 << 30)];

/// The space and what points into it.
struct Heap {
    at: usize,
    len: usize,
    roots: Vec<usize>,
}

impl Heap {
    fn new(len: usize) -> Result<Heap> {
        let at = PLACES[0];
        let flags = ANON | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
        mem::mmap(at, len, RW, flags, -1, 0)?;
        let objects = len / OBJECT;
        for n in 0..objects {
            let next = (n + 1) % objects;
            mem::store_addresses(at + n * OBJECT, at + (n + 1) * OBJECT);
            mem::store(at + n * OBJECT, (next * OBJECT) as u64);
        }
        let roots = (0..ROOTS).map(|n| at + n * 7919 % objects * OBJECT);
        Ok(Heap {
            at,
            len,
            roots: roots.collect(),
        })
    }

    /// The other place.
    fn other(&self) -> usize {
        PLACES[usize::from(self.at == PLACES[0])]
    }

    /// Sets the roots right after the space came to `to`.
    fn set_roots(&mut self, to: usize) {
        let from = self.at;
        self.roots
            .iter_mut()
            .for_each(|root| *root = *root - from + to);
        self.at = to;
    }

    /// The pause: one mremap and the roots.
    fn flip(&mut self) -> Result<()> {
        let to = self.other();
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        mem::mremap(self.at, self.len, self.len, flags, to)?;
        self.set_roots(to);
        Ok(())
    }

    /// The pause of a collector without mremap: all objects are copied, and the roots.
    fn copy(&mut self) -> Result<()> {
        let to = self.other();
        for offset in (0..self.len).step_by(OBJECT) {
            mem::copy(self.at + offset, to + offset, OBJECT);
        }
        self.set_roots(to);
        Ok(())
    }

    /// Every root and every object leads to the next.
    fn check(&self) -> Result<()> {
        let next = |at: usize| self.at + mem::load(at) as usize;
        let whole =
            |at: usize| at == self.at + (at - self.at) / OBJECT * OBJECT && at < self.at + self.len;
        let mut at = self.roots[0];
        for _ in 0..self.len / OBJECT {
            if !whole(at) || mem::load(at + 4096) & 0xffff != 4096 {
                eprintln!("gcflip: the object at {at:#x} is not what it was");
                return Err(Errno(libc::EIO));
            }
            at = next(at);
        }
        let all = self.roots.iter().all(|root| whole(*root));
        if all && at == self.roots[0] {
            Ok(())
        } else {
            Err(Errno(libc::EIO))
        }
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        for place in PLACES {
            let _ = mem::munmap(place, self.len);
        }
    }
}

/// The mean pause of several flips, after one that warms up. With marks each is marked so.
fn pause(
    heap: &mut Heap,
    flip: fn(&mut Heap) -> Result<()>,
    marks: Option<&Marks>,
    name: &str,
) -> Result<u64> {
    flip(heap)?;
    let mut total = 0;
    for _ in 0..FLIPS {
        let start = time::now();
        marks::around(marks, name, || flip(heap))?;
        total += time::now() - start;
        heap.check()?;
    }
    Ok(total / FLIPS as u64)
}

/// Measures and prints the pause of one way.
fn line(heap: &mut Heap, how: &str, mib: usize, marks: Option<&Marks>) -> Result<()> {
    let op = format!("gcflip={how}/{mib}");
    let flip = if how == "copy" {
        Heap::copy
    } else {
        Heap::flip
    };
    let pause = pause(heap, flip, marks, &format!("{op}@64"))?;
    let mark = marks.map_or(String::new(), |_| format!(",\"mark\":\"{op}@64\""));
    println!("{{\"op\":\"{op}\",\"folio_kb\":64,\"whole\":{pause}{mark}}}");
    Ok(())
}

/// The flips of a heap of this size; returns how many lines were printed.
fn run(mib: usize, marks: Option<&Marks>) -> Result<usize> {
    let mut heap = Heap::new(mib << 20)?;
    let mut lines = 0;
    // No heap is as large as what a PGD entry covers.
    Switch::each("move", &["pte", "pmd", "pud"], "pud", |level| {
        lines += 1;
        line(&mut heap, level, mib, marks)
    })?;
    let flags = ANON | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    mem::mmap(heap.other(), heap.len, RW, flags, -1, 0)?;
    line(&mut heap, "copy", mib, marks)?;
    Ok(lines + 1)
}

fn all(sizes: &[usize], marks: Option<&Marks>) -> Result<usize> {
    let sysfs = Controls::take();
    // A kernel without them does with what it has.
    let _ = sysfs.only(64)?;
    sizes.iter().map(|mib| run(*mib, marks)).sum()
}

fn main() {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let marked = words.ends_with(&["--marks", "yes"].map(str::to_owned));
    if marked {
        words.truncate(words.len() - 2);
    }
    let sizes: Option<Vec<usize>> = words.iter().map(|word| word.parse().ok()).collect();
    let sizes = match sizes {
        Some(none) if none.is_empty() => SIZES.to_vec(),
        Some(sizes) if sizes.iter().all(|mib| (1..=2048).contains(mib)) => sizes,
        _ => {
            eprintln!("usage: gcflip [MIB..] [--marks yes], 1 to 2048 each");
            exit(2);
        }
    };
    let marks = || marked.then(Marks::map).transpose();
    measuring::run(time::counts_instructions(), || {
        all(&sizes, marks()?.as_ref())
    });
}
