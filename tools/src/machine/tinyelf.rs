//! Programs of a few instructions, made byte by byte: they need no compiler, and they can be wrong
//! in any way.
use crate::host::arch::Arch;

const BASE: u64 = 0x40_0000;
/// Where code begins in the file: behind the header and room for four program headers.
const CODE_AT: u64 = 64 + 4 * 56;

/// A segment that is loaded (`PT_LOAD`).
pub const PT_LOAD: u32 = 1;
/// The path of the dynamic loader (`PT_INTERP`).
pub const PT_INTERP: u32 = 3;

/// One program header.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// Its type, `p_type`.
    pub kind: u32,
    /// Where it is mapped, `p_vaddr`.
    pub address: u64,
    /// Where it begins in the file, `p_offset`.
    pub offset: u64,
    /// How many bytes of it are in the file, `p_filesz`.
    pub file_size: u64,
    /// How many bytes it has in memory, `p_memsz`.
    pub memory_size: u64,
}

/// An executable under construction.
#[derive(Clone, Debug)]
pub struct Tiny {
    /// The machine it is for.
    pub arch: Arch,
    /// The address of its first instruction, `e_entry`.
    pub entry: u64,
    /// Its program headers.
    pub segments: Vec<Segment>,
    /// Its instructions, behind the headers.
    pub code: Vec<u8>,
}

impl Tiny {
    /// A sound program that runs `code`.
    pub fn new(arch: Arch, code: Vec<u8>) -> Self {
        let size = CODE_AT + code.len() as u64;
        let load = Segment {
            kind: PT_LOAD,
            address: BASE,
            offset: 0,
            file_size: size,
            memory_size: size,
        };
        Tiny {
            arch,
            entry: BASE + CODE_AT,
            segments: vec![load],
            code,
        }
    }

    /// One more segment.
    pub fn with(mut self, segment: Segment) -> Self {
        self.segments.push(segment);
        self
    }

    /// The file.
    pub fn bytes(&self) -> Vec<u8> {
        let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let machine: u16 = match self.arch {
            Arch::X86_64 => 62,
            Arch::Aarch64 => 183,
        };
        for half in [2, machine] {
            file.extend(half.to_le_bytes());
        }
        file.extend(1u32.to_le_bytes());
        for word in [self.entry, 64, 0] {
            file.extend(word.to_le_bytes());
        }
        file.extend(0u32.to_le_bytes());
        for half in [64, 56, self.segments.len() as u16, 0, 0, 0] {
            file.extend(half.to_le_bytes());
        }
        for segment in &self.segments {
            file.extend(segment.kind.to_le_bytes());
            // Read and execute.
            file.extend(5u32.to_le_bytes());
            let Segment {
                address,
                offset,
                file_size,
                memory_size,
                ..
            } = *segment;
            for word in [offset, address, address, file_size, memory_size, 4096] {
                file.extend(word.to_le_bytes());
            }
        }
        file.resize(CODE_AT as usize, 0);
        file.extend(&self.code);
        file
    }
}

/// A program that ends with `status`.
pub fn exit(arch: Arch, status: u8) -> Vec<u8> {
    Tiny::new(arch, exit_code(arch, status)).bytes()
}

/// The instructions of exit_group(status).
pub fn exit_code(arch: Arch, status: u8) -> Vec<u8> {
    match arch {
        // mov edi, status; mov eax, 231; syscall
        Arch::X86_64 => vec![0xbf, status, 0, 0, 0, 0xb8, 231, 0, 0, 0, 0x0f, 0x05],
        Arch::Aarch64 => words(&[movz(0, status.into()), movz(8, 94), SVC]),
    }
}

/// A program that calls reboot(2) with `command`, and ends with 9 should the call return.
pub fn reboot(arch: Arch, command: u32) -> Vec<u8> {
    let [magic, magic2] = [0xfee1_deadu32, 672_274_793];
    let mut code = match arch {
        Arch::X86_64 => {
            // mov eax, 169; mov edi, magic; mov esi, magic2; mov edx, command; syscall
            let load = [(0xb8, 169), (0xbf, magic), (0xbe, magic2), (0xba, command)];
            let mut code: Vec<u8> = load
                .iter()
                .flat_map(|(opcode, value)| [&[*opcode], &value.to_le_bytes()[..]].concat())
                .collect();
            code.extend([0x0f, 0x05]);
            code
        }
        Arch::Aarch64 => {
            let high = |register, value: u32| 0xf2a0_0000 | (value >> 16) << 5 | register;
            let load =
                |register, value: u32| [movz(register, value & 0xffff), high(register, value)];
            let arguments = [load(0, magic), load(1, magic2), load(2, command)].concat();
            words(&[&arguments[..], &[movz(8, 142), SVC]].concat())
        }
    };
    code.extend(exit_code(arch, 9));
    Tiny::new(arch, code).bytes()
}

/// Acts of a program that the kernel must answer with a signal.
#[derive(Clone, Copy, Debug)]
pub enum Sin {
    /// Execute what is no instruction.
    Illegal,
    /// Read address 0.
    ReadNull,
    /// Write the kernel's memory.
    WriteKernel,
    /// Jump to address 0.
    JumpNowhere,
    /// Use an instruction of the kernel's.
    Privileged,
    /// Divide by zero (no signal on aarch64).
    Divide,
    /// Push for ever.
    StackOverflow,
    /// Return to an address that is no address (x86_64: not canonical).
    WildReturn,
}

