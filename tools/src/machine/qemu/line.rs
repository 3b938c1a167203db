//! QEMU's command line for one run.
use super::{Console, Files, Machine, name};
use crate::host::arch::Arch;
use crate::machine::firmware::Uefi;
use std::ffi::OsString;
use std::path::Path;

/// Arguments in the order in which QEMU gets them.
#[derive(Default)]
struct Line(Vec<OsString>);

impl Line {
    fn add(&mut self, words: &[&str]) {
        self.0.extend(words.iter().map(OsString::from));
    }

    fn pair(&mut self, option: &str, value: impl Into<OsString>) {
        self.0.extend([option.into(), value.into()]);
    }
}

impl Machine {
    /// Arguments for the emulator.
    pub fn arguments(&self, console: Console, files: &Files) -> Vec<OsString> {
        let mut line = Line::default();
        line.add(&["-nodefaults", "-no-user-config", "-no-reboot"]);
        line.add(&["-display", "none", "-accel", self.accelerator()]);
        line.add(&["-machine", &self.machine_option()]);
        match self.board() {
            // Its CPU and memory are what they are.
            Some(board) => line.add(&["-m", &format!("{}M", board.mebibytes())]),
            None => line.add(&["-cpu", self.cpu(), "-m", &self.mem]),
        }
        if self.smp > 1 && self.board().is_none() {
            line.add(&["-smp", &self.smp.to_string()]);
        }
        self.add_console(console, &mut line);
        if self.exit {
            self.add_exit(files, &mut line);
        }
        if self.icount {
            line.add(&["-icount", "shift=0,sleep=off", "-seed", "1"]);
            line.add(&["-rtc", "base=2026-01-01T00:00:00,clock=vm"]);
        }
        if let Some(plugin) = &self.plugin {
            line.pair("-plugin", plugin.option());
            if let Some(object) = plugin.object(&self.mem) {
                line.pair("-object", object);
                line.add(&["-machine", "memory-backend=ram"]);
            }
        }
        if let Some(port) = self.gdb {
            line.add(&["-S", "-gdb", &format!("tcp:127.0.0.1:{port}")]);
        }
        match (&files.disk, self.raw) {
            (Some(disk), _) => self.add_disk(disk, files.uefi.as_ref(), &mut line),
            (None, Some(tree)) => self.add_raw(tree, &mut line),
            (None, None) => self.add_kernel(&mut line),
        }
        if let Some(tree) = &files.tree {
            line.pair("-dtb", tree);
        }
        line.0.extend(self.extra.iter().map(OsString::from));
        line.0
    }

    /// Where the guest's console goes, and by which of its serial ports.
    fn add_console(&self, console: Console, line: &mut Line) {
        match console {
            // signal=off: ^C is the guest's.
            Console::Terminal => {
                line.add(&["-chardev", "stdio,id=console,mux=on,signal=off"]);
                line.add(&["-mon", "chardev=console,mode=readline"]);
            }
            Console::Pipes => line.add(&["-chardev", "stdio,id=console,signal=off"]),
        }
        if self.mini_uart {
            line.add(&["-serial", "null"]);
        }
        let port = if self.serial {
            "chardev:console"
        } else {
            "none"
        };
        line.add(&["-serial", port]);
    }

    /// How the guest ends the machine with an exit status.
    fn add_exit(&self, files: &Files, line: &mut Line) {
        match self.arch {
            // The exit device carries seven bits, so the whole status goes through the debug
            // console first.
            Arch::X86_64 => {
                line.pair("-chardev", format!("file,id=status,path={}", files.status));
                line.add(&["-device", "isa-debugcon,iobase=0xe9,chardev=status"]);
                line.add(&["-device", "isa-debug-exit,iobase=0xf4,iosize=0x04"]);
            }
            Arch::Aarch64 => line.add(&["-semihosting-config", "enable=on,target=native"]),
        }
    }

    /// The direct way.
    fn add_kernel(&self, line: &mut Line) {
        line.pair("-kernel", &self.image);
        if let Some(initramfs) = &self.initramfs {
            line.pair("-initrd", initramfs);
        }
        if !self.command_line.is_empty() {
            line.pair("-append", &self.command_line);
        }
    }

