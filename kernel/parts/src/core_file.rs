//! Core files: the headers and notes of an ELF file of type ET_CORE, core(5), as gdb reads them.

use alloc::vec::Vec;
use elf::abi;
use fallible::OutOfMemory;
use mm::addr::PAGE_SIZE;

/// Bytes of the ELF header, and of a program header.
const HEADER: usize = 64;
const SEGMENT: usize = 56;
/// NT_SIGINFO and NT_FILE, whose numbers are the bytes of their names.
pub const NT_SIGINFO: u32 = 0x5349_4749;
/// See [`NT_SIGINFO`].
pub const NT_FILE: u32 = 0x4649_4c45;

/// A range of memory, and how much of it the file holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// The first address, a multiple of a page.
    pub start: u64,
    /// Bytes in memory, whole pages.
    pub len: u64,
    /// Bytes in the file, whole pages from the first.
    pub held: u64,
    /// PF_R, PF_W, PF_X.
    pub rights: u32,
}

/// A mapped file, of NT_FILE.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mapped<P> {
    /// The addresses.
    pub range: [u64; 2],
    /// The page of the file that is first.
    pub page: u64,
    /// Its path.
    pub path: P,
}

/// What NT_PRSTATUS tells of a thread, before its registers.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Status {
    /// The signal that ended the process.
    pub signo: i32,
    /// Pending and blocked signals.
    pub sets: [u64; 2],
    /// Number, parent, group, session.
    pub ids: [i32; 4],
    /// User, system, children's user and children's system time, in microseconds.
    pub times: [u64; 4],
}

/// Notes, one after the other.
#[derive(Default)]
pub struct Notes(Vec<u8>);

impl Notes {
    fn put(&mut self, bytes: &[u8]) -> Result<(), OutOfMemory> {
        fallible::reserve(&mut self.0, bytes.len())?;
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn pad(&mut self) -> Result<(), OutOfMemory> {
        let len = self.0.len().next_multiple_of(4) - self.0.len();
        self.put(&[0; 3][..len])
    }

    /// Appends a note of an owner: "CORE" or "LINUX".
    pub fn add(&mut self, owner: &str, kind: u32, content: &[u8]) -> Result<(), OutOfMemory> {
        let sizes = [owner.len() as u32 + 1, content.len() as u32, kind];
        for word in sizes {
            self.put(&word.to_le_bytes())?;
        }
        self.put(owner.as_bytes())?;
        self.put(&[0])?;
        self.pad()?;
        self.put(content)?;
        self.pad()
    }

    /// NT_PRSTATUS: `struct elf_prstatus`, with the general registers.
    pub fn add_status(&mut self, status: &Status, registers: &[u8]) -> Result<(), OutOfMemory> {
        let mut head = [0; 112];
        let mut put = |at: usize, bytes: &[u8]| head[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &status.signo.to_le_bytes());
        put(12, &(status.signo as u16).to_le_bytes());
        put(16, &status.sets[0].to_le_bytes());
        put(24, &status.sets[1].to_le_bytes());
        for (n, id) in status.ids.iter().enumerate() {
            put(32 + 4 * n, &id.to_le_bytes());
        }
        for (n, us) in status.times.iter().enumerate() {
            put(48 + 16 * n, &(us / 1_000_000).to_le_bytes());
            put(56 + 16 * n, &(us % 1_000_000).to_le_bytes());
        }
        let mut content = Vec::new();
        // pr_fpvalid follows, and its padding.
        fallible::reserve(&mut content, head.len() + registers.len() + 8)?;
        content.extend_from_slice(&head);
        content.extend_from_slice(registers);
        content.extend_from_slice(&1u64.to_le_bytes());
        self.add("CORE", abi::NT_PRSTATUS as u32, &content)
    }

    /// NT_PRPSINFO: `struct elf_prpsinfo`. `ids` as [`Status`] has them.
    pub fn add_program(
        &mut self,
        (uid, gid): (u32, u32),
        ids: [i32; 4],
        name: &[u8],
        arguments: &[u8],
    ) -> Result<(), OutOfMemory> {
        let mut content = [0; 136];
        content[1] = b'R';
        content[16..20].copy_from_slice(&uid.to_le_bytes());
        content[20..24].copy_from_slice(&gid.to_le_bytes());
        for (n, id) in ids.iter().enumerate() {
            content[24 + 4 * n..28 + 4 * n].copy_from_slice(&id.to_le_bytes());
        }
        let name = &name[..name.len().min(15)];
        content[40..40 + name.len()].copy_from_slice(name);
        let arguments = &arguments[..arguments.len().min(79)];
        for (to, byte) in content[56..].iter_mut().zip(arguments) {
            *to = if *byte == 0 { b' ' } else { *byte };
        }
        self.add("CORE", abi::NT_PRPSINFO as u32, &content)
    }

    /// NT_FILE.
    pub fn add_files<P: AsRef<[u8]>>(&mut self, files: &[Mapped<P>]) -> Result<(), OutOfMemory> {
        let paths: usize = files.iter().map(|file| file.path.as_ref().len() + 1).sum();
        let mut content = Vec::new();
        fallible::reserve(&mut content, 16 + 24 * files.len() + paths)?;
        content.extend_from_slice(&(files.len() as u64).to_le_bytes());
        content.extend_from_slice(&PAGE_SIZE.to_le_bytes());
        for file in files {
            for word in [file.range[0], file.range[1], file.page] {
                content.extend_from_slice(&word.to_le_bytes());
            }
        }
        for file in files {
            content.extend_from_slice(file.path.as_ref());
            content.push(0);
        }
        self.add("CORE", NT_FILE, &content)
    }
}

/// All before the first segment: the ELF header, the program headers and the notes, to a whole
/// page, where the first segment begins. `machine`: its number in ELF files.
pub fn head(machine: u16, notes: &Notes, segments: &[Segment]) -> Result<Vec<u8>, OutOfMemory> {
    let notes_at = HEADER + SEGMENT * (segments.len() + 1);
    let end = (notes_at + notes.0.len()).next_multiple_of(PAGE_SIZE as usize);
    let mut head = fallible::filled(0, end)?;
    head[..8].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1, 0]);
    let mut put = |at: usize, bytes: &[u8]| head[at..at + bytes.len()].copy_from_slice(bytes);
    put(16, &abi::ET_CORE.to_le_bytes());
    put(18, &machine.to_le_bytes());
    put(20, &1u32.to_le_bytes());
    put(32, &(HEADER as u64).to_le_bytes());
    put(52, &(HEADER as u16).to_le_bytes());
    put(54, &(SEGMENT as u16).to_le_bytes());
    put(56, &(segments.len() as u16 + 1).to_le_bytes());
    put(HEADER, &abi::PT_NOTE.to_le_bytes());
    put(HEADER + 8, &(notes_at as u64).to_le_bytes());
    put(HEADER + 32, &(notes.0.len() as u64).to_le_bytes());
    put(HEADER + 48, &4u64.to_le_bytes());
    let mut offset = end as u64;
    for (n, segment) in segments.iter().enumerate() {
        let at = HEADER + SEGMENT * (n + 1);
        put(at, &abi::PT_LOAD.to_le_bytes());
        put(at + 4, &segment.rights.to_le_bytes());
        let words = [
            offset,
            segment.start,
            0,
            segment.held,
            segment.len,
            PAGE_SIZE,
        ];
        for (n, word) in words.iter().enumerate() {
            put(at + 8 + 8 * n, &word.to_le_bytes());
        }
        offset += segment.held;
    }
    put(notes_at, &notes.0);
    Ok(head)
}

