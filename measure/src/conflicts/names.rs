//! Whose a line is: the static object at its address, or else what kind of memory it is and which
//! function of the kernel touches it.
use addr2line::gimli::{Dwarf, EndianSlice, LittleEndian};
use anyhow::{Context as _, Result};
use counts::lines::{Conflict, Place};
use object::{Object, ObjectSection, ObjectSymbol, SectionKind};
use std::collections::BTreeMap;
use tools::host::symbols;

/// Addresses from here on are the kernel's, on both machines.
const KERNEL: u64 = 1 << 63;
/// Stacks of Quire's threads in the kernel, and where they end (`ARCHITECTURE.md`).
const STACKS: std::ops::Range<u64> = 0xffff_c000_0000_0000..0xffff_e000_0000_0000;
/// The image, on both machines and in both kernels of x86_64.
const IMAGE: u64 = 0xffff_ffff_8000_0000;

type Lookup<'a> = addr2line::Context<EndianSlice<'a, LittleEndian>>;

/// What is known of a kernel.
pub struct Names<'a> {
    /// Size and name of the static objects, by address.
    statics: BTreeMap<u64, (u64, String)>,
    functions: BTreeMap<u64, String>,
    lines: Option<Lookup<'a>>,
}

impl<'a> Names<'a> {
    /// Of a kernel of which nothing is known.
    pub fn none() -> Names<'a> {
        Names {
            statics: BTreeMap::new(),
            functions: BTreeMap::new(),
            lines: None,
        }
    }

    /// Of the kernel in an ELF file with debug information.
    pub fn of(elf: &'a [u8]) -> Result<Names<'a>> {
        let file = object::File::parse(elf).context("the kernel is not an ELF file")?;
        let load = |id: addr2line::gimli::SectionId| -> Result<_> {
            let section = file.section_by_name(id.name());
            let data = section.map(|section| section.data()).transpose()?;
            Ok(EndianSlice::new(data.unwrap_or_default(), LittleEndian))
        };
        let lines = addr2line::Context::from_dwarf(Dwarf::load(load)?)?;
        Ok(Names {
            statics: statics(&file),
            functions: symbols::functions(elf)?,
            lines: Some(lines),
        })
    }

    /// The object of a line: by a write to it, since that is what the other CPU waits for; by
    /// another access where that is done by a library, which says little.
    pub fn object(&self, one: &Conflict) -> String {
        let [first, second] = one.uses;
        let places = [first.written, second.written, first.read, second.read];
        let mut places = places.into_iter().flatten();
        let Some(best) = places.next() else {
            return "?".to_owned();
        };
        let known = [best]
            .into_iter()
            .chain(places)
            .find_map(|place| self.known(place));
        known.unwrap_or_else(|| self.symbol(best.pc))
    }

    /// The object behind an access, if more than a function of a library is known.
    fn known(&self, place: Place) -> Option<String> {
        let Place { address, pc } = place;
        let of_heap = || {
            self.symbol(pc)
                .contains("Talc")
                .then(|| "the heap".to_owned())
        };
        match address {
            ..KERNEL => Some("a page of the program".to_owned()),
            // Of another kernel.
            IMAGE.. if self.lines.is_none() => Some("static data".to_owned()),
            _ if self.lines.is_none() => Some("memory of the kernel".to_owned()),
            IMAGE.. => self.of_image(address),
            address if STACKS.contains(&address) => Some("a stack in the kernel".to_owned()),
            _ => self.frame(pc).or_else(of_heap),
        }
    }

    /// The static object at an address.
    fn of_image(&self, address: u64) -> Option<String> {
        let (start, (size, name)) = self.statics.range(..=address).next_back()?;
        (address - start < *size).then(|| name.clone())
    }

    /// The symbol of a function.
    fn symbol(&self, pc: u64) -> String {
        let symbol = self.functions.range(..=pc).next_back();
        symbol.map_or_else(|| format!("{pc:#x}"), |(_, name)| short(name))
    }

    /// The innermost function that is none of a library's, with what kind of memory those below it
    /// are for.
    fn frame(&self, pc: u64) -> Option<String> {
        let lines = self.lines.as_ref()?;
        let mut frames = lines.find_frames(pc).skip_all_loads().ok()?;
        let (mut kind, mut last) = ("", None);
        while let Ok(Some(frame)) = frames.next() {
            let name = frame.function.as_ref()?.demangle().ok()?.into_owned();
            let Some(location) = frame.location.as_ref() else {
                continue;
            };
            let Some(file) = location.file.and_then(within) else {
                continue;
            };
            let (of_kind, helps) = kind_of(file);
            if kind.is_empty() {
                kind = of_kind;
            }
            let line = location.line.unwrap_or(0);
            last = Some(format!("{kind}{} ({file}:{line})", short(&name)));
            if !helps {
                break;
            }
        }
        last
    }
}

