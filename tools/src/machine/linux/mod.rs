//! Linux kernels to compare with: the newest that the distribution has for both machines, without
//! changing the host, or files that a user names.
mod apt;
mod choose;
mod format;
mod modules;
mod source;

use crate::host::arch::Arch;
use crate::host::errors::UsageError;
use crate::host::workspace::{self, Temporary};
use anyhow::{Context, Result};
use choose::Package;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};

pub use modules::zram;
pub use source::{FOLDERS, ORIGIN, Tests, tests};

/// What Linux is measured with: it is at its best so. x86_64 has to do without `nokaslr`: Linux
/// there hands it on to init.
const WORDS: &str = "quiet panic=-1 mitigations=off init_on_alloc=0 cgroup_disable=memory nowatchdog audit=0 \
                     page_alloc.shuffle=0";

/// The command line of a Linux that runs one program of the initramfs and ends.
pub fn words(arch: Arch, program: &str) -> String {
    let (console, more) = match arch {
        Arch::X86_64 => ("ttyS0", ""),
        Arch::Aarch64 => ("ttyAMA0", "nokaslr "),
    };
    format!("{WORDS} {more}console={console} -- {program}")
}

/// A kernel that QEMU can load.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// For which machine.
    pub arch: Arch,
    /// The file for `-kernel`.
    pub image: PathBuf,
    /// The package that it comes from, and its version, or the file that the user named.
    pub origin: String,
    /// Of that file, in hexadecimal digits.
    pub sha256: String,
    /// That package.
    package: Option<Package>,
}

impl Kernel {
    /// Whether its modules can be had.
    pub fn has_modules(&self) -> bool {
        self.package.is_some()
    }
    fn new(arch: Arch, image: PathBuf, origin: String) -> Result<Kernel> {
        let bytes = fs::read(&image).with_context(|| format!("cannot read {}", image.display()))?;
        Ok(Kernel {
            arch,
            image,
            origin,
            sha256: sha256(&bytes),
            package: None,
        })
    }
}

/// The hash of some bytes, in hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    let digits = Sha256::digest(bytes);
    digits.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The kernels for these machines: of the files that the user named, or the distribution's.
pub fn kernels(files: &[PathBuf], arches: &[Arch], renew: bool) -> Result<Vec<Kernel>> {
    match files.is_empty() {
        true => of_distribution(arches, renew),
        false => named(files, arches),
    }
}

/// The kernels for these machines that the user named; an error when one has none.
pub fn named(files: &[PathBuf], arches: &[Arch]) -> Result<Vec<Kernel>> {
    let mut kernels = Vec::new();
    for file in files {
        let path = workspace::user_path(file);
        let usage = |why: String| UsageError(format!("--linux {}: {why}", file.display()));
        let bytes = fs::read(&path).map_err(|error| usage(error.to_string()))?;
        let (arch, loadable) = format::loadable(&bytes).map_err(|why| usage(format!("{why:#}")))?;
        // What was packed is kept unpacked under the hash of both.
        let image = match loadable {
            std::borrow::Cow::Borrowed(_) => path.clone(),
            std::borrow::Cow::Owned(image) => keep(arch, &sha256(&image), &image)?,
        };
        kernels.push(Kernel::new(arch, image, path.display().to_string())?);
    }
    let of = |arch: &Arch| {
        let found = kernels.iter().find(|kernel| kernel.arch == *arch);
        found.cloned().ok_or_else(|| {
            let text = format!(
                "--linux names no kernel for {arch}; --linux may be given twice, --arch chooses one"
            );
            UsageError(text).into()
        })
    };
    arches.iter().map(of).collect()
}

/// The newest kernel that the distribution has for both machines: for each of `arches`. What was
/// downloaded once is taken, unless `renew`.
pub fn of_distribution(arches: &[Arch], renew: bool) -> Result<Vec<Kernel>> {
    let have = kept();
    if let Some(packages) = choose::newest(&have, arches).filter(|_| !renew) {
        return packages.iter().map(kernel).collect();
    }
    let wanted = download(arches).map_err(|why| missing(&why, have.is_empty()))?;
    wanted.iter().map(kernel).collect()
}

