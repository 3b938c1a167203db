//! The terminal: one serial line, called console, tty and ttyS0 or ttyAMA0. The line discipline is
//! `parts::line`.

mod ioctl;

use crate::arch;
use crate::base::Pid;
use crate::base::above::Above;
use crate::base::cmdline;
use crate::base::console;
use crate::base::errno::{Errno, Result};
use crate::base::ranks;
use crate::fs::caller::{Caller, Ids};
use crate::fs::open::io::{Sink, Source};
use crate::fs::open::ops::{At, FileOps, Ready};
use crate::sched::timers;
use crate::sched::wait::WaitQueue;
use alloc::sync::Arc;
use alloc::vec::Vec;
use mm::sync::Lock;
use parts::line::{Line, Signal};
use parts::signal;
use spin::Once;

/// Output is processed in pieces of this size.
const PIECE: usize = 1024;

/// The one terminal.
struct Terminal {
    state: Lock<TerminalState, { ranks::TTY }>,
    /// Input has come.
    readable: WaitQueue,
    /// ^Q was typed, or the settings have changed.
    writable: WaitQueue,
}

struct TerminalState {
    line: Line,
    /// Rows, columns, and two unused words.
    window: [u16; 4],
    /// The session whose terminal it is; 0 for none.
    session: Pid,
    /// The process group that ^C goes to; 0 for none.
    foreground: Pid,
}

impl TerminalState {
    /// Whether it is the session's terminal.
    fn belongs_to(&self, sid: Pid) -> bool {
        self.session != 0 && self.session == sid
    }

    /// Becomes the terminal of a process's session, with its group in the foreground.
    fn give_to(&mut self, ids: &Ids) {
        (self.session, self.foreground) = (ids.sid, ids.pgid);
    }
}

/// The terminal.
fn terminal() -> &'static Terminal {
    static TERMINAL: Once<Terminal> = Once::new();
    TERMINAL.call_once(|| {
        let size = cmdline::get().window;
        let [rows, columns] = size.unwrap_or_else(console::size);
        Terminal {
            state: Lock::new(TerminalState {
                line: Line::default(),
                window: [rows, columns, 0, 0],
                session: 0,
                foreground: 0,
            }),
            readable: WaitQueue::new(),
            writable: WaitQueue::new(),
        }
    })
}

/// An open terminal.
struct Tty;

/// Opens the terminal; with `acquire`, it becomes that of a session leader that has none.
pub fn open(acquire: bool) -> Arc<dyn FileOps> {
    let mut state = terminal().state.lock();
    if acquire && state.session == 0 {
        drop(state);
        let caller = Above::ids();
        state = terminal().state.lock();
        if caller.leads_session() {
            state.give_to(&caller);
        }
    }
    Arc::new(Tty)
}

/// /dev/tty: ENXIO for a process without a terminal.
pub fn open_own() -> Result<Arc<dyn FileOps>> {
    let sid = Above::ids().sid;
    if terminal().state.lock().belongs_to(sid) {
        Ok(Arc::new(Tty))
    } else {
        Err(Errno::ENXIO)
    }
}

/// The foreground process group of a session, as /proc/PID/stat shows it; `None` without a
/// terminal.
pub fn foreground_of(sid: Pid) -> Option<Pid> {
    let state = terminal().state.lock();
    state.belongs_to(sid).then_some(state.foreground)
}

/// A session leader has ended: its terminal is free, and the foreground group gets SIGHUP and
/// SIGCONT.
pub fn session_ended(sid: Pid) {
    let mut state = terminal().state.lock();
    if state.session != sid {
        return;
    }
    let foreground = core::mem::take(&mut state.foreground);
    state.session = 0;
    drop(state);
    if foreground != 0 {
        Above::signal_group(foreground, signal::SIGHUP);
        Above::signal_group(foreground, signal::SIGCONT);
    }
}

/// Takes what has arrived on the serial line: echo, editing, signals, and waking of readers.
pub fn receive_pending() {
    let mut echo = Vec::new();
    let mut arrived = false;
    while let Some(byte) = arch::serial::read() {
        arrived = true;
        let mut state = terminal().state.lock();
        let signal = state.line.receive(byte, &mut echo);
        let foreground = state.foreground;
        drop(state);
        if let Some(signal) = signal
            && foreground != 0
        {
            Above::signal_group(foreground, number_of(signal));
        }
        console::write(&echo);
        echo.clear();
    }
    if arrived {
        terminal().readable.wake_all();
        terminal().writable.wake_all();
    }
}

fn number_of(signal: Signal) -> i32 {
    match signal {
        Signal::Interrupt => signal::SIGINT,
        Signal::Quit => signal::SIGQUIT,
        Signal::Suspend => signal::SIGTSTP,
    }
}

