//! Tests of the Linux Test Project, from a source tree that was built: those about memory, fork,
//! futexes and signals, by the first part of their names.
use super::results;
use super::suite::{Program, Suite};
use anyhow::{Context, Result};
use object::elf::{EM_AARCH64, EM_X86_64, PT_INTERP};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{LittleEndian, elf::FileHeader64};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use tools::host::arch::Arch;
use tools::host::errors::UsageError;

/// The lists of commands in the tree.
const LISTS: [&str; 3] = ["runtest/mm", "runtest/hugetlb", "runtest/syscalls"];

/// What the names of the tests begin with, up to the first digit or underscore and digit.
const CHOSEN: &str = "\
    alarm brk clone data_space exit exit_group fork futex_cmp_requeue futex_wait \
    futex_wait_bitset futex_waitv futex_wake get_robust_list hugefallocate hugefork hugemmap \
    hugeshmat hugeshmctl hugeshmdt hugeshmget kill madvise mallocstress max_map_count mem \
    membarrier memfd_create min_free_kbytes mincore mlock mlockall mmap mmapstress mprotect \
    mremap mseal msync mtest munlock munlockall munmap oom overcommit_memory page pause pkey \
    process_madvise process_vm_readv process_vm_writev ptrace rt_sigaction rt_sigprocmask \
    rt_sigqueueinfo rt_sigsuspend rt_sigtimedwait sbrk set_robust_list set_tid_address \
    shm_test shmt sigaction sigaltstack signal sigpending sigprocmask sigrelse sigsuspend \
    sigtimedwait sigwait sigwaitinfo stack_clash stack_space tgkill thp tkill userfaultfd \
    vfork vma wait waitid waitpid";

/// The chosen tests of a tree that are built for a machine; those of one kind are one program. None
/// if it was built for another machine, or not at all.
pub fn suite(tree: &Path, arch: Arch) -> Result<Suite> {
    let mut lists = String::new();
    for list in LISTS {
        let path = tree.join(list);
        let text = fs::read_to_string(&path).map_err(|why| {
            let tree = tree.display();
            UsageError(format!(
                "--ltp {tree} is no source tree of LTP: {list}: {why}"
            ))
        })?;
        lists += &text;
    }
    let mut built = BTreeMap::new();
    find(&tree.join("testcases"), arch, &mut built)?;
    let mut programs: BTreeMap<String, Program> = BTreeMap::new();
    for (name, command) in lists.lines().filter_map(test) {
        let Some(file) = built.get(program(command)) else {
            continue;
        };
        let kind = kind(name);
        let of_kind = programs.entry(kind.to_owned()).or_insert_with(|| Program {
            name: kind.to_owned(),
            files: Vec::new(),
            lines: PREPARE.to_owned(),
        });
        if !of_kind.files.contains(file) {
            of_kind.files.push(file.clone());
        }
        of_kind.lines += &format!("./{command}\necho {}{name}: $?\n", results::EACH);
    }
    let mut programs: Vec<Program> = programs.into_values().collect();
    // What counts is the status of each.
    programs.iter_mut().for_each(|it| it.lines += "true");
    Ok(Suite { arch, programs })
}

/// How to build a tree.
pub fn how_to_build(tree: &Path) -> UsageError {
    UsageError(format!(
        "--ltp {}: none of the tests is built there for this machine, or not static; in it: make \
         autotools && ./configure LDFLAGS=-static && make -k, for aarch64 with \
         --host=aarch64-linux-gnu",
        tree.display()
    ))
}

/// Colours would stand in the words; there is no configuration of the kernel to be read.
const PREPARE: &str = "export LTP_COLORIZE_OUTPUT=0\nexport KCONFIG_SKIP_CHECK=1\n\
                       export LTPROOT=/mm\nexport PATH=/mm:/bin\n";

/// A test of a list that was chosen, and its command. Commands that want more of a shell than to
/// start a program are left out.
fn test(line: &str) -> Option<(&str, &str)> {
    let (name, command) = line.trim().split_once(char::is_whitespace)?;
    let command = command.trim();
    let plain = !command.contains(['`', ';', '$', '|', '&', '=', '"', '\'']);
    let is_chosen = |chosen: &str| chosen == kind(name);
    let chosen = CHOSEN.split_whitespace().any(is_chosen);
    (plain && chosen).then_some((name, command))
}

