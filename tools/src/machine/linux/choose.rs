//! Which of a distribution's packages has the kernel to compare with.
use crate::host::arch::Arch;

/// A package with a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// For which machine.
    pub arch: Arch,
}

/// Debian's name of a machine.
pub const fn debian(arch: Arch) -> &'static str {
    match arch {
        Arch::X86_64 => "amd64",
        Arch::Aarch64 => "arm64",
    }
}

impl Package {
    /// The package of this name, if it has a kernel of the flavour for virtual machines. Newer
    /// Debians have the kernel in `linux-binary-*`, and an empty `linux-image-*` beside it.
    pub fn named(name: &str, version: &str) -> Option<Package> {
        let arch = Arch::ALL
            .into_iter()
            .find(|arch| name.ends_with(&format!("-cloud-{}", debian(*arch))))?;
        let package = Package {
            name: name.to_owned(),
            version: version.to_owned(),
            arch,
        };
        let release = package.release()?;
        let finished = release.starts_with(|first: char| first.is_ascii_digit());
        (finished && !release.contains("-rc") && !release.contains('~')).then_some(package)
    }

    /// The kernel's release without flavour and machine, as `7.2.13+deb14`.
    pub fn release(&self) -> Option<&str> {
        let name = self
            .name
            .strip_prefix(BINARY)
            .or(self.name.strip_prefix("linux-image-"))?;
        Some(name.split_once("-cloud-")?.0)
    }

    /// The package with the modules of this kernel, which is the same in older Debians.
    pub fn of_modules(&self) -> Package {
        let name = self.name.replacen(BINARY, "linux-modules-", 1);
        Package {
            name,
            ..self.clone()
        }
    }

    /// As apt-get(8) takes it: this version, for its machine.
    pub fn named_exactly(&self) -> String {
        let Package {
            name,
            version,
            arch,
        } = self;
        format!("{name}:{}={version}", debian(*arch))
    }

    /// What orders packages by age: the numbers of the release, and which of two with the same
    /// has the kernel.
    fn age(&self) -> (Vec<u64>, bool) {
        let numbers = self.release().unwrap_or_default();
        let numbers = numbers.split(|digit: char| !digit.is_ascii_digit());
        let numbers = numbers.filter_map(|number| number.parse().ok()).collect();
        (numbers, self.name.starts_with(BINARY))
    }
}

const BINARY: &str = "linux-binary-";

/// The packages with a kernel among apt's records.
pub fn packages(records: &str) -> Vec<Package> {
    named(records)
        .filter_map(|(name, version)| Package::named(name, version))
        .collect()
}

/// The name and the version of each of apt's records (deb-control(5), one stanza each).
fn named(records: &str) -> impl Iterator<Item = (&str, &str)> {
    records.split("\n\n").filter_map(|stanza| {
        let field = |name| stanza.lines().find_map(|line| line.strip_prefix(name));
        Some((field("Package: ")?, field("Version: ")?))
    })
}

/// The name and the version of the newest source among apt's records.
pub fn newest_source(records: &str) -> Option<(&str, &str)> {
    let release = |name: &str| -> Option<Vec<u64>> {
        let numbers = name.strip_prefix("linux-source-")?.split('.');
        numbers.map(|number| number.parse().ok()).collect()
    };
    let sources = named(records).filter_map(|found| Some((release(found.0)?, found)));
    let newest = sources.max_by(|one, other| one.0.cmp(&other.0));
    newest.map(|(_, found)| found)
}

