//! PROCMAP_QUERY, an ioctl of /proc/PID/maps: one area by its address, without a look at the text
//! of all before it (proc.rst, `struct procmap_query` of linux/fs.h).

use super::areas::{Areas, FilePart};
use super::observed::Observed;
use crate::base::errno::{Errno, Result};
use crate::base::machine::Vma;
use crate::base::user_ptr::{UserBytes, UserPtr};
use crate::fs::tree::inode::Device;
use crate::sched;
use mm::addr::PAGE_SIZE;
use mm::vma::{Backing, Prot};

/// `_IOWR('f', 17, struct procmap_query)`.
const PROCMAP_QUERY: u32 = 0xc068_6611;
/// Bytes of the structure in its first version, and of the part that is only read.
const SIZE: usize = 104;
const ASKED: u64 = 24;
/// The longest name, with its NUL.
const PATH_MAX: u64 = 4096;

bitflags::bitflags! {
    /// What to look for, and what an area is: PROCMAP_QUERY_*.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    struct Flags: u64 {
        const READABLE = 0x01;
        const WRITABLE = 0x02;
        const EXECUTABLE = 0x04;
        const SHARED = 0x08;
        /// The area at the address, or else the next one.
        const COVERING_OR_NEXT = 0x10;
        const FILE_BACKED = 0x20;
    }
}

/// `struct procmap_query`, by 64-bit words; two of them are pairs of 32-bit ones.
struct Query([u64; SIZE / 8]);

impl Query {
    const FLAGS: usize = 1;
    const ADDRESS: usize = 2;
    const START: usize = 3;
    const END: usize = 4;
    const VMA_FLAGS: usize = 5;
    const PAGE_SIZE: usize = 6;
    const OFFSET: usize = 7;
    const INODE: usize = 8;
    const DEVICE: usize = 9;
    /// Of the name, and in the upper half of the build id.
    const SIZES: usize = 10;
    const NAME: usize = 11;
    const BUILD_ID: usize = 12;

    /// E2BIG: what this kernel does not know is asked.
    fn read(from: UserPtr<u8>, size: u64) -> Result<Query> {
        if size > PAGE_SIZE {
            return Err(Errno::E2BIG);
        }
        if size < ASKED {
            return Err(Errno::EINVAL);
        }
        let mut bytes = [0; SIZE];
        let given = (size as usize).min(SIZE);
        let len = given as u64;
        UserBytes { first: from, len }.read(&mut bytes[..given])?;
        for at in len..size {
            if from.element(at).read()? != 0 {
                return Err(Errno::E2BIG);
            }
        }
        let mut words = [0; SIZE / 8];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_ne_bytes(*bytes);
        }
        Ok(Query(words))
    }

    /// As much as the caller has room for.
    fn write(&self, into: UserPtr<u8>, size: u64) -> Result {
        let mut bytes = [0; SIZE];
        for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(self.0) {
            *bytes = word.to_ne_bytes();
        }
        let given = (size as usize).min(SIZE);
        let len = given as u64;
        UserBytes { first: into, len }.write(0, &bytes[..given])
    }

    /// Room for the name, and for the build id.
    fn sizes(&self) -> (u64, u64) {
        (
            self.0[Self::SIZES] & u64::from(u32::MAX),
            self.0[Self::SIZES] >> 32,
        )
    }

    /// EINVAL: unknown flags, or a size without an address.
    fn check(&self) -> Result<Flags> {
        let flags = Flags::from_bits(self.0[Self::FLAGS]).ok_or(Errno::EINVAL)?;
        let (name, build_id) = self.sizes();
        let alike = |size: u64, address: usize| (size == 0) == (self.0[address] == 0);
        match alike(name, Self::NAME) && alike(build_id, Self::BUILD_ID) {
            true => Ok(flags),
            false => Err(Errno::EINVAL),
        }
    }

    /// Fills in what is told of an area, but for its name. Programs here are not asked for build
    /// ids: there is none.
    fn tell(&mut self, vma: &Vma) {
        let words = &mut self.0;
        (words[Self::START], words[Self::END]) = (vma.range.start.0, vma.range.end.0);
        let what = Flags::of(vma) - Flags::FILE_BACKED;
        words[Self::VMA_FLAGS] = what.bits();
        words[Self::PAGE_SIZE] = vma.huge_order().unwrap_or_default().bytes();
        let part = match &vma.backing {
            Backing::Anon => None,
            Backing::Object { offset, file, .. } => Some(FilePart::of(*offset, file)),
        };
        let device = part.as_ref().map_or(0, |part| {
            let device = Device::decode(part.device);
            u64::from(device.0) | u64::from(device.1) << 32
        });
        words[Self::OFFSET] = part.as_ref().map_or(0, |part| part.offset);
        words[Self::INODE] = part.as_ref().map_or(0, |part| part.inode);
        words[Self::DEVICE] = device;
    }
}

