//! The screen and the keyboard of a PC, by way of QEMU's monitor.
use anyhow::{Context, Result, ensure};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use tools::host::outcome::Outcome;
use tools::host::workspace::Temporary;
use tools::machine::qemu::Machine;
use tools::machine::session::{PROMPT, Session};

/// How long the monitor may take, which answers at once, on a host that is busy or was stopped.
const LIMIT: Duration = Duration::from_secs(600);

/// What is typed at the PC's own keyboard reaches the shell.
pub fn keyboard(machine: &Machine) -> Result<Outcome> {
    let mut machine = machine.clone();
    machine.command_line = "quiet -- sh".to_owned();
    let monitor = Monitor::new(&mut machine);
    let mut session = Session::start(&machine)?;
    session.expect(PROMPT)?;
    for key in "e x i t spc 1 1 ret".split(' ') {
        monitor.say(&format!("sendkey {key} 20"))?;
    }
    session.ends_with(11)?;
    Ok(Outcome::Passed)
}

/// A machine check is reported; without a way to take it the machine would just reset.
pub fn machine_check(machine: &Machine) -> Result<Outcome> {
    let mut machine = machine.clone();
    machine.command_line = "quiet -- sh".to_owned();
    let monitor = Monitor::new(&mut machine);
    let mut session = Session::start(&machine)?;
    session.expect(PROMPT)?;
    // CPU, bank, its status (valid, uncorrected, enabled), MCG_STATUS (in progress, restartable),
    // address, more.
    monitor.say("mce 0 1 0xb000000000000000 5 0 0")?;
    session.expect("kernel panic: machine check")?;
    session.ends_with(101)?;
    Ok(Outcome::Passed)
}

/// The prompt is on the screen: in the first row of characters there are pixels that are not black,
/// in the last there are none.
pub fn screen(machine: &Machine) -> Result<Outcome> {
    let mut machine = machine.clone();
    machine.command_line = "quiet -- sh".to_owned();
    let monitor = Monitor::new(&mut machine);
    let mut session = Session::start(&machine)?;
    session.expect(PROMPT)?;
    // The answer comes over the same console, behind everything that was shown.
    session.command("true")?;
    let shot = Temporary::name("ppm");
    let answer = monitor.say(&format!("screendump {}", shot.path().display()))?;
    session.send("exit 0\n")?;
    session.end()?;
    let picture = std::fs::read(shot.path()).with_context(|| format!("no screendump: {answer}"))?;
    let lit = lit_rows(&picture).context("the screendump is no PPM")?;
    ensure!(
        lit.iter().take(16).any(|lit| *lit),
        "the first row of characters is black"
    );
    ensure!(
        !lit.iter().rev().take(16).any(|lit| *lit),
        "the last row of characters is not black"
    );
    Ok(Outcome::Passed)
}

/// After a panic, a machine that takes no exit status stands still with the report on its screen.
pub fn panic_stays(machine: &Machine) -> Result<Outcome> {
    let mut machine = machine.clone();
    machine.command_line = "quire.crash=panic".to_owned();
    machine.exit = false;
    let monitor = Monitor::new(&mut machine);
    let mut session = Session::start(&machine)?;
    session.expect("last log lines:")?;
    let deadline = Instant::now() + LIMIT;
    let (mut last, mut same) = (String::new(), 0);
    while same < 3 {
        ensure!(Instant::now() < deadline, "the machine goes on: {last}");
        let said = monitor.say("info registers")?;
        let line = said
            .lines()
            .find(|line| line.contains("RIP=") || line.contains(" PC="));
        let now = line
            .with_context(|| format!("no registers: {said}"))?
            .to_owned();
        same = if now == last { same + 1 } else { 0 };
        last = now;
    }
    Ok(Outcome::Passed)
}

/// Which rows of a binary PPM (magic, width, height, 255, each with whitespace behind it) have a
/// pixel that is not black.
fn lit_rows(picture: &[u8]) -> Option<Vec<bool>> {
    let mut fields = picture.splitn(4, |byte| byte.is_ascii_whitespace());
    let (magic, width) = (fields.next()?, fields.next()?);
    let width: usize = std::str::from_utf8(width).ok()?.parse().ok()?;
    let pixels = fields.nth(1)?.strip_prefix(b"255\n")?;
    (magic == b"P6").then(|| {
        pixels
            .chunks(3 * width)
            .map(|row| row.iter().any(|b| *b != 0))
            .collect()
    })
}

/// QEMU's monitor, at a socket.
struct Monitor(Temporary);

impl Monitor {
    fn new(machine: &mut Machine) -> Self {
        let socket = Temporary::name("monitor");
        let path = socket.path().display();
        machine.extra.extend([
            "-chardev".to_owned(),
            format!("socket,id=monitor,path={path},server=on,wait=off"),
            "-mon".to_owned(),
            "chardev=monitor,mode=readline".to_owned(),
        ]);
        Monitor(socket)
    }

    /// Gives one command and returns what came until the prompt behind it.
    fn say(&self, command: &str) -> Result<String> {
        let mut socket = UnixStream::connect(self.0.path())?;
        socket.set_read_timeout(Some(LIMIT))?;
        socket.write_all(format!("{command}\n").as_bytes())?;
        let (mut said, mut byte) = (Vec::new(), [0]);
        // One prompt is before the command, one behind it.
        while said.windows(7).filter(|words| words == b"(qemu) ").count() < 2
            && socket.read(&mut byte)? > 0
        {
            said.push(byte[0]);
        }
        Ok(String::from_utf8_lossy(&said).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_picture() {
        let picture = b"P6\n2 3\n255\n\0\0\0\0\0\0\0\0\x20\0\0\0\0\0\0\0\0\0";
        assert_eq!(lit_rows(picture).unwrap(), [false, true, false]);
        assert_eq!(lit_rows(b"P5\n2 3\n255\n"), None);
    }
}
