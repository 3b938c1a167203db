//! PROCMAP_QUERY of /proc/self/maps: one area by its address.
use crate::areas::{put, room, since};
use userland::harness::{Outcome, Stop};
use userland::sys::mem::{PAGE, RW, mmap, munmap};
use userland::sys::{Result, call, file};
use userland::{check, check_eq, check_err};

userland::tests![
    procmap_finds_an_area,
    procmap_finds_the_next,
    procmap_filters,
    procmap_tells_of_files,
    procmap_names,
    procmap_refuses_bad_arguments,
];

/// `_IOWR('f', 17, struct procmap_query)`.
const PROCMAP_QUERY: usize = 0xc068_6611;

const READABLE: u64 = 0x01;
const WRITABLE: u64 = 0x02;
const EXECUTABLE: u64 = 0x04;
const SHARED: u64 = 0x08;
const OR_NEXT: u64 = 0x10;
const FILE_BACKED: u64 = 0x20;

/// `struct procmap_query`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Query {
    size: u64,
    flags: u64,
    address: u64,
    start: u64,
    end: u64,
    vma_flags: u64,
    page_size: u64,
    offset: u64,
    inode: u64,
    major: u32,
    minor: u32,
    name_size: u32,
    build_id_size: u32,
    name: u64,
    build_id: u64,
}

/// Asks for the area at an address; the file is opened anew each time.
fn ask(query: &mut Query) -> Result<usize> {
    let fd = file::open("/proc/self/maps", libc::O_RDONLY, 0)?;
    let argument = query as *mut Query as usize;
    let result = call(
        libc::SYS_ioctl,
        [fd as usize, PROCMAP_QUERY, argument, 0, 0, 0],
    );
    file::close(fd)?;
    result
}

fn query(address: usize, flags: u64) -> Result<Query> {
    let mut query = Query {
        size: size_of::<Query>() as u64,
        flags,
        address: address as u64,
        ..Query::default()
    };
    ask(&mut query).map(|_| query)
}

/// The pages of a room that an answer is about.
fn pages(room: usize, query: &Query) -> (u64, u64) {
    let page = |at: u64| (at - room as u64) / PAGE as u64;
    (page(query.start), page(query.end))
}

/// A room with areas at 1 to 3 (read only), 3 to 4 and 6 to 8. Skips the test before Linux 6.11.
fn begin() -> std::result::Result<usize, Stop> {
    since(6, 11)?;
    let at = room(10)?;
    put(at, 1, 3, libc::PROT_READ)?;
    put(at, 3, 4, RW)?;
    put(at, 6, 8, RW)?;
    Ok(at)
}

fn procmap_finds_an_area() -> Outcome {
    let at = begin()?;
    for n in 1..3 {
        let found = query(at + n * PAGE + 5, 0)?;
        check_eq!(pages(at, &found), (1, 3));
        check_eq!(found.vma_flags, READABLE);
        check_eq!(found.page_size, PAGE as u64);
        check_eq!((found.offset, found.inode, found.major), (0, 0, 0));
        check_eq!((found.name_size, found.build_id_size), (0, 0));
    }
    let found = query(at + 7 * PAGE, 0)?;
    check_eq!(pages(at, &found), (6, 8));
    check_eq!(found.vma_flags, READABLE | WRITABLE);
    for n in [0, 4, 5, 8] {
        check_err!(query(at + n * PAGE, 0).map(drop), ENOENT);
    }
    Ok(())
}

fn procmap_finds_the_next() -> Outcome {
    let at = begin()?;
    check_eq!(pages(at, &query(at, OR_NEXT)?), (1, 3));
    check_eq!(pages(at, &query(at + 2 * PAGE, OR_NEXT)?), (1, 3));
    check_eq!(pages(at, &query(at + 4 * PAGE, OR_NEXT)?), (6, 8));
    // All of them in order, and then no more.
    let (mut from, mut areas) = (0, 0);
    while let Ok(found) = query(from, OR_NEXT) {
        check!(found.start >= from as u64 && found.end > found.start);
        (from, areas) = (found.end as usize, areas + 1);
    }
    check!(areas > 5, "{areas} areas");
    check_err!(query(from, OR_NEXT).map(drop), ENOENT);
    Ok(())
}

