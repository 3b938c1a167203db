//! A copy of the checkout below target/, to write breaks into.
use super::breaks::{Break, Edit, edited};
use anyhow::{Context, Result, ensure};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tools::host::workspace;

/// What each crate with breaks gets: which break is chosen. On the host a variable says it, and
/// which ones a test comes to is printed, beside what libtest captures; in a kernel it stands
/// behind [`MARK`] in its file.
const CHOICE: &str = include_str!("choice.rs");
/// The words before the chosen number in a kernel's file; also in `choice.rs`.
const MARK: [u32; 3] = [0x5175_6972, 0x6d75_7461, 0x6e74_2064];

/// The copy.
pub struct Tree {
    root: PathBuf,
    /// What was written over, as it is in the checkout.
    changed: BTreeMap<PathBuf, Vec<u8>>,
}

impl Tree {
    /// Makes the copy the same as the checkout; files that are so already are not written, and what
    /// was built of them stays new.
    pub fn new() -> Result<Tree> {
        let tree = Tree {
            root: workspace::target().join("mutants/tree"),
            changed: BTreeMap::new(),
        };
        let listed = Command::new("git")
            .current_dir(workspace::root())
            .args([
                "ls-files",
                "-z",
                "--cached",
                "--others",
                "--exclude-standard",
            ])
            .output()
            .context("cannot start git")?;
        ensure!(listed.status.success(), "git ls-files: {}", listed.status);
        let listed = String::from_utf8(listed.stdout)?;
        let mut files = Vec::new();
        // cargo reads the settings of the checkout around it, too: they would count twice.
        let wanted = |file: &&str| !file.is_empty() && !file.starts_with(".cargo/");
        for file in listed.split('\0').filter(wanted) {
            // A file that is deleted and not yet so in the index.
            let Ok(content) = fs::read(workspace::root().join(file)) else {
                continue;
            };
            tree.write(Path::new(file), &content)?;
            files.push(PathBuf::from(file));
        }
        tree.keep_only(&files)?;
        Ok(tree)
    }

    /// Where it is.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where it is built. Not where the checkout is: cargo names files by places within a
    /// workspace, and takes what one has built for the other's.
    pub fn target() -> PathBuf {
        workspace::target().join("mutants/target")
    }

    fn write(&self, file: &Path, content: &[u8]) -> Result<()> {
        let path = self.root.join(file);
        if fs::read(&path).is_ok_and(|old| old == content) {
            return Ok(());
        }
        let folder = path.parent().context("it is in a folder")?;
        fs::create_dir_all(folder)?;
        let source = fs::metadata(workspace::root().join(file))?;
        fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(fs::set_permissions(&path, source.permissions())?)
    }

    /// Removes Rust files that the checkout no longer has: tests are found by their files.
    fn keep_only(&self, files: &[PathBuf]) -> Result<()> {
        let mut found = Vec::new();
        tools::house::source::rust_files(&self.root, &mut found)?;
        for path in found {
            let relative = path.strip_prefix(&self.root)?;
            if !files.iter().any(|file| file == relative) {
                fs::remove_file(&path)?;
            }
        }
        Ok(())
    }

    /// Writes some breaks, each with its number, and makes everything else as in the checkout.
    /// Returns the numbers of those that were not written: they meet another one, or cannot be
    /// chosen.
    pub fn choose(&mut self, breaks: &[(usize, &Break)]) -> Result<Vec<usize>> {
        let mut left = Vec::new();
        let mut edits: HashMap<&str, Vec<Edit>> = HashMap::new();
        let mut crates = BTreeMap::new();
        for (number, one) in breaks {
            let text = fs::read_to_string(workspace::root().join(&one.file))?;
            let file = syn::parse_file(&text)?;
            let on = format!("crate::drawn::on({number})");
            let others = edits.entry(&one.file).or_default();
            match one.chosen(&text, &file, &on) {
                Some(edit) if !others.iter().any(|other| other.meets(&edit)) => {
                    others.push(edit);
                    crates.insert(one.package(), ());
                }
                _ => left.push(*number),
            }
        }
        let mut files = BTreeMap::new();
        for (file, edits) in edits {
            let text = fs::read_to_string(workspace::root().join(file))?;
            files.insert(PathBuf::from(file), edited(&text, &edits));
        }
        for krate in crates.keys() {
            let root = PathBuf::from(match *krate {
                "kernel" => "kernel/src/main.rs".to_owned(),
                krate => format!("kernel/{krate}/src/lib.rs"),
            });
            let text = match files.remove(&root) {
                Some(text) => text,
                None => fs::read_to_string(workspace::root().join(&root))?,
            };
            files.insert(root, text + CHOICE);
        }
        self.write_all(files)?;
        Ok(left)
    }

    /// Writes one break, and makes everything else as in the checkout.
    pub fn alone(&mut self, one: &Break) -> Result<()> {
        let text = fs::read_to_string(workspace::root().join(&one.file))?;
        let text = edited(&text, &[one.alone(&text)]);
        self.write_all(BTreeMap::from([(PathBuf::from(&one.file), text)]))
    }

    fn write_all(&mut self, files: BTreeMap<PathBuf, String>) -> Result<()> {
        for (file, content) in std::mem::take(&mut self.changed) {
            if !files.contains_key(&file) {
                self.write(&file, &content)?;
            }
        }
        for (file, text) in files {
            self.write(&file, text.as_bytes())?;
            let original = fs::read(workspace::root().join(&file))?;
            self.changed.insert(file, original);
        }
        Ok(())
    }
}

/// A kernel's file in which break `number` is chosen; `None` where it has no breaks to choose.
pub fn with_choice(image: &[u8], number: u32) -> Option<Vec<u8>> {
    let mark: Vec<u8> = MARK.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut image = image.to_owned();
    let found = |bytes: &[u8]| bytes == mark;
    let places: Vec<usize> = image
        .windows(mark.len())
        .enumerate()
        .filter_map(|(at, bytes)| found(bytes).then_some(at + mark.len()))
        .collect();
    for at in &places {
        image
            .get_mut(*at..at + 4)?
            .copy_from_slice(&number.to_le_bytes());
    }
    (!places.is_empty()).then_some(image)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_choice_stands_behind_its_mark() {
        for word in MARK {
            assert!(
                CHOICE.replace('_', "").contains(&format!("{word:#010x}")),
                "{word:#x}"
            );
        }
        let words = |choice: u32| {
            let words = [&[1, 2], &MARK[..], &[choice, 3]].concat();
            let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            bytes.insert(0, 9);
            bytes
        };
        assert_eq!(with_choice(&words(u32::MAX), 7), Some(words(7)));
        assert_eq!(with_choice(&[1; 100], 7), None);
    }
}
