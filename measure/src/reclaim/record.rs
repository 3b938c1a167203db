//! Records what programs of Debian do to pages, on Quire, whose clock counts instructions: the same
//! each time. A recipe's first line has how many of the spaces are kept, of how many accesses a
//! window is, and the packages; what follows is bash's.
use crate::bench;
use anyhow::{Context, Result, bail, ensure};
use counts::pages::{Access, Stream};
use std::{cmp::Reverse, collections::BTreeSet, fs, path::Path, time::Duration};
use tools::host::arch::Arch::X86_64;
use tools::host::debian;
use tools::host::workspace::{self, Temporary};
use tools::machine::console::Boot;
use tools::machine::guest::End;
use tools::machine::qemu::plugin::Plugin;
use tools::machine::{build, console, rootfs};

const SHELL: [&str; 4] = ["base-files", "bash", "coreutils", "mount"];
/// The most accesses that are kept of a stream.
const MOST: usize = 32_000;
/// The status with which each script ends.
const ENDS: u8 = 5;
const LIMIT: Duration = Duration::from_secs(3600);

/// Records a program, and keeps its stream in the folder beside that of the recipes.
pub fn record(name: &str) -> Result<()> {
    let folder = workspace::root().join("measure/trial");
    let recipe = fs::read_to_string(folder.join("recipes").join(name));
    let recipe = recipe.with_context(|| format!("--record {name}: there is no such recipe"))?;
    let words = Vec::from_iter(recipe.lines().next().unwrap_or_default().split(' '));
    let [_, spaces, window, packages @ ..] = &*words else {
        bail!("{name} does not begin with what is kept");
    };
    let packages = [&SHELL, packages].concat();
    let root = debian::root(X86_64, &format!("trial-{name}"), &packages)?;
    let out = Temporary::name("pages");
    boot(&root, &recipe, out.path(), window.parse()?)?;
    let bytes = fs::read(out.path()).context("the plugin recorded nothing")?;
    let words = bytes.as_chunks().0.iter();
    let all = Vec::from_iter(words.map(|word| Access::of(u64::from_le_bytes(*word))));
    let mut kept = kept(&all, spaces.parse()?);
    eprintln!(
        "run.sh: {name}: {} accesses, {MOST} at most are kept",
        kept.len()
    );
    kept.truncate(MOST);
    let file = folder.join("streams").join(name);
    Ok(fs::write(file, Stream::new(&kept).pack())?)
}

/// Boots the files of a folder with a script, while the plugin records windows of so many accesses.
fn boot(root: &Path, script: &str, out: &Path, window: u64) -> Result<()> {
    let mut archive = rootfs::of_folder(root, u64::MAX)?;
    for folder in ["dev", "proc", "sys", "tmp"] {
        archive.folder_if_absent(folder)?;
    }
    let init = format!(
        "#!/bin/bash\nexport PATH=/bin:/usr/bin\nmount -t proc proc /proc\n{script}exit {ENDS}\n"
    );
    archive.replace("init", 0o755, init.as_bytes())?;
    let archive = Temporary::file("cpio", &archive.finish()?)?;
    let counts = Temporary::name("jsonl");
    let mut machine = bench::counted(X86_64, "2G");
    machine.image = build::build(X86_64, false)?.image;
    machine.initramfs = Some(archive.path().to_owned());
    machine.command_line = "quiet".to_owned();
    let pages = Some((out.to_owned(), window));
    machine.plugin = Some(Plugin {
        pages,
        ..Plugin::build(counts.path())?
    });
    let Boot { end, text } = console::boot_patiently(&machine, LIMIT)?;
    ensure!(end == End::Status(ENDS), "it ended with {end:?}:\n{text}");
    Ok(())
}

/// Of the spaces with the most pages, what is done to pages that are written: others are of files.
fn kept(all: &[Access], spaces: usize) -> Vec<Access> {
    let page = |it: &Access| (it.space, it.page);
    let written = BTreeSet::from_iter(all.iter().filter(|it| it.write).map(page));
    let mut largest = Vec::from_iter(written.iter().map(|(space, _)| *space));
    largest.dedup();
    let size = |space: &u64| written.range((*space, 0)..(space + 1, 0)).count();
    largest.sort_by_key(|space| Reverse(size(space)));
    largest.truncate(spaces);
    let mine = all.iter().filter(|it| written.contains(&page(it)));
    let mine = mine.filter_map(|it| {
        let space = largest.iter().position(|space| *space == it.space)? as u64;
        Some(Access { space, ..*it })
    });
    mine.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_small_spaces_are_left_out() {
        let access = |(space, page, write)| Access { space, page, write };
        let all = [
            (0, 9, true),
            (3, 1, false),
            (3, 1, true),
            (3, 2, true),
            (3, 7, false),
        ];
        let mine = [(0, 1, false), (0, 1, true), (0, 2, true)];
        assert_eq!(kept(&all.map(access), 1), mine.map(access));
    }
}
