//! What is counted, per CPU.

/// A struct of counters that can be listed by name.
macro_rules! counts {
    ($(#[$about:meta])* pub struct $name:ident { $($(#[$field_about:meta])* $field:ident,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name { $($(#[$field_about])* pub $field: u64,)* }

        impl $name {
            /// The counters by name, in the order of their declaration.
            pub fn fields(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$((stringify!($field), self.$field)),*].into_iter()
            }
        }
    };
}

counts! {
    /// Accesses to cache lines, by what served them. A level's hits are its own counter; its misses
    /// are the sum of those below it.
    pub struct Served {
        /// The first level (L1D for data and walks, L1I for fetches).
        l1,
        /// The private second level.
        l2,
        /// The last level, which CPUs share.
        last,
        /// A private cache of another CPU, which had modified the line.
        remote,
        /// Memory.
        memory,
    }
}

impl Served {
    /// All accesses.
    pub fn all(&self) -> u64 {
        self.l1 + self.l1_misses()
    }
    /// Those that the first level did not serve.
    pub fn l1_misses(&self) -> u64 {
        self.l2 + self.last + self.remote + self.memory
    }
}

counts! {
    /// Translations, by what had them.
    pub struct Translated {
        /// The first-level TLB.
        l1,
        /// The second-level TLB.
        l2,
        /// Neither: page tables were walked.
        walks,
    }
}

impl Translated {
    /// All translations.
    pub fn all(&self) -> u64 {
        self.l1 + self.l1_misses()
    }
    /// Those that the first level did not have.
    pub fn l1_misses(&self) -> u64 {
        self.l2 + self.walks
    }
}

counts! {
    /// What happens beside hits and misses.
    pub struct Events {
        /// Walks because a write met an entry that was cached read-only or clean; also counted in
        /// the walks.
        rewalks,
        /// Walks that found no translation, although the access was made.
        unresolved,
        /// Levels of tables that walk caches saved.
        skipped,
        /// Entries that were cached as one of a contiguous run (arm64's contiguous bit).
        contiguous,
        /// Entries that were cached for a coalesced run of single pages.
        coalesced,
        /// Flushes that the CPU made, or that were broadcast to it.
        flushes,
        /// Entries of TLBs that flushes dropped.
        flushed,
        /// Writes that took a line away from at least one other CPU.
        invalidations,
        /// Modified lines that left the CPU's private caches for the last level.
        writebacks,
        /// Modified lines that left the last level for memory because of this CPU.
        memory_writes,
    }
}

/// The counts of one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Loads and stores; one that touches two lines counts twice.
    pub data: Served,
    /// Instruction fetches, per line and call.
    pub fetch: Served,
    /// Reads of page-table entries by walks.
    pub walk: Served,
    /// Translations of loads and stores; an access that touches two pages needs two.
    pub dtlb: Translated,
    /// Translations of instruction fetches.
    pub itlb: Translated,
    /// Everything else.
    pub events: Events,
}

impl Figures {
    /// All counters by name: `data_l1`, ..., `itlb_walks`, `rewalks`, ...
    pub fn fields(&self) -> impl Iterator<Item = (String, u64)> + use<> {
        let served = [
            ("data", self.data),
            ("fetch", self.fetch),
            ("walk", self.walk),
        ];
        let served = served
            .into_iter()
            .flat_map(|(of, it)| named(of, it.fields()));
        let translated = [("dtlb", self.dtlb), ("itlb", self.itlb)];
        let translated = translated
            .into_iter()
            .flat_map(|(of, it)| named(of, it.fields()));
        let events = self.events.fields();
        let events = events.map(|(name, count)| (name.to_owned(), count));
        served.chain(translated).chain(events)
    }
}

fn named(
    group: &str,
    fields: impl Iterator<Item = (&'static str, u64)>,
) -> impl Iterator<Item = (String, u64)> {
    fields.map(move |(name, count)| (format!("{group}_{name}"), count))
}
