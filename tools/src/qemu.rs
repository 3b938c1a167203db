//! QEMU's command line for one run.
use crate::UsageError;
use crate::arch::Arch;
use crate::firmware::Uefi;
use crate::raspi::Board;
use clap::ValueEnum;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Where the guest's console goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Console {
    /// A person's terminal: keys go to the guest, ctrl-a is QEMU's.
    Terminal,
    /// Pipes: what comes in is the guest's, byte for byte.
    Pipes,
}

/// What loads the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Loader {
    /// QEMU itself: PVH, or an arm64 Image.
    #[default]
    Direct,
    /// Limine, started by this firmware from a disk.
    Limine(Firmware),
}

/// What a machine starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Firmware {
    /// The PC's.
    Bios,
    /// UEFI.
    Uefi,
}

/// What is only made when a machine starts.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// Where an x86_64 guest leaves its exit status.
    pub status: String,
    /// The disk that Limine is on.
    pub disk: Option<PathBuf>,
    /// UEFI's flash images.
    pub uefi: Option<Uefi>,
    /// The device tree of a board for which QEMU brings none.
    pub tree: Option<PathBuf>,
}

/// One machine to start.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Which QEMU.
    pub arch: Arch,
    /// `-machine`; the architecture's default when `None`.
    pub machine: Option<String>,
    /// `-m`.
    pub mem: String,
    /// What loads the kernel.
    pub loader: Loader,
    /// The bootable file: an arm64 Image for the direct way, else an ELF file.
    pub image: PathBuf,
    /// `-initrd`.
    pub initramfs: Option<PathBuf>,
    /// The kernel's command line.
    pub command_line: String,
    /// Has a serial port.
    pub serial: bool,
    /// A board gets its device tree, as its firmware would see to.
    pub device_tree: bool,
    /// The console is the board's second serial port, its mini UART.
    pub mini_uart: bool,
    /// The kernel begins as behind a firmware that does nothing (at EL3, where there is one) but pass this as where the device
    /// tree is, a multiple of 64 KiB: no command line, no initramfs.
    pub raw: Option<u32>,
    /// Virtual time counts instructions.
    pub icount: bool,
    /// Wait for gdb on this port of the loopback.
    pub gdb: Option<u16>,
    /// At the end of the command line.
    pub extra: Vec<String>,
}

impl Machine {
    /// The default machine with 1 GiB.
    pub fn new(arch: Arch, image: PathBuf) -> Self {
        Machine {
            arch,
            machine: None,
            mem: "1G".to_owned(),
            loader: Loader::Direct,
            image,
            initramfs: None,
            command_line: String::new(),
            serial: true,
            device_tree: true,
            mini_uart: false,
            raw: None,
            icount: false,
            gdb: None,
            extra: Vec::new(),
        }
    }

    /// Arguments for the emulator.
    pub fn arguments(&self, console: Console, files: &Files) -> Vec<OsString> {
        let mut args: Vec<OsString> = Vec::new();
        let mut add = |words: &[&str]| args.extend(words.iter().map(OsString::from));
        add(&[
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
            "-no-reboot",
            "-accel",
            "tcg,thread=single",
        ]);
        add(&["-machine", &self.machine_option()]);
        match self.board() {
            // Its CPU and memory are what they are.
            Some(board) => add(&["-m", &format!("{}M", board.mebibytes())]),
            None => add(&["-cpu", self.cpu(), "-m", &self.mem]),
        }
        match console {
            // signal=off: ^C is the guest's.
            Console::Terminal => add(&[
                "-chardev",
                "stdio,id=console,mux=on,signal=off",
                "-mon",
                "chardev=console,mode=readline",
            ]),
            Console::Pipes => add(&["-chardev", "stdio,id=console,signal=off"]),
        }
        let console = if self.serial {
            "chardev:console"
        } else {
            "none"
        };
        if self.mini_uart {
            add(&["-serial", "null"]);
        }
        add(&["-serial", console]);
        match self.arch {
            // The exit device carries seven bits, so the whole status goes through the debug console first.
            Arch::X86_64 => add(&[
                "-chardev",
                &format!("file,id=status,path={}", files.status),
                "-device",
                "isa-debugcon,iobase=0xe9,chardev=status",
                "-device",
                "isa-debug-exit,iobase=0xf4,iosize=0x04",
            ]),
            Arch::Aarch64 => add(&["-semihosting-config", "enable=on,target=native"]),
        }
        if self.icount {
            add(&[
                "-icount",
                "shift=0,sleep=off",
                "-rtc",
                "base=2026-01-01T00:00:00,clock=vm",
                "-seed",
                "1",
            ]);
        }
        if let Some(port) = self.gdb {
            add(&["-S", "-gdb", &format!("tcp:127.0.0.1:{port}")]);
        }
        match &files.disk {
            Some(disk) => self.add_disk(disk, files.uefi.as_ref(), &mut args),
            None => match self.raw {
                Some(tree) => self.add_raw(tree, &mut args),
                None => self.add_kernel(&mut args),
            },
        }
        if let Some(tree) = &files.tree {
            args.extend(["-dtb".into(), OsString::from(tree)]);
        }
        args.extend(self.extra.iter().map(OsString::from));
        args
    }

