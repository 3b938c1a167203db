//! What all boots of a run have in common: the figures as they come, and what programs there are.
use super::plan::Group;
use super::results::Results;
use crate::store::Store;
use std::collections::BTreeMap;
use std::sync::Arc;
use tools::args::Side;
use tools::host::arch::Arch;

/// A boot to measure with.
pub struct Job<'a> {
    /// What is measured.
    pub group: &'a Group,
    /// By which kernel.
    pub side: Side,
    /// On which machine.
    pub arch: Arch,
}

/// By machine and name of a program, its hash.
pub type Programs = BTreeMap<(Arch, String), String>;

/// Of one run.
pub struct Record {
    /// The operations in the order of the program's list.
    pub order: Vec<String>,
    /// The programs that both kernels run.
    pub programs: Programs,
    /// The figures.
    pub store: Arc<Store<Results>>,
}
