//! A machine that runs: its console, its limits and how it ends.
use crate::host::arch::Arch;
use crate::host::meter::{self, Meter, Spent};
use crate::host::workspace::Temporary;
use crate::machine::qemu::{Console, Files, Firmware, Loader, Machine};
use crate::machine::raspi::Chosen;
use crate::machine::{firmware, iso, limine};
use anyhow::{Context, Result};
use rustix::pipe::fcntl_setpipe_size;
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, Once, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

/// How a machine ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The guest ended it with this status.
    Status(u8),
    /// It stopped without a status: a reset, or a triple fault.
    Reset,
    /// It was stopped because its time was up, or that of a CPU.
    Timeout,
    /// QEMU could not run it, or was ended from outside.
    Failed,
}

impl End {
    /// The exit status of `run.sh`.
    pub fn status(self) -> u8 {
        match self {
            End::Status(status) => status,
            End::Reset => 101,
            End::Timeout => 124,
            End::Failed => 1,
        }
    }
}

/// What happens next on a machine.
#[derive(Debug)]
pub enum Event {
    /// The console printed this.
    Output(Vec<u8>),
    /// It is over.
    Ended(End),
    /// Nothing happened until the given instant, or until the limit.
    Nothing,
}

enum Raw {
    Output(Vec<u8>),
    Ended(Option<ExitStatus>),
}

/// Bytes that a guest may print while nobody reads them.
const PIPE: usize = 1 << 20;

/// The right to run, for as long as it is kept: shared with other machines, or of one that is to be
/// alone. A thread has one machine at a time.
struct Place {
    _shared: Option<RwLockReadGuard<'static, ()>>,
    _alone: Option<RwLockWriteGuard<'static, ()>>,
}

impl Place {
    /// Waits until there is one.
    fn of(machine: &Machine) -> Place {
        static PLACES: RwLock<()> = RwLock::new(());
        let shared = || PLACES.read().unwrap_or_else(PoisonError::into_inner);
        let alone = || PLACES.write().unwrap_or_else(PoisonError::into_inner);
        Place {
            _shared: (!machine.alone).then(shared),
            _alone: machine.alone.then(alone),
        }
    }
}

/// QEMU, running.
pub struct Guest {
    _place: Place,
    arch: Arch,
    pid: Pid,
    cpus: u32,
    meter: Meter,
    status: PathBuf,
    /// Kept for QEMU.
    _files: [Option<Temporary>; 2],
    events: Receiver<Raw>,
    keys: Option<ChildStdin>,
    errors: Option<std::thread::JoinHandle<String>>,
    ended: bool,
}

