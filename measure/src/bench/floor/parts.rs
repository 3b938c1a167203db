//! What each part of an operation takes on a machine, in instructions.

use std::fmt;
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

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bytes::Page(each) => write!(f, "{each} a page"),
            Bytes::Run(all) => write!(f, "{all} a folio"),
        }
    }
}

/// Declares the parts: what each is called in the table, and what it takes on x86_64 and aarch64.
macro_rules! parts {
    ($($(#[$about:meta])* $part:ident: $type:ty = $name:literal, $x86_64:expr, $aarch64:expr;)*) => {
        /// The parts, each an argument of `docs/floor.md`.
        #[derive(Debug)]
        pub struct Parts { $($(#[$about])* pub $part: $type,)* }

        const X86_64: Parts = Parts { $($part: $x86_64,)* };
        const AARCH64: Parts = Parts { $($part: $aarch64,)* };

        /// The parts as a table for `docs/floor.md`.
        pub fn table() -> String {
            let machines = Arch::ALL.map(Arch::name).join(" | ");
            let mut text = format!("| part | {machines} |\n|---|---|---|\n");
            for (name, costs) in [
                $(($name, Arch::ALL.map(|arch| of(arch).$part.to_string())),)*
            ] {
                text += &format!("| {name} | {} |\n", costs.join(" | "));
            }
            text
        }
    };
}

parts! {
    /// The way into the kernel and back by an exception.
    trap: f64 = "trap", 22.0, 23.0;
    /// The same by a system call.
    call: f64 = "call", 24.0, 23.0;
    /// Finding the VMA of an address.
    search: f64 = "search", 4.0, 4.0;
    /// A lock, taken and released.
    lock: f64 = "lock", 2.0, 2.0;
    /// Writing a VMA.
    area: f64 = "VMA", 4.0, 2.0;
    /// The way from the root to an entry.
    walk: f64 = "walk", 12.0, 8.0;
    /// Making and writing one entry of a row.
    entry: f64 = "entry", 2.0, 1.5;
    /// Reading one entry of a row, to see that it is as expected.
    read: f64 = "read", 2.0, 1.5;
    /// Reading an entry, and the place of its folio in the frame table.
    find: f64 = "find", 3.0, 2.0;
    /// One update of the account.
    account: f64 = "account", 1.0, 1.0;
    /// Taking a block off a list.
    take: f64 = "take", 3.0, 3.0;
    /// Giving a block back.
    give: f64 = "give", 3.0, 3.0;
    /// Clearing pages, or copying them.
    clear: Bytes = "clear, copy", Bytes::Page(512.0), Bytes::Run(3.0);
    /// Flushing one page from the TLB.
    flush_page: f64 = "flush a page", 1.0, 3.0;
    /// Flushing a space.
    flush: f64 = "flush", 2.0, 3.0;
    /// The registers of a new thread.
    task: f64 = "thread", 32.0, 32.0;
    /// The program's loop that writes a byte of each page.
    dot: f64 = "write a byte", 4.0, 4.0;
    /// The program's loop that fills each page.
    fill: f64 = "fill", 227.0, 257.0;
    /// The program's loop around a call for each page.
    arguments: f64 = "arguments", 7.0, 7.0;
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
