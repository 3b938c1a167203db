//! Mutants: one broken rule each, that the checks must catch. A test of the tests, behind the
//! feature `mutants`, which only the simulated machine's tests turn on; without it `on` is the
//! constant `false` and nothing is left of them.

macro_rules! mutants {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// A rule that is broken while the mutant is on.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Mutant { $($(#[doc = $doc])* $name,)* }
        impl Mutant {
            /// All of them.
            pub const ALL: &'static [Mutant] = &[$(Mutant::$name),*];
            /// How each breaks its rule, in lines, for docs/mutants.md: in the same order.
            pub const ROWS: &'static [(&'static str, &'static [&'static str])] =
                &[$((stringify!($name), &[$($doc),*])),*];
        }
    };
}

// A row is a mutant: its lines are its row in docs/mutants.md, which
// `WRITE_DOCS=1 cargo test -p cli tables::` writes.
mutants! {
    /// A part of a folded block changes and the block stays folded.
    NoUnfold,
    /// A block folds though its first frame is not aligned to the block.
    FoldMisaligned,
    /// A block folds though its entries have different rights.
    FoldNonUniform,
    /// A block folds whose entries map pages of different folios.
    FoldAcrossFolios,
    /// Folding writes over live entries.
    FoldWithoutBreak,
    /// Unfolding writes over live entries.
    UnfoldWithoutBreak,
    /// Folding and unfolding make the entries absent, and write them again without the flush
    /// between.
    BreakWithoutFlush,
    /// Folding and unfolding forget that the block was used.
    AccessedLost,
    /// Folding and unfolding forget that the block was written.
    DirtyLost,
    /// How a folded block was used is read from one of its entries.
    ReadOne,
    /// How a folded block was used is read from all of its entries but the last.
    ReadAllButLast,
    /// Software marks one entry of a folded block, and not the others.
    MarkOne,
    /// A fault gives WRITE to all of a folded block that lies in two areas.
    WriteOutside,
    /// A fault gives WRITE to all of a folded block that begins in its area and reaches out of it
    /// at the end.
    WriteBeyond,
    /// A fault maps the folio that it made without the lock, whatever happened meanwhile.
    InstallWithoutLooking,
    /// A fault beside others maps the folio that it made with its table open, whatever is there.
    InstallBeside,
    /// A fault beside others asks for a PMD leaf in the place of a table that became empty.
    LeafBeside,
    /// A fault maps all of a folio of an object, the pages that were punched out of it included.
    MapPunched,
    /// A folio of an object is split while it is mapped.
    SplitMapped,
    /// A hole that takes a part of a PMD leaf leaves the leaf.
    PunchUnderLeaf,
    /// A space is open for others before the flush for an entry that they may use.
    OpenBeforeFlush,
    /// A fault in a claimed space does not wait for the end of the claim.
    RefuseInPause,
    /// A verb requests no flush of what it changed.
    NoFlush,
    /// A verb requests only the flush of the first page of each run that it changed.
    FlushFirstPage,
    /// Mprotect tells no other CPU, whatever it takes away.
    ProtectHere,
    /// A flush goes in steps of 2 MiB, whatever changed.
    FlushWideStride,
    /// A table is taken out and pointers to it stay cached.
    KeepPointers,
    /// What detached tables map is freed before the flush.
    DropBeforeFlush,
    /// A PMD leaf becomes PTEs without the flush between.
    SplitWithoutFlush,
    /// PTEs become a PMD leaf without the flush between.
    CollapseWithoutFlush,
    /// A copied page comes in the place of the old one without the flush between.
    CopyWithoutFlush,
    /// Fork shares pages with long-term pins.
    SharePinned,
    /// A folio that is taken over becomes writable outside of the area, too.
    ReuseOutside,
    /// What is moved is written at its new place while the old one may still be used.
    MoveWithoutFlush,
    /// A fork shares a table and the parent may still write through it.
    ShareWritable,
    /// A copy of a shared table comes in its place without a flush.
    UnshareWithoutFlush,
    /// A space that leaves a shared table stays in the account with it.
    KeepAccountant,
    /// Blocks that are moved stay folded, however the places are aligned.
    MoveFolded,
    /// Entries are moved whole, however the places are aligned.
    MoveUnlike,
    /// mprotect gives guards the rights of their area.
    OpenGuards,
    /// mprotect leaves entries the key that they had.
    KeepKeys,
    /// Page advice drops guards.
    DropGuards,
    /// Fork copies a swap entry and does not name its slot.
    CopyNameless,
    /// A folio is not counted as one that its slots have.
    SlotsHoldNothing,
    /// A copy of a table, or one that entries move to, forgets that there are swap entries.
    ForgetSwapped,
    /// A folio is stored that others than its slots have.
    StoreInUse,
    /// Pages are stored together although some of them have been used meanwhile.
    StoreUnlooked,
    /// A folio is moved that others than its slots have.
    MoveInUse,
    /// A folio is moved although it has been used since it was copied.
    MoveUnlooked,
    /// A folio of an object goes to slots while somebody maps it.
    ShelveMapped,
    /// Slots that are cut to pages forget what names them.
    CutForgetsNames,
    /// Fork shares tables with guards.
    ShareGuards,
    /// An area forgets, when it joins another, that there are guards.
    ForgetGuards,
    /// userfaultfd protects a part of a folded block and the block stays folded.
    ProtectWithoutUnfold,
    /// A child starts with the write protection of its parent's monitor.
    InheritProtection,
    /// What moves keeps the write protection of a monitor that does not go with it.
    MoveProtection,
    /// A VMA that a monitor leaves keeps its write protection.
    LeaveProtected,
    /// An object of huge pages ends, and what it had reserved stays so.
    KeepReservations,
    /// A huge page goes to the page allocator and not to its pool.
    FreeHugePages,
    /// What cuts a huge page is not refused.
    CutHugePages,
    /// A frame whose memory has failed is freed as any other.
    FreeHwPoison,
    /// What was a page of zeros before the flush is dropped, whatever was written meanwhile.
    LookOnce,
    /// A CPU drains the page lists of others itself.
    DrainOthers,
    /// A tag goes to another space with what TLBs hold of the last one.
    KeepTagged,
}

#[cfg(feature = "mutants")]
mod enabled {
    use super::Mutant;
    use core::cell::Cell;

    std::thread_local! {
        /// The one that is on in this thread: tests run side by side.
        static ON: Cell<Option<Mutant>> = Cell::new(of_process());
    }

    /// The one that is on wherever none is set: `MUTANT=NAME` in the environment, of a whole run
    /// of tests.
    fn of_process() -> Option<Mutant> {
        let name = std::env::var("MUTANT").ok()?;
        let named = |mutant: &Mutant| std::format!("{mutant:?}") == name;
        Mutant::ALL.iter().copied().find(named)
    }

    /// Whether the mutant is on in this thread.
    pub(crate) fn on(mutant: Mutant) -> bool {
        ON.get() == Some(mutant)
    }

    /// Turns one on in this thread, or leaves it to the process.
    pub fn set(mutant: Option<Mutant>) {
        ON.set(mutant.or_else(of_process));
    }
}

#[cfg(feature = "mutants")]
pub(crate) use enabled::on;
#[cfg(feature = "mutants")]
pub use enabled::set;

/// No mutant is ever on.
#[cfg(not(feature = "mutants"))]
#[inline]
pub(crate) const fn on(_: Mutant) -> bool {
    false
}
