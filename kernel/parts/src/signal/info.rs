//! siginfo_t.

use super::{SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGTRAP};
use linux_raw_sys::general as abi;

/// What comes with a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SigInfo {
    /// Its number.
    pub signo: i32,
    /// si_code: where it comes from or what happened.
    pub code: i32,
    /// The rest, by kind.
    pub fields: Fields,
}

/// The part of siginfo_t that depends on the kind of signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fields {
    /// kill and its like: the sender.
    Sender {
        /// si_pid
        pid: i32,
        /// si_uid
        uid: u32,
    },
    /// sigqueue: the sender, and a value.
    Value {
        /// si_pid
        pid: i32,
        /// si_uid
        uid: u32,
        /// si_value
        value: u64,
    },
    /// timer_create: the timer, and a value.
    Timer {
        /// si_timerid
        number: i32,
        /// si_overrun
        overrun: i32,
        /// si_value
        value: u64,
    },
    /// SIGCHLD.
    Child {
        /// si_pid
        pid: i32,
        /// si_uid
        uid: u32,
        /// si_status: exit status or signal
        status: i32,
        /// si_utime, in clock ticks of 10 ms
        utime: u64,
        /// si_stime
        stime: u64,
    },
    /// A fault: where.
    Fault {
        /// si_addr
        addr: u64,
        /// si_addr_lsb: log2 of the bytes that are lost, of a memory error
        lsb: u16,
        /// si_pkey, of a fault by a protection key
        key: u8,
    },
}

impl SigInfo {
    /// From the kernel itself (SI_KERNEL).
    pub fn kernel(signo: i32) -> Self {
        Self {
            signo,
            code: abi::SI_KERNEL as i32,
            fields: Fields::Sender { pid: 0, uid: 0 },
        }
    }

    /// A fault of the running thread at `addr`.
    pub fn fault(signo: i32, code: u32, addr: u64) -> Self {
        Self {
            signo,
            code: code as i32,
            fields: Fields::Fault {
                addr,
                lsb: 0,
                key: 0,
            },
        }
    }

    /// A memory error that the running thread met at `addr`: so many bytes are lost, a power of
    /// two.
    pub fn memory_error(addr: u64, bytes: u64) -> Self {
        let lsb = bytes.trailing_zeros() as u16;
        Self {
            signo: SIGBUS,
            code: abi::BUS_MCEERR_AR as i32,
            fields: Fields::Fault { addr, lsb, key: 0 },
        }
    }

    /// The running thread's register of protection keys refuses its use of `addr`.
    pub fn key_fault(addr: u64, key: u8) -> Self {
        Self {
            signo: SIGSEGV,
            code: abi::SEGV_PKUERR as i32,
            fields: Fields::Fault { addr, lsb: 0, key },
        }
    }

    /// What sigqueue hands over: `struct siginfo` as the user wrote it, of which si_code, si_pid,
    /// si_uid and si_value count.
    pub fn from_user(signo: i32, bytes: &[u8; 128]) -> Self {
        let word = |at: usize| {
            i32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let value = (word(24) as u32 as u64) | ((word(28) as u32 as u64) << 32);
        Self {
            signo,
            code: word(8),
            fields: Fields::Value {
                pid: word(16),
                uid: word(20) as u32,
                value,
            },
        }
    }

    /// The fault address, 0 when it is not a fault.
    pub fn fault_addr(&self) -> u64 {
        match (self.fields, self.signo) {
            (Fields::Fault { addr, .. }, SIGSEGV | SIGBUS | SIGILL | SIGFPE | SIGTRAP) => addr,
            _ => 0,
        }
    }

    /// `struct siginfo` of a 64-bit machine: signo, errno, code, then the kind's fields from byte
    /// 16.
    pub fn to_bytes(self) -> [u8; 128] {
        let mut bytes = [0; 128];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &self.signo.to_ne_bytes());
        put(8, &self.code.to_ne_bytes());
        match self.fields {
            Fields::Sender { pid, uid } => {
                put(16, &pid.to_ne_bytes());
                put(20, &uid.to_ne_bytes());
            }
            Fields::Value { pid, uid, value } => {
                put(16, &pid.to_ne_bytes());
                put(20, &uid.to_ne_bytes());
                put(24, &value.to_ne_bytes());
            }
            Fields::Timer {
                number,
                overrun,
                value,
            } => {
                put(16, &number.to_ne_bytes());
                put(20, &overrun.to_ne_bytes());
                put(24, &value.to_ne_bytes());
            }
            Fields::Child {
                pid,
                uid,
                status,
                utime,
                stime,
            } => {
                put(16, &pid.to_ne_bytes());
                put(20, &uid.to_ne_bytes());
                put(24, &status.to_ne_bytes());
                put(32, &utime.to_ne_bytes());
                put(40, &stime.to_ne_bytes());
            }
            Fields::Fault { addr, lsb, key } => {
                put(16, &addr.to_ne_bytes());
                put(24, &lsb.to_ne_bytes());
                put(32, &u32::from(key).to_ne_bytes());
            }
        }
        bytes
    }
}

