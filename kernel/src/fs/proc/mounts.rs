//! mounts, mountinfo.

use super::dir::Subject;
use crate::errno::Result;
use crate::fs::inode::Device;
use crate::fs::mount::{self, Mounted};
use crate::fs::pseudo::Text;
use alloc::string::String;
use alloc::vec::Vec;
use linux_raw_sys::general as c;

/// /proc/PID/mounts.
pub fn mounts(_: &Subject, out: &mut Text) -> Result {
    for mounted in mount::table() {
        let mount = &mounted.mount;
        let (point, flags) = (point(&mounted), options(mount.flags()));
        out.put(format_args!(
            "{} {point} {} {flags} 0 0\n",
            escape(mount.source.as_bytes()),
            mount.fs.name
        ));
    }
    Ok(())
}

/// /proc/PID/mountinfo.
pub fn mountinfo(_: &Subject, out: &mut Text) -> Result {
    for mounted in mount::table() {
        let mount = &mounted.mount;
        let parent = mounted
            .point
            .as_ref()
            .map_or(mount.id, |point| point.mount.id);
        let device = Device::decode(mount.fs.device);
        let root = mount.fs_path();
        let flags = options(mount.flags());
        let access = if mount.flags() & c::MS_RDONLY != 0 {
            "ro"
        } else {
            "rw"
        };
        out.put(format_args!(
            "{} {parent} {}:{} {} {} {flags} - {} {} {access}\n",
            mount.id,
            device.0,
            device.1,
            escape(&root),
            point(&mounted),
            mount.fs.name,
            escape(mount.source.as_bytes()),
        ));
    }
    Ok(())
}

fn point(mounted: &Mounted) -> String {
    mounted
        .point
        .as_ref()
        .map_or_else(|| String::from("/"), |point| escape(&point.path()))
}

fn options(flags: u32) -> String {
    let mut words: Vec<&str> = Vec::new();
    words.push(if flags & c::MS_RDONLY != 0 {
        "ro"
    } else {
        "rw"
    });
    let named = [
        (c::MS_NOSUID, "nosuid"),
        (c::MS_NODEV, "nodev"),
        (c::MS_NOEXEC, "noexec"),
        (c::MS_NOATIME, "noatime"),
        (c::MS_RELATIME, "relatime"),
    ];
    words.extend(
        named
            .iter()
            .filter(|(flag, _)| flags & flag != 0)
            .map(|(_, name)| *name),
    );
    words.join(",")
}

/// Blanks and backslashes as octal, as getmntent(3) expects.
fn escape(path: &[u8]) -> String {
    let mut text = String::new();
    for ch in String::from_utf8_lossy(path).chars() {
        match ch {
            ' ' | '\t' | '\n' | '\\' => text.push_str(&alloc::format!("\\{:03o}", ch as u32)),
            other => text.push(other),
        }
    }
    text
}
