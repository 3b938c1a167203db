//! Cases that may keep the machine, each in a process of its own that another one watches.
use super::Outcome;
use userland::stretch::Record;
use userland::sys::proc::{self, Fork, Status};
use userland::sys::{Result, time};

/// How long a killed process may take to end, ns.
const END: u64 = 1_000_000_000;

/// One call, or a few.
pub struct Case {
    pub name: &'static str,
    pub act: fn() -> Result<()>,
}

/// Runs all cases, or those that are named. One that takes `patience` ns is killed, and must end
/// then; with the clock counting instructions the longest stretches are asserted after each.
pub fn run(way: &str, cases: &[Case], patience: u64, names: &[String]) -> Outcome {
    let mut record = Record::open();
    let mut failed = Vec::new();
    for case in cases {
        if names.is_empty() || names.iter().any(|name| name == case.name) {
            let text = match watch(case, patience, record.as_mut()) {
                Ok(text) => text,
                Err(text) => {
                    failed.push(case.name);
                    format!("FAILED, {text}")
                }
            };
            println!("abuse: {way}: {}: {text}", case.name);
        }
    }
    if let Some(record) = record {
        println!("abuse: {way}: {}", record.summary());
    }
    match failed.is_empty() {
        true => Ok("the machine goes on".into()),
        false => Err(format!("failed: {}", failed.join(" "))),
    }
}

/// Runs a case, ends it when it takes long, and says how it ended.
fn watch(
    case: &Case,
    patience: u64,
    record: Option<&mut Record>,
) -> std::result::Result<String, String> {
    if let Some(record) = &record {
        record.begin()?;
    }
    let child = match proc::fork().map_err(|e| format!("fork: {e}"))? {
        Fork::Child => {
            let result = (case.act)();
            if let Err(error) = result {
                println!("abuse: {}: {error}", case.name);
            }
            proc::exit_now(result.is_err().into())
        }
        Fork::Parent(pid) => pid,
    };
    let (status, killed) = wait(child, patience)?;
    let fits = match status {
        Status::Exited(0) => true,
        // By us, or because memory is full.
        Status::Killed(libc::SIGKILL) => true,
        _ => false,
    };
    if !fits {
        return Err(format!("{status:?}"));
    }
    let ended = format!("{status:?}, killed: {killed}");
    let Some(record) = record else {
        return Ok(ended);
    };
    let longest = record.end()?;
    longest.judge()?;
    Ok(format!("{ended}, {longest}"))
}

/// Waits for the child by short sleeps, each of which must end soon, and kills it when its time is
/// over.
fn wait(child: i32, patience: u64) -> std::result::Result<(Status, bool), String> {
    let start = time::now();
    let mut killed = None;
    loop {
        match proc::wait(child, libc::WNOHANG) {
            Ok(Some((_, status))) => return Ok((status, killed.is_some())),
            Ok(None) => {}
            Err(error) => return Err(format!("wait: {error}")),
        }
        let now = time::now();
        match killed {
            None if now - start > patience => {
                let _ = proc::kill(child, libc::SIGKILL);
                killed = Some(now);
            }
            Some(at) if now - at > END => return Err("it does not end".into()),
            _ => {}
        }
        let _ = time::sleep(1_000_000);
    }
}
