//! Which programs are run, with which arguments.
use super::suite::Program;
use tools::host::errors::UsageError;
use tools::host::words;

/// Arguments of programs that want some: those of the tests' own script.
const ARGUMENTS: [(&str, &str); 5] = [
    ("uffd-stress", "anon 20 16"),
    ("transhuge-stress", "-d 20"),
    ("ksm_tests", "-M -p 10"),
    ("khugepaged", "all:anon"),
    ("gup_test", "-ct -F 0x1 0 19 0x1000"),
];

/// Programs that are not run, and why.
const LEFT_OUT: [(&str, &str); 2] = [
    (
        "hmm-tests",
        "it asks a driver that distributions do not build",
    ),
    (
        "write_to_hugetlbfs",
        "a part of a script about control groups",
    ),
];

/// Which programs are not run, and why: a line each.
pub fn left_out() -> String {
    let line = |(program, why): &(&str, &str)| format!("{program} is not run: {why}.\n");
    LEFT_OUT.iter().map(line).collect()
}

/// The programs to run of those that were built, in order.
pub fn chosen<'a>(built: &'a [Program], only: &[String]) -> Result<Vec<&'a Program>, UsageError> {
    let left_out = |name: &str| LEFT_OUT.iter().any(|(program, _)| *program == name);
    let mut all: Vec<&Program> = built.iter().filter(|it| !left_out(&it.name)).collect();
    all.sort_unstable_by_key(|it| &it.name);
    let names: Vec<&str> = all.iter().map(|it| &*it.name).collect();
    words::check("--only", only.iter().map(String::as_str), &names)?;
    all.retain(|it| only.is_empty() || only.contains(&it.name));
    Ok(all)
}

/// A program and its arguments.
pub fn line(program: &str) -> String {
    let found = ARGUMENTS.iter().find(|(name, _)| *name == program);
    let arguments = found.map_or("", |(_, arguments)| arguments);
    format!("./{program} {arguments}").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_run() {
        let built = ["uffd-stress", "cow", "hmm-tests"].map(|name| Program {
            name: name.to_owned(),
            files: Vec::new(),
            lines: String::new(),
        });
        let names = |only: &[String]| {
            let chosen = chosen(&built, only)?;
            Ok::<Vec<_>, UsageError>(chosen.into_iter().map(|it| &*it.name).collect())
        };
        assert_eq!(names(&[]).unwrap(), ["cow", "uffd-stress"]);
        let only = |name: &str| names(&[name.to_owned()]);
        assert_eq!(only("cow").unwrap(), ["cow"]);
        assert!(
            only("ufd-stress")
                .unwrap_err()
                .0
                .contains("did you mean uffd-stress?")
        );
        assert_eq!(line("cow"), "./cow");
        assert_eq!(line("uffd-stress"), "./uffd-stress anon 20 16");
    }
}