impl Flags {
    fn of(vma: &Vma) -> Flags {
        let mut flags = Flags::from_bits_truncate((vma.prot & Prot::RIGHTS).bits().into());
        flags.set(Flags::SHARED, vma.shared());
        let of_object = matches!(vma.backing, Backing::Object { .. });
        flags.set(Flags::FILE_BACKED, of_object);
        flags
    }
}

const _: () = assert!(
    Prot::READ.bits() as u64 == Flags::READABLE.bits()
        && Prot::WRITE.bits() as u64 == Flags::WRITABLE.bits()
        && Prot::EXEC.bits() as u64 == Flags::EXECUTABLE.bits()
);

/// One ioctl of /proc/PID/maps. ENOENT: no such area; ESRCH: the process has ended; ENAMETOOLONG:
/// no room for the name.
pub fn ioctl(observed: &Observed, command: u32, argument: u64) -> Result<u64> {
    if command != PROCMAP_QUERY {
        return Err(Errno::ENOTTY);
    }
    let size = UserPtr::<u64>::from(argument).read()?;
    let mut query = Query::read(argument.into(), size)?;
    let flags = query.check()?;
    let areas = find(observed, query.0[Query::ADDRESS], flags)?;
    let vma = areas.vmas.first().ok_or(Errno::ENOENT)?;
    query.tell(vma);
    let room = query.sizes().0.min(PATH_MAX);
    query.0[Query::SIZES] = 0;
    if room != 0 {
        let first = query.0[Query::NAME].into();
        query.0[Query::SIZES] = areas.with_name(vma, |name| put_name(name, first, room))?;
    }
    query.write(argument.into(), size)?;
    Ok(0)
}

/// Writes a name with a NUL; returns how many bytes that were: 0 without one.
fn put_name(name: &[u8], first: UserPtr<u8>, room: u64) -> Result<u64> {
    let len = name.len() as u64 + 1;
    if name.is_empty() {
        return Ok(0);
    }
    if len > room {
        return Err(Errno::ENAMETOOLONG);
    }
    let into = UserBytes { first, len };
    into.write(0, name)?;
    into.write(len - 1, &[0])?;
    Ok(len)
}

/// The area that the flags ask for at an address, or behind it, alone. ENOENT.
fn find(observed: &Observed, address: u64, flags: Flags) -> Result<Areas> {
    let wanted = flags - Flags::COVERING_OR_NEXT;
    let next = flags.contains(Flags::COVERING_OR_NEXT);
    let mut from = address;
    loop {
        let space = observed.space().ok_or(Errno::ESRCH)?;
        let areas = Areas::whole(&space, from, 1)?;
        drop(space);
        let vma = areas.vmas.first().ok_or(Errno::ENOENT)?;
        if vma.range.start.0 > address && !next {
            return Err(Errno::ENOENT);
        }
        if Flags::of(vma).contains(wanted) {
            return Ok(areas);
        }
        if !next {
            return Err(Errno::ENOENT);
        }
        from = vma.range.end.0;
        if sched::breathe() {
            return Err(Errno::EINTR);
        }
    }
}
