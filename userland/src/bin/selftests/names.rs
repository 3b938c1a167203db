//! Names: unlink, rename, links, directories, paths.
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use userland::harness::Outcome;
use userland::sys::{call, file};
use userland::{check, check_eq, check_err};

userland::tests![
    unlink_while_open,
    rename_over,
    rename_directories,
    links_hard,
    links_symbolic,
    directories,
    directory_listing,
    directory_with_many_names,
    names_too_long,
    working_directory,
    access_says,
];

fn unlink_while_open() -> Outcome {
    fs::write("f", "still here")?;
    let fd = file::open("f", libc::O_RDWR, 0)?;
    fs::remove_file("f")?;
    check_err!(fs::metadata("f"), ENOENT);
    let mut buf = [0u8; 16];
    check_eq!(file::read(fd, &mut buf)?, 10);
    file::write_all(fd, b"!")?;
    fs::write("f", "another")?;
    check_eq!(file::pread(fd, &mut buf, 0)?, 11);
    check_err!(fs::remove_file("none"), ENOENT);
    Ok(())
}

fn rename_over() -> Outcome {
    fs::write("a", "A")?;
    fs::write("b", "B")?;
    let fd = file::open("b", libc::O_RDONLY, 0)?;
    fs::rename("a", "b")?;
    check_eq!(fs::read_to_string("b")?, "A");
    check_err!(fs::metadata("a"), ENOENT);
    let mut buf = [0u8; 1];
    file::read(fd, &mut buf)?;
    check_eq!(&buf, b"B");
    fs::rename("b", "b")?;
    check_err!(fs::rename("none", "x"), ENOENT);
    fs::create_dir("d")?;
    check_err!(fs::rename("b", "d"), EISDIR);
    check_err!(fs::rename("d", "b"), ENOTDIR);
    Ok(())
}

fn rename_directories() -> Outcome {
    fs::create_dir_all("a/b/c")?;
    fs::write("a/b/c/f", "deep")?;
    fs::create_dir("empty")?;
    fs::rename("a/b", "moved")?;
    check_eq!(fs::read_to_string("moved/c/f")?, "deep");
    // Into itself, or over what is not empty.
    check_err!(fs::rename("moved", "moved/c/x"), EINVAL);
    check_err!(fs::rename("empty", "moved"), ENOTEMPTY);
    fs::rename("moved", "empty")?;
    check_eq!(fs::read_to_string("empty/c/f")?, "deep");
    check_eq!(fs::canonicalize("empty/c/..")?, fs::canonicalize("empty")?);
    Ok(())
}

fn links_hard() -> Outcome {
    fs::write("a", "1")?;
    fs::hard_link("a", "b")?;
    check_eq!(
        (fs::metadata("a")?.nlink(), fs::metadata("a")?.ino()),
        (2, fs::metadata("b")?.ino())
    );
    fs::write("b", "2")?;
    fs::remove_file("a")?;
    check_eq!(fs::read_to_string("b")?, "2");
    check_eq!(fs::metadata("b")?.nlink(), 1);
    check_err!(fs::hard_link("b", "b"), EEXIST);
    check_err!(fs::hard_link("none", "c"), ENOENT);
    fs::create_dir("d")?;
    check_err!(fs::hard_link("d", "e"), EPERM);
    Ok(())
}

fn links_symbolic() -> Outcome {
    fs::write("f", "text")?;
    symlink("f", "one")?;
    symlink("one", "two")?;
    symlink("nowhere", "dangling")?;
    symlink("loop", "loop")?;
    check_eq!(fs::read_to_string("two")?, "text");
    check_eq!(fs::read_link("two")?.to_str(), Some("one"));
    check!(fs::symlink_metadata("two")?.file_type().is_symlink());
    check_err!(fs::metadata("dangling"), ENOENT);
    check_err!(fs::metadata("loop"), ELOOP);
    check_err!(symlink("x", "one"), EEXIST);
    check_err!(fs::read_link("f"), EINVAL);
    fs::create_dir("d")?;
    symlink("d", "to-d")?;
    fs::write("to-d/g", "in d")?;
    check_eq!(fs::read_to_string("d/g")?, "in d");
    check_eq!(fs::read_to_string("to-d/../f")?, "text");
    // Creating through a dangling link makes its target.
    fs::write("dangling", "now")?;
    check_eq!(fs::read_to_string("nowhere")?, "now");
    fs::remove_file("two")?;
    check!(fs::metadata("one").is_ok());
    Ok(())
}

