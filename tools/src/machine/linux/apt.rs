//! apt with lists, cache and architectures of its own, which leaves the host's as they are.
use super::choose::{Package, debian, packages};
use crate::host::arch::Arch;
use crate::host::{backports, managers, progress};
use anyhow::{Context, Result, bail, ensure};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of such an apt.
pub struct Apt(PathBuf);

/// The kernels that are looked at, as apt-cache(8) searches for them.
const KERNELS: &str = "^linux-(binary|image)-[0-9].*-cloud-(amd64|arm64)$";

impl Apt {
    /// Sets one up in `folder`, with the host's servers and the newer suites that these may have.
    pub fn new(folder: &Path) -> Result<Apt> {
        ensure!(
            managers::starts("apt-get") && managers::starts("dpkg-deb"),
            "this system has no apt"
        );
        let sources = sources(&backports::release(), &backports::source_texts())?;
        for name in ["state/lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(folder.join(name))?;
        }
        fs::write(folder.join("kernels.sources"), sources)?;
        fs::write(folder.join("status"), "")?;
        let dump = Command::new("apt-config").arg("dump").output()?;
        let host = String::from_utf8_lossy(&dump.stdout);
        fs::write(folder.join("apt.conf"), settings(folder, &host))?;
        Ok(Apt(folder.to_owned()))
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("APT_CONFIG", self.0.join("apt.conf"));
        command
    }

    /// The kernels that the servers have now.
    pub fn kernels(&self) -> Result<Vec<Package>> {
        Ok(packages(&self.search("its kernels", KERNELS)?))
    }

    /// The records (deb-control(5)) of the packages that the servers have now and whose names fit.
    /// A suite that a server does not have is no error; `apt-get` names it when nothing is found.
    pub fn search(&self, what: &str, names: &str) -> Result<String> {
        let mut update = self.command("apt-get");
        update.args(["update", "-q"]);
        let updated = progress::step(&format!("asking the distribution for {what}"), &mut update);
        let mut search = self.command("apt-cache");
        search.args(["search", "--full", "--names-only", names]);
        let found = progress::step(&format!("searching {what}"), &mut search)?;
        match updated {
            Err(error) if found.is_empty() => Err(error),
            _ => Ok(String::from_utf8_lossy(&found).into_owned()),
        }
    }

    /// Puts the kernel of a package into `file`.
    pub fn unpack_kernel(&self, package: &Package, scratch: &Path, file: &Path) -> Result<()> {
        let tree = self.unpack(&[&package.named_exactly()], scratch)?;
        let kernel = kernel_in(&tree);
        let kernel = kernel.with_context(|| format!("there is no vmlinuz in {}", package.name))?;
        fs::copy(&kernel, file).with_context(|| format!("cannot write {}", file.display()))?;
        Ok(())
    }

    /// The files of packages, in a folder below `scratch`; apt checks what it downloads against the
    /// signed lists.
    pub fn unpack(&self, packages: &[&str], scratch: &Path) -> Result<PathBuf> {
        let mut download = self.command("apt-get");
        download.args(["download", "-q"]).args(packages);
        download.current_dir(scratch);
        progress::step(
            &format!("downloading {}", packages.join(", ")),
            &mut download,
        )?;
        let tree = scratch.join("tree");
        for entry in fs::read_dir(scratch)? {
            let deb = entry?.path();
            if deb.extension().is_some_and(|kind| kind == "deb") {
                let mut extract = Command::new("dpkg-deb");
                extract.arg("-x").arg(&deb).arg(&tree);
                progress::step(&format!("unpacking {}", packages.join(", ")), &mut extract)?;
            }
        }
        Ok(tree)
    }
}

/// Below the modules in newer packages, in /boot in older ones.
fn kernel_in(tree: &Path) -> Option<PathBuf> {
    let below = |folder: &Path| {
        let entries = fs::read_dir(folder).ok();
        let paths = entries.into_iter().flatten();
        paths.filter_map(|entry| Some(entry.ok()?.path())).collect()
    };
    let modules: Vec<PathBuf> = below(&tree.join("usr/lib/modules"));
    let boot: Vec<PathBuf> = below(&tree.join("boot"));
    let of_modules = modules.iter().map(|folder| folder.join("vmlinuz"));
    of_modules.chain(boot).find(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("vmlinuz") && path.is_file()
    })
}

