//! Which files are a student's: those of the lab's folder, or of the folder that `LAB_FROM` names.
//! `LAB_FROM=answer` takes the answer of each lab.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// By feature, the folder of each lab.
const LABS: [(&str, &str); 8] = [
    ("ORDER", "01-order"),
    ("BUDDY", "02-buddy"),
    ("ANON", "03-anon"),
    ("CONTPTE", "04-contpte"),
    ("FORK", "05-fork"),
    ("OWNER", "06-owner"),
    ("MREMAP", "07-mremap"),
    ("GATHER", "08-gather"),
];

fn main() {
    let var = |name: &str| env::var_os(name).map(PathBuf::from);
    let (Some(here), Some(out)) = (var("CARGO_MANIFEST_DIR"), var("OUT_DIR")) else {
        return;
    };
    println!("cargo::rerun-if-env-changed=LAB_FROM");
    for (feature, folder) in LABS {
        if env::var_os(format!("CARGO_FEATURE_{feature}")).is_some() {
            let from = var("LAB_FROM").unwrap_or_default();
            let text = modules(&here.join(folder).join(from));
            let file = out.join(format!("{}.rs", feature.to_lowercase()));
            fs::write(file, text).expect("cannot write which files are a student's");
        }
    }
}

/// The two files as modules. `include!` would not take their first lines, which say what they are.
fn modules(from: &Path) -> String {
    let module = |name: &str| {
        let file = from.join(format!("{name}.rs"));
        format!("#[path = {file:?}]\nmod {name};\n")
    };
    module("solution") + &module("tests")
}