/// Raw mode: what VMIN and VTIME ask a read for.
struct RawWait {
    least: usize,
    /// ns; 0 for none.
    time: u64,
}

impl Terminal {
    fn take(&self, into: &mut [u8]) -> usize {
        self.state.lock().line.read(into)
    }

    /// A read returns at once; with `quire.noinput` it finds the end of input.
    fn readable(&self) -> bool {
        cmdline::get().no_input || self.state.lock().line.readable()
    }

    /// Waits until a read of `wanted` bytes has something to return, or its time is over.
    fn wait_for_input(&self, wanted: usize, nonblocking: bool) -> Result {
        if cmdline::get().no_input {
            return Ok(());
        }
        let raw = self.state.lock().line.raw_wait();
        let wait = raw.map(|(least, tenths)| RawWait {
            least: least.min(wanted),
            time: tenths * 100_000_000,
        });
        match wait {
            _ if nonblocking => {
                let at_once = wait.is_some_and(|wait| wait.least == 0 && wait.time == 0);
                if self.readable() || at_once {
                    Ok(())
                } else {
                    Err(Errno::EAGAIN)
                }
            }
            None => self
                .readable
                .wait(None, || self.readable().then_some(()))
                .map(drop),
            Some(wait) => self.wait_raw(&wait),
        }
    }

    fn wait_raw(&self, wait: &RawWait) -> Result {
        let enough = |n: usize| move || (self.state.lock().line.available() >= n).then_some(());
        if wait.least == 0 {
            let deadline = timers::now() + wait.time;
            return self.readable.wait(Some(deadline), enough(1)).map(drop);
        }
        if wait.time == 0 {
            return self.readable.wait(None, enough(wait.least)).map(drop);
        }
        // VTIME counts anew from each byte after the first.
        self.readable.wait(None, enough(1))?;
        loop {
            let have = self.state.lock().line.available();
            if have >= wait.least {
                return Ok(());
            }
            let deadline = timers::now() + wait.time;
            if self
                .readable
                .wait(Some(deadline), enough(have + 1))?
                .is_none()
            {
                return Ok(());
            }
        }
    }

    /// Job control: a background process that reads is stopped, or gets EIO when the signal would
    /// have no effect.
    fn check_foreground(&self, signo: i32) -> Result {
        let caller = Above::ids();
        let state = self.state.lock();
        let background = state.belongs_to(caller.sid)
            && state.foreground != 0
            && state.foreground != caller.pgid;
        drop(state);
        if !background {
            return Ok(());
        }
        if Above::is_unstoppable(signo) {
            return Err(Errno::EIO);
        }
        Above::signal_group(caller.pgid, signo);
        Err(Errno::ERESTARTSYS)
    }
}

impl FileOps for Tty {
    fn read(&self, at: At, sink: &mut Sink<'_>) -> Result<usize> {
        if sink.left() == 0 {
            return Ok(0);
        }
        terminal().check_foreground(signal::SIGTTIN)?;
        terminal().wait_for_input(sink.left(), at.nonblocking)?;
        let mut buffer = [0; 256];
        let mut done = 0;
        // One line, or what is there in raw mode.
        loop {
            let room = buffer.len().min(sink.left());
            let n = terminal().take(&mut buffer[..room]);
            done += sink.give(&buffer[..n])?;
            let line_ended = n < room || buffer[..n].last() == Some(&b'\n');
            if line_ended || sink.left() == 0 {
                return Ok(done);
            }
        }
    }

    fn write(&self, at: At, source: &mut Source<'_>) -> Result<usize> {
        let process_out = |bytes: &[u8]| {
            let mut state = terminal().state.lock();
            if state.line.stopped() {
                return None;
            }
            let mut out = Vec::with_capacity(bytes.len() + bytes.len() / 8);
            state.line.write(bytes, &mut out);
            drop(state);
            console::write(&out);
            Some(())
        };
        source.drain_pieces(PIECE, |bytes| match process_out(bytes) {
            Some(()) => Ok(()),
            None if at.nonblocking => Err(Errno::EAGAIN),
            None => terminal()
                .writable
                .wait(None, || process_out(bytes))
                .map(drop),
        })
    }

    fn is_stream(&self) -> bool {
        true
    }

    fn poll(&self) -> Ready {
        let state = terminal().state.lock();
        let mut ready = Ready::empty();
        ready.set(Ready::IN, state.line.readable());
        ready.set(Ready::OUT, !state.line.stopped());
        ready
    }

    fn queues<'a>(&'a self, queues: &mut Vec<&'a WaitQueue>) {
        queues.push(&terminal().readable);
        queues.push(&terminal().writable);
    }

    fn ioctl(&self, command: u32, argument: u64) -> Result<u64> {
        ioctl::call(command, argument)
    }
}