/// The entry of the suites that may have a newer kernel than this Debian, on its own server.
fn sources(release: &str, texts: &[String]) -> Result<String> {
    let field = |name| backports::field(release, name).unwrap_or_default();
    if field("ID") != "debian" {
        bail!(
            "run.sh knows where kernels are for Debian only, and this is {}",
            field("PRETTY_NAME")
        );
    }
    let codename = field("VERSION_CODENAME");
    let own = [codename.as_str(), "stable", "testing", "sid", "unstable"];
    let found = own
        .iter()
        .find_map(|suite| texts.iter().find_map(|text| backports::server(text, suite)));
    let server = found.context("apt's sources name no server of this Debian")?;
    Ok(server.entry(&format!("{codename}-backports sid")))
}

/// apt's settings: the host's about servers and proxies, and nothing else of the host. It has
/// hooks that would run.
fn settings(folder: &Path, host: &str) -> String {
    let mut text = String::new();
    for (name, value) in [
        ("Dir::Etc::Main", Path::new("/dev/null")),
        ("Dir::Etc::Parts", Path::new("/dev/null")),
        ("Dir::Etc::SourceList", &folder.join("kernels.sources")),
        ("Dir::Etc::SourceParts", Path::new("/dev/null")),
        ("Dir::Etc::Preferences", Path::new("/dev/null")),
        ("Dir::Etc::PreferencesParts", Path::new("/dev/null")),
        ("Dir::State", &folder.join("state")),
        ("Dir::State::status", &folder.join("status")),
        ("Dir::Cache", &folder.join("cache")),
    ] {
        let _ = writeln!(text, "{name} \"{}\";", value.display());
    }
    let known = Arch::ALL.map(debian).map(|name| format!("\"{name}\";"));
    let _ = writeln!(text, "APT::Architecture \"{}\";", debian(Arch::X86_64));
    let _ = writeln!(text, "APT::Architectures {{ {} }};", known.join(" "));
    let wanted =
        |line: &&str| line.starts_with("Acquire::") && !line.starts_with("Acquire::IndexTargets");
    for line in host.lines().filter(wanted) {
        let _ = writeln!(text, "{line}");
    }
    text + "Acquire::Languages \"none\";\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEBIAN: &str = "ID=debian\nVERSION_CODENAME=bookworm\n";

    #[test]
    fn suites_of_the_same_server() {
        let text = "Types: deb\nURIs: http://mirror/debian\nSuites: bookworm\nSigned-By: /k\n";
        let entry = sources(DEBIAN, &[String::new(), text.to_owned()]).unwrap();
        assert!(entry.contains("URIs: http://mirror/debian\nSuites: bookworm-backports sid\n"));
        assert!(entry.ends_with("Signed-By: /k\n"), "{entry}");
        let rolling = "deb http://mirror/debian unstable main\n".to_owned();
        assert!(sources(DEBIAN, &[rolling]).is_ok());
        assert!(sources(DEBIAN, &[]).is_err());
        let other = sources("ID=ubuntu\nPRETTY_NAME=\"Ubuntu 24.04\"\n", &[]).unwrap_err();
        assert!(
            other.to_string().ends_with("this is Ubuntu 24.04"),
            "{other}"
        );
    }

    #[test]
    fn nothing_of_the_host_but_how_servers_are_reached() {
        let host = "APT::Update::Post-Invoke:: \"rm x\";\nAcquire::http::Proxy \"http://p\";\n\
                    Acquire::IndexTargets::deb::DEP-11 \"\";\nDir::State \"var/lib/apt\";\n";
        let text = settings(Path::new("/f"), host);
        assert!(text.contains("Acquire::http::Proxy \"http://p\";\n"));
        assert!(
            !text.contains("Post-Invoke") && !text.contains("DEP-11") && !text.contains("var/")
        );
        assert!(text.contains("Dir::State \"/f/state\";\n"));
        assert!(
            text.contains("APT::Architectures { \"amd64\"; \"arm64\"; };\n"),
            "{text}"
        );
    }

    #[test]
    fn the_kernel_in_either_place() {
        let tree = crate::host::workspace::Temporary::folder("tree").unwrap();
        assert_eq!(kernel_in(tree.path()), None);
        let boot = tree.path().join("boot");
        fs::create_dir(&boot).unwrap();
        fs::write(boot.join("config-6.12"), "").unwrap();
        assert_eq!(kernel_in(tree.path()), None);
        fs::write(boot.join("vmlinuz-6.12"), "").unwrap();
        assert_eq!(kernel_in(tree.path()), Some(boot.join("vmlinuz-6.12")));
        let modules = tree.path().join("usr/lib/modules/7.2");
        fs::create_dir_all(&modules).unwrap();
        fs::write(modules.join("vmlinuz"), "").unwrap();
        assert_eq!(kernel_in(tree.path()), Some(modules.join("vmlinuz")));
    }
}
