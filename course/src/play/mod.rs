//! `./run.sh play`: a page in the browser with a machine behind it. Each button has two processes
//! do one thing to their memory, and shows what became of their page tables and of physical memory.
//!
//! The server is on the loopback only. There is one machine, which does one step after the other;
//! who is slow to say which keeps nobody from it.
mod scene;

use anyhow::{Context, Result, anyhow};
pub use scene::Scene;
use std::io::Read;
use std::net::Ipv4Addr;
use std::sync::mpsc;
use std::thread;
use tiny_http::{Header, Method, Request, Response, Server};
use tools::args::PlayArgs;
use tools::host::install;
use tools::machine::build;

/// The page; its script asks for steps.
const PAGE: &str = include_str!("page.html");
/// The longest step.
const STEP: u64 = 64;

/// Serves until the program is ended.
pub fn play(args: &PlayArgs) -> Result<u8> {
    let server = listen(args.port)?;
    install::ensure_qemu(&[args.arch], args.install.no_install)?;
    let built = build::build(args.arch, false)?;
    let scene = Scene::start(args.arch, &built)?;
    println!("http://{}/   (ctrl-c ends it)", server.server_addr());
    serve(&server, scene)?;
    Ok(0)
}

/// A server on this port of the loopback.
pub fn listen(port: u16) -> Result<Server> {
    let server = Server::http((Ipv4Addr::LOCALHOST, port));
    server.map_err(|error| anyhow!("--port {port}: {error}"))
}

/// Answers requests until the server is unblocked.
pub fn serve(server: &Server, mut scene: Scene) -> Result<()> {
    let (send, asked) = mpsc::channel();
    thread::scope(|threads| {
        threads.spawn(move || {
            for mut request in server.incoming_requests() {
                let send = send.clone();
                // Each is read by a thread of its own.
                threads.spawn(move || {
                    let step = read(&mut request);
                    // The machine may have ended.
                    let _ = send.send((request, step));
                });
            }
        });
        let mut asked = asked.into_iter();
        asked.try_for_each(|(request, step)| answer(&mut scene, request, step))
    })
}

/// What a request asks for.
fn read(request: &mut Request) -> Result<String> {
    let mut step = String::new();
    let mut body = request.as_reader().take(STEP);
    body.read_to_string(&mut step).context("no text")?;
    Ok(step.trim().to_owned())
}

/// Whether a request was made by this page: a page of another site may send some here, but neither
/// with this name of ours nor without its own.
fn is_ours(request: &Request) -> bool {
    let header = |name: &'static str| {
        let found = request.headers().iter().find(|it| it.field.equiv(name));
        found.map(|header| header.value.as_str())
    };
    let Some(host) = header("Host") else {
        return false;
    };
    let name = host.split(':').next();
    matches!(name, Some("127.0.0.1" | "localhost"))
        && header("Origin").is_none_or(|origin| origin == format!("http://{host}"))
}

fn answer(scene: &mut Scene, request: Request, step: Result<String>) -> Result<()> {
    if !is_ours(&request) {
        let why = "not asked by this page".to_owned();
        return respond(request, 403, "text/plain", why);
    }
    let path = request.url().split('?').next().unwrap_or_default();
    match (request.method(), path) {
        (Method::Get, "/") => respond(request, 200, "text/html", PAGE.to_owned()),
        (Method::Post, "/step") => match step.and_then(|step| scene.step(&step)) {
            Ok(shown) => respond(request, 200, "application/json", shown),
            Err(error) => respond(request, 500, "text/plain", format!("{error:#}")),
        },
        (Method::Post, "/new") => match scene.again() {
            Ok(()) => respond(request, 200, "text/plain", String::new()),
            Err(error) => respond(request, 500, "text/plain", format!("{error:#}")),
        },
        _ => respond(request, 404, "text/plain", "not here".to_owned()),
    }
}

fn respond(request: Request, status: u16, kind: &str, text: String) -> Result<()> {
    let kind = format!("{kind}; charset=utf-8");
    let header = Header::from_bytes("Content-Type", kind).map_err(|()| anyhow!("a header"))?;
    let response = Response::from_string(text).with_status_code(status);
    // Who has gone away needs no answer.
    let _ = request.respond(response.with_header(header));
    Ok(())
}