#[cfg(test)]
mod tests {
    use super::*;
    use elf::ElfBytes;
    use elf::endian::LittleEndian;

    #[test]
    fn what_is_written_is_read_by_an_elf_reader() {
        let mut notes = Notes::default();
        let status = Status {
            signo: 11,
            sets: [1, 2],
            ids: [7, 1, 7, 3],
            times: [2_500_000, 0, 0, 1],
        };
        notes.add_status(&status, &[9; 216]).unwrap();
        notes
            .add_program((1, 2), status.ids, b"a_name_that_is_long", b"x\0y\0")
            .unwrap();
        let files = [Mapped {
            range: [0x1000, 0x3000],
            page: 4,
            path: b"/bin/x",
        }];
        notes.add_files(&files).unwrap();
        let segments = [
            Segment {
                start: 0x1000,
                len: 0x2000,
                held: 0x1000,
                rights: abi::PF_R | abi::PF_X,
            },
            Segment {
                start: 0x7000,
                len: 0x1000,
                held: 0x1000,
                rights: abi::PF_R | abi::PF_W,
            },
        ];
        let file = head(abi::EM_X86_64, &notes, &segments).unwrap();
        assert!(file.len().is_multiple_of(PAGE_SIZE as usize));
        let read = ElfBytes::<LittleEndian>::minimal_parse(&file).unwrap();
        assert_eq!((read.ehdr.e_type, read.ehdr.e_phnum), (abi::ET_CORE, 3));
        let headers: Vec<_> = read.segments().unwrap().iter().collect();
        assert_eq!(headers[1].p_offset, file.len() as u64);
        assert_eq!(headers[2].p_offset, file.len() as u64 + 0x1000);
        assert_eq!((headers[1].p_vaddr, headers[1].p_memsz), (0x1000, 0x2000));
        let kinds: Vec<u64> = read
            .segment_data_as_notes(&headers[0])
            .unwrap()
            .map(|note| match note {
                elf::note::Note::Unknown(any) => any.n_type,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(kinds, [abi::NT_PRSTATUS, abi::NT_PRPSINFO, NT_FILE.into()]);
    }
}
