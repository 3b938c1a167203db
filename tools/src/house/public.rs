//! The public items of a library crate.
use super::source::{Source, attributes, is_test, module};
use std::collections::BTreeSet;
use syn::{ImplItem, Item, Type, UseTree, Visibility};

/// How many `pub` functions, types, constants, traits and methods of a library can be named from
/// outside: all modules around them are `pub`, or a `pub use` in such a module names them. Fields,
/// variants and items of traits and macros are not counted.
pub fn count(sources: &[Source]) -> usize {
    let mut found = Declared::default();
    for source in sources {
        let path = module(&source.path).replace('/', "::");
        found.items(&path, &source.file.items);
    }
    found.count()
}

/// The declarations of a crate's modules.
#[derive(Default)]
struct Declared {
    /// Modules that are `pub`.
    modules: BTreeSet<String>,
    /// Items that are `pub`: module and name.
    items: Vec<(String, String)>,
    /// Methods that are `pub`, by the name of the type.
    methods: Vec<String>,
    /// What is imported by `pub use`: module, and the last name or `*` behind the name of a module.
    uses: Vec<(String, String)>,
}

impl Declared {
    fn items(&mut self, module: &str, items: &[Item]) {
        let outer = items.iter().filter(|item| !is_test(attributes(item)));
        outer.for_each(|item| self.item(module, item));
    }

    fn item(&mut self, module: &str, item: &Item) {
        let (visibility, name) = match item {
            Item::Const(item) => (&item.vis, &item.ident),
            Item::Enum(item) => (&item.vis, &item.ident),
            Item::Fn(item) => (&item.vis, &item.sig.ident),
            Item::Static(item) => (&item.vis, &item.ident),
            Item::Struct(item) => (&item.vis, &item.ident),
            Item::Trait(item) => (&item.vis, &item.ident),
            Item::Type(item) => (&item.vis, &item.ident),
            Item::Mod(item) => {
                let path = below(module, &item.ident.to_string());
                if let Some((_, items)) = &item.content {
                    self.items(&path, items);
                }
                if is_public(&item.vis) {
                    self.modules.insert(path);
                }
                return;
            }
            Item::Use(item) if is_public(&item.vis) => {
                let mut names = Vec::new();
                used(&item.tree, "", &mut names);
                let names = names.into_iter().map(|name| (module.to_owned(), name));
                self.uses.extend(names);
                return;
            }
            Item::Impl(item) if item.trait_.is_none() => {
                let methods = item.items.iter().filter(|item| public_method(item));
                let of = type_name(&item.self_ty);
                self.methods.extend(methods.map(|_| of.clone()));
                return;
            }
            _ => return,
        };
        if is_public(visibility) {
            self.items.push((module.to_owned(), name.to_string()));
        }
    }

    /// Whether a module and all around it are `pub`.
    fn shown(&self, module: &str) -> bool {
        let outer = module.rsplit_once("::").map_or("", |(outer, _)| outer);
        module.is_empty() || (self.modules.contains(module) && self.shown(outer))
    }

    fn count(&self) -> usize {
        let uses = self.uses.iter().filter(|(module, _)| self.shown(module));
        let used: BTreeSet<&str> = uses.map(|(_, name)| name.as_str()).collect();
        let shown = |(module, name): &&(String, String)| {
            let last = module.rsplit("::").next().unwrap_or(module);
            let all = format!("{last}::*");
            self.shown(module) || used.contains(name.as_str()) || used.contains(all.as_str())
        };
        let items: Vec<_> = self.items.iter().filter(shown).collect();
        let types: BTreeSet<&str> = items.iter().map(|(_, name)| name.as_str()).collect();
        let methods = self.methods.iter();
        items.len() + methods.filter(|of| types.contains(of.as_str())).count()
    }
}

fn below(module: &str, name: &str) -> String {
    match module {
        "" => name.to_owned(),
        _ => format!("{module}::{name}"),
    }
}

/// `pub`, not `pub(crate)`.
fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

fn public_method(item: &ImplItem) -> bool {
    match item {
        ImplItem::Fn(item) => is_public(&item.vis) && !is_test(&item.attrs),
        ImplItem::Const(item) => is_public(&item.vis),
        _ => false,
    }
}

fn type_name(ty: &Type) -> String {
    let Type::Path(path) = ty else {
        return String::new();
    };
    let last = path.path.segments.last();
    last.map(|segment| segment.ident.to_string())
        .unwrap_or_default()
}

/// The names that a `use` brings.
fn used(tree: &UseTree, module: &str, names: &mut Vec<String>) {
    match tree {
        UseTree::Path(path) => used(&path.tree, &path.ident.to_string(), names),
        UseTree::Name(name) => names.push(name.ident.to_string()),
        UseTree::Rename(name) => names.push(name.ident.to_string()),
        UseTree::Glob(_) => names.push(format!("{module}::*")),
        UseTree::Group(group) => {
            let trees = group.items.iter();
            trees.for_each(|tree| used(tree, module, names));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::source::parse;
    use super::*;

    #[test]
    fn what_can_be_named_from_outside() {
        let lib = "pub mod table; mod hidden; pub(crate) mod inner; pub use hidden::{Shown, deep::*}; pub fn f() {}";
        let table = "pub struct Table; impl Table { pub fn a(&self) {} fn b(&self) {} pub(crate) fn c(&self) {} }";
        let hidden = "pub mod deep; pub struct Shown; impl Shown { pub fn new() {} } pub struct Not; impl Not { pub fn new() {} }";
        let deep = "pub const ONE: u8 = 1; #[cfg(test)] pub fn test() {}";
        let inner = "pub fn g() {} pub mod more { pub fn h() {} }";
        let files = [
            ("lib.rs", lib),
            ("table/mod.rs", table),
            ("hidden.rs", hidden),
            ("hidden/deep.rs", deep),
            ("inner.rs", inner),
        ];
        let sources = files.map(|(path, text)| parse(path, text).unwrap());
        // f, Table, Table::a, Shown, Shown::new, ONE.
        assert_eq!(count(&sources), 6);
    }
}
