//! SD cards for a Raspberry Pi: one FAT partition with the Pi's firmware, its settings and the
//! kernel.
use crate::host::workspace;
use anyhow::{Context, Result, bail};
use fatfs::{FatType, FileSystem, FormatVolumeOptions, FsOptions};
use std::env;
use std::fs;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};

/// The firmware's settings. The kernel must be at a 2 MiB boundary; without Bluetooth, the good
/// serial port is at pins 8 and 10 of the header.
const CONFIG: &str = "arm_64bit=1\nkernel=kernel8.img\nkernel_address=0x200000\nenable_uart=1\ndtoverlay=disable-bt\n\
                      disable_splash=1\n";
/// More for the firmware when there is an initramfs: above everything the kernel's file needs,
/// below 256 MiB.
const INITRAMFS: &str = "initramfs initramfs 0x08000000\n";
/// Of the firmware, by the ends of their names: Pi 3 and Zero 2 W need the first, Pi 4 has it in
/// its flash.
const NEEDED: [&str; 2] = ["start.elf", "start4.elf"];
/// Files that are copied if they exist.
const WANTED: [&str; 8] = [
    "bootcode.bin",
    "start.elf",
    "fixup.dat",
    "start4.elf",
    "fixup4.dat",
    "overlays/disable-bt.dtbo",
    "overlays/overlay_map.dtb",
    "LICENCE.broadcom",
];
/// Device trees are copied by the beginning of their names: 3, Zero 2 W, 4, 5.
const TREES: [&str; 3] = ["bcm2710-", "bcm2711-", "bcm2712-"];

/// The folders of the firmware in distributions.
const FOLDERS: [&str; 4] = [
    "/usr/lib/raspi-firmware",
    "/boot/firmware",
    "/usr/share/raspberrypi-firmware",
    "/boot",
];

const SECTOR: usize = 512;
/// Where the partition begins.
const START: usize = 1 << 20;
/// How long it is, so that the whole card has 128 MiB: room to add things, and QEMU takes only
/// powers of two for a card.
const LENGTH: usize = (128 << 20) - START;

/// The folder with the firmware's files: the named one, else what `RPI_FIRMWARE` names, else where
/// distributions put them. An error when a named one has no `start*.elf`, or no other is there.
pub fn firmware(named: Option<&Path>) -> Result<PathBuf> {
    let complete = |folder: &Path| NEEDED.iter().any(|name| folder.join(name).is_file());
    let named = named
        .map(workspace::user_path)
        .or_else(|| env::var_os("RPI_FIRMWARE").map(PathBuf::from));
    match named {
        Some(folder) if complete(&folder) => Ok(folder),
        Some(folder) => bail!("{} has no {}", folder.display(), NEEDED.join(" and no ")),
        None => FOLDERS.iter().map(PathBuf::from).find(|folder| complete(folder)).context(
            "the Raspberry Pi's firmware is missing: get the folder boot of https://github.com/raspberrypi/firmware (./run.sh \
             doctor says how) and name it with --firmware",
        ),
    }
}

/// The message about a folder without device trees, like that of Debian's package.
pub fn no_trees(folder: &Path) -> Result<Option<String>> {
    for entry in fs::read_dir(folder)? {
        if is_tree(&entry?.file_name().to_string_lossy()) {
            return Ok(None);
        }
    }
    Ok(Some(format!(
        "{} has no device trees (bcm27*.dtb): the kernel will go by what it knows of a Pi 3 and 4, without cmdline.txt and \
         an initramfs of yours. The folder boot of https://github.com/raspberrypi/firmware has them",
        folder.display()
    )))
}

fn is_tree(name: &str) -> bool {
    name.ends_with(".dtb") && TREES.iter().any(|start| name.starts_with(start))
}

