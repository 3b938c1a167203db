//! What is said of a measured piece of work while it goes on: marks for QEMU's plugins, or lines
//! and keys at the console.
use userland::marks::Marks;
use userland::sys::{cpus, file};

/// What is measured next.
#[derive(Clone, Default)]
pub struct Cell {
    pub op: &'static str,
    /// Folio size.
    pub kb: usize,
    /// Whether folios of 2 MiB are mapped by PMDs in an operation that has both.
    pub by_pmd: bool,
    /// Which of several measurements of the operation: how many VMAs or threads there are, or which
    /// of several processes it is.
    pub variant: Option<usize>,
}

impl Cell {
    /// `fork@64`, `munmap-pmd@2048`, `vmas/1000@4`; behind it `@smp8` where there are so many CPUs.
    pub fn mark(&self) -> String {
        let mapped = if self.by_pmd { "-pmd" } else { "" };
        let variant = self.variant.map(|n| format!("/{n}")).unwrap_or_default();
        let several = match cpus::allowed(0) {
            Ok(cpus) if cpus.len() > 1 => format!("@smp{}", cpus.len()),
            _ => String::new(),
        };
        format!("{}{mapped}{variant}@{}{several}", self.op, self.kb)
    }
}

/// How it is said.
#[derive(Default)]
pub struct Observer {
    /// By a line before and one after the work, each with a wait for a key.
    pub keys: bool,
    /// By marks, under the name of the cell.
    pub marks: Option<Marks>,
}

impl Observer {
    /// Says a word at the console and waits.
    pub fn watch(&self, what: &str) {
        if self.keys {
            println!("{{\"watch\":\"{what}\"}}");
            // Without a keyboard there is no measurement from outside.
            let _ = file::read(0, &mut [0; 16]);
        }
    }
}

/// Prints where a kernel other than Quire has its functions, as it lists them.
pub fn print_functions() {
    let all = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let is_code = |line: &&str| line.contains(" t ") || line.contains(" T ");
    all.lines()
        .filter(is_code)
        .for_each(|line| println!("{line}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_marks() {
        let cell = |op, kb, by_pmd, variant| Cell {
            op,
            kb,
            by_pmd,
            variant,
        };
        let name = |cell: Cell| cell.mark().split("@smp").next().map(str::to_owned);
        let is = |cell, expected: &str| assert_eq!(name(cell), Some(expected.to_owned()));
        is(cell("fork", 64, false, None), "fork@64");
        is(cell("munmap", 2048, true, None), "munmap-pmd@2048");
        is(cell("vmas", 4, false, Some(1000)), "vmas/1000@4");
    }
}