/// The program that does it, and the signal that it must die of.
pub fn sinner(arch: Arch, sin: Sin) -> Option<(Vec<u8>, u8)> {
    const SIGILL: u8 = 4;
    const SIGFPE: u8 = 8;
    const SIGSEGV: u8 = 11;
    let (code, signal) = match (arch, sin) {
        // ud2
        (Arch::X86_64, Sin::Illegal) => (vec![0x0f, 0x0b], SIGILL),
        // xor eax, eax; mov eax, [rax]
        (Arch::X86_64, Sin::ReadNull) => (vec![0x31, 0xc0, 0x8b, 0x00], SIGSEGV),
        // mov rax, -1 << 31; mov [rax], eax
        (Arch::X86_64, Sin::WriteKernel) => {
            (vec![0x48, 0xc7, 0xc0, 0, 0, 0, 0x80, 0x89, 0x00], SIGSEGV)
        }
        // xor eax, eax; jmp rax
        (Arch::X86_64, Sin::JumpNowhere) => (vec![0x31, 0xc0, 0xff, 0xe0], SIGSEGV),
        // hlt
        (Arch::X86_64, Sin::Privileged) => (vec![0xf4], SIGSEGV),
        // xor edx, edx; xor ecx, ecx; div ecx
        (Arch::X86_64, Sin::Divide) => (vec![0x31, 0xd2, 0x31, 0xc9, 0xf7, 0xf1], SIGFPE),
        // push rax; jmp -3
        (Arch::X86_64, Sin::StackOverflow) => (vec![0x50, 0xeb, 0xfd], SIGSEGV),
        // mov rax, 1 << 47; push rax; ret
        (Arch::X86_64, Sin::WildReturn) => (
            vec![0x48, 0xb8, 0, 0, 0, 0, 0, 0x80, 0, 0, 0x50, 0xc3],
            SIGSEGV,
        ),
        // udf #0
        (Arch::Aarch64, Sin::Illegal) => (words(&[0]), SIGILL),
        // ldr x0, [x0] with x0 = 0
        (Arch::Aarch64, Sin::ReadNull) => (words(&[movz(0, 0), 0xf940_0000]), SIGSEGV),
        // movn x0, #0; str x1, [x0, #-255]: the last page of the kernel's half
        (Arch::Aarch64, Sin::WriteKernel) => (words(&[0x9280_0000, 0xf810_1001]), SIGSEGV),
        // br x0 with x0 = 0
        (Arch::Aarch64, Sin::JumpNowhere) => (words(&[movz(0, 0), 0xd61f_0000]), SIGSEGV),
        // mrs x0, sctlr_el1
        (Arch::Aarch64, Sin::Privileged) => (words(&[0xd538_1000]), SIGILL),
        (Arch::Aarch64, Sin::Divide) => return None,
        // str x0, [sp, #-16]!; b -4
        (Arch::Aarch64, Sin::StackOverflow) => (words(&[0xf81f_0fe0, 0x17ff_ffff]), SIGSEGV),
        // movz x30, #0x8000, lsl #32; ret
        (Arch::Aarch64, Sin::WildReturn) => (words(&[0xd2d0_001e, 0xd65f_03c0]), SIGSEGV),
    };
    Some((Tiny::new(arch, code).bytes(), signal))
}

const SVC: u32 = 0xd400_0001;

/// movz x`register`, #`value`
fn movz(register: u32, value: u32) -> u32 {
    0xd280_0000 | value << 5 | register
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::{Object, ObjectSegment};

    #[test]
    fn sound_elf() {
        for arch in Arch::ALL {
            let bytes = exit(arch, 3);
            let file = object::File::parse(&*bytes).unwrap();
            assert_eq!(file.entry(), BASE + CODE_AT);
            let segment = file.segments().next().unwrap();
            assert_eq!(
                (segment.address(), segment.size()),
                (BASE, bytes.len() as u64)
            );
        }
    }

    /// The programs are for Linux, too, so Linux can say whether they are right.
    #[test]
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    fn linux_agrees() {
        use std::os::unix::{fs::PermissionsExt, process::ExitStatusExt};
        let folder = std::env::temp_dir().join(format!("quire-tiny-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let status = |name: &str, bytes: &[u8]| {
            let path = folder.join(name);
            std::fs::write(&path, bytes).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
            std::process::Command::new(&path).status().unwrap()
        };
        assert_eq!(status("exit", &exit(Arch::X86_64, 200)).code(), Some(200));
        for sin in [
            Sin::Illegal,
            Sin::ReadNull,
            Sin::WriteKernel,
            Sin::JumpNowhere,
            Sin::Privileged,
            Sin::Divide,
            Sin::StackOverflow,
            Sin::WildReturn,
        ] {
            let (bytes, signal) = sinner(Arch::X86_64, sin).unwrap();
            let name = format!("{sin:?}");
            assert_eq!(
                status(&name, &bytes).signal(),
                Some(signal.into()),
                "{name}"
            );
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
