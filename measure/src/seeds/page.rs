//! The whole page: what it is, how many figures agree, and the threads with their tables.
use super::render::{Machine, Tally, render, say};
use super::{Chosen, verdict};
use std::fmt::Write;
use std::path::Path;
use tools::args::SeedsArgs;
use tools::host::{words, workspace};

/// All of it as Markdown, and what has no reason.
pub fn page(chosen: &Chosen, machines: &[Machine], args: &SeedsArgs) -> (String, Vec<String>) {
    let mut unexplained = Vec::new();
    let (mut body, mut sums) = (String::new(), String::new());
    for (thread, tables) in chosen {
        let mut sum = Tally::default();
        let _ = write!(
            body,
            "\n## {}: {}\n\n{}\n",
            thread.number, thread.subject, thread.source
        );
        for table in tables {
            let out = render(table, machines);
            let _ = write!(body, "\n{}\n\n```text\n{}```\n", table.title, out.text);
            sum.iter_mut()
                .zip(out.tally)
                .for_each(|(sum, more)| *sum += more);
            unexplained.extend(out.unexplained);
        }
        if !thread.notes.is_empty() {
            let _ = write!(body, "\n{}\n", thread.notes);
        }
        let _ = writeln!(sums, "- {}: {}", thread.number, say(sum));
    }
    (head(machines, args) + &sums + &body, unexplained)
}

/// What it is and how to make it.
fn head(machines: &[Machine], args: &SeedsArgs) -> String {
    let mut command = "./run.sh seeds".to_owned();
    if let [(arch, _)] = machines {
        let _ = write!(command, " --arch {arch}");
    }
    if !args.only.is_empty() {
        let _ = write!(command, " --only {}", args.only.join(","));
    }
    if !args.size.is_empty() {
        let _ = write!(command, " --size {}", words::list(&args.size));
    }
    if args.pages != 1 << 18 {
        let _ = write!(command, " --pages {}", args.pages);
    }
    if let Some(path) = &args.write {
        let _ = write!(command, " --write {}", shown(path).display());
    }
    format!(
        "# The threads' tables, and the same measured here\n\n\
         This page is written by `{command}`.\n\n\
         Each table stands as in its thread, and below each of its lines is Quire's, by machine. There it is not time that is measured but guest \
         instructions of the same operation on {} MiB (QEMU's -icount): two runs print the same. `k` are thousands of instructions for \
         all of it.\n\n{}\n\n",
        args.pages / 256,
        verdict::RULE
    )
}

/// A path in the form for a page: below the repository, or else the name of the file alone, for
/// where else it is differs from machine to machine.
fn shown(path: &Path) -> &Path {
    let below = path.strip_prefix(workspace::root()).unwrap_or(path);
    match below.is_absolute() {
        true => below.file_name().map_or(below, Path::new),
        false => below,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_says_nothing_of_the_machine_that_wrote_it() {
        let below = workspace::root().join("docs/seeds.md");
        for (path, is_shown) in [
            (below.as_path(), "docs/seeds.md"),
            (Path::new("docs/seeds.md"), "docs/seeds.md"),
            (Path::new("/elsewhere/seeds.md"), "seeds.md"),
        ] {
            assert_eq!(shown(path), Path::new(is_shown));
        }
    }
}