/// What a test's name is before its number.
fn kind(name: &str) -> &str {
    let digit = name.find(|letter: char| letter.is_ascii_digit());
    name[..digit.unwrap_or(name.len())].trim_end_matches('_')
}

/// The program that a command starts.
fn program(command: &str) -> &str {
    command.split_whitespace().next().unwrap_or_default()
}

/// Adds the static programs of a machine below a folder.
fn find(folder: &Path, arch: Arch, found: &mut BTreeMap<String, PathBuf>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    for entry in entries {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            find(&entry.path(), arch, found)?;
        } else if kind.is_file()
            && let Ok(name) = entry.file_name().into_string()
            // Sources and objects are most of the files.
            && !name.contains('.')
            && is_program(&fs::read(entry.path())?, arch)
        {
            found.insert(name, entry.path());
        }
    }
    Ok(())
}

/// Whether a file is a static program for a machine.
fn is_program(bytes: &[u8], arch: Arch) -> bool {
    let machine = match arch {
        Arch::X86_64 => EM_X86_64,
        Arch::Aarch64 => EM_AARCH64,
    };
    let Ok(header) = FileHeader64::<LittleEndian>::parse(bytes) else {
        return false;
    };
    let segments = header.program_headers(LittleEndian, bytes);
    header.e_machine(LittleEndian) == machine
        && segments.is_ok_and(|all| {
            !all.is_empty() && all.iter().all(|one| one.p_type(LittleEndian) != PT_INTERP)
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::has;
    use tools::host::workspace::Temporary;
    use tools::machine::tinyelf::Tiny;

    #[test]
    fn lines_of_a_list() {
        let fork = ("fork01", "fork01 -i 3");
        assert_eq!(test("fork01\tfork01 -i 3"), Some(fork));
        assert_eq!(test("# a comment about fork"), None);
        assert_eq!(test("mmapstress07 F=`mktemp x`; mmapstress07 $F"), None);
        assert_eq!(test("write01 write01"), None);
        assert_eq!(test(""), None);
        let kinds = ["mmap21_01", "futex_wait05", "exit_group01", "mtest01w"].map(kind);
        assert_eq!(kinds, ["mmap", "futex_wait", "exit_group", "mtest"]);
    }

    #[test]
    fn a_tree() {
        let folder = Temporary::folder("ltp").unwrap();
        let tree = folder.path();
        let error = suite(tree, Arch::X86_64).unwrap_err().to_string();
        has(&error, "is no source tree of LTP: runtest/mm");
        fs::create_dir(tree.join("runtest")).unwrap();
        fs::create_dir_all(tree.join("testcases/kernel/fork")).unwrap();
        fs::write(tree.join("runtest/mm"), "mmap10_1 mmap10 -i 60\n").unwrap();
        fs::write(tree.join("runtest/hugetlb"), "").unwrap();
        fs::write(
            tree.join("runtest/syscalls"),
            "fork01 fork01\nfork03 fork03\nfork04 fork01 -x\n",
        )
        .unwrap();
        let program = Tiny::new(Arch::X86_64, vec![0x90]).bytes();
        fs::write(tree.join("testcases/kernel/fork/fork01"), program).unwrap();
        fs::write(tree.join("testcases/kernel/fork/fork03"), "#!/bin/sh\n").unwrap();
        let suite = |arch| suite(tree, arch).unwrap().programs;
        assert!(suite(Arch::Aarch64).is_empty());
        let [fork] = &suite(Arch::X86_64)[..] else {
            panic!("one kind is built");
        };
        assert_eq!((&*fork.name, fork.files.len()), ("fork", 1));
        let each = "./fork01\necho compat: fork01: $?\n./fork01 -x\necho compat: fork04: $?\ntrue";
        assert!(fork.lines.ends_with(each), "{}", fork.lines);
    }
}
