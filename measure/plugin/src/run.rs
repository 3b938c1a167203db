//! One run of QEMU: what is counted, what is open, and where results go.
use crate::abi::{self, Scoreboard, Shared};
use crate::bulk::Bulks;
use crate::locked;
use crate::modelled::Modelled;
use crate::turns::{self, Turns};
use counts::Arch;
use counts::args::{self, Args};
use counts::counts::Counts;
use counts::lines::{Lines, Recorder};
use counts::model::RamFile;
use counts::pages;
use counts::record::{Cpu, Record};
use counts::session::{Event, Session};
use spin::mutex::SpinMutex;
use std::ffi::c_uint;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};

/// The state of the plugin.
pub struct Run {
    /// The machine.
    pub arch: Arch,
    /// The counters of each CPU that has a thread of its own.
    pub counts: Scoreboard,
    /// Those of CPUs that take turns on one, which is known when the first block is translated.
    turns: OnceLock<Option<Turns>>,
    /// Guest memory, if it is a file.
    pub ram: Option<RamFile>,
    /// Instructions that touch more than QEMU reports.
    pub bulks: Bulks,
    /// What is said of the lines that each CPU touches.
    says_lines: args::Lines,
    /// The model, if there is one.
    pub model: Option<Modelled>,
    /// The recorder of pages, if there is one, and its file.
    pub pages: Option<Mutex<(pages::Recorder, File)>>,
    /// Whether a measurement is open, for a quick look.
    open: AtomicBool,
    session: Mutex<(Session, File)>,
    /// Of each CPU. Its own thread alone takes the lock, but at a mark; one that spins is the
    /// quickest when none waits.
    lines: Vec<SpinMutex<Recorder>>,
}

impl Run {
    /// With the file open, and no measurement.
    pub fn new(arch: Arch, args: &Args, cpus: usize) -> Result<Run, String> {
        let append = |what: &str, path: &PathBuf| {
            let file = OpenOptions::new().append(true).create(true).open(path);
            file.map_err(|error| format!("cannot write {what}={}: {error}", path.display()))
        };
        let file = append("out", &args.out)?;
        let recorded = args.pages.as_ref().map(|(path, window)| {
            let recorder = pages::Recorder::new(*window);
            Ok::<_, String>(Mutex::new((recorder, append("pages", path)?)))
        });
        let model = match (args.model, ram(arch, args)?) {
            (Some(core), Some(ram)) => Some(Modelled::new(arch, core, ram, cpus)?),
            _ => None,
        };
        Ok(Run {
            arch,
            counts: Scoreboard::new(Counts::BYTES),
            turns: OnceLock::new(),
            ram: ram(arch, args)?,
            bulks: Bulks::default(),
            says_lines: args.lines,
            model,
            pages: recorded.transpose()?,
            open: AtomicBool::new(false),
            session: Mutex::new((Session::default(), file)),
            lines: (0..cpus).map(|_| SpinMutex::default()).collect(),
        })
    }

    /// A block is translated: the turns of CPUs, if they take turns.
    pub fn find_turns(&self) -> Option<&Turns> {
        let new = || turns::are_taken().then(|| Turns::new(self.arch, self.lines.len()));
        self.turns.get_or_init(new).as_ref()
    }

    /// The turns of CPUs, if they take turns.
    #[inline]
    pub fn turns(&self) -> Option<&Turns> {
        self.turns.get()?.as_ref()
    }

    /// The CPU that executes, where QEMU told a callback that it is `cpu`.
    #[inline]
    pub fn cpu(&self, cpu: c_uint) -> usize {
        self.turns().map_or(cpu as usize, Turns::now)
    }

    /// The counters of all CPUs, now.
    fn counts(&self) -> Vec<Counts> {
        let of_cpu = |cpu| Counts::read(|offset| self.counts.counter(offset).get(cpu));
        match self.turns() {
            Some(turns) => turns.counts(),
            None => (0..abi::cpus()).map(of_cpu).collect(),
        }
    }

