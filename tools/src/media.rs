//! `./run.sh image`: what people put on a stick, a disc or a card.
use crate::args::{ImageArgs, Medium};
use crate::{build, iso, limine, packages, workspace};
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::{Command, Stdio};

/// Seconds in which a person may choose and edit the boot entry.
const TIMEOUT: u32 = 3;

/// Writes the image that the arguments ask for and says where it is.
pub fn image(args: &ImageArgs) -> Result<u8> {
    match args.medium {
        Medium::Iso => write_iso(args)?,
    }
    Ok(0)
}

fn write_iso(args: &ImageArgs) -> Result<()> {
    packages::ensure_xorriso(args.no_install)?;
    let path = match &args.output {
        Some(path) => workspace::user_path(path),
        None => workspace::target().join("images").join("quire.iso"),
    };
    let arches = args.arch.arches().iter();
    let kernels = arches.map(|arch| Ok((*arch, build::build(*arch, false)?.limine)));
    let content = iso::Content {
        kernels: &kernels.collect::<Result<Vec<_>>>()?,
        initramfs: None,
        command_line: args.append.as_deref().unwrap_or_default(),
        timeout: TIMEOUT,
    };
    iso::write(&path, &content)?;
    match start_by_bios(&path) {
        Ok(()) => {}
        Err(error) => eprintln!(
            "run.sh: {error:#}\nrun.sh: the image starts from CD, and from a USB stick by UEFI, but not from a stick by BIOS"
        ),
    }
    println!("{}", path.display());
    Ok(())
}

/// Puts Limine into the image's first sectors, so that BIOS starts it from a stick, too.
fn start_by_bios(path: &Path) -> Result<()> {
    let program = limine::installer().context("no program limine for \"limine bios-install\"")?;
    let mut command = Command::new(program);
    command
        .arg("bios-install")
        .arg(path)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    ensure!(command.status()?.success(), "limine bios-install failed");
    Ok(())
}
