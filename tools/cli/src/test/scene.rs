//! The scene: what each step of the tour takes, and the page that plays it.
use super::job::Job;
use anyhow::{Context, Result, ensure};
use course::picture::{self, State};
use course::play;
use measure::bench;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;
use tools::host::arch::Arch;
use tools::host::browser;
use tools::host::outcome::Outcome;
use tools::machine::build::Built;
use tools::machine::console;

/// For a boot and a few steps.
const LIMIT: Duration = Duration::from_secs(120);

/// The cases of one architecture.
pub fn run(job: &Job<'_>, arch: Arch, built: &Built) {
    job.case(format!("user.{arch}.scene.steps"), || steps(arch, built));
    job.case(format!("user.{arch}.scene.play"), || {
        with_server(arch, built, questions)
    });
    job.case(
        format!("user.{arch}.scene.browser"),
        || match browser::find() {
            Some(browser) => with_server(arch, built, |port| seen(&browser, port)),
            None => {
                let names = browser::NAMES.join(", ");
                Ok(Outcome::Skipped(format!("no {names} in PATH")))
            }
        },
    );
}

/// The states after some steps.
fn states(arch: Arch, built: &Built, steps: &[&str]) -> Result<Vec<State>> {
    let program = picture::command(steps)?;
    let machine = bench::of_quire(arch, built, "256M", "norandmaps", &program);
    let boot = console::boot(&machine, LIMIT)?;
    let states = State::all(&boot.text)?;
    ensure!(states.len() == steps.len(), "{}", boot.text);
    Ok(states)
}

/// What a step must have moved a counter by.
fn moved(state: &State, counter: &str, by: i64) -> Result<()> {
    let is = state.counters.get(counter).copied().unwrap_or(0);
    ensure!(
        is == by,
        "{}: {counter} is {is}, not {by}: {state:?}",
        state.step
    );
    Ok(())
}

/// The story of docs/book/life-of-a-page.md, with the figures that it has.
fn steps(arch: Arch, built: &Built) -> Result<Outcome> {
    let steps = [
        "size 64",
        "map 0-1023",
        "write 100",
        "write 0",
        "fork",
        "child write 3",
        "write 20",
        "exit",
        "write 1",
        "unmap 0-15",
        "jump",
        "write 0",
    ];
    let states = states(arch, built, &steps)?;
    let at = |step: usize| &states[step];
    for (state, fails) in states.iter().zip((0..).map(|at| at >= 10)) {
        ensure!(state.error.is_some() == fails, "{state:?}");
        ensure!(picture::svg(state).contains(&state.step));
    }
    // The first touch: one fault, one update of the account, 16 entries.
    for (counter, by) in [
        ("pgfault", 1),
        ("pages_zeroed", 16),
        ("account_updates", 1),
        ("entry_writes", 16),
        ("pgalloc_normal", 16),
    ] {
        moved(at(3), counter, by)?;
    }
    // fork shares the scene's table, and those of the program.
    let shared = at(4).counters.get("page_tables_shared").copied();
    ensure!(shared.is_some_and(|tables| tables >= 1), "{:?}", at(4));
    ensure!(at(4).processes.len() == 2 && at(7).processes.len() == 1);
    // The child copies its table, and then the page: nothing was written beside it.
    moved(at(5), "page_tables_unshared", 1)?;
    moved(at(5), "pgfault", 1)?;
    moved(at(5), "pages_copied", 1)?;
    // The child has gone, and the parent is alone with its folio: it writes in place.
    moved(at(8), "cow_copied", 0)?;
    moved(at(8), "cow_reused", 1)?;
    // The last reference, and the folio is free.
    moved(at(9), "pgfree", 16)?;
    Ok(Outcome::Passed)
}

/// An answer of the server: the status line, and the body.
fn ask(port: u16, method: &str, path: &str, host: &str, body: &str) -> Result<(String, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (head, body) = text.split_once("\r\n\r\n").context("no answer")?;
    Ok((
        head.lines().next().unwrap_or_default().to_owned(),
        body.to_owned(),
    ))
}