    /// The direct way.
    fn add_kernel(&self, args: &mut Vec<OsString>) {
        args.push("-kernel".into());
        args.push(self.image.clone().into());
        if let Some(initramfs) = &self.initramfs {
            args.push("-initrd".into());
            args.push(initramfs.into());
        }
        if !self.command_line.is_empty() {
            args.extend(["-append".into(), OsString::from(&self.command_line)]);
        }
    }

    /// The image in memory, where `-kernel` would have left EL3 first, and three instructions at which CPU 0 begins. A board's
    /// other CPUs begin at 0 and wait there.
    fn add_raw(&self, tree: u32, args: &mut Vec<OsString>) {
        let image = self.image.display();
        let (at, start): (u32, u32) = match self.board() {
            Some(_) => (0x20_0000, 0x0800_0000),
            None => (0x4020_0000, 0x4800_0000),
        };
        // movz xN, #..., lsl #16
        let movz = |register: u64, value: u32| 0xd2a0_0000 | u64::from(value >> 16) << 5 | register;
        let branch_to_x3 = 0xd61f_0060;
        let mut code = vec![
            (start, movz(0, tree) | movz(3, at) << 32),
            (start + 8, branch_to_x3),
        ];
        if self.board().is_some() {
            // wfi; b .-4
            code.push((0, 0x17ff_fffd_d503_207f));
        }
        let mut devices = vec![
            format!("loader,file={image},addr={at:#x},force-raw=on"),
            format!("loader,addr={start:#x},cpu-num=0"),
        ];
        devices.extend(
            code.into_iter()
                .map(|(at, word)| format!("loader,addr={at:#x},data={word:#x},data-len=8")),
        );
        for device in devices {
            args.extend(["-device".into(), device.into()]);
        }
    }

    /// A disk with all of that, a screen, and the firmware's flash (nothing is kept that it writes there).
    fn add_disk(&self, disk: &Path, uefi: Option<&Uefi>, args: &mut Vec<OsString>) {
        let mut add = |words: &[&str]| args.extend(words.iter().map(OsString::from));
        if let Some(uefi) = uefi {
            let (code, variables) = (uefi.code.display(), uefi.variables.display());
            add(&[
                "-drive",
                &format!("if=pflash,unit=0,format=raw,readonly=on,file={code}"),
            ]);
            add(&[
                "-drive",
                &format!("if=pflash,unit=1,format=raw,snapshot=on,file={variables}"),
            ]);
        }
        let drive = format!(
            "if=none,id=boot,format=raw,readonly=on,file={}",
            disk.display()
        );
        add(&["-drive", &drive]);
        match self.arch {
            Arch::X86_64 => add(&["-device", "ide-cd,drive=boot", "-device", "VGA"]),
            Arch::Aarch64 => add(&["-device", "virtio-blk-pci,drive=boot", "-device", "ramfb"]),
        }
    }

    /// The machine and its options, as they were given.
    fn machine_words(&self) -> &str {
        self.machine.as_deref().unwrap_or(self.arch.machines()[0])
    }

    /// The board that it is, when that brings its own CPU and memory.
    pub fn board(&self) -> Option<Board> {
        Board::of(name(self.machine_words()))
    }

