//! Folio size changes in place: collapse of small pages into a PMD leaf, split of a partly unmapped
//! folio; and folios that get other frames.

mod collapse;
mod collapse_object;
mod leave;
mod migrate;
mod rmap;
mod split;
mod zeros;

pub(crate) use migrate::{Folios, Move};
