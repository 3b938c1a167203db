//! Modules of the distribution's kernel, for what it has not compiled in: zram, to swap to.
use super::apt::Apt;
use super::choose::Package;
use super::{Kernel, file_name, folder};
use crate::host::progress;
use crate::host::workspace::{self, Temporary};
use crate::machine::initramfs::Archive;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where in the archive they are: the program that loads them looks there.
const FOLDERS: [&str; 3] = ["lib", "lib/modules", "lib/modules/zram"];

/// An archive to go behind an initramfs: zram and what it needs, by names whose order is that of
/// loading. What was downloaded once is taken.
///
/// # Errors
///
/// When the kernel is not the distribution's, or the distribution has no such module any more.
pub fn zram(kernel: &Kernel) -> Result<Vec<u8>> {
    let package = kernel.package.as_ref();
    let package = package.with_context(|| format!("{} is no package", kernel.origin))?;
    let kept = folder().join("zram").join(file_name(package));
    if !kept.exists() {
        let archive = download(package)?;
        fs::create_dir_all(folder().join("zram"))?;
        workspace::replace(&kept, |new| Ok(fs::write(new, archive)?))?;
    }
    Ok(fs::read(&kept)?)
}

fn download(kernel: &Package) -> Result<Vec<u8>> {
    let apt = Apt::new(&folder().join("apt"))?;
    let package = kernel.of_modules();
    apt.search(
        "its modules",
        &format!("^{}$", package.name.replace('+', "[+]")),
    )?;
    let scratch = Temporary::folder("modules")?;
    let tree = apt.unpack(&[&package.named_exactly()], scratch.path())?;
    let mut found = Vec::new();
    with_needs(&files(&tree)?, "zram", &mut found)?;
    ensure!(!found.is_empty(), "{} has no module zram", package.name);
    let mut archive = Archive::default();
    for folder in FOLDERS {
        archive.directory(folder)?;
    }
    for (number, (name, module)) in found.iter().enumerate() {
        let path = format!("{}/{number}-{name}.ko", FOLDERS[2]);
        archive.file(&path, 0o644, module)?;
    }
    archive.finish()
}

/// All files below a folder.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => all.extend(files(&entry.path())?),
            false => all.push(entry.path()),
        }
    }
    Ok(all)
}

/// Adds the module of this name behind those that it needs and that are files: others are compiled
/// in.
fn with_needs(all: &[PathBuf], name: &str, found: &mut Vec<(String, Vec<u8>)>) -> Result<()> {
    let of_name = |path: &&PathBuf| {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let module = file
            .split_once(".ko")
            .map(|(module, _)| module.replace('-', "_"));
        module.is_some_and(|module| module == name)
    };
    if found.iter().any(|(there, _)| there == name) {
        return Ok(());
    }
    let Some(path) = all.iter().find(of_name) else {
        return Ok(());
    };
    let module = unpacked(path)?;
    for need in needs(&module) {
        with_needs(all, &need, found)?;
    }
    found.push((name.to_owned(), module));
    Ok(())
}

/// The bytes of a module, which Debian packs by xz.
fn unpacked(path: &Path) -> Result<Vec<u8>> {
    match path.extension().is_some_and(|kind| kind == "xz") {
        true => progress::step(
            "unpacking a module",
            Command::new("xz").arg("-dc").arg(path),
        ),
        false => Ok(fs::read(path)?),
    }
}

/// What the module says that it needs, in its section `.modinfo`.
fn needs(module: &[u8]) -> Vec<String> {
    let mut strings = module.split(|byte| *byte == 0);
    let needs = strings.find_map(|string| string.strip_prefix(b"depends="));
    let needs = String::from_utf8_lossy(needs.unwrap_or_default()).into_owned();
    let names = needs.split(',').filter(|name| !name.is_empty());
    names.map(|name| name.replace('-', "_")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_comes_behind_what_it_needs() {
        let folder = Temporary::folder("modules").unwrap();
        let write = |name: &str, depends: &str| {
            let text = format!("\x7fELF\0license=GPL\0depends={depends}\0name=x\0");
            fs::write(folder.path().join(name), text).unwrap();
        };
        write("zram.ko", "lz4hc-compress,zsmalloc,lz4_compress");
        write("lz4_compress.ko", "");
        write("lz4hc_compress.ko", "lz4_compress");
        let all = files(folder.path()).unwrap();
        let mut found = Vec::new();
        with_needs(&all, "zram", &mut found).unwrap();
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["lz4_compress", "lz4hc_compress", "zram"]);
    }
}
