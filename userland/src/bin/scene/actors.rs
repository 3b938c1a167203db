//! The two processes. The second one waits for its steps at a pipe, and answers at another.
use crate::step::Step;
use userland::controls::Controls;
use userland::measuring::{Child, Line};
use userland::readings::{self, Readings};
use userland::sys::proc::{self, Fork};
use userland::sys::{Errno, Result, fault, file, time};

/// What became of a step: the counters that moved, and what went wrong.
#[derive(Default)]
pub struct Done {
    pub counters: String,
    pub error: Option<String>,
}

impl Done {
    fn failed(error: String) -> Done {
        Done {
            counters: String::new(),
            error: Some(error),
        }
    }
}

/// Who does steps.
struct Actor {
    /// Of the first process.
    controls: Option<Controls>,
    readings: Readings,
}

impl Actor {
    fn perform(&mut self, words: &[&str]) -> Result<Done> {
        let step = match Step::parse(words) {
            Ok(step) => step,
            Err(error) => return Ok(Done::failed(error)),
        };
        let controls = self.controls.as_ref();
        let (result, counters) = timed(&mut self.readings, || step.perform(controls))?;
        Ok(Done {
            counters,
            error: result.err(),
        })
    }
}

/// Calls `f`; how far the counters moved, and `ns`, how long it took: under QEMU's -icount these
/// are instructions.
fn timed<R>(readings: &mut Readings, f: impl FnOnce() -> R) -> Result<(R, String)> {
    let (result, mut counters) = readings.around(|| {
        let start = time::now();
        (f(), time::now() - start)
    })?;
    counters.push(("ns".to_owned(), result.1 as i64));
    Ok((result.0, readings::json(&counters)))
}

/// The first process, which is this one, and what it knows of the second.
pub struct Stage {
    first: Actor,
    child: Option<Child>,
}

impl Stage {
    /// With one process.
    pub fn open() -> Result<Stage> {
        fault::arm();
        let first = Actor {
            controls: Some(Controls::take()),
            readings: Readings::new()?,
        };
        Ok(Stage { first, child: None })
    }

    /// The second process's number.
    pub fn child(&self) -> Option<i32> {
        self.child.as_ref().map(|child| child.pid)
    }

    /// Ends both.
    pub fn close(mut self) -> Result<()> {
        self.end_child()
    }

    /// Does a step.
    pub fn perform(&mut self, line: &str) -> Result<Done> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["fork"] => self.fork(),
            ["exit"] => {
                let ended = self.exit();
                self.first.readings.warm()?;
                ended
            }
            ["child", step @ ..] => self.ask(step),
            step => self.first.perform(step),
        }
    }

    /// Only fork itself is counted: its return in the child is another process's.
    fn fork(&mut self) -> Result<Done> {
        if self.child.is_some() {
            return Ok(Done::failed("there are two already".to_owned()));
        }
        // Steps go one way, and answers the other.
        let (line, theirs) = Line::pair()?;
        let (forked, counters) = timed(&mut self.first.readings, || match proc::fork() {
            Ok(Fork::Child) => {
                // Answers that cannot be written have nobody who waits for them.
                let done = line.close().and_then(|()| second(theirs));
                proc::exit_now(i32::from(done.is_err()))
            }
            other => other,
        })?;
        theirs.close()?;
        let Fork::Parent(pid) = forked? else {
            return Err(Errno(libc::EPROTO));
        };
        self.child = Some(Child { pid, line });
        self.first.readings.warm()?;
        Ok(Done {
            counters,
            error: None,
        })
    }

    fn exit(&mut self) -> Result<Done> {
        if self.child.is_none() {
            return Ok(Done::failed("there is no second process".to_owned()));
        }
        let ended = self.end_child();
        Ok(Done {
            counters: String::new(),
            error: ended.err().map(|error| error.to_string()),
        })
    }

    fn end_child(&mut self) -> Result<()> {
        self.child.take().map_or(Ok(()), Child::end)
    }

    fn ask(&mut self, words: &[&str]) -> Result<Done> {
        let Some(child) = &self.child else {
            return Ok(Done::failed("there is no second process: fork".to_owned()));
        };
        file::write_all(child.line.to, format!("{}\n", words.join(" ")).as_bytes())?;
        let answer = line(child.line.from)?.ok_or(Errno(libc::EPIPE))?;
        let (counters, error) = answer.split_once('\t').unwrap_or((&answer, ""));
        Ok(Done {
            counters: counters.to_owned(),
            error: (!error.is_empty()).then(|| error.to_owned()),
        })
    }
}

/// A line from a pipe, and nothing behind it; `None` at its end.
fn line(from: i32) -> Result<Option<String>> {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while file::read(from, &mut byte)? == 1 {
        match byte {
            [b'\n'] => return Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            [byte] => bytes.push(byte),
        }
    }
    Ok(None)
}

/// The second process: does the steps that come, until none comes any more.
fn second(ends: Line) -> Result<()> {
    let mut second = Actor {
        controls: None,
        readings: Readings::new()?,
    };
    while let Some(step) = line(ends.from)? {
        let done = second.perform(&step.split(' ').collect::<Vec<_>>())?;
        let error = done.error.unwrap_or_default();
        let answer = format!("{}\t{error}\n", done.counters);
        file::write_all(ends.to, answer.as_bytes())?;
    }
    Ok(())
}
