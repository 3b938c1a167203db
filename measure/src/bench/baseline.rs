//! Linux's figures, from docs/linux-baseline.md.
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use tools::host::arch::Arch;

const PAGE: &str = include_str!("../../../docs/linux-baseline.md");

/// Guest instructions by operation and folio size in kB: per 4 KiB page, for mremap the whole call.
pub type Table = BTreeMap<(String, u64), f64>;

/// The table of one machine.
pub fn table(arch: Arch) -> Result<Table> {
    parse(PAGE, arch.name()).with_context(|| format!("docs/linux-baseline.md, {arch}"))
}

/// The table below the heading `## NAME`: operations in its first row, sizes in its first column.
fn parse(page: &str, name: &str) -> Result<Table> {
    let heading = format!("\n## {name}\n");
    let (_, section) = page.split_once(&heading).context("no such heading")?;
    let section = section.split("\n## ").next().unwrap_or_default();
    let mut rows = section
        .lines()
        .filter_map(|line| line.strip_prefix('|')?.strip_suffix('|'))
        .map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
    let ops = rows.next().context("no table")?;
    let mut table = Table::new();
    for row in rows.filter(|row| !row[0].starts_with('-')) {
        ensure!(row.len() == ops.len(), "a row of another length: {row:?}");
        let size = row[0].trim_end_matches(" kB").parse()?;
        for (op, figure) in ops.iter().zip(&row).skip(1) {
            table.insert(((*op).to_owned(), size), figure.parse()?);
        }
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_tables_are_whole() {
        for arch in Arch::ALL {
            assert_eq!(table(arch).unwrap().len(), 90, "{arch}");
        }
        let figure = |arch, op: &str, size| table(arch).unwrap()[&(op.to_owned(), size)];
        assert_eq!(figure(Arch::X86_64, "fault", 4), 3461.0);
        assert_eq!(figure(Arch::X86_64, "mremap", 2048), 38499.0);
        assert_eq!(figure(Arch::Aarch64, "cow-byte", 64), 3476.0);
    }

    #[test]
    fn a_broken_table_is_an_error() {
        assert!(parse("\n## m\n| folio | a |\n|---|---|\n| 4 kB |\n", "m").is_err());
        assert!(parse("\n## m\n| folio | a |\n|---|---|\n| 4 kB | x |\n", "m").is_err());
        assert!(parse("\n## m\n", "n").is_err());
    }
}
