//! /sys/block/zram0, with Linux's names (zram.rst). It is there if there is such a device.

use crate::base::errno::{Errno, Result};
use crate::base::machine::mm;
use crate::fs::devices::zram;
use crate::fs::kinds::pseudo::Text;
use crate::fs::kinds::pseudo_tree::Tree;
use mm::addr::PAGE_SIZE;
use parts::cmdline;

/// Enters all of it.
pub fn register(tree: &Tree) {
    if !zram::exists() {
        return;
    }
    tree.show("block/zram0/dev", |out| {
        let (major, minor) = (zram::NUMBER.0, zram::NUMBER.1);
        out.is(format_args!("{major}:{minor}"))
    });
    tree.show("block/zram0/size", |out| {
        out.is(zram::size() / zram::SECTOR)
    });
    tree.show("block/zram0/initstate", |out| {
        out.is(u8::from(zram::size() != 0))
    });
    tree.knob(
        "block/zram0/disksize",
        |out| out.is(zram::size()),
        |text| zram::set_size(cmdline::bytes(text).ok_or(Errno::EINVAL)?),
    );
    tree.store("block/zram0/reset", |text| match text.parse() {
        Ok(1u16..) => zram::reset(),
        _ => Err(Errno::EINVAL),
    });
    tree.knob(
        "block/zram0/comp_algorithm",
        |out| out.is("[lz4]"),
        |text| match text {
            _ if zram::size() != 0 => Err(Errno::EBUSY),
            "lz4" => Ok(()),
            _ => Err(Errno::EINVAL),
        },
    );
    tree.show("block/zram0/mm_stat", figures);
}

/// What is stored: as it was, compressed, in frames, and so on. What programs have written to the
/// disk is kept as it is, in pages that Linux calls huge. There is no limit, and no compaction.
fn figures(out: &mut Text) -> Result {
    let stored = mm().stored();
    let huge = zram::written();
    let bytes = huge * PAGE_SIZE;
    for figure in [
        stored.original + bytes,
        stored.compressed + bytes,
        stored.used + bytes,
        0,
        stored.peak + bytes,
        stored.same,
        0,
        huge,
    ] {
        out.put(format_args!("{figure:8} "));
    }
    out.is(format_args!("{huge:8}"))
}