    /// Whether what the kernel does is of interest. Marks, at any time, are programs'.
    pub fn wants_kernel(&self) -> bool {
        self.is_open() || self.model.is_some()
    }

    /// Whether the lines that each CPU touches are kept.
    pub fn keeps_lines(&self) -> bool {
        self.says_lines != args::Lines::Off
    }

    /// Whether each access is of interest, while a measurement is open or from the first one on.
    pub fn watches(&self) -> bool {
        self.keeps_lines() || self.model.is_some()
    }

    /// Whether a measurement is open.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.open.load(Relaxed)
    }

    /// Lets a CPU add to its lines.
    #[inline]
    pub fn touch(&self, cpu: usize, add: impl FnOnce(&mut Recorder)) {
        let mut lines = self.lines[cpu].lock();
        // It may have ended since the caller looked; whoever ends it takes this lock afterwards.
        if self.is_open() {
            add(&mut lines);
        }
    }

    /// A user program's access to a page of the space that `space` names.
    #[inline]
    pub fn page(&self, page: u64, write: bool, space: impl FnOnce() -> u64) {
        let Some(pages) = &self.pages else {
            return;
        };
        let (recorder, file) = &mut *locked(pages);
        if let Some(bytes) = recorder.touch(page, write, space)
            && let Err(error) = file.write_all(&bytes)
        {
            eprintln!("quire-plugin: accesses to pages are lost: {error}");
        }
    }

    /// A store of 8 bytes to the page of marks.
    pub fn mark(&self, cpu: usize, offset: u64, value: u64) {
        let mut session = locked(&self.session);
        let (session, file) = &mut *session;
        match session.store(cpu, offset, value, || self.counts()) {
            Event::Nothing => {}
            Event::Begun => {
                self.lines
                    .iter()
                    .for_each(|lines| drop(lines.lock().take()));
                if let Some(model) = &self.model {
                    model.begin();
                }
                self.open.store(true, Relaxed);
            }
            Event::Ended { name, counts } => {
                self.open.store(false, Relaxed);
                self.write(file, name, counts);
            }
            Event::Forgotten => self.open.store(false, Relaxed),
            Event::Mistaken(what) => {
                self.open.store(false, Relaxed);
                eprintln!("quire-plugin: {what}");
            }
        }
    }

    /// Writes a line in one piece: what was finished is in the file whatever happens to QEMU.
    fn write(&self, file: &mut File, name: String, counts: Vec<Counts>) {
        let of_cpu = |(cpu, (counts, lines)): (usize, (Counts, &SpinMutex<Recorder>))| {
            let model = self.model.as_ref();
            let lines = self.keeps_lines().then(|| lines.lock().take());
            Cpu {
                counts,
                touched: lines.as_ref().map(Lines::figures),
                lines: lines.filter(|_| self.says_lines == args::Lines::Each),
                model: model
                    .map(|model| model.figures(cpu, counts.instructions()))
                    .unwrap_or_default(),
            }
        };
        let record = Record {
            name,
            arch: self.arch,
            cpus: (counts.into_iter().zip(&self.lines).enumerate())
                .map(of_cpu)
                .collect(),
        };
        let line = record.to_json() + "\n";
        if let Err(error) = file.write_all(line.as_bytes()) {
            eprintln!("quire-plugin: {:?} is lost: {error}", record.name);
        }
    }
}

/// Guest memory, if it is a file.
fn ram(arch: Arch, args: &Args) -> Result<Option<RamFile>, String> {
    let open = |path: &PathBuf| {
        let file = File::open(path).and_then(|file| Shared::map(&file));
        let ram = file.map(|file| RamFile::new(arch, file.bytes(), Box::new(file)));
        ram.map_err(|error| format!("cannot read ram={}: {error}", path.display()))
    };
    args.ram.as_ref().map(open).transpose()
}
