//! Shared memory and mapped files.
use std::os::unix::fs::FileExt;
use userland::harness::{Outcome, in_child, need};
use userland::sys::fault;
use userland::sys::mem::{PAGE, RW, copy_to, load, mmap, msync, munmap, store};
use userland::sys::{call, file, proc, proc::Status};
use userland::{check, check_eq, check_err};

userland::tests![
    shared_anon_is_seen_by_all,
    shared_anon_outlives_its_writer,
    shared_anon_many_writers,
    shared_zero_device,
    file_shared_is_the_file,
    file_private_is_not,
    file_end_is_sigbus,
    file_last_page_is_zero_behind,
    file_truncated_under_the_mapping,
    file_grown_under_the_mapping,
    file_mapping_outlives_the_file,
    file_offset,
    file_msync,
    file_is_read_from_its_own_mapping,
    memfd_maps,
];

const SHARED: i32 = libc::MAP_SHARED | libc::MAP_ANONYMOUS;

fn shared_anon_is_seen_by_all() -> Outcome {
    let at = mmap(0, 2 * PAGE, RW, SHARED, -1, 0)?;
    store(at, 1);
    let status = in_child(|| {
        let saw = load(at) == 1;
        store(at, 2);
        // A page that was not touched before the fork is shared, too.
        store(at + PAGE, 3);
        Ok(saw as i32)
    })?;
    check_eq!(status, Status::Exited(1));
    check_eq!([load(at), load(at + PAGE)], [2, 3]);
    Ok(munmap(at, 2 * PAGE)?)
}

fn shared_anon_outlives_its_writer() -> Outcome {
    let at = mmap(0, PAGE, RW, SHARED, -1, 0)?;
    for round in 0..5 {
        in_child(|| {
            store(at, load(at) + round);
            Ok(0)
        })?;
    }
    check_eq!(load(at), 10);
    Ok(())
}

fn shared_anon_many_writers() -> Outcome {
    let at = mmap(0, 16 * PAGE, RW, SHARED, -1, 0)?;
    let mut pids = Vec::new();
    for child in 0..16usize {
        match proc::fork()? {
            proc::Fork::Child => {
                (0..PAGE / 8).for_each(|n| store(at + child * PAGE + n * 8, child as u64));
                proc::exit_now(0)
            }
            proc::Fork::Parent(pid) => pids.push(pid),
        }
    }
    for pid in pids {
        proc::wait_for(pid)?;
    }
    check!((0..16 * PAGE / 8).all(|n| load(at + n * 8) == (n * 8 / PAGE) as u64));
    Ok(())
}

fn shared_zero_device() -> Outcome {
    let fd = file::open("/dev/zero", libc::O_RDWR, 0)?;
    let private = mmap(0, PAGE, RW, libc::MAP_PRIVATE, fd, 0)?;
    let shared = mmap(0, PAGE, RW, libc::MAP_SHARED, fd, 0)?;
    check_eq!([load(private), load(shared)], [0, 0]);
    in_child(|| {
        store(private, 1);
        store(shared, 1);
        Ok(0)
    })?;
    check_eq!([load(private), load(shared)], [0, 1]);
    Ok(())
}

fn file_shared_is_the_file() -> Outcome {
    std::fs::write("f", vec![b'a'; 2 * PAGE])?;
    let fd = file::open("f", libc::O_RDWR, 0)?;
    let at = mmap(0, 2 * PAGE, RW, libc::MAP_SHARED, fd, 0)?;
    copy_to(at + PAGE - 2, b"wxyz");
    check_eq!(&std::fs::read("f")?[PAGE - 3..PAGE + 3], b"awxyza");
    file::pwrite(fd, b"12345678", 8)?;
    check_eq!(load(at + 8), u64::from_ne_bytes(*b"12345678"));
    // A second mapping and another process see the same.
    let again = mmap(0, PAGE, libc::PROT_READ, libc::MAP_SHARED, fd, 0)?;
    in_child(|| {
        store(at, 5);
        Ok(0)
    })?;
    check_eq!(load(again), 5);
    Ok(())
}

fn file_private_is_not() -> Outcome {
    std::fs::write("f", vec![b'a'; PAGE])?;
    let fd = file::open("f", libc::O_RDWR, 0)?;
    let at = mmap(0, PAGE, RW, libc::MAP_PRIVATE, fd, 0)?;
    store(at, 0);
    check!(std::fs::read("f")?.iter().all(|&b| b == b'a'));
    // The private copy no longer follows the file.
    file::pwrite(fd, b"zzzzzzzz", 0)?;
    check_eq!(load(at), 0);
    Ok(())
}

fn file_end_is_sigbus() -> Outcome {
    fault::arm();
    std::fs::write("f", vec![1u8; PAGE + 10])?;
    let fd = file::open("f", libc::O_RDWR, 0)?;
    for kind in [libc::MAP_SHARED, libc::MAP_PRIVATE] {
        let at = mmap(0, 4 * PAGE, RW, kind, fd, 0)?;
        check_eq!(fault::read(at + PAGE + 9)?, 1);
        for bad in [
            fault::read(at + 2 * PAGE + 7).map(|_| ()),
            fault::write(at + 2 * PAGE + 7, 1),
        ] {
            let want = fault::Trap {
                signal: libc::SIGBUS,
                code: 2,
                addr: at + 2 * PAGE + 7,
            };
            check_eq!(bad, Err(want));
        }
        // The kernel's accesses there are an error of the call.
        check_err!(
            call(libc::SYS_write, [fd as usize, at + 3 * PAGE, 8, 0, 0, 0]),
            EFAULT
        );
    }
    Ok(())
}

