//! Where things are.
use crate::arch::Arch;
use std::env;
use std::path::{Path, PathBuf};

/// The checkout that this program was built from.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("tools/ lies in the workspace")
}

/// cargo's output folder.
pub fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |dir| root().join(dir))
}

/// The folder of one architecture's images.
pub fn images(arch: Arch) -> PathBuf {
    target().join("images").join(arch.name())
}

/// A path as the user wrote it: relative to where the user stood when starting `run.sh`.
pub fn user_path(path: &Path) -> PathBuf {
    env::var_os("QUIRE_CWD").map_or_else(|| path.to_owned(), |cwd| Path::new(&cwd).join(path))
}