    fn machine_option(&self) -> String {
        let machine = self.machine_words();
        match name(machine) {
            // QEMU would otherwise describe devices that are not there on the kernel's command line.
            "microvm" => format!("{machine},rtc=on,auto-kernel-cmdline=off"),
            _ => machine.to_owned(),
        }
    }

    fn cpu(&self) -> &'static str {
        match self.arch {
            Arch::X86_64 => "max",
            // The architected pointer authentication is very slow to emulate.
            Arch::Aarch64 => "max,pauth-impdef=on",
        }
    }
}

/// A machine without its options.
pub fn name(machine: &str) -> &str {
    machine.split(',').next().unwrap_or_default()
}

/// Checks that `machine` is one that Quire runs on.
pub fn check_machine(arch: Arch, machine: &str) -> Result<(), UsageError> {
    let name = name(machine);
    if arch.machines().contains(&name) {
        return Ok(());
    }
    Err(UsageError(format!(
        "--machine {name} is not a machine for {arch}: {}",
        arch.machines().join(" or ")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(machine: &Machine, console: Console) -> String {
        let limine = machine.loader != Loader::Direct;
        let files = Files {
            tree: machine.board().map(|_| "/t/tree".into()),
            status: "/t/status".to_owned(),
            disk: limine.then(|| "/t/disk".into()),
            uefi: (machine.loader == Loader::Limine(Firmware::Uefi)).then(|| Uefi {
                code: "/t/code".into(),
                variables: "/t/vars".into(),
            }),
        };
        let arguments = machine.arguments(console, &files);
        arguments
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn command_lines() {
        let mut machine = Machine::new(Arch::X86_64, "quire.elf".into());
        machine.command_line = "quiet".to_owned();
        let plain = line(&machine, Console::Pipes);
        assert!(plain.contains("-machine q35 -cpu max -m 1G"), "{plain}");
        assert!(
            plain.ends_with("-kernel quire.elf -append quiet"),
            "{plain}"
        );
        assert!(
            plain.contains("path=/t/status")
                && !plain.contains("icount")
                && !plain.contains("-mon"),
            "{plain}"
        );
        machine.machine = Some("microvm".to_owned());
        machine.icount = true;
        machine.extra = vec!["-d".to_owned(), "int".to_owned()];
        let counted = line(&machine, Console::Terminal);
        assert!(
            counted.contains("-icount shift=0,sleep=off") && counted.contains("microvm,rtc=on"),
            "{counted}"
        );
        assert!(
            counted.ends_with("-d int") && counted.contains("signal=off"),
            "{counted}"
        );
        let arm = line(&Machine::new(Arch::Aarch64, "Image".into()), Console::Pipes);
        assert!(
            arm.contains("-semihosting-config") && !arm.contains("isa-"),
            "{arm}"
        );
    }

    #[test]
    fn disks() {
        let mut machine = Machine::new(Arch::X86_64, "quire.elf".into());
        machine.loader = Loader::Limine(Firmware::Bios);
        machine.command_line = "quiet".to_owned();
        let bios = line(&machine, Console::Pipes);
        assert!(
            bios.contains("file=/t/disk") && !bios.contains("pflash"),
            "{bios}"
        );
        assert!(
            !bios.contains("-kernel") && !bios.contains("-append"),
            "{bios}"
        );
        machine.loader = Loader::Limine(Firmware::Uefi);
        let uefi = line(&machine, Console::Pipes);
        assert!(
            uefi.contains("unit=1,format=raw,snapshot=on,file=/t/vars"),
            "{uefi}"
        );
    }

    #[test]
    fn boards() {
        let mut machine = Machine::new(Arch::Aarch64, "Image".into());
        machine.machine = Some("raspi4b".to_owned());
        let pi = line(&machine, Console::Pipes);
        assert!(
            pi.contains("-machine raspi4b -m 2048M") && pi.contains("-dtb /t/tree"),
            "{pi}"
        );
        assert!(!pi.contains("-cpu"), "{pi}");
    }

    #[test]
    fn machines() {
        assert!(check_machine(Arch::Aarch64, "virt,gic-version=3").is_ok());
        assert!(check_machine(Arch::Aarch64, "q35").is_err());
        assert!(check_machine(Arch::X86_64, "virt").is_err());
    }
}
