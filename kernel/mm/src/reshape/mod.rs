//! Folio size changes in place: collapse of small pages into a PMD leaf, split of a partly unmapped
//! folio.

mod collapse;
mod collapse_object;
mod leave;
mod rmap;
mod split;
mod zeros;
