//! Models of what a core does with a stream of memory accesses: which level of the caches serves
//! each, which TLB translates it, what the walks of page tables read. They count; they keep no data
//! and no time.
//!
//! A caller (a plugin of an emulator, a test) makes a [`Machine`] from a [`Preset`] and feeds it
//! with what each CPU does, in the order in which it happens:
//!
//! ```
//! use models::{Access, Flush, Machine, Ram, Register, presets};
//! struct Empty;
//! impl Ram for Empty {
//!     fn read_u64(&self, _physical: u64) -> Option<u64> {
//!         None
//!     }
//! }
//! let mut machine = Machine::new(presets::CORTEX_A76, 2)?;
//! machine.write(0, Register::Ttbr0, 0x4100_0000); // no translation before SCTLR_EL1.M is set
//! machine.access(0, Access::read(0x4000_0000, 8), &Empty);
//! machine.fetch(0, Access::read(0x4008_0000, 4), &Empty);
//! machine.flush(0, &Flush::All);
//! let figures = machine.figures(0);
//! assert_eq!(figures.data.memory, 1);
//! for (name, count) in figures.fields() {
//!     println!("{name} {count}");
//! }
//! machine.reset();
//! # Ok::<(), models::BadPreset>(())
//! ```
//!
//! | module | what it models |
//! |---|---|
//! | [`cache`] | one set-associative cache |
//! | [`caches`] | those of all CPUs: private levels, the shared last level, lines that move between CPUs |
//! | [`entry`] | what a TLB caches |
//! | [`tlb`] | one level of a TLB: arrays of entries of several sizes |
//! | [`control`] | the registers that page tables hang from, and the flushes that writing them implies |
//! | [`flush`] | what a flush drops |
//! | [`mmu`] | two levels of TLB, walk caches, and the walks between them and the tables |
//! | [`walk`] | page tables of x86_64 and aarch64, read from guest memory |
//! | [`presets`] | real cores, with the source of each figure |
//! | [`estimate`] | cycles, estimated from counts and published latencies |
//!
//! The walker has its own definitions of the page-table formats, from the manuals. The kernel has
//! them too (`arch/*/src/pte.rs`), but a model that shared them would share their mistakes, and
//! would read a meaning of Quire's into bits that are software's in another kernel.

#![forbid(unsafe_code)]

pub mod cache;
pub mod caches;
pub mod config;
pub mod control;
pub mod entry;
pub mod estimate;
pub mod figures;
pub mod flush;
pub mod machine;
pub mod mmu;
pub mod presets;
pub mod tlb;
pub mod walk;
mod walk_cache;

pub use config::{BadPreset, Preset};
pub use control::{Control, Register};
pub use figures::Figures;
pub use flush::{Flush, Tables};
pub use machine::{Access, Machine};
pub use walk::{Fault, Ram, Roots};