impl Guest {
    /// Starts a machine. With pipes, its console arrives as events, and QEMU's own words are kept
    /// for [`Guest::errors`] when `quiet`.
    pub fn start(machine: &Machine, console: Console, quiet: bool) -> Result<Guest> {
        let place = Place::of(machine);
        let status = Temporary::name("status").path().to_owned();
        let (disk, tree) = (disk(machine)?, tree(machine)?);
        let path = |file: &Option<Temporary>| file.as_ref().map(|file| file.path().to_owned());
        let files = Files {
            status: status
                .to_str()
                .context("the folder for temporary files has a name that is not text")?
                .to_owned(),
            disk: path(&disk),
            tree: path(&tree),
            uefi: match machine.loader {
                Loader::Limine(Firmware::Uefi) => Some(firmware::get(machine.arch)?),
                _ => None,
            },
        };
        let mut command = Command::new(machine.arch.qemu());
        command.args(machine.arguments(console, &files));
        if console == Console::Pipes {
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            // ctrl-c is this program's, which ends QEMU then.
            command.process_group(0);
        }
        if quiet {
            command.stderr(Stdio::piped());
        }
        end_with_us();
        // Held until this one is in the list: a signal ends all that are there, and no other
        // starts.
        let mut all = running();
        let mut child = command.spawn().with_context(|| {
            format!(
                "cannot start {}; ./run.sh doctor says what is missing",
                machine.arch.qemu()
            )
        })?;
        let pid = Pid::from_child(&child);
        all.push((pid, status.clone()));
        drop(all);
        if let Some(most) = machine.cpu_time {
            let current = Some(most.as_secs());
            let maximum = Some(most.as_secs() + 5);
            // It may have ended already.
            let _ = prlimit(Some(pid), Resource::Cpu, Rlimit { current, maximum });
        }
        if let Some(stdout) = &child.stdout {
            // While this program is stopped the guest goes on, and its serial line waits for room
            // for a second or two only. The system may not grant it.
            let _ = fcntl_setpipe_size(stdout, PIPE);
        }
        let keys = child.stdin.take();
        let errors = child.stderr.take().map(|mut stderr| {
            std::thread::spawn(move || {
                let mut text = Vec::new();
                // What was read until an error is all there is to show.
                let _ = stderr.read_to_end(&mut text);
                String::from_utf8_lossy(&text).into_owned()
            })
        });
        let (send, events) = channel();
        std::thread::spawn(move || pump(child, &send));
        Ok(Guest {
            _place: place,
            arch: machine.arch,
            pid,
            cpus: machine.smp,
            meter: Meter::new(pid),
            status,
            _files: [disk, tree],
            events,
            keys,
            errors,
            ended: false,
        })
    }

    /// The guest's input; the first caller owns it.
    pub fn take_keys(&mut self) -> Option<ChildStdin> {
        self.keys.take()
    }

    /// Types.
    pub fn send(&mut self, keys: &[u8]) -> Result<()> {
        let pipe = self.keys.as_mut().context("the guest has no keyboard")?;
        pipe.write_all(keys)?;
        Ok(pipe.flush()?)
    }

    /// The next event, at latest at `until`.
    pub fn next(&mut self, until: Option<Instant>) -> Event {
        let raw = match until {
            Some(until) => self
                .events
                .recv_timeout(until.saturating_duration_since(Instant::now())),
            None => self
                .events
                .recv()
                .map_err(|_| RecvTimeoutError::Disconnected),
        };
        match raw {
            Ok(Raw::Output(bytes)) => Event::Output(bytes),
            Ok(Raw::Ended(status)) => Event::Ended(self.end(status)),
            Err(RecvTimeoutError::Timeout) => Event::Nothing,
            Err(RecvTimeoutError::Disconnected) => Event::Ended(End::Failed),
        }
    }

    /// What it has spent when it has spent `more` from now on; each of its CPUs may use the CPU
    /// time.
    pub fn limit(&mut self, more: impl Into<Spent>) -> Spent {
        self.meter.spent().after(more.into(), self.cpus)
    }

    /// The next event; [`Event::Nothing`] when one of the limits is reached, as [`Guest::limit`]
    /// gives them.
    pub fn next_within(&mut self, limits: &[Spent]) -> Event {
        loop {
            let spent = self.meter.spent();
            if limits.iter().any(|limit| spent.is_over(limit)) {
                return Event::Nothing;
            }
            match self.next(Some(Instant::now() + meter::STEP)) {
                Event::Nothing => {}
                event => return event,
            }
        }
    }

    fn end(&mut self, status: Option<ExitStatus>) -> End {
        self.forget();
        let signal = status.and_then(|status| status.signal());
        if signal == Some(Signal::XCPU.as_raw()) {
            return End::Timeout;
        }
        let Some(code) = status.and_then(|status| status.code()) else {
            return End::Failed;
        };
        match self.arch {
            Arch::X86_64 => match fs::read(&self.status)
                .ok()
                .and_then(|bytes| bytes.last().copied())
            {
                Some(byte) => End::Status(byte),
                None if code == 0 => End::Reset,
                None => End::Failed,
            },
            Arch::Aarch64 => u8::try_from(code).map_or(End::Failed, End::Status),
        }
    }

