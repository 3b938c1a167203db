//! Folios that change their size in place: collapse of small pages into a PMD, split of a folio of
//! which a part is unmapped.

mod collapse;
mod leave;
mod rmap;
mod split;
