//! Calls while memory is short: full of a file that the supervisor holds, or refused to the
//! worker's calls by the kernel's heap.
use crate::say;
use userland::sys::mem::PAGE;
use userland::sys::{Errno, Result, call, file};

/// Frames that are left of a full memory: enough for a worker to start.
const LEFT: i64 = 768 << 12;
/// Frames that may be missing at the end: what workers left in files, and the kernel's heap around
/// it.
const SLACK: u64 = 4096;

/// Memory full of a file without a name.
pub struct Filling {
    fd: i32,
    before: u64,
    /// /proc, opened before a worker could unmount it.
    proc: i32,
}

impl Filling {
    /// Fills memory. This process is spared when memory runs out: workers end instead.
    pub fn new() -> Result<Filling> {
        let proc = file::open("/proc", libc::O_RDONLY | libc::O_DIRECTORY, 0)?;
        adjust(proc, b"-1000")?;
        let fd = file::memfd(0)?;
        let before = free_frames()?;
        let filling = Filling { fd, before, proc };
        filling.top_up();
        say(&format!("{before} frames free, then {}", free_frames()?));
        Ok(filling)
    }

    /// Takes what has become free.
    pub fn top_up(&self) {
        let (buffer, mut len) = ([0x5au8; 1 << 16], 1 << 16);
        while len >= 1 << 12 {
            match file::write(self.fd, &buffer[..len]) {
                Ok(n) if n > 0 => {}
                Err(Errno(libc::EINTR)) => {}
                _ => len /= 2,
            }
        }
        let end = file::lseek(self.fd, 0, libc::SEEK_END).unwrap_or(0) as i64;
        let _ = file::ftruncate(self.fd, (end - LEFT).max(0));
        let _ = file::lseek(self.fd, 0, libc::SEEK_END);
    }

    /// Gives it back. `false`: much of what was free before is not free again.
    pub fn empty(self) -> bool {
        let _ = file::close(self.fd);
        let before = self.before;
        match free_frames() {
            Ok(after) => {
                say(&format!("{before} frames free before, {after} after"));
                after + SLACK >= before
            }
            Err(error) => {
                say(&format!(
                    "{before} frames free before, then sysinfo: {error}"
                ));
                false
            }
        }
    }
}

/// Free frames by sysinfo(2): a worker may have unmounted /proc.
fn free_frames() -> Result<u64> {
    // struct sysinfo in words: `freeram` is the sixth, `mem_unit` half of the fourteenth.
    let mut words = [0u64; 16];
    call(
        libc::SYS_sysinfo,
        [words.as_mut_ptr() as usize, 0, 0, 0, 0, 0],
    )?;
    Ok(words[5] * (words[13] & 0xffff_ffff) / PAGE as u64)
}

impl Filling {
    /// For a worker that begins: it may be ended for memory, whatever its supervisor may, and does
    /// not have the file, whose offset it shares: written far behind its end, the file would have
    /// no pages there to give back.
    pub fn leave(&self) -> Result<()> {
        file::close(self.fd)?;
        adjust(self.proc, b"0")?;
        file::close(self.proc)
    }
}

/// Writes the running process's oom_score_adj, below this /proc.
fn adjust(proc: i32, value: &[u8]) -> Result<()> {
    let name = c"self/oom_score_adj".as_ptr() as usize;
    let flags = libc::O_WRONLY as usize;
    let fd = call(libc::SYS_openat, [proc as usize, name, flags, 0, 0, 0])? as i32;
    file::write_all(fd, value)?;
    file::close(fd)
}