    /// Ends QEMU, by SIGTERM first: it restores the terminal.
    pub fn stop(&mut self) {
        if self.ended {
            return;
        }
        for signal in [Signal::TERM, Signal::KILL] {
            // It may have ended by itself in this moment.
            let _ = kill_process(self.pid, signal);
            let until = Instant::now() + Duration::from_secs(2);
            loop {
                match self.next(Some(until)) {
                    Event::Output(_) => {}
                    Event::Ended(_) => return,
                    Event::Nothing => break,
                }
            }
        }
    }

    /// QEMU's own messages, when started quietly. Valid after the end.
    pub fn errors(&mut self) -> String {
        self.errors
            .take()
            .and_then(|thread| thread.join().ok())
            .unwrap_or_default()
    }

    fn forget(&mut self) {
        self.ended = true;
        running().retain(|(pid, _)| *pid != self.pid);
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.stop();
        self.forget();
        // An aarch64 guest never makes one.
        let _ = fs::remove_file(&self.status);
    }
}

/// The disk that a machine with a loader of its own boots from.
fn disk(machine: &Machine) -> Result<Option<Temporary>> {
    if machine.loader == Loader::Direct {
        return Ok(None);
    }
    let disk = Temporary::name("iso");
    let content = iso::Content {
        kernels: &[(machine.arch, machine.image.clone())],
        initramfs: machine.initramfs.as_deref(),
        command_line: &machine.command_line,
        timeout: 0,
    };
    iso::write(disk.path(), &content)?;
    if machine.stick && machine.loader == Loader::Limine(Firmware::Bios) {
        limine::start_by_bios(disk.path())?;
    }
    Ok(Some(disk))
}

/// The device tree of a board for which QEMU brings none.
fn tree(machine: &Machine) -> Result<Option<Temporary>> {
    let Some(board) = machine.board().filter(|_| machine.device_tree) else {
        return Ok(None);
    };
    let chosen = Chosen {
        mini_uart: machine.mini_uart,
        ..Chosen::default()
    };
    Temporary::file("dtb", &board.device_tree(chosen)).map(Some)
}

/// Passes the console on until it closes, then waits for QEMU.
fn pump(mut child: Child, events: &Sender<Raw>) {
    if let Some(mut stdout) = child.stdout.take() {
        let mut buffer = [0; 16 * 1024];
        while let Ok(length @ 1..) = stdout.read(&mut buffer) {
            // There is no receiver any more when the guest is being dropped; QEMU must be read and
            // reaped all the same.
            let _ = events.send(Raw::Output(buffer[..length].to_vec()));
        }
    }
    let _ = events.send(Raw::Ended(child.wait().ok()));
}

/// The QEMUs to end, and their files to remove, when this program is ended by a signal.
fn running() -> std::sync::MutexGuard<'static, Vec<(Pid, PathBuf)>> {
    static RUNNING: Mutex<Vec<(Pid, PathBuf)>> = Mutex::new(Vec::new());
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is done when this program is ended by a signal, before its machines are.
static LAST: Mutex<Option<Box<dyn Fn() + Send>>> = Mutex::new(None);

/// Has `last` done when this program is ended by a signal while a machine runs.
pub fn before_the_end(last: impl Fn() + Send + 'static) {
    *LAST.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(last));
}

fn end_with_us() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let handler = || {
            if let Some(last) = &*LAST.lock().unwrap_or_else(PoisonError::into_inner) {
                last();
            }
            let all = running();
            for (pid, status) in all.iter() {
                let _ = kill_process(*pid, Signal::TERM);
                let _ = fs::remove_file(status);
            }
            std::process::exit(130);
        };
        if let Err(error) = ctrlc::set_handler(handler) {
            eprintln!("run.sh: cannot catch signals: {error}");
        }
    });
}
