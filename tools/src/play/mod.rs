//! `./run.sh play`: a page in the browser with a machine behind it. Each button has two processes
//! do one thing to their memory, and shows what became of their page tables and of physical memory.
//!
//! The server is on the loopback only, and serves one request after the other: there is one
//! machine.
mod scene;

use crate::args::PlayArgs;
use crate::{build, install};
use anyhow::{Context, Result, anyhow};
pub use scene::Scene;
use std::net::Ipv4Addr;
use tiny_http::{Header, Method, Request, Response, Server};

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
    for request in server.incoming_requests() {
        answer(&mut scene, request)?;
    }
    Ok(())
}

fn answer(scene: &mut Scene, mut request: Request) -> Result<()> {
    // A page of another site may send requests here, but not with this name of ours.
    let ours = |header: &Header| {
        let name = header.value.as_str().split(':').next();
        header.field.equiv("Host") && matches!(name, Some("127.0.0.1" | "localhost"))
    };
    if !request.headers().iter().any(ours) {
        return respond(
            request,
            403,
            "text/plain",
            "not asked by this name".to_owned(),
        );
    }
    let path = request
        .url()
        .split('?')
        .next()
        .unwrap_or_default()
        .to_owned();
    match (request.method(), path.as_str()) {
        (Method::Get, "/") => respond(request, 200, "text/html", PAGE.to_owned()),
        (Method::Post, "/step") => {
            let mut step = String::new();
            let body = std::io::Read::take(request.as_reader(), STEP);
            let read = std::io::Read::read_to_string(&mut { body }, &mut step);
            match read
                .context("no text")
                .and_then(|_| scene.step(step.trim()))
            {
                Ok(shown) => respond(request, 200, "application/json", shown),
                Err(error) => respond(request, 500, "text/plain", format!("{error:#}")),
            }
        }
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
