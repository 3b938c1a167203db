//! Counts of source code. Code that a macro generates is not counted.
use super::source::{Source, attributes, is_test};
use std::collections::BTreeSet;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{
    Attribute, FnArg, ImplItemFn, Item, ItemFn, Meta, Pat, PatTupleStruct, Signature, TraitItemFn,
    Type, TypeTuple,
};

/// A file of more lines than this, tests left out, is a large one.
pub const LARGE: usize = 300;

/// The place of something: `path:line name`.
pub type At = String;

/// The counts of a folder.
#[derive(Default)]
pub struct Found {
    /// Parameters of type `&Mm` or `&mut Mm`, with any arguments.
    pub mm: Vec<At>,
    /// Parameters of type `&mut Gather`.
    pub gather: Vec<At>,
    /// Parameters whose pattern is a tuple, or in whose type a tuple stands at any depth.
    pub tuples: Vec<At>,
    /// Descents: functions that bind the table in an entry, by a pattern `Entry::Table(name)` or
    /// `Entry::Shared(name)`. Whatever walks levels has to do this to go from one to the next.
    pub descents: Vec<At>,
    /// Lines, blank ones and comments included, tests left out.
    pub lines: usize,
    /// Files of more than [`LARGE`] lines.
    pub large: Vec<At>,
    /// Lines of the largest function from `fn` to its brace, and the function.
    pub largest: (usize, At),
    /// Functions that are inlined wherever they are called: fast paths.
    pub inlined: Vec<At>,
    /// Those of them without documentation.
    pub undocumented: Vec<At>,
    /// Names of functions that unmap: that have the word `zap` or `unmap`.
    pub unmapping: BTreeSet<String>,
}

/// Counts in all of `sources`.
pub fn count(sources: &[Source]) -> Found {
    let mut found = Found::default();
    for source in sources {
        found.lines += source.lines;
        if source.lines > LARGE {
            let line = format!("{} {} lines", source.path, source.lines);
            found.large.push(line);
        }
        let mut visitor = Visitor {
            path: &source.path,
            found: &mut found,
        };
        visitor.visit_file(&source.file);
    }
    found
}

struct Visitor<'a> {
    path: &'a str,
    found: &'a mut Found,
}

impl Visitor<'_> {
    fn at(&self, signature: &Signature) -> At {
        let line = signature.fn_token.span().start().line;
        format!("{}:{line} {}", self.path, signature.ident)
    }

    /// A function's parameters.
    fn signature(&mut self, signature: &Signature) {
        let at = self.at(signature);
        for input in &signature.inputs {
            let FnArg::Typed(input) = input else { continue };
            if reference_to(&input.ty, "Mm").is_some() {
                self.found.mm.push(at.clone());
            }
            if reference_to(&input.ty, "Gather") == Some(true) {
                self.found.gather.push(at.clone());
            }
            if matches!(*input.pat, Pat::Tuple(_)) || has_tuple(&input.ty) {
                self.found.tuples.push(at.clone());
            }
        }
    }

    /// A function with a body, which is `block`.
    fn body(&mut self, attributes: &[Attribute], signature: &Signature, block: &syn::Block) {
        let at = self.at(signature);
        let name = signature.ident.to_string();
        if name.split('_').any(|word| ["zap", "unmap"].contains(&word)) {
            self.found.unmapping.insert(name);
        }
        if attributes.iter().any(is_inline_always) {
            self.found.inlined.push(at.clone());
            if !attributes.iter().any(|one| one.path().is_ident("doc")) {
                self.found.undocumented.push(at.clone());
            }
        }
        let lines = block.span().end().line + 1 - signature.fn_token.span().start().line;
        if lines > self.found.largest.0 {
            self.found.largest = (lines, at.clone());
        }
        let mut binds = BindsTable(false);
        binds.visit_block(block);
        if binds.0 {
            self.found.descents.push(at);
        }
    }
}

impl<'ast> Visit<'ast> for Visitor<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_test(attributes(item)) {
            visit::visit_item(self, item);
        }
    }
    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.signature(&item.sig);
        self.body(&item.attrs, &item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }
    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        if !is_test(&item.attrs) {
            self.signature(&item.sig);
            self.body(&item.attrs, &item.sig, &item.block);
            visit::visit_impl_item_fn(self, item);
        }
    }
    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        self.signature(&item.sig);
        if let Some(block) = &item.default {
            self.body(&item.attrs, &item.sig, block);
        }
        visit::visit_trait_item_fn(self, item);
    }
}

