//! What each part of an operation takes on a machine, in instructions.

use std::fmt::Write;
use tools::host::arch::Arch;

/// Clearing or copying of pages by the instructions for it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bytes {
    /// So many for each page.
    Page(f64),
    /// So many for a run of pages, however long.
    Run(f64),
}

impl Bytes {
    /// Of so many consecutive pages.
    pub fn of(self, pages: f64) -> f64 {
        match self {
            Bytes::Page(each) => each * pages,
            Bytes::Run(all) => all,
        }
    }
}

/// The parts, each an argument of `docs/floor.md`.
#[derive(Debug)]
pub struct Parts {
    /// The way into the kernel and back by an exception.
    pub trap: f64,
    /// The same by a system call.
    pub call: f64,
    /// Finding the VMA of an address.
    pub search: f64,
    /// A lock, taken and released.
    pub lock: f64,
    /// Writing a VMA.
    pub area: f64,
    /// The way from the root to an entry.
    pub walk: f64,
    /// Making and writing one entry of a row.
    pub entry: f64,
    /// Reading one entry of a row, to see that it is as expected.
    pub read: f64,
    /// Reading an entry, and the place of its folio in the frame table.
    pub find: f64,
    /// One update of the account.
    pub account: f64,
    /// Taking a block off a list.
    pub take: f64,
    /// Giving a block back.
    pub give: f64,
    /// Clearing pages, or copying them.
    pub clear: Bytes,
    /// Flushing one page from the TLB.
    pub flush_page: f64,
    /// Flushing a space.
    pub flush: f64,
    /// The registers of a new thread.
    pub task: f64,
    /// The program's loop that writes a byte of each page.
    pub dot: f64,
    /// The program's loop that fills each page.
    pub fill: f64,
    /// The program's loop around a call for each page.
    pub arguments: f64,
}

impl Parts {
    /// A system call that works on a VMA.
    pub fn of_call(&self) -> f64 {
        self.call + self.search + self.lock
    }
}

/// Those of a machine.
pub fn of(arch: Arch) -> &'static Parts {
    match arch {
        Arch::X86_64 => &X86_64,
        Arch::Aarch64 => &AARCH64,
    }
}

const X86_64: Parts = Parts {
    trap: 22.0,
    call: 24.0,
    search: 4.0,
    lock: 2.0,
    area: 4.0,
    walk: 12.0,
    entry: 2.0,
    read: 2.0,
    find: 3.0,
    account: 1.0,
    take: 3.0,
    give: 3.0,
    clear: Bytes::Page(512.0),
    flush_page: 1.0,
    flush: 2.0,
    task: 32.0,
    dot: 4.0,
    fill: 227.0,
    arguments: 7.0,
};

const AARCH64: Parts = Parts {
    trap: 23.0,
    call: 23.0,
    search: 4.0,
    lock: 2.0,
    area: 2.0,
    walk: 8.0,
    entry: 1.5,
    read: 1.5,
    find: 2.0,
    account: 1.0,
    take: 3.0,
    give: 3.0,
    clear: Bytes::Run(3.0),
    flush_page: 3.0,
    flush: 3.0,
    task: 32.0,
    dot: 4.0,
    fill: 257.0,
    arguments: 7.0,
};

/// A part's name in the table, and its cost.
type Row = (&'static str, fn(&Parts) -> String);

const ROWS: [Row; 19] = [
    ("trap", |p| p.trap.to_string()),
    ("call", |p| p.call.to_string()),
    ("search", |p| p.search.to_string()),
    ("lock", |p| p.lock.to_string()),
    ("VMA", |p| p.area.to_string()),
    ("walk", |p| p.walk.to_string()),
    ("entry", |p| p.entry.to_string()),
    ("read", |p| p.read.to_string()),
    ("find", |p| p.find.to_string()),
    ("account", |p| p.account.to_string()),
    ("take", |p| p.take.to_string()),
    ("give", |p| p.give.to_string()),
    ("clear, copy", |p| match p.clear {
        Bytes::Page(each) => format!("{each} a page"),
        Bytes::Run(all) => format!("{all} a folio"),
    }),
    ("flush a page", |p| p.flush_page.to_string()),
    ("flush", |p| p.flush.to_string()),
    ("thread", |p| p.task.to_string()),
    ("write a byte", |p| p.dot.to_string()),
    ("fill", |p| p.fill.to_string()),
    ("arguments", |p| p.arguments.to_string()),
];

/// All parts, as Markdown.
pub fn table() -> String {
    let mut text = String::from("| part |");
    for arch in Arch::ALL {
        let _ = write!(text, " {arch} |");
    }
    text += "\n|---|---|---|\n";
    for (name, cost) in ROWS {
        let costs = Arch::ALL.map(|arch| cost(of(arch)));
        let _ = writeln!(text, "| {name} | {} |", costs.join(" | "));
    }
    text
}
