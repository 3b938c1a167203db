//! `--gdb`: a port, and the one command that attaches.
use crate::host::arch::Arch;
use crate::host::workspace;
use anyhow::Result;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

/// A free port on the loopback: gdb's usual 1234 when nothing has it.
pub fn free_port() -> Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 1234));
    listener.map_or_else(|_| any_port(), |one| Ok(one.local_addr()?.port()))
}

/// A free port that no other call of this function gets at the same time.
pub fn any_port() -> Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// The command that attaches gdb with symbols, printers and a breakpoint that works before the
/// kernel is in place.
pub fn attach_command(arch: Arch, elf: &Path, port: u16) -> String {
    let words = arguments(elf, port);
    let quoted = words.iter().map(|word| match word.starts_with('-') {
        true => word.clone(),
        false => format!("'{word}'"),
    });
    let quoted: Vec<String> = quoted.collect();
    format!("{} -q {}", debugger(arch), quoted.join(" "))
}

/// The arguments of gdb: the kernel's symbols, our commands, and the first commands. A breakpoint
/// in memory would be overwritten when the loader copies the kernel there; one in the hardware is
/// not.
pub fn arguments(elf: &Path, port: u16) -> Vec<String> {
    let commands = workspace::root().join("tools/gdb/quire.py");
    let first = [
        format!("source {}", commands.display()),
        format!("target remote 127.0.0.1:{port}"),
        "hbreak kernel_main".to_owned(),
        "continue".to_owned(),
    ];
    let first = first.into_iter().flat_map(|line| ["-ex".to_owned(), line]);
    [elf.display().to_string()]
        .into_iter()
        .chain(first)
        .collect()
}

/// The debugger's name for messages, also where there is none.
fn debugger(arch: Arch) -> &'static str {
    find(arch).unwrap_or("gdb-multiarch")
}

/// A gdb for the machine: some systems' plain one supports all, Debian's only the host's.
pub fn find(arch: Arch) -> Option<&'static str> {
    let set = format!(
        "set architecture {}",
        if arch == Arch::X86_64 {
            "i386:x86-64"
        } else {
            "aarch64"
        }
    );
    let knows = |name: &&str| {
        let output = Command::new(name)
            .args(["-batch", "-nx", "-ex", &set])
            .output();
        output.is_ok_and(|output| output.status.success() && output.stderr.is_empty())
    };
    ["gdb-multiarch", "gdb"].into_iter().find(knows)
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
            "-ex 'hbreak kernel_main'",
        ] {
            assert!(command.contains(part), "{command}");
        }
        assert!(free_port().unwrap() > 1023);
    }
}
