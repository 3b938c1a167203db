//! Directories that are deep or wide, and paths that are long.
use std::fs;
use std::os::unix::fs::symlink;
use userland::sys::{Result, call, file};

/// Files in one directory.
const FILES: usize = 50_000;
/// Directories inside of each other.
const DEEP: usize = 10_000;

/// Directories inside of each other: moved, looked for, removed.
pub fn deep() -> Result<()> {
    let base = std::env::current_dir()?;
    for name in ["deep", "other"] {
        fs::create_dir_all(name)?;
    }
    std::env::set_current_dir("deep")?;
    for _ in 0..DEEP {
        fs::create_dir("d")?;
        std::env::set_current_dir("d")?;
    }
    let other = base.join("other");
    fs::rename(&other, "moved")?;
    let mut name = vec![0u8; 4096];
    let _ = call(
        libc::SYS_getcwd,
        [name.as_mut_ptr() as usize, name.len(), 0, 0, 0, 0],
    );
    let _ = fs::read_link("/proc/self/cwd");
    // It is inside of itself, and is far up.
    let _ = fs::rename(base.join("deep"), "moved/in");
    fs::remove_dir("moved")?;
    for _ in 0..DEEP {
        std::env::set_current_dir("..")?;
        fs::remove_dir("d")?;
    }
    std::env::set_current_dir(&base)?;
    Ok(fs::remove_dir("deep")?)
}

pub fn wide() -> Result<()> {
    fs::create_dir_all("wide")?;
    for n in 0..FILES {
        file::close(file::open(
            &format!("wide/{n:010}"),
            libc::O_CREAT | libc::O_RDWR,
            0o600,
        )?)?;
    }
    let dir = file::open("wide", libc::O_RDONLY | libc::O_DIRECTORY, 0)?;
    let buffer = vec![0u8; 8 << 20];
    let at = buffer.as_ptr() as usize;
    call(
        libc::SYS_getdents64,
        [dir as usize, at, buffer.len(), 0, 0, 0],
    )?;
    file::lseek(dir, 0, libc::SEEK_SET)?;
    fs::rename("wide", "wider")?;
    for n in 0..FILES {
        fs::remove_file(format!("wider/{n:010}"))?;
    }
    Ok(fs::remove_dir("wider")?)
}

/// Links that each lead to a long path with the next.
pub fn links() -> Result<()> {
    fs::create_dir_all("links")?;
    std::env::set_current_dir("links")?;
    fs::write("0", "")?;
    for n in 1..40 {
        let target = format!("{}{}", "./".repeat(2040), n - 1);
        symlink(target, n.to_string())?;
    }
    file::close(file::open("39", libc::O_RDONLY, 0)?)?;
    for n in 0..40 {
        fs::remove_file(n.to_string())?;
    }
    std::env::set_current_dir("..")?;
    Ok(fs::remove_dir("links")?)
}

/// Two long paths in one call.
pub fn path() -> Result<()> {
    fs::create_dir_all("p")?;
    fs::write("p/0", "")?;
    let long = "p/../".repeat(800);
    fs::rename(format!("{long}p/0"), format!("{long}p/1"))?;
    fs::remove_file("p/1")?;
    Ok(fs::remove_dir("p")?)
}
