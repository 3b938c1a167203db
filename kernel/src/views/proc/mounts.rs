//! /proc/PID/mounts and mountinfo.

use super::subject::Subject;
use crate::base::errno::Result;
use crate::fs::kinds::records::{RecordFile, Records};
use crate::fs::open::ops::FileOps;
use crate::fs::tree::inode::Device;
use crate::fs::tree::mount::MountFlags;
use crate::fs::tree::mounts::{self, Mounted};
use alloc::sync::Arc;
use alloc::vec::Vec;
use parts::text::Text;

/// More than a line has besides names.
const REST: usize = 256;

/// A file of one line for each mount.
struct Mounts(fn(&Mounted, &mut Text) -> Result);

/// Opens /proc/PID/mounts.
pub fn open_mounts(_: &Subject) -> Result<Arc<dyn FileOps>> {
    RecordFile::open(Mounts(mounts))
}

/// Opens /proc/PID/mountinfo.
pub fn open_mountinfo(_: &Subject) -> Result<Arc<dyn FileOps>> {
    RecordFile::open(Mounts(mountinfo))
}

impl Records for Mounts {
    fn records(&self, from: u64, out: &mut Text) -> Result<Option<u64>> {
        let mounted = u32::try_from(from).ok().and_then(mounts::from);
        let Some(mounted) = mounted else {
            return Ok(None);
        };
        (self.0)(&mounted, out)?;
        Ok(Some(u64::from(mounted.mount.id) + 1))
    }
}

fn mounts(mounted: &Mounted, out: &mut Text) -> Result {
    let mount = &mounted.mount;
    name(out, mount.source.as_bytes())?;
    name(out, &point(mounted)?)?;
    name(out, mount.fs.name.as_bytes())?;
    options(out, mount.flags());
    out.bytes(b" 0 0\n");
    Ok(())
}

fn mountinfo(mounted: &Mounted, out: &mut Text) -> Result {
    let mount = &mounted.mount;
    let parent = mounted.point.as_ref().map(|point| point.on.mount.id);
    let device = Device::decode(mount.fs.device);
    out.make_room(REST)?;
    for (number, behind) in [
        (mount.id, b' '),
        (parent.unwrap_or(mount.id), b' '),
        (device.0, b':'),
        (device.1, b' '),
    ] {
        out.decimal(number.into());
        out.byte(behind);
    }
    name(out, &mount.fs_path()?)?;
    name(out, &point(mounted)?)?;
    options(out, mount.flags());
    out.bytes(b" - ");
    name(out, mount.fs.name.as_bytes())?;
    name(out, mount.source.as_bytes())?;
    out.bytes(access(mount.flags()));
    out.byte(b'\n');
    Ok(())
}

fn point(mounted: &Mounted) -> Result<Vec<u8>> {
    match &mounted.point {
        Some(point) => point.ground.path(),
        None => Ok(b"/".to_vec()),
    }
}

fn access(flags: MountFlags) -> &'static [u8] {
    if flags.contains(MountFlags::RDONLY) {
        b"ro"
    } else {
        b"rw"
    }
}

fn options(out: &mut Text, flags: MountFlags) {
    out.bytes(access(flags));
    for (flag, word) in [
        (MountFlags::NOSUID, ",nosuid"),
        (MountFlags::NODEV, ",nodev"),
        (MountFlags::NOEXEC, ",noexec"),
        (MountFlags::NOATIME, ",noatime"),
        (MountFlags::RELATIME, ",relatime"),
    ] {
        if flags.contains(flag) {
            out.bytes(word.as_bytes());
        }
    }
}

/// Appends a name and a blank; blanks and backslashes in it as octal, as getmntent(3) expects.
/// Leaves room for the rest of a line. ENOMEM.
fn name(out: &mut Text, name: &[u8]) -> Result {
    out.make_room(4 * name.len() + REST)?;
    for byte in name {
        match byte {
            b' ' | b'\t' | b'\n' | b'\\' => {
                let digit = |shift: u8| b'0' + (byte >> shift & 7);
                out.bytes(&[b'\\', digit(6), digit(3), digit(0)]);
            }
            other => out.byte(*other),
        }
    }
    out.byte(b' ');
    Ok(())
}
