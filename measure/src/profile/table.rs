//! The figures by function.
use super::trace::Counts;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Addresses from here on are the kernel's, on both machines.
const KERNEL: u64 = 1 << 63;

/// Instructions per page by function, most first; what is inlined counts for the function it is in.
pub fn render(
    counts: &Counts,
    functions: &BTreeMap<u64, String>,
    pages: u64,
    top: usize,
) -> String {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for (&address, &count) in counts {
        *sums.entry(function(address, functions)).or_default() += count;
    }
    let total: u64 = sums.values().sum();
    let mut rows: Vec<(&str, u64)> = sums.into_iter().collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.1));
    let per_page = |count: u64| count as f64 / pages as f64;
    let mut text = format!("{:>10}  instructions per page\n", "");
    let _ = writeln!(text, "{:>10.1}  all of it", per_page(total));
    for (name, count) in rows.into_iter().take(top) {
        let _ = writeln!(
            text,
            "{:>10.1}  {:#}",
            per_page(count),
            rustc_demangle::demangle(name)
        );
    }
    text
}

fn function(address: u64, functions: &BTreeMap<u64, String>) -> &str {
    if address < KERNEL {
        return "user mode";
    }
    let found = functions.range(..=address).next_back();
    found.map_or("?", |(_, name)| name)
}

/// `ADDRESS COUNT` for each instruction, by address.
pub fn raw(counts: &Counts) -> String {
    let sorted: BTreeMap<_, _> = counts.iter().collect();
    sorted
        .iter()
        .map(|(address, count)| format!("{address:#x} {count}\n"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_by_function() {
        let functions = BTreeMap::from([
            (KERNEL + 0x100, "first".to_owned()),
            (KERNEL + 0x200, "second".to_owned()),
        ]);
        let counts = Counts::from([
            (KERNEL + 0x100, 4),
            (KERNEL + 0x1fc, 2),
            (KERNEL + 0x200, 10),
            (0x1000, 2),
        ]);
        let text = render(&counts, &functions, 2, 2);
        let rows: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(rows[1], ["9.0", "all", "of", "it"]);
        assert_eq!(rows[2..], [vec!["5.0", "second"], vec!["3.0", "first"]]);
        assert!(raw(&counts).starts_with("0x1000 2\n"));
    }
}
