//! The options of a socket, socket(7). Those that only matter to a network are stored and returned.

use super::Style;
use crate::base::errno::{Errno, Result};

/// SOL_SOCKET's numbers, which no header of system calls has.
const SO_REUSEADDR: u32 = 2;
const SO_TYPE: u32 = 3;
pub(super) const SO_ERROR: u32 = 4;
const SO_DONTROUTE: u32 = 5;
const SO_BROADCAST: u32 = 6;
const SO_SNDBUF: u32 = 7;
const SO_RCVBUF: u32 = 8;
const SO_KEEPALIVE: u32 = 9;
const SO_OOBINLINE: u32 = 10;
const SO_PRIORITY: u32 = 12;
const SO_LINGER: u32 = 13;
const SO_PASSCRED: u32 = 16;
const SO_PEERCRED: u32 = 17;
const SO_RCVLOWAT: u32 = 18;
const SO_RCVTIMEO: u32 = 20;
const SO_SNDTIMEO: u32 = 21;
const SO_TIMESTAMP: u32 = 29;
pub(super) const SO_ACCEPTCONN: u32 = 30;
const SO_PROTOCOL: u32 = 38;
const SO_DOMAIN: u32 = 39;

const AF_UNIX: i32 = 1;

/// Bytes that a side may have sent and the other not read: /proc/sys/net/core/wmem_default.
const DEFAULT_SPACE: i32 = 208 << 10;
/// What SO_SNDBUF and SO_RCVBUF take at most, and at least; Linux doubles what is asked for.
const MAX_SPACE: i32 = 2 * DEFAULT_SPACE;
const MIN_SEND: i32 = 4608;
const MIN_RECEIVE: i32 = 2304;

/// An option's value, as getsockopt(2) copies it.
#[derive(Clone, Copy)]
pub enum OptionValue {
    /// `int`.
    Number(i32),
    /// `struct linger`: on, seconds.
    Linger([i32; 2]),
    /// `struct timeval`: seconds, microseconds.
    Time([i64; 2]),
    /// SO_PEERCRED: which process, user and group made the pair.
    Peer,
}

/// The options that can be set.
#[derive(Clone, Copy)]
pub struct Options {
    send_space: i32,
    receive_space: i32,
    receive_timeout: [i64; 2],
    send_timeout: [i64; 2],
    linger: [i32; 2],
    priority: i32,
    low_water: i32,
    /// Those that are on or off: bit N is option N.
    switches: u32,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            send_space: DEFAULT_SPACE,
            receive_space: DEFAULT_SPACE,
            receive_timeout: [0; 2],
            send_timeout: [0; 2],
            linger: [0; 2],
            priority: 0,
            low_water: 1,
            switches: 0,
        }
    }
}

fn is_switch(option: u32) -> bool {
    matches!(
        option,
        SO_REUSEADDR
            | SO_DONTROUTE
            | SO_BROADCAST
            | SO_KEEPALIVE
            | SO_OOBINLINE
            | SO_PASSCRED
            | SO_TIMESTAMP
    )
}

/// Nanoseconds of a time; `None` for 0, which means for ever.
fn nanoseconds([seconds, micros]: [i64; 2]) -> Option<u64> {
    let ns = (seconds.max(0) as u64)
        .saturating_mul(1_000_000_000)
        .saturating_add(micros as u64 * 1000);
    (ns > 0).then_some(ns)
}

impl Options {
    /// Bytes that may be sent and not read.
    pub fn send_space(&self) -> usize {
        self.send_space as usize
    }

    /// SO_PASSCRED: messages show who sent them.
    pub fn passes_credentials(&self) -> bool {
        self.switches >> SO_PASSCRED & 1 != 0
    }

    /// How long receiving waits, in ns; `None`: for ever.
    pub fn receive_timeout(&self) -> Option<u64> {
        nanoseconds(self.receive_timeout)
    }

    /// How long sending waits, in ns; `None`: for ever.
    pub fn send_timeout(&self) -> Option<u64> {
        nanoseconds(self.send_timeout)
    }

    /// getsockopt(2) of SOL_SOCKET. ENOPROTOOPT.
    pub fn get(&self, style: Style, option: u32) -> Result<OptionValue> {
        use OptionValue::{Linger, Number, Peer, Time};
        Ok(match option {
            SO_TYPE => Number(match style {
                Style::Stream => 1,
                Style::Datagram => 2,
                Style::Packets => 5,
            }),
            SO_DOMAIN => Number(AF_UNIX),
            SO_PROTOCOL => Number(0),
            SO_SNDBUF => Number(self.send_space),
            SO_RCVBUF => Number(self.receive_space),
            SO_PRIORITY => Number(self.priority),
            SO_RCVLOWAT => Number(self.low_water),
            SO_LINGER => Linger(self.linger),
            SO_RCVTIMEO => Time(self.receive_timeout),
            SO_SNDTIMEO => Time(self.send_timeout),
            SO_PEERCRED => Peer,
            switch if is_switch(switch) => Number((self.switches >> switch & 1) as i32),
            _ => return Err(Errno::ENOPROTOOPT),
        })
    }

    /// The form in which setsockopt(2) reads an option. ENOPROTOOPT for one that cannot be set.
    pub fn form(option: u32) -> Result<OptionValue> {
        match option {
            SO_RCVTIMEO | SO_SNDTIMEO => Ok(OptionValue::Time([0; 2])),
            SO_LINGER => Ok(OptionValue::Linger([0; 2])),
            SO_SNDBUF | SO_RCVBUF | SO_PRIORITY | SO_RCVLOWAT => Ok(OptionValue::Number(0)),
            switch if is_switch(switch) => Ok(OptionValue::Number(0)),
            _ => Err(Errno::ENOPROTOOPT),
        }
    }

    /// setsockopt(2) of SOL_SOCKET, with a value of the option's form. EDOM for an invalid time.
    pub fn set(&mut self, option: u32, value: OptionValue) -> Result {
        let doubled = |n: i32, min: i32| (2 * n.clamp(0, MAX_SPACE / 2)).max(min);
        match (option, value) {
            (SO_RCVTIMEO | SO_SNDTIMEO, OptionValue::Time([_, micros]))
                if !(0..1_000_000).contains(&micros) =>
            {
                return Err(Errno::EDOM);
            }
            (SO_RCVTIMEO, OptionValue::Time(time)) => self.receive_timeout = time,
            (SO_SNDTIMEO, OptionValue::Time(time)) => self.send_timeout = time,
            (SO_LINGER, OptionValue::Linger(linger)) => self.linger = linger,
            (SO_SNDBUF, OptionValue::Number(n)) => self.send_space = doubled(n, MIN_SEND),
            (SO_RCVBUF, OptionValue::Number(n)) => self.receive_space = doubled(n, MIN_RECEIVE),
            (SO_PRIORITY, OptionValue::Number(n)) => self.priority = n,
            (SO_RCVLOWAT, OptionValue::Number(n)) => self.low_water = n.max(1),
            (switch, OptionValue::Number(n)) => {
                self.switches = self.switches & !(1 << switch) | u32::from(n != 0) << switch;
            }
            _ => return Err(Errno::ENOPROTOOPT),
        }
        Ok(())
    }
}