fn procmap_filters() -> Outcome {
    let at = begin()?;
    let wanted = WRITABLE | OR_NEXT;
    check_eq!(pages(at, &query(at, wanted)?), (3, 4));
    check_eq!(pages(at, &query(at + PAGE, wanted)?), (3, 4));
    check_err!(query(at + PAGE, WRITABLE).map(drop), ENOENT);
    check_eq!(pages(at, &query(at + PAGE, READABLE)?), (1, 3));
    let shared = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    mmap(at + 9 * PAGE, PAGE, libc::PROT_READ, shared, -1, 0)?;
    let found = query(at, SHARED | OR_NEXT)?;
    check_eq!(pages(at, &found), (9, 10));
    check_eq!(found.vma_flags, READABLE | SHARED);
    check_eq!(pages(at, &query(at, FILE_BACKED | OR_NEXT)?), (9, 10));
    let code = query(0, EXECUTABLE | OR_NEXT)?;
    check!(code.vma_flags & EXECUTABLE != 0);
    munmap(at, 10 * PAGE)?;
    Ok(())
}

fn procmap_tells_of_files() -> Outcome {
    use std::os::linux::fs::MetadataExt;
    begin()?;
    let fd = file::open("named", libc::O_RDWR | libc::O_CREAT, 0o600)?;
    file::write_all(fd, &[1; 4 * PAGE])?;
    let at = mmap(0, 2 * PAGE, libc::PROT_READ, libc::MAP_PRIVATE, fd, PAGE)?;
    let found = query(at, FILE_BACKED)?;
    let inode = std::fs::metadata("named")?;
    check_eq!((found.offset, found.inode), (PAGE as u64, inode.st_ino()));
    check_eq!(
        (found.major, found.minor),
        (libc::major(inode.st_dev()), libc::minor(inode.st_dev()))
    );
    Ok(())
}

fn procmap_names() -> Outcome {
    begin()?;
    let fd = file::open("named", libc::O_RDWR | libc::O_CREAT, 0o600)?;
    file::write_all(fd, &[1; PAGE])?;
    let at = mmap(0, PAGE, libc::PROT_READ, libc::MAP_PRIVATE, fd, 0)?;
    let path = std::fs::canonicalize("named")?;
    let path = path.to_string_lossy().into_owned();
    let mut room = [b'?'; 512];
    let mut named = |address: usize, len: usize| {
        let mut query = Query {
            size: size_of::<Query>() as u64,
            address: address as u64,
            name_size: len as u32,
            name: room.as_mut_ptr() as u64,
            ..Query::default()
        };
        let answer = ask(&mut query);
        answer.map(|_| String::from_utf8_lossy(&room[..query.name_size as usize]).into_owned())
    };
    check_eq!(named(at, 512)?, format!("{path}\0"));
    check_eq!(named(at, path.len() + 1)?, format!("{path}\0"));
    check_err!(named(at, path.len()).map(drop), ENAMETOOLONG);
    let local = 0u8;
    check_eq!(named(&raw const local as usize, 512)?, "[stack]\0");
    // Without a name there is none.
    let anonymous = userland::sys::mem::anon(1)?;
    check_eq!(named(anonymous, 512)?, "");
    Ok(())
}

fn procmap_refuses_bad_arguments() -> Outcome {
    let at = begin()?;
    let good = Query {
        size: size_of::<Query>() as u64,
        address: (at + PAGE) as u64,
        ..Query::default()
    };
    check_err!(ask(&mut Query { size: 23, ..good }), EINVAL);
    check_err!(ask(&mut Query { size: 4097, ..good }), E2BIG);
    check_err!(
        ask(&mut Query {
            flags: 0x40,
            ..good
        }),
        EINVAL
    );
    check_err!(
        ask(&mut Query {
            name_size: 9,
            ..good
        }),
        EINVAL
    );
    check_err!(ask(&mut Query { name: 4096, ..good }), EINVAL);
    check_err!(
        ask(&mut Query {
            build_id_size: 9,
            ..good
        }),
        EINVAL
    );
    // A caller of an older kernel's structure gets what it has room for.
    let mut short = Query { size: 40, ..good };
    check_eq!(ask(&mut short)?, 0);
    check_eq!(pages(at, &short), (1, 3));
    check_eq!(short.page_size, 0);
    let fd = file::open("/proc/self/maps", libc::O_RDONLY, 0)? as usize;
    check_err!(
        call(libc::SYS_ioctl, [fd, PROCMAP_QUERY, PAGE, 0, 0, 0]),
        EFAULT
    );
    check_err!(call(libc::SYS_ioctl, [fd, 0x6611, PAGE, 0, 0, 0]), ENOTTY);
    Ok(())
}
