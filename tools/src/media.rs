//! `./run.sh image`: images for USB sticks, CDs and SD cards.
use crate::args::{Arches, ImageArgs, Medium};
use crate::host::arch::Arch;
use crate::host::errors::UsageError;
use crate::host::{packages, workspace};
use crate::machine::{build, iso, limine, sdcard};
use crate::run;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Timeout of the boot menu in seconds.
const TIMEOUT: u32 = 3;

/// Writes the image that the arguments describe and prints its path.
pub fn image(args: &ImageArgs) -> Result<u8> {
    match args.medium {
        Medium::Iso if args.firmware.is_some() => {
            return Err(UsageError("--firmware goes with image rpi".to_owned()).into());
        }
        Medium::Rpi if args.machines.arch == Arches::X86_64 => {
            return Err(UsageError("--arch goes with image iso".to_owned()).into());
        }
        Medium::Iso => write_iso(args, &output(args, "quire.iso")?)?,
        Medium::Rpi => write_card(args, &output(args, "quire-rpi.img")?)?,
    }
    Ok(0)
}

/// The path of the image: a file, never a disk itself.
fn output(args: &ImageArgs, name: &str) -> Result<PathBuf, UsageError> {
    let Some(path) = &args.output else {
        return Ok(workspace::target().join("images").join(name));
    };
    let path = workspace::user_path(path);
    let about = fs::metadata(&path);
    match about {
        Ok(about) if !about.is_file() => Err(UsageError(format!(
            "--output {} is not a file; dd takes an image to a disk",
            path.display()
        ))),
        _ => Ok(path),
    }
}

/// The archive that goes on it.
fn initramfs(args: &ImageArgs) -> Result<Option<PathBuf>> {
    let named = args.initramfs.as_deref().map(run::initramfs).transpose()?;
    Ok(named.map(|(path, _)| path))
}

fn write_card(args: &ImageArgs, path: &Path) -> Result<()> {
    let firmware = sdcard::firmware(args.firmware.as_deref())?;
    if let Some(note) = sdcard::no_trees(&firmware)? {
        eprintln!("run.sh: {note}");
    }
    let initramfs = initramfs(args)?.map(fs::read).transpose()?;
    let kernel = build::build(Arch::Aarch64, false)?.image;
    let command_line = args.append.as_deref().unwrap_or_default();
    let card = sdcard::card(&firmware, &fs::read(kernel)?, initramfs, command_line)?;
    workspace::replace(path, |new| Ok(fs::write(new, card)?))
        .with_context(|| format!("cannot write {}", path.display()))?;
    println!("{}", path.display());
    Ok(())
}

fn write_iso(args: &ImageArgs, path: &Path) -> Result<()> {
    let initramfs = initramfs(args)?;
    packages::ensure_xorriso(args.install.no_install)?;
    // Before anything is built: this says what is missing.
    limine::folder()?;
    let arches = args.machines.arch.arches().iter();
    let kernels = arches.map(|arch| Ok((*arch, build::build(*arch, false)?.limine)));
    let content = iso::Content {
        kernels: &kernels.collect::<Result<Vec<_>>>()?,
        initramfs: initramfs.as_deref(),
        command_line: args.append.as_deref().unwrap_or_default(),
        timeout: TIMEOUT,
    };
    workspace::replace(path, |new| {
        iso::write(new, &content)?;
        if let Err(error) = limine::start_by_bios(new) {
            eprintln!(
                "run.sh: {error:#}\nrun.sh: the image starts from CD, and from a USB stick by UEFI, but not from a stick by BIOS"
            );
        }
        Ok(())
    })?;
    println!("{}", path.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{ImageArgs, options};
    use crate::host::workspace::Temporary;

    #[test]
    fn wrong_orders_lose_nothing() {
        let folder = Temporary::folder("images").unwrap();
        let old = folder.path().join("old.img");
        fs::write(&old, "what was there").unwrap();
        let [folder, old_name] = [folder.path(), &old].map(|path| path.display().to_string());
        for (order, words) in [
            (
                format!("iso -o {old_name} --initramfs /nowhere/at/all"),
                "No such file",
            ),
            (
                format!("iso -o {old_name} --initramfs {folder}"),
                "is a folder",
            ),
            (
                format!("iso -o {old_name} --firmware {folder}"),
                "goes with",
            ),
            (format!("rpi -o {old_name} --arch x86_64"), "goes with"),
            (format!("iso -o {folder}"), "is not a file"),
            ("iso -o /dev/null".to_owned(), "is not a file"),
            (
                format!("rpi -o {old_name} --firmware {folder}"),
                "has no start.elf",
            ),
        ] {
            let error = image(&options::<ImageArgs>(&format!("run.sh image {order}"))).unwrap_err();
            assert!(format!("{error:#}").contains(words), "{order}: {error:#}");
        }
        assert_eq!(fs::read(&old).unwrap(), b"what was there");
    }

    #[test]
    fn only_whole_files_replace_others() {
        let folder = Temporary::folder("replace").unwrap();
        let path = folder.path().join("file");
        workspace::replace(&path, |new| Ok(fs::write(new, "one")?)).unwrap();
        let failed = workspace::replace(&path, |new| {
            fs::write(new, "tw")?;
            anyhow::bail!("the disk is full")
        });
        assert!(failed.is_err());
        assert_eq!(fs::read(&path).unwrap(), b"one");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
