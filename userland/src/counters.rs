//! The kernel's figures as programs read them: `/proc` and `/sys` files of `name value` lines.
use std::collections::BTreeMap;
use std::fs;

/// Name to value.
pub type Table = BTreeMap<String, u64>;

/// Whether the kernel is Quire.
pub fn on_quire() -> bool {
    fs::metadata("/proc/sys/quire").is_ok()
}

/// Parses lines of a name, a value and maybe a unit (`pgfault 12`, `MemFree:  12 kB`); others are skipped.
pub fn parse(text: &str) -> Table {
    text.lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let name = words.next()?.trim_end_matches(':');
            Some((name.to_string(), words.next()?.parse().ok()?))
        })
        .collect()
}

/// The table in a file; empty when there is none.
pub fn table(path: &str) -> Table {
    fs::read_to_string(path)
        .map(|t| parse(&t))
        .unwrap_or_default()
}

/// One figure of a file.
pub fn figure(path: &str, name: &str) -> Option<u64> {
    table(path).get(name).copied()
}

/// Free frames, from `/proc/vmstat`, else from `/proc/meminfo`.
pub fn free_frames() -> Option<u64> {
    figure("/proc/vmstat", "nr_free_pages")
        .or_else(|| figure("/proc/meminfo", "MemFree").map(|kb| kb / 4))
}

/// The smaps entry of the mapping that starts at `start`: its fields in kB.
pub fn smaps_of(start: usize) -> Option<Table> {
    let text = fs::read_to_string("/proc/self/smaps").ok()?;
    let from = text
        .find(&format!("\n{start:08x}-"))
        .map(|n| n + 1)
        .or_else(|| text.starts_with(&format!("{start:08x}-")).then_some(0))?;
    let entry = text[from..].lines().skip(1).take_while(|l| !is_header(l));
    Some(parse(&entry.collect::<Vec<_>>().join("\n")))
}

/// Whether a line of smaps or maps starts a mapping (`START-END perms ...`).
pub fn is_header(line: &str) -> bool {
    let first = line.split(' ').next().unwrap_or("");
    first.split_once('-').is_some_and(|(a, b)| {
        !a.is_empty()
            && [a, b]
                .iter()
                .all(|s| s.bytes().all(|c| c.is_ascii_hexdigit()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_and_without_units() {
        let t = parse("pgfault 12\nMemFree:      34 kB\nVmFlags: rd wr\n\nodd\n");
        assert_eq!(t.get("pgfault"), Some(&12));
        assert_eq!(t.get("MemFree"), Some(&34));
        assert_eq!(t.len(), 2);
    }

    #[test]
    fn headers_are_told_from_fields() {
        assert!(is_header("7f00a000-7f00b000 rw-p 00000000 00:00 0"));
        assert!(!is_header("Size:                  4 kB"));
        assert!(!is_header("VmFlags: rd wr mr-"));
    }
}
