//! Real-time signals without end, in every way to send one, to a thread that has them blocked.
use super::Outcome;
use userland::sys::{Errno, Result, call, proc, sig};

/// A real-time signal that no library uses.
const SIGNAL: usize = 40;
/// As many of each way, if they are taken.
const MANY: u64 = 100_000;
/// struct siginfo with si_code SI_QUEUE (-1).
const INFO: [u32; 32] = {
    let mut info = [0; 32];
    info[0] = SIGNAL as u32;
    info[2] = u32::MAX;
    info
};

/// A way to send it to the caller.
struct Send {
    name: &'static str,
    call: fn(pidfd: usize) -> Result<usize>,
    /// It is refused at the limit; kill(2)'s pends then and says nothing.
    refused: bool,
}

fn me() -> usize {
    proc::getpid() as usize
}

const SENDS: &[Send] = &[
    Send {
        name: "kill",
        call: |_| call(libc::SYS_kill, [me(), SIGNAL, 0, 0, 0, 0]),
        refused: false,
    },
    Send {
        name: "tkill",
        call: |_| call(libc::SYS_tkill, [me(), SIGNAL, 0, 0, 0, 0]),
        refused: true,
    },
    Send {
        name: "tgkill",
        call: |_| call(libc::SYS_tgkill, [me(), me(), SIGNAL, 0, 0, 0]),
        refused: true,
    },
    Send {
        name: "rt_sigqueueinfo",
        call: |_| {
            let info = INFO.as_ptr() as usize;
            call(libc::SYS_rt_sigqueueinfo, [me(), SIGNAL, info, 0, 0, 0])
        },
        refused: true,
    },
    Send {
        name: "rt_tgsigqueueinfo",
        call: |_| {
            let info = INFO.as_ptr() as usize;
            call(
                libc::SYS_rt_tgsigqueueinfo,
                [me(), me(), SIGNAL, info, 0, 0],
            )
        },
        refused: true,
    },
    Send {
        name: "pidfd_send_signal",
        call: |fd| call(libc::SYS_pidfd_send_signal, [fd, SIGNAL, 0, 0, 0, 0]),
        refused: false,
    },
    Send {
        name: "pidfd_send_signal with siginfo",
        call: |fd| {
            let info = INFO.as_ptr() as usize;
            call(libc::SYS_pidfd_send_signal, [fd, SIGNAL, info, 0, 0, 0])
        },
        refused: true,
    },
];

/// Up to RLIMIT_SIGPENDING as it is, and with the word `memory` without limit.
pub fn queue(words: &[String]) -> Outcome {
    let unlimited = words.first().is_some_and(|word| word == "memory");
    ways(unlimited).map_err(|error| format!("{error}"))?
}

fn ways(unlimited: bool) -> Result<Outcome> {
    sig::mask(libc::SIG_BLOCK, &[SIGNAL as i32])?;
    let limit = if unlimited {
        proc::setrlimit(libc::RLIMIT_SIGPENDING, u64::MAX, u64::MAX)?;
        u64::MAX
    } else {
        proc::getrlimit(libc::RLIMIT_SIGPENDING)?.0
    };
    let pidfd = call(libc::SYS_pidfd_open, [me(), 0, 0, 0, 0, 0])?;
    let mut sent = 0;
    for send in SENDS {
        let many = if unlimited && send.refused {
            u64::MAX
        } else {
            MANY
        };
        let (mut taken, mut why) = (0, None);
        while taken < many && why.is_none() {
            match (send.call)(pidfd) {
                Ok(_) => taken += 1,
                Err(error) => why = Some(error),
            }
        }
        println!("abuse: {}: {taken} taken, then {why:?}", send.name);
        let right = match why {
            None => !send.refused,
            Some(error) => send.refused && error == Errno(libc::EAGAIN),
        };
        if !right || send.refused && taken > limit {
            return Ok(Err(format!("{}: {taken} taken, then {why:?}", send.name)));
        }
        sent += taken;
    }
    Ok(Ok(format!("{sent} signals taken")))
}
