//! `./run.sh book`: the chapters in docs, the map and the sheets of the labs as one book, by
//! mdBook.
//!
//! `docs/book/SUMMARY.md` lists the pages, which are written to be read where they are: [`pages`]
//! lays them out for mdBook. A warning of mdBook's is an error here, and so is a link of the
//! finished book that leads nowhere ([`links`]).
mod links;
mod mdbook;
mod pages;

use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tools::args::BookArgs;
use tools::host::errors::UsageError;
use tools::host::workspace;

pub use mdbook::ensure as ensure_mdbook;

/// What was built.
#[derive(Debug)]
pub struct Book {
    /// How many pages it has.
    pub pages: usize,
    /// How many links on them were followed.
    pub links: usize,
}

/// Builds the book and says where it is.
pub fn book(args: &BookArgs) -> Result<u8> {
    let out = match &args.out {
        Some(out) => empty(workspace::user_path(out))?,
        None => workspace::target().join("book/html"),
    };
    let mdbook = ensure_mdbook(args.install.no_install)?;
    let book = build(&mdbook, &out)?;
    println!(
        "{}: {} pages, {} links lead somewhere; print.html is all of it on one page",
        out.join("index.html").display(),
        book.pages,
        book.links
    );
    Ok(0)
}

/// A folder that mdBook may clear: it has nothing in it, or a book.
fn empty(out: PathBuf) -> Result<PathBuf, UsageError> {
    let has_files = fs::read_dir(&out).is_ok_and(|mut entries| entries.next().is_some());
    if out.is_file() || (has_files && !out.join("toc.html").is_file()) {
        return Err(UsageError(format!(
            "--out {}: there is something else, which would be deleted",
            out.display()
        )));
    }
    Ok(out)
}

/// Builds it into a folder, whose former contents go.
pub fn build(mdbook: &Path, out: &Path) -> Result<Book> {
    let folder = workspace::target().join("book/source");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let pages = pages::lay_out(workspace::root(), &folder.join("src"))?;
    fs::copy(
        workspace::root().join("docs/book/book.toml"),
        folder.join("book.toml"),
    )?;
    let output = Command::new(mdbook)
        .arg("build")
        .arg("--dest-dir")
        .arg(std::path::absolute(out)?)
        .arg(&folder)
        .env_remove("RUST_LOG")
        .output()
        .with_context(|| format!("cannot start {}", mdbook.display()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success() && !said.contains("WARN") && !said.contains("ERROR"),
        "mdBook is not content:\n{said}"
    );
    let links = links::check(out)?;
    Ok(Book { pages, links })
}
