//! Descriptors and credentials in messages: SCM_RIGHTS and SCM_CREDENTIALS of unix(7).
use crate::sockets::{DONTWAIT, KINDS, Pair, next, pair, send};
use userland::harness::{Outcome, in_child};
use userland::sys::proc::{self, Status};
use userland::sys::{Result, call, file};
use userland::{check, check_eq, check_err};

userland::tests![
    rights_arrive,
    rights_keep_a_file_open,
    rights_split_a_stream,
    rights_truncated,
    rights_refused,
    rights_peeked,
    rights_lost,
    rights_in_circles,
    rights_in_chains,
    rights_never_received,
    credentials_arrive,
];

const RIGHTS: (i32, i32) = (libc::SOL_SOCKET, libc::SCM_RIGHTS);
const CREDENTIALS: (i32, i32) = (libc::SOL_SOCKET, libc::SCM_CREDENTIALS);

/// An entry of control data.
fn entry((level, kind): (i32, i32), payload: &[u8]) -> Vec<u8> {
    let len = 16 + payload.len();
    let mut bytes = len.to_ne_bytes().to_vec();
    bytes.extend(level.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(payload);
    bytes.resize(len.next_multiple_of(8), 0);
    bytes
}

pub fn rights(fds: &[i32]) -> Vec<u8> {
    let numbers: Vec<u8> = fds.iter().flat_map(|fd| fd.to_ne_bytes()).collect();
    entry(RIGHTS, &numbers)
}

/// sendmsg(2).
pub fn send_with(fd: i32, bytes: &[u8], control: &[u8]) -> Result<usize> {
    let piece = [bytes.as_ptr() as usize, bytes.len()];
    let (pieces, at) = ((&raw const piece) as usize, control.as_ptr() as usize);
    let header = [0, 0, pieces, 1, at, control.len(), 0];
    let flags = (DONTWAIT | libc::MSG_NOSIGNAL) as usize;
    let at = header.as_ptr() as usize;
    call(libc::SYS_sendmsg, [fd as usize, at, flags, 0, 0, 0])
}

/// What recvmsg(2) gives: bytes, entries of control data by kind, flags.
struct Got {
    bytes: Vec<u8>,
    entries: Vec<((i32, i32), Vec<u8>)>,
    flags: i32,
}

impl Got {
    fn fds(&self) -> Vec<i32> {
        let of = self.entries.iter().filter(|(kind, _)| *kind == RIGHTS);
        let number = |b: &[u8]| i32::from_ne_bytes([b[0], b[1], b[2], b[3]]);
        of.flat_map(|(_, bytes)| bytes.chunks(4).map(number))
            .collect()
    }
}

/// recvmsg(2) without waiting, with so much room for bytes and control data.
fn receive(fd: i32, room: usize, control: usize, flags: i32) -> Result<Got> {
    let (mut bytes, mut data) = (vec![0u8; room], vec![0u8; control]);
    let piece = [bytes.as_mut_ptr() as usize, room];
    let (pieces, at) = ((&raw const piece) as usize, data.as_mut_ptr() as usize);
    let mut header = [0, 0, pieces, 1, at, control, 0];
    let at = header.as_mut_ptr() as usize;
    let flags = (flags | DONTWAIT) as usize;
    let n = call(libc::SYS_recvmsg, [fd as usize, at, flags, 0, 0, 0])?;
    let header = std::hint::black_box(header);
    bytes.truncate(n);
    data.truncate(header[5]);
    let mut entries = Vec::new();
    let word = |at: usize| i32::from_ne_bytes([data[at], data[at + 1], data[at + 2], data[at + 3]]);
    let mut at = 0;
    while at + 16 <= data.len() {
        let len = word(at) as usize;
        let kind = (word(at + 8), word(at + 12));
        entries.push((kind, data[at + 16..at + len].to_vec()));
        at += len.next_multiple_of(8);
    }
    Ok(Got {
        bytes,
        entries,
        flags: header[6] as i32,
    })
}

/// How many descriptors are open.
fn open_files() -> Result<usize> {
    Ok((0..256)
        .filter(|fd| file::fcntl(*fd, libc::F_GETFD, 0).is_ok())
        .count())
}

fn rights_arrive() -> Outcome {
    for kind in KINDS {
        let Pair { a, b } = pair(kind)?;
        let (hear, tell) = file::pipe(0)?;
        send_with(a, b"two", &rights(&[hear, tell]))?;
        file::close(hear)?;
        file::close(tell)?;
        let got = receive(b, 9, 64, libc::MSG_CMSG_CLOEXEC)?;
        check_eq!(got.bytes, b"two");
        check_eq!(got.flags, libc::MSG_CMSG_CLOEXEC);
        let [hear, tell] = got.fds()[..] else {
            return Err(userland::harness::Stop::Fail(format!("{:?}", got.entries)));
        };
        check_eq!(file::fcntl(hear, libc::F_GETFD, 0)?, libc::FD_CLOEXEC);
        file::write_all(tell, b"through")?;
        let mut through = [0; 7];
        check_eq!(file::read(hear, &mut through)?, 7);
        check_eq!(&through, b"through");
    }
    Ok(())
}

fn rights_keep_a_file_open() -> Outcome {
    let (Pair { a, b }, (hear, tell)) = (pair(libc::SOCK_STREAM)?, file::pipe(0)?);
    send_with(a, b"x", &rights(&[tell]))?;
    file::close(tell)?;
    // The end does not come while it is on its way.
    check_eq!(file::poll(hear, libc::POLLIN, 0)?, 0);
    let fd = receive(b, 1, 24, 0)?.fds()[0];
    file::close(fd)?;
    check_eq!(file::poll(hear, libc::POLLIN, 0)?, libc::POLLHUP);
    Ok(())
}

fn rights_split_a_stream() -> Outcome {
    let (Pair { a, b }, (hear, tell)) = (pair(libc::SOCK_STREAM)?, file::pipe(0)?);
    send(a, b"before", 0)?;
    send_with(a, b"with", &rights(&[hear]))?;
    send_with(a, b"more", &rights(&[tell]))?;
    send(a, b"after", 0)?;
    let got = receive(b, 64, 64, libc::MSG_WAITALL)?;
    check_eq!((got.bytes, got.entries.len()), (b"beforewith".to_vec(), 1));
    // They come with the first byte of their piece.
    let got = receive(b, 1, 64, 0)?;
    check_eq!((got.bytes, got.entries.len()), (b"m".to_vec(), 1));
    let got = receive(b, 64, 64, 0)?;
    check_eq!((got.bytes, got.entries.len()), (b"oreafter".to_vec(), 0));
    Ok(())
}

fn rights_truncated() -> Outcome {
    let Pair { a, b } = pair(libc::SOCK_SEQPACKET)?;
    let (hear, tell) = file::pipe(0)?;
    let before = open_files()?;
    for (room, arrive) in [(0, 0), (16, 0), (19, 0), (20, 1), (24, 2), (23, 1), (64, 2)] {
        send_with(a, b"x", &rights(&[hear, tell]))?;
        let got = receive(b, 1, room, 0)?;
        let lost = if arrive < 2 { libc::MSG_CTRUNC } else { 0 };
        check_eq!((room, got.fds().len(), got.flags), (room, arrive, lost));
        check_eq!(open_files()?, before + arrive);
        for fd in got.fds() {
            file::close(fd)?;
        }
    }
    // Without control data at all.
    send_with(a, b"x", &rights(&[hear]))?;
    check_eq!(next(b)?, b"x");
    check_eq!(open_files()?, before);
    Ok(())
}

fn rights_refused() -> Outcome {
    for kind in KINDS {
        let (Pair { a, b }, (hear, _tell)) = (pair(kind)?, file::pipe(0)?);
        check_err!(send_with(a, b"x", &rights(&[hear, 1000])), EBADF);
        check_err!(send_with(a, b"x", &rights(&[-1])), EBADF);
        check_err!(send_with(a, b"x", &rights(&[hear; 254])), EINVAL);
        check_err!(
            send_with(a, b"x", &entry((libc::SOL_SOCKET, 77), b"")),
            EINVAL
        );
        let mut wrong = rights(&[hear]);
        wrong[0] = 15;
        check_err!(send_with(a, b"x", &wrong), EINVAL);
        wrong[0] = 25;
        check_err!(send_with(a, b"x", &wrong), EINVAL);
        // Nothing arrived; another level's are not looked at.
        check_err!(next(b), EAGAIN);
        send_with(a, b"x", &entry((77, 1), b"abcd"))?;
        check!(receive(b, 1, 64, 0)?.entries.is_empty());
        send_with(a, b"x", &rights(&[hear; 253]))?;
        let got = receive(b, 1, 2048, 0)?;
        check_eq!(got.fds().len(), 253);
        for fd in got.fds() {
            file::close(fd)?;
        }
    }
    Ok(())
}

fn rights_peeked() -> Outcome {
    for kind in KINDS {
        let (Pair { a, b }, (hear, _tell)) = (pair(kind)?, file::pipe(0)?);
        send_with(a, b"x", &rights(&[hear]))?;
        check_eq!(receive(b, 1, 64, libc::MSG_PEEK)?.fds().len(), 1);
        check_eq!(receive(b, 1, 64, 0)?.fds().len(), 1);
    }
    Ok(())
}

fn rights_lost() -> Outcome {
    // The receiver is closed: what was on its way is closed.
    for kind in KINDS {
        let (Pair { a, b }, (hear, tell)) = (pair(kind)?, file::pipe(0)?);
        send_with(a, b"x", &rights(&[tell]))?;
        file::close(tell)?;
        check_eq!(file::poll(hear, libc::POLLIN, 0)?, 0);
        file::close(b)?;
        check_eq!(file::poll(hear, libc::POLLIN, 0)?, libc::POLLHUP);
        check!(send_with(a, b"x", &rights(&[hear])).is_err());
    }
    Ok(())
}

/// Sockets on their way into themselves and into each other, with what else is in there.
fn rights_in_circles() -> Outcome {
    let (hear, tell) = file::pipe(0)?;
    for kind in KINDS {
        for _ in 0..20 {
            let Pair { a, b } = pair(kind)?;
            send_with(a, b"itself", &rights(&[b, tell]))?;
            send_with(b, b"other", &rights(&[a, b]))?;
            let Pair { a: c, b: d } = pair(kind)?;
            send_with(a, b"more", &rights(&[c, d]))?;
            send_with(c, b"back", &rights(&[a, b]))?;
            for fd in [a, b, c, d] {
                file::close(fd)?;
            }
        }
    }
    file::close(tell)?;
    // They are closed at the latest when another socket is, or when more take off.
    let Pair { a, b } = pair(libc::SOCK_STREAM)?;
    file::close(a)?;
    file::close(b)?;
    check_eq!(file::poll(hear, libc::POLLIN, 2000)?, libc::POLLHUP);
    // One that can be reached is not taken for lost.
    let Pair { a, b } = pair(libc::SOCK_STREAM)?;
    let Pair { a: c, b: d } = pair(libc::SOCK_STREAM)?;
    send_with(a, b"c", &rights(&[c]))?;
    send_with(d, b"b", &rights(&[a]))?;
    file::close(a)?;
    file::close(c)?;
    file::close(d)?;
    let c = receive(b, 9, 64, 0)?.fds()[0];
    let a = receive(c, 9, 64, 0)?.fds()[0];
    send(a, b"there", 0)?;
    check_eq!(next(b)?, b"there");
    Ok(())
}

/// Each in a message of the next: they are closed one after the other.
fn rights_in_chains() -> Outcome {
    let (hear, tell) = file::pipe(0)?;
    let mut last = tell;
    for _ in 0..300 {
        let Pair { a, b } = pair(libc::SOCK_DGRAM)?;
        send_with(a, b"x", &rights(&[last]))?;
        file::close(last)?;
        file::close(a)?;
        last = b;
    }
    check_eq!(file::poll(hear, libc::POLLIN, 0)?, 0);
    file::close(last)?;
    check_eq!(file::poll(hear, libc::POLLIN, 2000)?, libc::POLLHUP);
    Ok(())
}

/// A process ends with files on their way.
fn rights_never_received() -> Outcome {
    let (hear, tell) = file::pipe(0)?;
    let status = in_child(|| {
        let Pair { a, b } = pair(libc::SOCK_STREAM)?;
        send_with(a, b"x", &rights(&[tell, hear, a]))?;
        send_with(b, b"x", &rights(&[tell]))?;
        Ok(0)
    })?;
    check_eq!(status, Status::Exited(0));
    file::close(tell)?;
    check_eq!(file::poll(hear, libc::POLLIN, 2000)?, libc::POLLHUP);
    Ok(())
}

fn credentials_arrive() -> Outcome {
    let me = proc::getpid();
    for kind in KINDS {
        let Pair { a, b } = pair(kind)?;
        let on = 1i32;
        let (level, option) = (libc::SOL_SOCKET as usize, libc::SO_PASSCRED as usize);
        let at = (&raw const on) as usize;
        call(libc::SYS_setsockopt, [b as usize, level, option, at, 4, 0])?;
        send(a, b"x", 0)?;
        let got = receive(b, 1, 64, 0)?;
        check_eq!(got.entries.len(), 1);
        let (is, bytes) = &got.entries[0];
        check_eq!(*is, CREDENTIALS);
        check_eq!(bytes[..4], me.to_ne_bytes());
        check_eq!(bytes[4..8], proc::geteuid().to_ne_bytes());
        // Said by the sender, who may.
        let own = bytes.clone();
        send_with(a, b"x", &entry(CREDENTIALS, &own))?;
        check_eq!(&receive(b, 1, 64, 0)?.entries[0].1, &own);
        check_err!(send_with(a, b"x", &entry(CREDENTIALS, &own[..8])), EINVAL);
    }
    Ok(())
}
