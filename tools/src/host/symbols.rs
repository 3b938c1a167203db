//! The kernel's function symbols, as the kernel finds them behind its image.
//!
//! `u32 count, u32 0, count x { u64 address, u32 name offset, u32 name length }` sorted by address,
//! then the mangled names; offsets count from the table's first byte; little endian.
use anyhow::{Context, Result};
use object::{Object, ObjectSection, ObjectSymbol, SectionKind, SymbolKind};
use std::collections::BTreeMap;

/// The symbol table of a kernel ELF in the form above.
pub fn table(elf: &[u8]) -> Result<Vec<u8>> {
    Ok(encode(&functions(elf)?))
}

/// Address and mangled name of everything in executable sections that has a name. At one address a
/// function wins over a bare label.
pub fn functions(elf: &[u8]) -> Result<BTreeMap<u64, String>> {
    let file = object::File::parse(elf).context("the kernel is not an ELF file")?;
    let mut found = BTreeMap::new();
    for symbol in file.symbols() {
        let text = symbol
            .section_index()
            .and_then(|index| file.section_by_index(index).ok());
        let in_text = text.is_some_and(|section| section.kind() == SectionKind::Text);
        let name = symbol.name().unwrap_or_default();
        // `$x`, `$d`: where the assembler switches between code and data.
        // `__image_start` and the like are the linker script's.
        let function = symbol.kind() == SymbolKind::Text;
        let noise = name.starts_with(['$', '.']) || (name.starts_with("__") && !function);
        if !in_text || name.is_empty() || noise {
            continue;
        }
        if function {
            found.insert(symbol.address(), name.to_owned());
        } else {
            found
                .entry(symbol.address())
                .or_insert_with(|| name.to_owned());
        }
    }
    Ok(found)
}

fn encode(symbols: &BTreeMap<u64, String>) -> Vec<u8> {
    let mut table = Vec::new();
    table.extend((symbols.len() as u32).to_le_bytes());
    table.extend(0u32.to_le_bytes());
    let mut name_at = 8 + 16 * symbols.len() as u32;
    for (address, name) in symbols {
        table.extend(address.to_le_bytes());
        table.extend(name_at.to_le_bytes());
        table.extend((name.len() as u32).to_le_bytes());
        name_at += name.len() as u32;
    }
    for name in symbols.values() {
        table.extend(name.as_bytes());
    }
    table
}

/// The same from a text with lines like Linux's /proc/kallsyms: address, kind, name.
pub fn listed(text: &str) -> BTreeMap<u64, String> {
    let symbol = |line: &str| {
        let mut words = line.split_whitespace();
        let address = u64::from_str_radix(words.next()?, 16).ok()?;
        words.next().filter(|kind| ["t", "T"].contains(kind))?;
        Some((address, words.next()?.to_owned()))
    };
    text.lines().filter_map(symbol).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout() {
        let symbols = BTreeMap::from([(0x2000, "second".to_owned()), (0x1000, "first".to_owned())]);
        let table = encode(&symbols);
        assert_eq!(table[..8], [2, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(
            table[8..24],
            [0, 0x10, 0, 0, 0, 0, 0, 0, 40, 0, 0, 0, 5, 0, 0, 0]
        );
        assert_eq!(
            table[24..40],
            [0, 0x20, 0, 0, 0, 0, 0, 0, 45, 0, 0, 0, 6, 0, 0, 0]
        );
        assert_eq!(&table[40..], b"firstsecond");
    }

    #[test]
    fn of_this_very_program() {
        let elf = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let found = functions(&elf).unwrap();
        assert!(
            found
                .values()
                .any(|name| name.contains("of_this_very_program"))
        );
    }
}
