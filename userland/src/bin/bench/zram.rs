//! What the operations on swapped memory need: Quire has it by `zram=SIZE` on its command line, a
//! Linux by modules that lie beside the programs, which are loaded here.
use std::ffi::CStr;
use std::fs::{self, OpenOptions};
use std::io::Write;
use userland::counters::on_quire;
use userland::sys::mem::{PAGE, SWAP_MAGIC, swap_header};
use userland::sys::{call, file};

/// Modules of Linux, in the order of their names: zram, and before it what it needs.
const MODULES: &str = "/lib/modules/zram";
/// The settings of the device, in the order in which it takes them.
const SETTINGS: [(&str, &str); 2] = [("comp_algorithm", "lz4"), ("disksize", "256M")];
/// The same in bytes.
const SIZE: usize = 256 << 20;
/// The device.
const DEVICE: &str = "/dev/zram0";
const DEVICE_PATH: &CStr = c"/dev/zram0";

/// Why nothing is swapped here. On a Linux with the modules the swap area is made first.
pub fn none() -> Option<String> {
    let areas = fs::read_to_string("/proc/swaps").unwrap_or_default();
    match areas.lines().count() {
        2.. => None,
        _ if on_quire() => Some("there is no zram=SIZE on the command line".to_owned()),
        _ => begin().err(),
    }
}

/// Loads the modules and swaps to their device.
fn begin() -> Result<(), String> {
    let entries = fs::read_dir(MODULES).map_err(|_| "there is no module zram".to_owned())?;
    let mut modules: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    modules.sort();
    for module in modules {
        let name = module.display().to_string();
        load(&name).map_err(|error| format!("{name} cannot be loaded: {error}"))?;
    }
    for (name, value) in SETTINGS {
        write(&format!("/sys/block/zram0/{name}"), value.as_bytes())?;
    }
    let header = swap_header([1, (SIZE / PAGE - 1) as u32, 0], SWAP_MAGIC);
    write(DEVICE, &header)?;
    let path = DEVICE_PATH.as_ptr() as usize;
    call(libc::SYS_swapon, [path, 0, 0, 0, 0, 0]).map_err(|error| format!("swapon: {error}"))?;
    println!("{{\"swap\":\"zram, {}\"}}", SETTINGS[0].1);
    Ok(())
}

/// Loads one module.
fn load(name: &str) -> userland::sys::Result<()> {
    let fd = file::open(name, libc::O_RDONLY | libc::O_CLOEXEC, 0)?;
    let none = c"".as_ptr() as usize;
    call(libc::SYS_finit_module, [fd as usize, none, 0, 0, 0, 0])?;
    file::close(fd)
}

fn write(path: &str, bytes: &[u8]) -> Result<(), String> {
    let file = OpenOptions::new().write(true).open(path);
    let done = file.and_then(|mut file| file.write_all(bytes));
    done.map_err(|error| format!("{path} cannot be written: {error}"))
}