    /// The image in memory, where `-kernel` would have left EL3 first, and three instructions at
    /// which CPU 0 begins. A board's other CPUs begin at 0 and wait there.
    fn add_raw(&self, tree: u32, line: &mut Line) {
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
            line.pair("-device", device);
        }
    }

    /// A disk with all of that, a screen, and the firmware's flash (nothing is kept that it writes
    /// there).
    fn add_disk(&self, disk: &Path, uefi: Option<&Uefi>, line: &mut Line) {
        if let Some(uefi) = uefi {
            let (code, variables) = (uefi.code.display(), uefi.variables.display());
            let flash = "if=pflash,format=raw";
            line.pair("-drive", format!("{flash},unit=0,readonly=on,file={code}"));
            line.pair(
                "-drive",
                format!("{flash},unit=1,snapshot=on,file={variables}"),
            );
        }
        // By UEFI, Limine distinguishes volumes by writing to them, and hangs where an xHCI's stick
        // is write-protected.
        let writes = if self.stick {
            "snapshot=on"
        } else {
            "readonly=on"
        };
        let file = disk.display();
        line.pair(
            "-drive",
            format!("if=none,id=boot,format=raw,{writes},file={file}"),
        );
        match (self.stick, self.arch) {
            (true, _) => line.add(&["-device", "qemu-xhci", "-device", "usb-storage,drive=boot"]),
            (false, Arch::X86_64) => line.add(&["-device", "ide-cd,drive=boot"]),
            (false, Arch::Aarch64) => line.add(&["-device", "virtio-blk-pci,drive=boot"]),
        }
        let screen = match self.arch {
            Arch::X86_64 => "VGA",
            Arch::Aarch64 => "ramfb",
        };
        line.add(&["-device", screen]);
    }

    fn machine_option(&self) -> String {
        let machine = self.machine_words();
        match name(machine) {
            // QEMU would otherwise describe devices that are not there on the kernel's command
            // line.
            "microvm" => format!("{machine},rtc=on,auto-kernel-cmdline=off"),
            // A GICv2 has no more than 8.
            "virt" if self.smp > 8 && !machine.contains("gic-version") => {
                format!("{machine},gic-version=3")
            }
            _ => machine.to_owned(),
        }
    }

    /// One thread for all CPUs, in turn, where runs must repeat; else one for each. A board has
    /// several: in turn, one that waits for another would have its whole slice first.
    fn accelerator(&self) -> &'static str {
        if (self.smp > 1 || self.board().is_some()) && !self.icount {
            "tcg,thread=multi"
        } else {
            "tcg,thread=single"
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

#[cfg(test)]
mod tests {
    use super::super::{Firmware, Loader};
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
    fn several_cpus() {
        let words = |arch, smp, icount| {
            let mut machine = Machine::new(arch, "kernel".into());
            (machine.smp, machine.icount) = (smp, icount);
            line(&machine, Console::Pipes)
        };
        let one = words(Arch::X86_64, 1, false);
        assert!(
            !one.contains("-smp") && one.contains("thread=single"),
            "{one}"
        );
        let four = words(Arch::X86_64, 4, false);
        assert!(
            four.contains("-smp 4") && four.contains("thread=multi"),
            "{four}"
        );
        let counted = words(Arch::Aarch64, 4, true);
        assert!(
            counted.contains("-smp 4") && counted.contains("thread=single"),
            "{counted}"
        );
        let many = words(Arch::Aarch64, 9, false);
        assert!(many.contains("-machine virt,gic-version=3"), "{many}");
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
        machine.stick = true;
        let stick = line(&machine, Console::Pipes);
        assert!(
            stick.contains("usb-storage,drive=boot") && !stick.contains("ide-cd"),
            "{stick}"
        );
        machine.loader = Loader::Limine(Firmware::Uefi);
        let uefi = line(&machine, Console::Pipes);
        assert!(uefi.contains("unit=1,snapshot=on,file=/t/vars"), "{uefi}");
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
}
