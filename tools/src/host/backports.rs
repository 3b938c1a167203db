//! A newer QEMU for a Debian whose own is old: its backports suite.
use crate::host::managers;
use std::fs;
use std::path::Path;

/// The commands that install `packages`, from the backports where those are newer.
pub fn commands(packages: &[&str], root: bool) -> Vec<Vec<String>> {
    let mut commands = managers::commands_as("apt-get", packages, root);
    let Some((suite, file, entry)) = backports() else {
        return commands;
    };
    eprintln!("run.sh: this Debian's QEMU is old; taking it from {suite}");
    if let Some(install) = commands.last_mut()
        && let Some(at) = install.iter().position(|word| word == "install")
    {
        install.splice(at + 1..at + 1, ["-t".to_owned(), suite]);
    }
    if let Some(entry) = entry {
        // sh -c: the entry goes through tee, because only tee runs as root.
        let sudo = if root { "" } else { "sudo " };
        let write = format!("printf '%s' '{entry}' | {sudo}tee {file}");
        commands.insert(0, ["sh", "-c", &write].map(str::to_owned).to_vec());
    }
    commands
}

/// On a Debian whose own QEMU is old: its backports suite, the file to put its entry in, and the
/// entry when no source names the suite yet. The entry is made from the one that is already there,
/// so it points to the same server.
fn backports() -> Option<(String, &'static str, Option<String>)> {
    let release = release();
    let field = |name: &str| field(&release, name);
    if field("ID")? != "debian" || field("VERSION_ID")?.parse::<u32>().ok()? > 12 {
        return None;
    }
    let codename = field("VERSION_CODENAME")?;
    let suite = format!("{codename}-backports");
    let sources = source_texts();
    let file = "/etc/apt/sources.list.d/quire-backports.sources";
    let has = sources.iter().any(|text| {
        text.lines()
            .any(|line| !line.starts_with('#') && line.contains(&suite))
    });
    if has {
        return Some((suite, file, None));
    }
    let entry = sources
        .iter()
        .find_map(|text| backports_entry(text, &codename))?;
    Some((suite, file, Some(entry)))
}

/// What this system says that it is; empty where it does not.
pub fn release() -> String {
    fs::read_to_string("/etc/os-release").unwrap_or_default()
}

/// A field of [`release`].
pub fn field(release: &str, name: &str) -> Option<String> {
    let line = release
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix('='))?;
    Some(line.trim_matches('"').to_owned())
}

/// All of apt's source files.
pub fn source_texts() -> Vec<String> {
    let mut files = vec![Path::new("/etc/apt/sources.list").to_owned()];
    if let Ok(folder) = fs::read_dir("/etc/apt/sources.list.d") {
        files.extend(folder.filter_map(|entry| Some(entry.ok()?.path())));
    }
    let known = |path: &Path| {
        path.extension()
            .is_some_and(|kind| kind == "list" || kind == "sources")
    };
    files
        .iter()
        .filter(|path| known(path))
        .filter_map(|path| fs::read_to_string(path).ok())
        .collect()
}

/// A deb822 entry for the backports of `codename`, from an entry (of either form) for `codename`
/// itself.
fn backports_entry(sources: &str, codename: &str) -> Option<String> {
    Some(server(sources, codename)?.entry(&format!("{codename}-backports")))
}

/// Where a suite comes from.
#[derive(Debug, PartialEq, Eq)]
pub struct Server {
    uris: String,
    key: Option<String>,
}

impl Server {
    /// A deb822 entry for other suites of the same server.
    pub fn entry(&self, suites: &str) -> String {
        let key = self.key.as_ref();
        let key = key.map(|key| format!("Signed-By: {key}\n"));
        format!(
            "Types: deb\nURIs: {}\nSuites: {suites}\nComponents: main\n{}",
            self.uris,
            key.unwrap_or_default()
        )
    }
}

/// The server that apt's sources name for a suite, in either form.
pub fn server(sources: &str, wanted: &str) -> Option<Server> {
    for stanza in sources.split("\n\n") {
        let field = |name: &str| {
            stanza
                .lines()
                .find_map(|line| line.strip_prefix(name).map(str::trim))
        };
        let (Some(uris), Some(suites)) = (field("URIs:"), field("Suites:")) else {
            continue;
        };
        if suites.split_whitespace().any(|suite| suite == wanted) {
            let (uris, key) = (uris.to_owned(), field("Signed-By:").map(str::to_owned));
            return Some(Server { uris, key });
        }
    }
    for line in sources.lines() {
        let mut words = line.split_whitespace();
        if words.next() != Some("deb") {
            continue;
        }
        let mut words = words.skip_while(|word| word.starts_with('[') || word.ends_with(']'));
        if let (Some(uri), Some(suite)) = (words.next(), words.next())
            && suite == wanted
        {
            let (uris, key) = (uri.to_owned(), None);
            return Some(Server { uris, key });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backports_from_either_form() {
        let modern = "Types: deb\nURIs: http://mirror/debian\nSuites: bookworm bookworm-updates\nComponents: main\nSigned-By: /k\n";
        let entry = backports_entry(modern, "bookworm").unwrap();
        assert_eq!(
            entry,
            "Types: deb\nURIs: http://mirror/debian\nSuites: bookworm-backports\nComponents: main\nSigned-By: /k\n"
        );
        let old = "# deb x\ndeb [arch=amd64] http://mirror/debian bookworm main\n";
        assert!(
            backports_entry(old, "bookworm")
                .unwrap()
                .contains("URIs: http://mirror/debian\n")
        );
        assert_eq!(backports_entry(old, "trixie"), None);
    }
}
