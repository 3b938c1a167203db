//! The table. A row:
//!
//! ```text
//! /// What the switch chooses: its text in docs/switches.md. docs/PAGE.md becomes a link.
//! Name("name") = "word" | "word", default "word", set at RunTime, pairs Words;
//! ```
//!
//! `words` go from the least mechanism to the most. `set at`: `Boot` when memory in use depends on
//! the switch, else `RunTime`. `pairs`: `Words` when each word is one setting of the pairwise test;
//! `As "a=x b=y" | ...` when these are the settings; `With Other` when the settings of the switch
//! `Other` set this one, too. After a change: `WRITE_DOCS=1 cargo test -p cli tables::`.

use crate::{Pairs, Row, When};

macro_rules! switches {
    ($(
        $(#[doc = $doc:literal])*
        $switch:ident($name:literal) = $($word:literal)|+,
        default $default:literal,
        set at $when:ident, pairs $how:ident $($other:ident)? $($setting:literal)|*;
    )*) => {
        /// A mechanism with a choice.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(usize)]
        pub enum Switch {
            $($(#[doc = $doc])* $switch,)*
        }

        pub(crate) const ROWS: &[Row] = &[$(
            Row {
                switch: Switch::$switch,
                name: $name,
                doc: &[$($doc),*],
                words: &[$($word),+],
                default: $default,
                when: When::$when,
                pairs: pairs!(
                    $how $($other)? [$($setting),*]
                    [$(concat!($name, "=", $word)),+]
                ),
            },
        )*];

        // A default that is none of the words does not compile.
        $(const _: u32 = Switch::$switch.initial();)*
    };
}

macro_rules! pairs {
    (Words [] [$($words:tt)+]) => { Pairs::Settings(&[$($words)+]) };
    (As [$($setting:literal),+] [$($words:tt)+]) => { Pairs::Settings(&[$($setting),+]) };
    (With $other:ident [] [$($words:tt)+]) => { Pairs::With(Switch::$other) };
}

switches! {
    /// aarch64: complete blocks of 16 matching PTEs get the contiguous bit. What is folded already
    /// stays so until it is changed. See docs/folios.md#contpte.
    Contpte("contpte") = "off" | "on", default "on", set at RunTime, pairs Words;

    /// The level of the largest entries that mremap moves whole. See docs/remap.md.
    Move("move") = "pte" | "pmd" | "pud" | "pgd", default "pgd", set at RunTime, pairs Words;

    /// The scheme of the account of a folio's owners. See docs/ownership.md.
    Account("account") = "per-page" | "total" | "two-slot" | "owner" | "digits" | "unified",
    default "unified", set at Boot, pairs As
        "account=unified" | "account=digits"
        | "account=digits subids=lookup writer=shared seq=cmpxchg"
        | "account=two-slot" | "account=owner" | "account=total" | "account=per-page"
        | "account=unified mapcounts=atomic" | "account=total mapcounts=atomic"
        | "account=digits mapcounts=atomic" | "account=digits mapcounts=seqcount";

    /// Counts of the mappings of single pages beside the account: by atomic read-modify-writes, or
    /// under the scheme's seqcount where it has one. They take 8 bytes for each frame.
    PageCounts("mapcounts") = "none" | "atomic" | "seqcount", default "none",
    set at Boot, pairs With Account;

    /// `account=digits`: sub-ids are looked up (at least 4 values), or stored once for each address
    /// space (from 1 value on).
    Subids("subids") = "lookup" | "stored", default "stored", set at Boot, pairs With Account;

    /// `account=digits`: whether a writer that is alone goes without atomic read-modify-writes.
    Writer("writer") = "shared" | "exclusive", default "exclusive", set at Boot, pairs With Account;

    /// `account=digits`: how such a writer finds that it is alone.
    Seq("seq") = "cmpxchg" | "add", default "add", set at Boot, pairs With Account;

    /// How fork copies the parent's entries: one by one, in runs of one folio, or by sharing whole
    /// tables of PTEs. See docs/ownership.md#sharing-page-tables.
    Fork("fork") = "per-pte" | "batch" | "share", default "share", set at RunTime, pairs Words;

    /// How unmapping visits entries: one by one, or in runs of one folio.
    Zap("zap") = "per-pte" | "batch", default "batch", set at RunTime, pairs Words;

    /// How many references to a folio fork and unmapping count at once: one for each page, or those
    /// of a run of entries.
    Refs("refs") = "per-pte" | "batch", default "batch", set at RunTime, pairs As
        "refs=batch rmap=batch" | "refs=per-pte" | "rmap=per-pte";

    /// The same for its mappings, where the scheme of the account keeps them apart from the
    /// references.
    Rmap("rmap") = "per-pte" | "batch", default "batch", set at RunTime, pairs With Refs;

    /// How splitting a PMD leaf changes the account: mappings of 512 pages are entered one by one
    /// for the one that goes; or, since the leaf counts as 512 already, all at once.
    Split("split") = "per-pte" | "batch", default "batch", set at RunTime, pairs Words;

    /// What is copied on a write to a shared page: that page; what surrounds it in its folio, too;
    /// or what surrounds it as far as writes came through the pages beside it, so that what is
    /// copied grows with what is written.
    Cow("cow") = "page" | "around" | "grow", default "grow", set at RunTime, pairs Words;

    /// What becomes writable on a write to a folio that one address space owns alone: one page, or
    /// all of the folio.
    Reuse("reuse") = "page" | "around", default "around", set at RunTime, pairs Words;

    /// What comes back from the store when a page is asked for: that page, stored by itself; as
    /// much of its folio as there is memory for; or the same until memory is short, and then what
    /// is used of it. See docs/pressure.md.
    SwapIn("swapin") = "page" | "whole" | "adaptive", default "adaptive",
    set at RunTime, pairs Words;

    /// How many address spaces have ids of their own in the account; those beyond share one. See
    /// docs/ownership.md#ids.
    Ids("ids") = "1" | "32766", default "32766", set at Boot, pairs Words;
}
