//! The interactive shell: keys that stop and edit, jobs, commands that read text.
use super::job::Job;
use anyhow::{Result, ensure};
use tools::host::arch::Arch;
use tools::host::outcome::Outcome;
use tools::machine::build::Built;
use tools::machine::qemu::Machine;
use tools::machine::session::{PROMPT, Session};

/// A test by its name.
type Test = (&'static str, fn(Arch, &Built) -> Result<Outcome>);

const TESTS: [Test; 8] = [
    ("jobs", jobs),
    ("readers", readers),
    ("leaving", leaving),
    ("editing", editing),
    ("window", window),
    ("text", text),
    ("alone", alone),
    ("script", script),
];

/// ^Z.
const STOP: &str = "\x1a";
/// ^C.
const INTERRUPT: &str = "\x03";
/// A terminal's sequences for the arrow up and the arrow to the left.
const UP: &str = "\x1b[A";
const LEFT: &str = "\x1b[D";

/// Runs all of them on one architecture.
pub fn run(job: &Job<'_>, arch: Arch, built: &Built) {
    for (name, test) in TESTS {
        job.case(format!("user.{arch}.shell.{name}"), || test(arch, built));
    }
}

/// A machine that runs `program`.
fn start(arch: Arch, built: &Built, words: &str) -> Result<Session> {
    let mut machine = Machine::new(arch, built.image.clone());
    machine.mem = "256M".to_owned();
    machine.command_line = format!("quiet {words}");
    Session::start(&machine)
}

fn shell(arch: Arch, built: &Built) -> Result<Session> {
    let mut session = start(arch, built, "-- sh")?;
    session.expect(PROMPT)?;
    Ok(session)
}

fn leave(session: &mut Session) -> Result<Outcome> {
    session.send("exit 7\n")?;
    session.ends_with(7)?;
    Ok(Outcome::Passed)
}

/// ^Z stops what runs, all of a pipeline; bg, fg, jobs and kill work on it; ^C ends it; the rest of
/// the line is not run.
fn jobs(arch: Arch, built: &Built) -> Result<Outcome> {
    let mut session = shell(arch, built)?;
    // The command's own output says that it runs: keys typed before that would be the shell's.
    session.answer(
        "sh -c 'echo run''ning; sleep 1000'; echo ne''ver\n",
        "running\n",
    )?;
    session.answer(STOP, "[1]  Stopped    sh -c 'echo run''ning; sleep 1000'\n")?;
    session.expect(PROMPT)?;
    let listed = session.command("jobs")?;
    ensure!(listed.contains("[1]  Stopped"), "{listed}");
    session.answer("bg\n", "&\n")?;
    session.expect(PROMPT)?;
    let listed = session.command("jobs")?;
    ensure!(listed.contains("[1]  Running"), "{listed}");
    session.answer("fg %1\n", "sleep 1000'\n")?;
    session.answer(INTERRUPT, PROMPT)?;
    let listed = session.command("jobs")?;
    ensure!(!listed.contains("[1]"), "{listed}");
    session.answer("sh -c 'echo pi''ped; sleep 1000' | cat\n", "piped\n")?;
    session.answer(
        STOP,
        "[1]  Stopped    sh -c 'echo pi''ped; sleep 1000' | cat\n",
    )?;
    session.expect(PROMPT)?;
    session.answer("kill %1; wait %1; echo was $?.\n", "was 143.\n")?;
    session.expect(PROMPT)?;
    session.answer("sleep 0.1 &\n", "[1] ")?;
    session.answer("sleep 0.5\n", "[1]  Done       sleep 0.1\n")?;
    leave(&mut session)
}

/// One in the background that reads is stopped until it has the terminal; what a stopped program
/// did to the terminal is undone, and done again when it runs on.
fn readers(arch: Arch, built: &Built) -> Result<Outcome> {
    let mut session = shell(arch, built)?;
    // Said before the first prompt or the second.
    session.answer("cat &\n", "[1] ")?;
    session.answer("sleep 0.5\n", "[1]  Stopped (wants to read) cat\n")?;
    session.answer("fg\n", "cat\n")?;
    session.answer("typed\n", "typed\ntyped\n")?;
    session.answer(STOP, "[1]  Stopped    cat\n")?;
    session.expect(PROMPT)?;
    session.answer("fg\n", "cat\n")?;
    session.answer("again\n", "again\nagain\n")?;
    session.answer("\x04", PROMPT)?;
    session.answer("more /proc/self/smaps\n", "--More--")?;
    session.answer(STOP, "Stopped    more")?;
    session.expect(PROMPT)?;
    session.command("cat /proc/version")?;
    session.answer("fg\n", "more /proc/self/smaps\n")?;
    session.answer("q", PROMPT)?;
    session.command("true")?;
    leave(&mut session)
}

/// The terminal has the size that the command line says: a pager stops after so many lines.
fn window(arch: Arch, built: &Built) -> Result<Outcome> {
    let mut session = start(arch, built, "quire.window=7x100 -- sh")?;
    session.expect(PROMPT)?;
    let shown = session.answer("more /proc/self/smaps\n", "--More--")?;
    // The line that was typed, and all but the last row of what was asked for.
    ensure!(shown.lines().count() == 1 + 6, "{shown}");
    session.answer("q", PROMPT)?;
    leave(&mut session)
}

/// The shell does not leave stopped jobs behind without a message.
fn leaving(arch: Arch, built: &Built) -> Result<Outcome> {
    let mut session = shell(arch, built)?;
    session.answer("sh -c 'echo run''ning; sleep 1000'\n", "running\n")?;
    session.answer(STOP, "[1]  Stopped")?;
    session.expect(PROMPT)?;
    session.answer("exit 3\n", "there are stopped jobs")?;
    session.expect(PROMPT)?;
    leave(&mut session)
}

/// Lines typed before come back, and can be changed in their middle.
fn editing(arch: Arch, built: &Built) -> Result<Outcome> {
    let mut session = shell(arch, built)?;
    session.answer("echo fi''rst\n", "first\n")?;
    session.expect(PROMPT)?;
    session.answer("echo sec''ond\n", "second\n")?;
    session.expect(PROMPT)?;
    session.answer(&format!("{UP}{UP}\n"), "\nfirst\n")?;
    session.expect(PROMPT)?;
    session.answer(&format!("echo a''c{LEFT}b\n"), "\nabc\n")?;
    session.expect(PROMPT)?;
    // ^R searches; ^U empties the line; ^C gives it up; ^Z means nothing here.
    session.answer("\x12sec\n", "\nsecond\n")?;
    session.expect(PROMPT)?;
    session.answer("nonsense\x15echo ki''lled\n", "\nkilled\n")?;
    session.expect(PROMPT)?;
    session.answer(&format!("nonsense{INTERRUPT}"), PROMPT)?;
    session.answer(&format!("{STOP}echo st''ill\n"), "\nstill\n")?;
    session.expect(PROMPT)?;
    // Tab completes a command, and a file.
    session.answer("ech\tcom''pleted\n", "\ncompleted\n")?;
    session.expect(PROMPT)?;
    session.answer("echo /proc/vers\t.\n", "\n/proc/version.\n")?;
    session.expect(PROMPT)?;
    // Lines typed ahead are kept. What of the second comes while the first runs is echoed at once,
    // as Linux does, and may stand before the first one's output.
    session.answer("echo o''ne\necho t''wo\n", "one\n")?;
    session.expect("\ntwo\n")?;
    session.expect(PROMPT)?;
    leave(&mut session)
}

/// The commands that read text, and a line too long for the screen.
fn text(arch: Arch, built: &Built) -> Result<Outcome> {
    let mut session = shell(arch, built)?;
    session.command("cd /tmp; for''get 2>x; echo one >f; echo two >>f; echo three >>f")?;
    for (line, output) in [
        ("head -n 2 f", "\none\ntwo\n"),
        ("tail -1 f", "\nthree\n"),
        ("cat f | tail -n 2 | head -1", "\ntwo\n"),
        ("grep -n t f", "\n2:two\n3:three\n"),
        ("grep -v ^t f", "\none\n"),
        ("grep -ci 'T(W|H)' f f", "\n4\n"),
        ("clear", "\x1b[H\x1b[2J"),
        ("more f | cat", "\none\ntwo\nthree\n"),
    ] {
        let said = session.command(line)?;
        ensure!(said.contains(output), "{line}: {said:?}");
    }
    session.answer("grep nothing f; echo st''atus $?.\n", "status 1.\n")?;
    session.expect(PROMPT)?;
    let long = "x".repeat(200);
    let said = session.command(&format!("echo {long}''y"))?;
    ensure!(said.contains(&format!("\n{long}y\n")), "{said:?}");
    leave(&mut session)
}

/// `TERM=dumb`, as `./run.sh` has it for piped input: the shell takes one line at a time, and
/// leaves what is behind it to the programs that it starts.
fn script(arch: Arch, built: &Built) -> Result<Outcome> {
    let mut session = start(arch, built, "TERM=dumb -- sh")?;
    session.expect(PROMPT)?;
    session.send("head -1 | cat; echo fi''rst $TERM.\nin''put\necho sec''ond\nexit 5\n")?;
    session.expect("\nin''put\n")?;
    session.expect("first dumb.\n")?;
    session.expect("second\n")?;
    session.ends_with(5)?;
    Ok(Outcome::Passed)
}

/// A program without a shell above it cannot be stopped by ^Z: nothing would let it run on.
fn alone(arch: Arch, built: &Built) -> Result<Outcome> {
    let mut session = start(arch, built, "-- sh -c \"echo run''ning; sleep 1; exit 9\"")?;
    session.answer("", "running\n")?;
    session.send(STOP)?;
    session.ends_with(9)?;
    Ok(Outcome::Passed)
}