fn file_last_page_is_zero_behind() -> Outcome {
    std::fs::write("f", vec![1u8; 10])?;
    let fd = file::open("f", libc::O_RDWR, 0)?;
    let at = mmap(0, PAGE, RW, libc::MAP_SHARED, fd, 0)?;
    check!((2..PAGE / 8).all(|n| load(at + n * 8) == 0));
    check_eq!(load(at + 8), 0x0101);
    // Written behind the end: not in the file.
    store(at + 64, 9);
    check_eq!(std::fs::read("f")?.len(), 10);
    Ok(())
}

fn file_truncated_under_the_mapping() -> Outcome {
    fault::arm();
    std::fs::write("f", vec![1u8; 3 * PAGE])?;
    let fd = file::open("f", libc::O_RDWR, 0)?;
    let at = mmap(0, 3 * PAGE, RW, libc::MAP_SHARED, fd, 0)?;
    (0..3).for_each(|n| store(at + n * PAGE, 5));
    file::ftruncate(fd, PAGE as i64 + 100)?;
    check_eq!(load(at + PAGE), 5);
    check_eq!(load(at + PAGE + 104), 0);
    check_eq!(
        fault::read(at + 2 * PAGE).map_err(|t| t.signal),
        Err(libc::SIGBUS)
    );
    file::ftruncate(fd, 3 * PAGE as i64)?;
    check_eq!(fault::read(at + 2 * PAGE)?, 0);
    Ok(())
}

fn file_grown_under_the_mapping() -> Outcome {
    fault::arm();
    let fd = file::open("f", libc::O_RDWR | libc::O_CREAT, 0o600)?;
    let at = mmap(0, 2 * PAGE, RW, libc::MAP_SHARED, fd, 0)?;
    check_eq!(fault::read(at).map_err(|t| t.signal), Err(libc::SIGBUS));
    file::pwrite(fd, b"x", PAGE as i64)?;
    check_eq!(fault::read(at)?, 0);
    check_eq!(fault::read(at + PAGE)?, b'x');
    Ok(())
}

fn file_mapping_outlives_the_file() -> Outcome {
    std::fs::write("f", vec![7u8; 2 * PAGE])?;
    let fd = file::open("f", libc::O_RDWR, 0)?;
    let at = mmap(0, 2 * PAGE, RW, libc::MAP_SHARED, fd, 0)?;
    file::close(fd)?;
    std::fs::remove_file("f")?;
    check_eq!(load(at + PAGE), 0x0707_0707_0707_0707);
    store(at, 1);
    check_eq!(load(at), 1);
    Ok(munmap(at, 2 * PAGE)?)
}

fn file_offset() -> Outcome {
    let data: Vec<u8> = (0..4 * PAGE).map(|n| (n / PAGE) as u8).collect();
    std::fs::write("f", data)?;
    let fd = file::open("f", libc::O_RDONLY, 0)?;
    let at = mmap(
        0,
        2 * PAGE,
        libc::PROT_READ,
        libc::MAP_PRIVATE,
        fd,
        2 * PAGE,
    )?;
    check_eq!([load(at) & 0xff, load(at + PAGE) & 0xff], [2, 3]);
    check_err!(
        mmap(0, PAGE, libc::PROT_READ, libc::MAP_PRIVATE, fd, 100),
        EINVAL
    );
    Ok(())
}

fn file_msync() -> Outcome {
    std::fs::write("f", vec![0u8; PAGE])?;
    let fd = file::open("f", libc::O_RDWR, 0)?;
    let at = mmap(0, PAGE, RW, libc::MAP_SHARED, fd, 0)?;
    store(at, 1);
    need(msync(at, PAGE, libc::MS_SYNC), "msync")?;
    msync(at, PAGE, libc::MS_ASYNC)?;
    check_err!(msync(at + 1, PAGE, libc::MS_SYNC), EINVAL);
    check_err!(msync(at, PAGE, libc::MS_SYNC | libc::MS_ASYNC), EINVAL);
    munmap(at, PAGE)?;
    check_err!(msync(at, PAGE, libc::MS_SYNC), ENOMEM);
    Ok(())
}

fn file_is_read_from_its_own_mapping() -> Outcome {
    // Reading a file into its own mapping makes the kernel fault on the page it is copying from.
    std::fs::write("f", vec![3u8; 2 * PAGE])?;
    let fd = file::open("f", libc::O_RDWR, 0)?;
    let at = mmap(0, 2 * PAGE, RW, libc::MAP_SHARED, fd, 0)?;
    check_eq!(
        call(libc::SYS_pread64, [fd as usize, at, 2 * PAGE, 0, 0, 0])?,
        2 * PAGE
    );
    check_eq!(
        call(libc::SYS_pwrite64, [fd as usize, at + PAGE, PAGE, 0, 0, 0])?,
        PAGE
    );
    let f = std::fs::File::open("f")?;
    let mut buf = [0u8; 16];
    f.read_exact_at(&mut buf, 0)?;
    check_eq!(buf, [3u8; 16]);
    Ok(())
}

fn memfd_maps() -> Outcome {
    let fd = need(file::memfd(libc::MFD_CLOEXEC), "memfd_create")?;
    file::ftruncate(fd, 2 * PAGE as i64)?;
    let at = mmap(0, 2 * PAGE, RW, libc::MAP_SHARED, fd, 0)?;
    store(at + PAGE, 5);
    let mut buf = [0u8; 8];
    check_eq!(file::pread(fd, &mut buf, PAGE as i64)?, 8);
    check_eq!(u64::from_ne_bytes(buf), 5);
    Ok(())
}