/// The newest release that there is for all of these machines: a package for each, in their order.
pub fn newest(packages: &[Package], arches: &[Arch]) -> Option<Vec<Package>> {
    let mut sorted: Vec<&Package> = packages.iter().collect();
    sorted.sort_by_key(|package| std::cmp::Reverse(package.age()));
    sorted.iter().find_map(|first| {
        let same = |arch: &Arch| {
            let same =
                |package: &&&Package| package.arch == *arch && package.release() == first.release();
            sorted.iter().find(same).map(|package| (*package).clone())
        };
        arches.iter().map(same).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(names: &[&str]) -> Vec<Package> {
        let stanza = |name: &&str| {
            format!("Package: {name}\nSource: x\nVersion: 1-1\nDescription: Package: no\n more\n")
        };
        let records: Vec<String> = names.iter().map(stanza).collect();
        packages(&records.join("\n"))
    }

    fn chosen(names: &[&str], arches: &[Arch]) -> Vec<String> {
        let packages = newest(&listed(names), arches).unwrap_or_default();
        packages.into_iter().map(|package| package.name).collect()
    }

    #[test]
    fn only_finished_kernels_of_the_flavour() {
        let names = [
            "linux-binary-unsigned-7.2.13+deb14-cloud-arm64",
            "linux-image-cloud-arm64",
            "linux-image-7.3-rc3-cloud-arm64",
            "linux-image-6.12.95+deb12-cloud-arm64-unsigned",
            "linux-image-6.12.95+deb12-cloud-arm64-dbg",
            "linux-image-6.12.95+deb12-amd64",
            "linux-image-6.12.95+deb12-cloud-amd64",
        ];
        let there = listed(&names);
        assert_eq!(there.len(), 1, "{there:?}");
        assert_eq!(there[0].name, names[6]);
        assert_eq!(there[0].release(), Some("6.12.95+deb12"));
        assert_eq!(
            (there[0].version.as_str(), there[0].arch),
            ("1-1", Arch::X86_64)
        );
    }

    #[test]
    fn the_newest_by_number_and_the_package_that_has_it() {
        let names = [
            "linux-image-6.12.9+deb12-cloud-arm64",
            "linux-image-6.12.95+deb12-cloud-arm64",
            "linux-image-7.2.13+deb14-cloud-arm64",
            "linux-binary-7.2.13+deb14-cloud-arm64",
        ];
        assert_eq!(chosen(&names, &[Arch::Aarch64]), [names[3]]);
        assert_eq!(chosen(&names[..2], &[Arch::Aarch64]), [names[1]]);
        assert!(chosen(&names, &[Arch::X86_64]).is_empty());
        assert!(chosen(&[], &Arch::ALL).is_empty());
    }

    #[test]
    fn where_the_modules_are() {
        let of = |name: &str| {
            Package::named(name, "1-1")
                .unwrap()
                .of_modules()
                .named_exactly()
        };
        let newer = of("linux-binary-7.2.13+deb14-cloud-arm64");
        assert_eq!(newer, "linux-modules-7.2.13+deb14-cloud-arm64:arm64=1-1");
        let older = of("linux-image-6.12.95+deb12-cloud-amd64");
        assert_eq!(older, "linux-image-6.12.95+deb12-cloud-amd64:amd64=1-1");
    }

    #[test]
    fn the_newest_source_by_number() {
        let stanza = |name: &&str| format!("Package: linux-source-{name}\nVersion: {name}.1-1\n");
        let records = ["6.9", "6.12", "6.12-rt"].each_ref().map(stanza).join("\n");
        let newest = newest_source(&records);
        assert_eq!(newest, Some(("linux-source-6.12", "6.12.1-1")));
        assert_eq!(newest_source(""), None);
    }

    #[test]
    fn both_machines_get_the_same() {
        let names = [
            "linux-binary-7.2.14+deb14-cloud-arm64",
            "linux-binary-7.2.13+deb14-cloud-arm64",
            "linux-binary-7.2.13+deb14-cloud-amd64",
            "linux-image-6.12.95+deb12-cloud-amd64",
            "linux-image-6.12.95+deb12-cloud-arm64",
        ];
        assert_eq!(chosen(&names, &Arch::ALL), [names[2], names[1]]);
        assert_eq!(chosen(&names, &[Arch::Aarch64]), [names[0]]);
    }
}