/// A card's bytes, 128 MiB: the partition table, and from 1 MiB on FAT32 with settings, kernel,
/// initramfs and what of the firmware is in `folder` (file names and config.txt: raspberrypi.com's
/// "The config.txt file"). An error when a file cannot be read or the card is too small.
pub fn card(
    folder: &Path,
    kernel: &[u8],
    initramfs: Option<Vec<u8>>,
    command_line: &str,
) -> Result<Vec<u8>> {
    let more = initramfs.as_ref().map_or("", |_| INITRAMFS);
    let mut files = vec![
        (
            "config.txt".to_owned(),
            format!("{CONFIG}{more}").into_bytes(),
        ),
        (
            "cmdline.txt".to_owned(),
            format!("{command_line}\n").into_bytes(),
        ),
        ("kernel8.img".to_owned(), kernel.to_vec()),
    ];
    files.extend(initramfs.map(|archive| ("initramfs".to_owned(), archive)));
    for name in WANTED.iter().filter(|name| folder.join(name).is_file()) {
        files.push(((*name).to_owned(), fs::read(folder.join(name))?));
    }
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if is_tree(&name) {
            files.push((name, fs::read(entry.path())?));
        }
    }
    let mut image = table();
    image.resize(START, 0);
    image.extend(volume(&files)?);
    Ok(image)
}

/// The first sector: a partition table with one entry, FAT32 with LBA (type 0x0c).
fn table() -> Vec<u8> {
    let mut sector = vec![0; SECTOR];
    let (start, length) = ((START / SECTOR) as u32, (LENGTH / SECTOR) as u32);
    let entry = &mut sector[446..462];
    entry[4] = 0x0c;
    entry[8..12].copy_from_slice(&start.to_le_bytes());
    entry[12..].copy_from_slice(&length.to_le_bytes());
    sector[510..].copy_from_slice(&[0x55, 0xaa]);
    sector
}

/// The partition, with `files` by their paths (`/` between, one folder deep at most).
fn volume(files: &[(String, Vec<u8>)]) -> Result<Vec<u8>> {
    let mut bytes = vec![0; LENGTH];
    let options = FormatVolumeOptions::new()
        .fat_type(FatType::Fat32)
        .volume_label(*b"QUIRE      ");
    // One sector a cluster: FAT32 requires many of them.
    fatfs::format_volume(
        Cursor::new(&mut bytes[..]),
        options.bytes_per_cluster(SECTOR as u32),
    )?;
    {
        let system = FileSystem::new(Cursor::new(&mut bytes[..]), FsOptions::new())?;
        for (path, content) in files {
            if let Some((folder, _)) = path.rsplit_once('/') {
                system.root_dir().create_dir(folder)?;
            }
            let mut file = system.root_dir().create_file(path)?;
            file.write_all(content)
                .with_context(|| format!("the card is too small for {path}"))?;
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn what_is_written_can_be_read() {
        let folder = workspace::Temporary::folder("firmware").unwrap();
        fs::create_dir(folder.path().join("overlays")).unwrap();
        for name in [
            "start4.elf",
            "overlays/disable-bt.dtbo",
            "bcm2711-rpi-4-b.dtb",
            "other.dtb",
        ] {
            fs::write(folder.path().join(name), name).unwrap();
        }
        assert_eq!(firmware(Some(folder.path())).unwrap(), folder.path());
        assert_eq!(no_trees(folder.path()).unwrap(), None);
        let mut card = card(folder.path(), &[7; 100_000], Some(vec![9; 5]), "quiet").unwrap();
        assert_eq!(
            (card.len(), &card[510..512]),
            (128 << 20, &[0x55, 0xaa][..])
        );
        let system = FileSystem::new(Cursor::new(&mut card[START..]), FsOptions::new()).unwrap();
        assert_eq!(system.fat_type(), FatType::Fat32);
        let read = |path: &str| {
            let mut content = Vec::new();
            system
                .root_dir()
                .open_file(path)
                .map(|mut file| file.read_to_end(&mut content))
                .ok()?
                .ok()?;
            Some(content)
        };
        assert_eq!(read("kernel8.img").unwrap(), [7; 100_000]);
        assert_eq!(read("initramfs").unwrap(), [9; 5]);
        assert!(read("config.txt").unwrap().ends_with(INITRAMFS.as_bytes()));
        assert_eq!(read("cmdline.txt").unwrap(), b"quiet\n");
        assert!(
            read("overlays/disable-bt.dtbo").is_some() && read("bcm2711-rpi-4-b.dtb").is_some()
        );
        assert!(read("other.dtb").is_none());
    }

    #[test]
    fn missing_firmware_is_named() {
        let folder = workspace::Temporary::folder("empty").unwrap();
        let error = firmware(Some(folder.path())).unwrap_err().to_string();
        assert!(
            error.contains("has no start.elf and no start4.elf"),
            "{error}"
        );
        assert!(no_trees(folder.path()).unwrap().is_some());
    }
}