/// What memory the code of a file is for, and whether it only helps others with it, so that those
/// say more.
fn kind_of(file: &str) -> (&'static str, bool) {
    const KINDS: [(&str, &str, bool); 6] = [
        ("kernel/locks/", "lock: ", true),
        ("kernel/own/", "frame metadata: ", true),
        ("kernel/mm/src/own", "frame metadata: ", true),
        ("kernel/mm/src/frame/meta/", "frame metadata: ", true),
        ("kernel/mm/src/arch/", "page table: ", true),
        ("kernel/mm/src/sync", "", true),
    ];
    if file.ends_with("/physmem.rs") {
        return ("page table: ", true);
    }
    let mut known = KINDS.into_iter();
    let known = known.find(|(start, ..)| file.starts_with(start));
    known.map_or(("", false), |(_, kind, helps)| (kind, helps))
}

/// A file of the checkout, from its root.
fn within(file: &str) -> Option<&str> {
    let is_ours = |file: &&str| file.starts_with("kernel/") || file.starts_with("arch/");
    let root = tools::host::workspace::root().to_str()?;
    let inside = file
        .strip_prefix(root)
        .map(|rest| rest.trim_start_matches('/'));
    Some(inside.unwrap_or(file)).filter(is_ours)
}

/// The last parts of a path of Rust, without what generics stand for.
fn short(name: &str) -> String {
    let name = format!("{:#}", rustc_demangle::demangle(name));
    let mut plain = String::new();
    let mut depth = 0;
    for one in name.chars() {
        depth += i32::from(one == '<');
        if depth == 0 {
            plain.push(one);
        }
        depth -= i32::from(one == '>');
    }
    let parts: Vec<&str> = plain.split("::").filter(|part| !part.is_empty()).collect();
    let parts: Vec<&str> = parts
        .into_iter()
        .filter(|part| *part != "{closure#0}")
        .collect();
    parts[parts.len().saturating_sub(2)..].join("::")
}

/// The symbols of data, with their sizes.
fn statics(file: &object::File<'_>) -> BTreeMap<u64, (u64, String)> {
    let is_data = |kind: SectionKind| kind != SectionKind::Text && kind != SectionKind::Metadata;
    let mut found = BTreeMap::new();
    for symbol in file.symbols() {
        let section = symbol.section_index();
        let section = section.and_then(|index| file.section_by_index(index).ok());
        let name = symbol.name().unwrap_or_default();
        if symbol.size() == 0 || name.is_empty() || !section.is_some_and(|one| is_data(one.kind()))
        {
            continue;
        }
        let name = format!("{:#}", rustc_demangle::demangle(name));
        found.insert(symbol.address(), (symbol.size(), name));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    static MARKED: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(7);

    #[test]
    fn the_short_names_of_functions() {
        assert_eq!(short("mm::own::words::Words<T>::add"), "Words::add");
        assert_eq!(
            short("kernel::sched::kernel_lock::enter"),
            "kernel_lock::enter"
        );
        assert_eq!(short("main"), "main");
    }

    #[test]
    fn files_of_the_checkout() {
        let root = tools::host::workspace::root().join("kernel/mm/src/lib.rs");
        assert_eq!(within(root.to_str().unwrap()), Some("kernel/mm/src/lib.rs"));
        assert_eq!(within("kernel/src/main.rs"), Some("kernel/src/main.rs"));
        assert_eq!(within("/rustc/1/library/core/src/lib.rs"), None);
        assert_eq!(kind_of("kernel/own/src/ids.rs"), ("frame metadata: ", true));
        assert_eq!(kind_of("kernel/mm/src/table/node.rs"), ("", false));
    }

    #[test]
    fn static_objects_of_this_very_program() {
        let elf = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        std::hint::black_box(&MARKED);
        let found = statics(&object::File::parse(&*elf).unwrap());
        let marked = found
            .values()
            .find(|(_, name)| name.ends_with("tests::MARKED"));
        assert_eq!(marked.unwrap().0, 8);
    }
}
