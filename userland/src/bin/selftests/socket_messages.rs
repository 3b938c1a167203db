//! Messages of sockets: sendmsg(2), recvmsg(2) and many at once, what goes with them, and their
//! addresses.
use crate::sockets::{DONTWAIT, KINDS, Pair, next, pair, send};
use userland::harness::Outcome;
use userland::sys::{Result, call};
use userland::{check_eq, check_err};

userland::tests![
    socket_messages_in_pieces,
    socket_many_messages,
    socket_many_messages_of_many_pieces,
    socket_addresses,
];

/// `struct msghdr` without an address and without control data, in words.
fn header(pieces: &[[usize; 2]]) -> [usize; 7] {
    [0, 0, pieces.as_ptr() as usize, pieces.len(), 0, 0, 0x77]
}

fn piece(bytes: &[u8]) -> [usize; 2] {
    [bytes.as_ptr() as usize, bytes.len()]
}

fn message(nr: i64, fd: i32, header: &mut [usize; 7], flags: i32) -> Result<usize> {
    let at = header.as_mut_ptr() as usize;
    call(nr, [fd as usize, at, flags as usize, 0, 0, 0])
}

fn socket_messages_in_pieces() -> Outcome {
    for kind in KINDS {
        let Pair { a, b } = pair(kind)?;
        let pieces = [piece(b"abc"), piece(b"defg")];
        let mut to_send = header(&pieces);
        check_eq!(message(libc::SYS_sendmsg, a, &mut to_send, 0)?, 7);
        let room = [0u8; 8];
        let places = [piece(&room[..2]), piece(&room[5..])];
        let mut got = header(&places);
        let mut name = [7u8; 16];
        (got[0], got[1]) = (name.as_mut_ptr() as usize, name.len());
        check_eq!(message(libc::SYS_recvmsg, b, &mut got, DONTWAIT)?, 5);
        check_eq!(std::hint::black_box(&room), b"ab\0\0\0cde");
        // No sender's name, and whether something was lost.
        check_eq!(got[1] as u32, 0);
        let lost = if kind == libc::SOCK_STREAM {
            0
        } else {
            libc::MSG_TRUNC
        };
        check_eq!(got[6] as i32, lost);
        match kind {
            libc::SOCK_STREAM => check_eq!(next(b)?, b"fg"),
            _ => check_err!(next(b), EAGAIN),
        }
        got[1] = u32::MAX as usize;
        check_err!(message(libc::SYS_recvmsg, b, &mut got, DONTWAIT), EINVAL);
        to_send[3] = 2000;
        check_err!(message(libc::SYS_sendmsg, a, &mut to_send, 0), EMSGSIZE);
        let nowhere = call(libc::SYS_sendmsg, [a as usize, 8, 0, 0, 0, 0]);
        check_err!(nowhere, EFAULT);
    }
    Ok(())
}

fn socket_many_messages() -> Outcome {
    let Pair { a, b } = pair(libc::SOCK_SEQPACKET)?;
    let (one, two) = ([piece(b"first")], [piece(b"second")]);
    let with_length = |pieces: &[[usize; 2]]| {
        let [n, nl, p, c, ctl, cl, f] = header(pieces);
        [n, nl, p, c, ctl, cl, f, 0]
    };
    let mut list = [with_length(&one), with_length(&two)];
    let many = |nr, fd: i32, list: &mut [[usize; 8]], count, flags: i32| {
        let at = list.as_mut_ptr() as usize;
        call(nr, [fd as usize, at, count, flags as usize, 0, 0])
    };
    check_eq!(many(libc::SYS_sendmmsg, a, &mut list, 2, 0)?, 2);
    check_eq!([list[0][7], list[1][7]], [5, 6]);
    let rooms = [[0u8; 8]; 3];
    let places = rooms.each_ref().map(|room| [piece(room)]);
    let mut list = places.each_ref().map(|place| with_length(place));
    check_eq!(
        many(libc::SYS_recvmmsg, b, &mut list, 3, libc::MSG_WAITFORONE)?,
        2
    );
    check_eq!([list[0][7], list[1][7]], [5, 6]);
    check_eq!(&std::hint::black_box(&rooms)[1][..6], b"second");
    check_err!(many(libc::SYS_recvmmsg, b, &mut list, 3, DONTWAIT), EAGAIN);
    Ok(())
}

/// As many as there may be: a million pieces in one call, all empty.
fn socket_many_messages_of_many_pieces() -> Outcome {
    const MOST: usize = 1024;
    let Pair { a, b } = pair(libc::SOCK_STREAM)?;
    let pieces = vec![piece(b""); MOST];
    let [n, nl, p, c, ctl, cl, f] = header(&pieces);
    let mut list = vec![[n, nl, p, c, ctl, cl, f, 7]; MOST];
    let at = list.as_mut_ptr() as usize;
    let sent = call(libc::SYS_sendmmsg, [a as usize, at, MOST, 0, 0, 0])?;
    check_eq!(sent, MOST);
    check_eq!(list.iter().filter(|entry| entry[7] == 0).count(), MOST);
    check_err!(next(b), EAGAIN);
    Ok(())
}

fn socket_addresses() -> Outcome {
    for kind in KINDS {
        let Pair { a, b } = pair(kind)?;
        for nr in [libc::SYS_getsockname, libc::SYS_getpeername] {
            let name = |room: i32| -> Result<([u8; 4], i32)> {
                let (mut name, mut len) = ([7u8; 4], room);
                let (at, len_at) = (name.as_mut_ptr() as usize, &raw mut len as usize);
                call(nr, [a as usize, at, len_at, 0, 0, 0])?;
                Ok((std::hint::black_box(name), std::hint::black_box(len)))
            };
            check_eq!(name(4)?, ([libc::AF_UNIX as u8, 0, 7, 7], 2));
            check_eq!(name(1)?, ([libc::AF_UNIX as u8, 7, 7, 7], 2));
            check_err!(name(-1), EINVAL);
        }
        // A receiver although there is one.
        let mut address = [0u8; 128];
        address[0] = libc::AF_UNIX as u8;
        address[2..10].copy_from_slice(b"/nowhere");
        let send_to = |len: usize| {
            let at = address.as_ptr() as usize;
            call(libc::SYS_sendto, [a as usize, at, 1, 0, at, len])
        };
        check_err!(send_to(200), EINVAL);
        let nowhere = call(
            libc::SYS_sendto,
            [a as usize, address.as_ptr() as usize, 1, 0, 8, 16],
        );
        check_err!(nowhere, EFAULT);
        match kind {
            libc::SOCK_STREAM => check_err!(send_to(20), EISCONN),
            libc::SOCK_DGRAM => {
                check_err!(send_to(1), EINVAL);
                check_err!(send_to(20), ENOENT);
            }
            _ => check_eq!(send_to(20)?, 1),
        }
        // A received message has no sender's name.
        send(a, b"x", 0)?;
        let (mut name, mut len, mut byte) = ([7u8; 16], 16i32, [0u8; 1]);
        let (at, len_at) = (name.as_mut_ptr() as usize, &raw mut len as usize);
        let byte_at = byte.as_mut_ptr() as usize;
        check_eq!(
            call(libc::SYS_recvfrom, [b as usize, byte_at, 1, 0, at, len_at])?,
            1
        );
        check_eq!(
            (std::hint::black_box(name), std::hint::black_box(len)),
            ([7; 16], 0)
        );
    }
    Ok(())
}
