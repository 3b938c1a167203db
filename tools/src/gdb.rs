//! `--gdb`: a port, and the one command that attaches.
use crate::arch::Arch;
use crate::workspace;
use anyhow::Result;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

/// A free port on the loopback: gdb's usual 1234 when nobody has it.
pub fn free_port() -> Result<u16> {
    let listener =
        TcpListener::bind(("127.0.0.1", 1234)).or_else(|_| TcpListener::bind(("127.0.0.1", 0)))?;
    Ok(listener.local_addr()?.port())
}

/// The command that attaches gdb with symbols, printers and a breakpoint that works before the kernel is in place.
pub fn attach_command(arch: Arch, elf: &Path, port: u16) -> String {
    let printers = workspace::root().join("tools/gdb/quire.py");
    format!(
        "{} -q '{}' -ex 'source {}' -ex 'target remote 127.0.0.1:{port}' -ex 'hbreak kernel_main' -ex continue",
        debugger(arch),
        elf.display(),
        printers.display()
    )
}

/// A gdb that knows the machine: some systems' plain one knows all, Debian's only the host's.
fn debugger(arch: Arch) -> &'static str {
    let set = format!(
        "set architecture {}",
        if arch == Arch::X86_64 {
            "i386:x86-64"
        } else {
            "aarch64"
        }
    );
    let knows = |name: &str| {
        let output = Command::new(name)
            .args(["-batch", "-nx", "-ex", &set])
            .output();
        output.is_ok_and(|output| output.status.success() && output.stderr.is_empty())
    };
    if !knows("gdb-multiarch") && knows("gdb") {
        "gdb"
    } else {
        "gdb-multiarch"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_command() {
        let command = attach_command(Arch::X86_64, Path::new("/t/quire"), 4321);
        for part in [
            "'/t/quire'",
            "tools/gdb/quire.py'",
            "target remote 127.0.0.1:4321",
            "hbreak kernel_main",
        ] {
            assert!(command.contains(part), "{command}");
        }
        assert!(free_port().unwrap() > 1023);
    }
}