fn is_inline_always(attribute: &Attribute) -> bool {
    match &attribute.meta {
        Meta::List(list) => list.path.is_ident("inline") && list.tokens.to_string() == "always",
        _ => false,
    }
}

/// Whether a type is a reference to a type of this name, in whichever module: and whether to a
/// mutable one.
fn reference_to(ty: &Type, name: &str) -> Option<bool> {
    let Type::Reference(reference) = ty else {
        return None;
    };
    let Type::Path(path) = &*reference.elem else {
        return None;
    };
    let last = path.path.segments.last()?;
    (last.ident == name).then_some(reference.mutability.is_some())
}

/// Whether a tuple, not `()`, stands in a type at any depth.
fn has_tuple(ty: &Type) -> bool {
    struct Tuple(bool);
    impl<'ast> Visit<'ast> for Tuple {
        fn visit_type_tuple(&mut self, tuple: &'ast TypeTuple) {
            self.0 |= !tuple.elems.is_empty();
        }
    }
    let mut tuple = Tuple(false);
    tuple.visit_type(ty);
    tuple.0
}

/// Whether a pattern binds the table of an entry. Functions inside of a function are counted by
/// themselves.
struct BindsTable(bool);

impl<'ast> Visit<'ast> for BindsTable {
    fn visit_pat_tuple_struct(&mut self, pattern: &'ast PatTupleStruct) {
        let names: Vec<String> = pattern
            .path
            .segments
            .iter()
            .map(|s| s.ident.to_string())
            .collect();
        let of_entry = matches!(&names[..], [.., entry, kind] if entry == "Entry" && (kind == "Table" || kind == "Shared"));
        self.0 |= of_entry && matches!(pattern.elems.first(), Some(Pat::Ident(_)));
        visit::visit_pat_tuple_struct(self, pattern);
    }
    fn visit_item_fn(&mut self, _: &'ast ItemFn) {}
}

#[cfg(test)]
mod tests {
    use super::super::source::parse;
    use super::*;

    const TEXT: &str = "
use crate::frame::Mm;
fn zap<M: Machine>(mm: &Mm<M>, gather: &mut Gather<'_, M>, at: (Pfn, usize)) {
    if let Entry::Table(child) = entry::read(mm, at) { descend(child) }
}
impl<M> Cursor<'_, M> {
    #[inline(always)]
    fn look(&self, mm: &frame::Mm<M>, (low, high): Pair, unit: ()) -> bool {
        matches!(self.read(), Entry::Shared(_)) || if let Entry::Shared(_) = x { true } else { false }
    }
    /// All entries.
    #[inline(always)]
    fn all(&self, f: &mut dyn FnMut(&[(Pfn, u8)]), owned: Mm<M>, gather: &Gather<M>) {
        match e { Entry::Shared(table) => f(table), _ => {} }
    }
}
trait Walk { fn walk(&self, mm: &mut Mm<Self>); }
#[cfg(test)]
mod tests {
    fn test(mm: &Mm<M>, pair: (u8, u8)) {}
}
";

    #[test]
    fn parameters_and_descents_without_tests() {
        let source = parse("table/zap.rs", TEXT).unwrap();
        let found = count(&[source]);
        let (zap, look) = ("table/zap.rs:3 zap", "table/zap.rs:8 look");
        let (all, walk) = ("table/zap.rs:13 all", "table/zap.rs:17 walk");
        assert_eq!(found.mm, [zap, look, walk]);
        assert_eq!(found.gather, [zap]);
        assert_eq!(found.tuples, [zap, look, all]);
        assert_eq!(found.descents, [zap, all]);
        assert_eq!((found.lines, found.large.len()), (17, 0));
        assert_eq!(found.largest, (3, zap.to_owned()));
        assert_eq!(found.inlined, [look, all]);
        assert_eq!(found.undocumented, [look]);
        assert_eq!(Vec::from_iter(found.unmapping), ["zap"]);
    }

    #[test]
    fn a_large_file() {
        let text = "// A comment.\n".repeat(LARGE + 1);
        let found = count(&[parse("large.rs", &text).unwrap()]);
        assert_eq!(found.large, ["large.rs 301 lines"]);
        let text = format!("{text}#[cfg(test)]\nmod tests {{\n}}\n");
        assert_eq!(count(&[parse("large.rs", &text).unwrap()]).lines, LARGE + 1);
    }
}