/// Serves a new scene while `f` asks at its port.
fn with_server(arch: Arch, built: &Built, f: impl FnOnce(u16) -> Result<()>) -> Result<Outcome> {
    let server = play::listen(0)?;
    let port = server.server_addr().to_ip().context("a port")?.port();
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| play::serve(&server, play::Scene::start(arch, built)?));
        let asked = f(port);
        server.unblock();
        serving.join().ok().context("the server died")??;
        asked
    })?;
    Ok(Outcome::Passed)
}

/// The page in a browser: its script has the steps done, and shows the last one.
fn seen(browser: &Path, port: u16) -> Result<()> {
    let steps = "size+64,map+0-1023,write+0-40,fork,child+write+3,jump,write+20";
    let address = format!("http://127.0.0.1:{port}/?{steps}");
    for dark in [false, true] {
        let options = [
            "--dump-dom".to_owned(),
            // Of the page's own clock, which stands still while it waits for an answer.
            "--virtual-time-budget=10000".to_owned(),
            browser::theme(dark),
        ];
        let text = String::from_utf8(browser::open(browser, &options, &address)?)?;
        ensure!(text.contains("data-ready=\"yes\""), "{text}");
        let (_, body) = text.split_once("<body").context("no body")?;
        ensure!(
            body.contains("<svg") && body.contains(">write 20</text>"),
            "{body}"
        );
        ensure!(body.matches("<li>").count() == 7, "{body}");
        ensure!(
            body.matches("class=\"bad\"").count() == if dark { 2 } else { 1 },
            "{body}"
        );
        ensure!(body.contains("<td>instructions</td>"), "{body}");
    }
    Ok(())
}

/// The page, its steps, and what is not for everybody.
fn questions(port: u16) -> Result<()> {
    let local = format!("127.0.0.1:{port}");
    let get = |path: &str, host: &str| ask(port, "GET", path, host, "");
    let (status, text) = get("/", &local)?;
    ensure!(
        status.contains("200") && text.contains("Two processes"),
        "{status}"
    );
    ensure!(get("/", "quire.example")?.0.contains("403"));
    let of_origin = |origin: &str| get("/", &format!("{local}\r\nOrigin: {origin}"));
    ensure!(of_origin("http://quire.example")?.0.contains("403"));
    ensure!(of_origin(&format!("http://{local}"))?.0.contains("200"));
    ensure!(get("/etc/passwd", &local)?.0.contains("404"));
    // Somebody who never says all keeps nobody waiting.
    let mut slow = TcpStream::connect(("127.0.0.1", port))?;
    write!(
        slow,
        "POST /step HTTP/1.1\r\nHost: {local}\r\nContent-Length: 5000\r\n\r\nwri"
    )?;
    let step = |line: &str| ask(port, "POST", "/step", &local, line);
    for line in ["size 16", "map 0-63", "write 0-3", "fork", "child write 2"] {
        let (status, text) = step(line)?;
        ensure!(
            status.contains("200") && text.contains("<svg"),
            "{line}: {status}\n{text}"
        );
        ensure!(text.contains("\"error\":null"), "{line}: {text}");
    }
    // The first process still maps what the second has not written: that is parked, and the rest,
    // which is the second's alone, stored.
    let out = step("child out 0-3")?.1;
    ensure!(out.contains("swap slots: 3 parked, 1 stored"), "{out}");
    ensure!(step("write 100")?.1.contains("page 100: signal 11"));
    ensure!(step("jump")?.1.contains("no step jump"));
    ensure!(step("write 0\nexit")?.0.contains("500"));
    ensure!(step(&"x".repeat(10_000))?.0.contains("200"));
    ensure!(ask(port, "POST", "/new", &local, "")?.0.contains("200"));
    // A new machine has no second process.
    ensure!(
        step("child write 1")?
            .1
            .contains("there is no second process")
    );
    Ok(())
}