fn directories() -> Outcome {
    fs::create_dir("d")?;
    check_err!(fs::create_dir("d"), EEXIST);
    check_err!(fs::create_dir("x/y"), ENOENT);
    fs::write("d/f", "")?;
    check_err!(fs::remove_dir("d"), ENOTEMPTY);
    check_err!(fs::remove_file("d"), EISDIR);
    check_err!(fs::remove_dir("d/f"), ENOTDIR);
    fs::remove_file("d/f")?;
    fs::remove_dir("d")?;
    check_err!(fs::remove_dir("d"), ENOENT);
    fs::create_dir("e")?;
    check_eq!(fs::metadata("e")?.nlink() >= 1, true);
    check!(fs::metadata("e")?.is_dir());
    Ok(())
}

fn directory_listing() -> Outcome {
    for name in ["b", "a", "c"] {
        fs::write(name, "")?;
    }
    fs::create_dir("d")?;
    symlink("a", "l")?;
    let mut found = Vec::new();
    for entry in fs::read_dir(".")? {
        let entry = entry?;
        let kind = entry.file_type()?;
        found.push((
            entry.file_name().to_string_lossy().into_owned(),
            kind.is_dir(),
            kind.is_symlink(),
        ));
        check_eq!(
            entry.metadata()?.ino(),
            std::os::unix::fs::DirEntryExt::ino(&entry)
        );
    }
    found.sort();
    let names: Vec<_> = found.iter().map(|f| f.0.as_str()).collect();
    check_eq!(names, ["a", "b", "c", "d", "l"]);
    check!(found[3].1 && found[4].2);
    Ok(())
}

fn directory_with_many_names() -> Outcome {
    fs::create_dir("d")?;
    for n in 0..500 {
        fs::write(format!("d/file-with-a-longer-name-{n:04}"), "")?;
    }
    let mut names: Vec<_> = fs::read_dir("d")?
        .filter_map(|e| Some(e.ok()?.file_name()))
        .collect();
    names.sort();
    names.dedup();
    check_eq!(names.len(), 500);
    // Removing while listing misses nothing that was there before and stays.
    for entry in fs::read_dir("d")? {
        fs::remove_file(entry?.path())?;
    }
    check_eq!(fs::read_dir("d")?.count(), 0);
    Ok(())
}

fn names_too_long() -> Outcome {
    let name = "n".repeat(255);
    fs::write(&name, "ok")?;
    check_eq!(fs::read_to_string(&name)?, "ok");
    check_err!(fs::write("n".repeat(256), ""), ENAMETOOLONG);
    check_err!(fs::metadata("./".repeat(2100)), ENAMETOOLONG);
    check!(fs::metadata("./".repeat(1000)).is_ok());
    Ok(())
}

fn working_directory() -> Outcome {
    fs::create_dir("d")?;
    let before = std::env::current_dir()?;
    std::env::set_current_dir("d")?;
    check_eq!(std::env::current_dir()?, before.join("d"));
    fs::write("../f", "up")?;
    check_err!(std::env::set_current_dir("../f"), ENOTDIR);
    check_err!(std::env::set_current_dir("none"), ENOENT);
    let mut buf = [0u8; 4];
    check_err!(
        call(libc::SYS_getcwd, [buf.as_mut_ptr() as usize, 4, 0, 0, 0, 0]),
        ERANGE
    );
    Ok(())
}

fn access_says() -> Outcome {
    fs::write("f", "")?;
    let access = |path: &std::ffi::CStr, mode: i32| {
        call(
            libc::SYS_faccessat,
            [
                libc::AT_FDCWD as usize,
                path.as_ptr() as usize,
                mode as usize,
                0,
                0,
                0,
            ],
        )
    };
    access(c"f", libc::F_OK)?;
    access(c"f", libc::R_OK | libc::W_OK)?;
    check_err!(access(c"f", libc::X_OK), EACCES);
    check_err!(access(c"none", libc::F_OK), ENOENT);
    check_err!(access(c"f", 8), EINVAL);
    Ok(())
}
