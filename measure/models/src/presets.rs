//! Real cores, each figure with its source.
//!
//! What no public manual says is marked *unverified*: a figure of the same order as in cores of its
//! kind, so that a count exists at all. It must not be quoted as a property of the core.
//! *Second-hand*: taken from a text that quotes the source; to be read there before it is quoted
//! again. Everywhere: replacement is LRU ([`crate::cache`]), and walks read through the data cache.

mod amd;
mod arm;
mod intel;

use crate::config::Preset;

pub use amd::ZEN4;
pub use arm::{CORTEX_A72, CORTEX_A76};
pub use intel::GOLDEN_COVE;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// All presets.
pub const ALL: &[Preset] = &[CORTEX_A72, CORTEX_A76, ZEN4, GOLDEN_COVE];

/// The preset of a name, as on a command line.
pub fn named(name: &str) -> Option<Preset> {
    ALL.iter().copied().find(|preset| preset.name == name)
}
