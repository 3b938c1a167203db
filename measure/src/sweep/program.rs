//! The program that runs: one of the user's, or one of the machine's own.
use std::fs;
use tools::args::{self, SweepArgs};
use tools::host::arch::Arch;
use tools::host::errors::UsageError;
use tools::machine::added::Added;
use tools::machine::executable;

/// Where programs are looked for without a path, as init's PATH has it.
const FOLDERS: [&str; 4] = ["bin/", "sbin/", "usr/bin/", "usr/sbin/"];

/// What runs, and on which machine.
#[derive(Debug)]
pub struct Program {
    /// The command: a program and its arguments, as on the kernel's command line.
    pub command: String,
    /// Files beside the built-in ones.
    pub added: Vec<Added>,
    /// The machine.
    pub arch: Arch,
}

impl Program {
    /// Checks what the command line names, as far as that goes before anything is built.
    pub fn of(args: &SweepArgs) -> Result<Program, UsageError> {
        let added = args.add.iter().map(|text| Added::parse(text));
        let added = added.collect::<Result<Vec<_>, _>>()?;
        fits(&added, &args.mem)?;
        let command = match (&args.run, added.first()) {
            (Some(command), _) => command.trim().to_owned(),
            (None, Some(first)) => format!("/{}", first.place),
            (None, None) => {
                let text = "what shall run? --add FILE, or --run 'PROGRAM ARGS'";
                return Err(UsageError(text.to_owned()));
            }
        };
        if command.matches('"').count() % 2 == 1 {
            return Err(UsageError(format!("--run {command}: a quote has no end")));
        }
        let places = places(&command)?;
        let mine = added.iter().find(|one| places.contains(&one.place));
        let found = mine.map(|one| machine(one, args.arch)).transpose()?;
        Ok(Program {
            arch: found.flatten().or(args.arch).unwrap_or(Arch::X86_64),
            command,
            added,
        })
    }

    /// Refuses a program that is neither added nor one of `known`, paths without the slash at their
    /// beginning.
    pub fn check(&self, known: &[String]) -> Result<(), UsageError> {
        let places = places(&self.command)?;
        let mut all = known.iter().chain(self.added.iter().map(|one| &one.place));
        if all.any(|path| places.contains(path)) {
            return Ok(());
        }
        let known: Vec<&str> = known
            .iter()
            .filter_map(|path| path.strip_prefix(FOLDERS[0]))
            .collect();
        let word = self.command.split_whitespace().next().unwrap_or_default();
        Err(tools::host::words::unknown("--run", word, &known))
    }
}

/// Where the program of a command may be, without the slash at the beginning.
fn places(command: &str) -> Result<Vec<String>, UsageError> {
    let word = command.split_whitespace().next().unwrap_or_default();
    match word.trim_matches('"') {
        "" => Err(UsageError("--run names no program".to_owned())),
        word if word.contains('/') => Ok(vec![word.trim_start_matches('/').to_owned()]),
        word => Ok(FOLDERS.map(|folder| format!("{folder}{word}")).to_vec()),
    }
}

/// The machine that a program needs, if it needs one.
fn machine(one: &Added, arch: Option<Arch>) -> Result<Option<Arch>, UsageError> {
    let wrong = |why: String| UsageError(format!("--add {}: it {why}", one.file.display()));
    let bytes = fs::read(&one.file)
        .map_err(|error| UsageError(format!("--add {}: {error}", one.file.display())))?;
    let found = executable::machine_or(&bytes, arch).map_err(wrong)?;
    if one.mode & 0o111 == 0 {
        return Err(wrong("is not executable; chmod +x makes it so".to_owned()));
    }
    Ok(found)
}

/// Refuses files that are larger than the machine's memory.
fn fits(added: &[Added], mem: &str) -> Result<(), UsageError> {
    let (size, room) = (
        added.iter().map(|one| one.size).sum::<u64>(),
        args::bytes(mem),
    );
    if size < room {
        return Ok(());
    }
    let (size, room) = (size >> 20, room >> 20);
    Err(UsageError(format!(
        "what --add brings has {size} MiB, the machine {room} MiB"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use tools::args::{SweepArgs, options};
    use tools::host::workspace::Temporary;
    use tools::machine::{inputs, tinyelf};

    /// A folder with a program for aarch64, a dynamic one, a script and data.
    fn folder() -> Temporary {
        let folder = Temporary::folder("sweep").unwrap();
        let files: [(&str, u32, Vec<u8>); 5] = [
            ("arm", 0o755, tinyelf::exit(Arch::Aarch64, 0)),
            ("plain", 0o644, tinyelf::exit(Arch::X86_64, 0)),
            ("dynamic", 0o755, inputs::dynamic(Arch::X86_64)),
            ("script", 0o755, b"#!/bin/sh\n".to_vec()),
            ("data", 0o644, b"1 2 3\n".to_vec()),
        ];
        for (name, mode, content) in files {
            let path = folder.path().join(name);
            fs::write(&path, content).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
        folder
    }

    /// `@` stands for the folder.
    fn of(line: &str, run: Option<&str>) -> Result<Program, String> {
        let folder = folder();
        let line = line.replace('@', folder.path().to_str().unwrap());
        let mut args = options::<SweepArgs>(&format!("run.sh sweep {line}"));
        args.run = run.map(str::to_owned);
        Program::of(&args).map_err(|error| error.0)
    }

    #[test]
    fn the_first_file_runs_on_its_machine() {
        let (arm, x86) = (Arch::Aarch64, Arch::X86_64);
        for (line, run, command, arch) in [
            ("--add @/arm --add @/data", None, "/bin/arm", arm),
            ("--add @/script=/opt/run", None, "/opt/run", x86),
            ("--add @/data --add @/arm", Some("arm 1 2"), "arm 1 2", arm),
            ("--arch aarch64", Some(" gcflip 64"), "gcflip 64", arm),
        ] {
            let program = of(line, run).unwrap();
            assert_eq!((&*program.command, program.arch), (command, arch));
        }
    }

    #[test]
    fn what_cannot_run_is_refused() {
        for (line, run, says) in [
            ("", None, "what shall run?"),
            ("", Some("  "), "--run names no program"),
            ("", Some("sh -c \"x"), "a quote has no end"),
            ("--add @/none", None, "No such file"),
            ("--add @/data", None, "it is no program"),
            ("--add @/dynamic", None, "it is not static"),
            ("--add @/plain", None, "it is not executable; chmod +x"),
            (
                "--add @/arm --arch x86_64",
                None,
                "it is for aarch64, and --arch is x86_64",
            ),
        ] {
            let error = of(line, run).unwrap_err();
            assert!(error.contains(says), "{line}: {error}");
        }
    }

    #[test]
    fn a_program_is_in_the_machine() {
        let known = ["init", "bin/gcflip", "bin/sh"].map(str::to_owned);
        let check = |run| of("--add @/arm=/opt/arm", Some(run)).unwrap().check(&known);
        for run in ["gcflip 64", "/bin/sh -c \"gcflip\"", "/opt/arm", "\"sh\" x"] {
            assert!(check(run).is_ok(), "{run}");
        }
        let error = check("gclfip 64").unwrap_err().0;
        assert!(error.ends_with("did you mean gcflip?"), "{error}");
        assert!(check("arm").is_err() && check("/gcflip").is_err());
    }
}