/// The kernel for this machine that was downloaded before.
pub fn downloaded(arch: Arch) -> Result<Option<Kernel>> {
    let newest = choose::newest(&kept(), &[arch]);
    let package = newest.and_then(|mut packages| packages.pop());
    package.as_ref().map(kernel).transpose()
}

/// Why there is no kernel of the distribution, and what a user can do without.
fn missing(why: &anyhow::Error, none_kept: bool) -> anyhow::Error {
    let other = match none_kept {
        true => "",
        false => "; without --renew, the kernel in target/linux is taken",
    };
    anyhow::anyhow!(
        "no Linux kernel to compare with: {why:#}\n         \
         --linux FILE takes a kernel image of your own, --only quire measures Quire alone{other}"
    )
}

fn download(arches: &[Arch]) -> Result<Vec<Package>> {
    let apt = apt::Apt::new(&folder().join("apt"))?;
    let found = apt.kernels()?;
    let packages = choose::newest(&found, &Arch::ALL).context(
        "the distribution's servers list no package linux-binary-*-cloud-* or linux-image-*-cloud-* for both machines, or cannot be reached",
    )?;
    let wanted = |package: &Package| arches.contains(&package.arch);
    let packages: Vec<Package> = packages.into_iter().filter(wanted).collect();
    for package in &packages {
        let scratch = Temporary::folder("kernel")?;
        let raw = scratch.path().join("vmlinuz");
        apt.unpack_kernel(package, scratch.path(), &raw)?;
        let bytes = fs::read(&raw)?;
        let (arch, image) = format::loadable(&bytes).context(package.name.clone())?;
        keep(arch, &file_name(package), &image)?;
    }
    Ok(packages)
}

fn folder() -> PathBuf {
    workspace::target().join("linux")
}

/// Keeps an image for the next run.
fn keep(arch: Arch, name: &str, image: &[u8]) -> Result<PathBuf> {
    let folder = folder().join(arch.name());
    fs::create_dir_all(&folder)?;
    let path = folder.join(name);
    workspace::replace(&path, |new| Ok(fs::write(new, image)?))?;
    Ok(path)
}

/// Under which name the kernel of a package is kept.
fn file_name(package: &Package) -> String {
    format!("{}_{}", package.name, package.version)
}

fn kernel(package: &Package) -> Result<Kernel> {
    let path = folder().join(package.arch.name()).join(file_name(package));
    let origin = format!("{} {}", package.name, package.version);
    Ok(Kernel {
        package: Some(package.clone()),
        ..Kernel::new(package.arch, path, origin)?
    })
}

/// The packages whose kernels were kept.
fn kept() -> Vec<Package> {
    let names = Arch::ALL.map(|arch| names(&folder().join(arch.name())));
    let package = |name: &String| {
        let (name, version) = name.split_once('_')?;
        Package::named(name, version)
    };
    names.iter().flatten().filter_map(package).collect()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_kernel_is_found_by_its_package() {
        let package = Package::named("linux-binary-7.2.13+deb14-cloud-amd64", "7.2.13-1").unwrap();
        let name = file_name(&package);
        let (one, other) = name.split_once('_').unwrap();
        assert_eq!(Package::named(one, other), Some(package));
    }

    #[test]
    fn the_command_line_ends_with_the_program() {
        let words = words(Arch::X86_64, "bench --op fork");
        assert!(words.ends_with("console=ttyS0 -- bench --op fork") && !words.contains("kaslr"));
        assert!(super::words(Arch::Aarch64, "x").contains(" nokaslr console=ttyAMA0 -- x"));
    }

    #[test]
    fn files_that_are_no_kernels_are_usage_errors() {
        let text = Temporary::file("txt", b"text").unwrap();
        let error = named(&[text.path().to_owned()], &Arch::ALL).unwrap_err();
        assert!(error.downcast_ref::<UsageError>().is_some(), "{error}");
        let mut bytes = vec![0; 0x300];
        bytes[0x202..0x206].copy_from_slice(b"HdrS");
        let kernel = Temporary::file("vmlinuz", &bytes).unwrap();
        let files = [kernel.path().to_owned()];
        assert_eq!(named(&files, &[Arch::X86_64]).unwrap()[0].sha256.len(), 64);
        let error = named(&files, &Arch::ALL).unwrap_err();
        assert!(
            error.to_string().contains("no kernel for aarch64"),
            "{error}"
        );
    }
}