/// `struct signalfd_siginfo`.
pub type FdInfo = [u8; 128];

impl SigInfo {
    /// What signalfd(2) reads.
    pub fn to_fd_bytes(self) -> FdInfo {
        let mut bytes = [0; 128];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &self.signo.to_ne_bytes());
        put(8, &self.code.to_ne_bytes());
        let sender = match self.fields {
            Fields::Sender { pid, uid } => Some((pid, uid)),
            Fields::Value { pid, uid, value } => {
                put(44, &(value as i32).to_ne_bytes());
                put(48, &value.to_ne_bytes());
                Some((pid, uid))
            }
            Fields::Child {
                pid,
                uid,
                status,
                utime,
                stime,
            } => {
                put(40, &status.to_ne_bytes());
                put(56, &utime.to_ne_bytes());
                put(64, &stime.to_ne_bytes());
                Some((pid, uid))
            }
            Fields::Timer {
                number,
                overrun,
                value,
            } => {
                put(24, &number.to_ne_bytes());
                put(32, &overrun.to_ne_bytes());
                put(44, &(value as i32).to_ne_bytes());
                put(48, &value.to_ne_bytes());
                None
            }
            Fields::Fault { addr, lsb, .. } => {
                put(72, &addr.to_ne_bytes());
                put(80, &lsb.to_ne_bytes());
                None
            }
        };
        if let Some((pid, uid)) = sender {
            put(12, &pid.to_ne_bytes());
            put(16, &uid.to_ne_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_sigqueue_hands_over_comes_out_again() {
        let fields = Fields::Value {
            pid: -7,
            uid: 1000,
            value: 0x1122_3344_8899_aabb,
        };
        let sent = SigInfo {
            signo: 34,
            code: abi::SI_QUEUE,
            fields,
        };
        let bytes = sent.to_bytes();
        assert_eq!(SigInfo::from_user(34, &bytes), sent);
        // The number is the call's, whatever the structure says.
        assert_eq!(SigInfo::from_user(35, &bytes).signo, 35);
    }

    #[test]
    fn signalfd_reads_what_came_with_a_signal() {
        let word = |bytes: &FdInfo, at: usize| {
            i32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
        };
        let read = |code, fields| {
            SigInfo {
                signo: 40,
                code,
                fields,
            }
            .to_fd_bytes()
        };
        let value = Fields::Value {
            pid: 7,
            uid: 8,
            value: 9,
        };
        let queued = read(abi::SI_QUEUE, value);
        assert_eq!(
            [0, 8, 12, 16, 44, 48].map(|at| word(&queued, at)),
            [40, abi::SI_QUEUE, 7, 8, 9, 9]
        );
        let timer = Fields::Timer {
            number: 3,
            overrun: 4,
            value: 5,
        };
        let ran_out = read(abi::SI_TIMER, timer);
        assert_eq!([12, 24, 32, 44].map(|at| word(&ran_out, at)), [0, 3, 4, 5]);
        let child = Fields::Child {
            pid: 7,
            uid: 8,
            status: 9,
            utime: 10,
            stime: 11,
        };
        let ended = read(abi::CLD_EXITED as i32, child);
        assert_eq!(
            [12, 16, 40, 56, 64].map(|at| word(&ended, at)),
            [7, 8, 9, 10, 11]
        );
        let fields = Fields::Fault {
            addr: 0x1234,
            lsb: 21,
            key: 0,
        };
        let fault = read(1, fields);
        let words = [12, 72, 80].map(|at| word(&fault, at));
        assert_eq!(words, [0, 0x1234, 21]);
    }

    #[test]
    fn a_fault_by_a_key_names_it() {
        let bytes = SigInfo::key_fault(0x1234, 5).to_bytes();
        assert_eq!(bytes[8..12], 4i32.to_ne_bytes());
        assert_eq!(bytes[16..24], 0x1234u64.to_ne_bytes());
        assert_eq!(bytes[32..36], 5u32.to_ne_bytes());
    }

    #[test]
    fn only_a_fault_has_an_address() {
        let fault = SigInfo::fault(SIGSEGV, abi::SEGV_MAPERR, 0x1234);
        assert_eq!(fault.fault_addr(), 0x1234);
        assert_eq!(fault.to_bytes()[16..24], 0x1234u64.to_ne_bytes());
        assert_eq!(SigInfo::kernel(SIGSEGV).fault_addr(), 0);
        let error = SigInfo::memory_error(0x5678, 4096);
        assert_eq!(error.fault_addr(), 0x5678);
        assert_eq!(error.to_bytes()[24..26], 12u16.to_ne_bytes());
    }
}
