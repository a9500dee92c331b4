//! Checks that the imports between the files of a crate have no cycle.
//!
//! An import is the use of an item of another file of the crate, in a `use` or elsewhere, except in
//! macro arguments. The file that defines the item is the one imported, even if the item is reached
//! through other names from `use` and `pub use`. Re-exports, `mod`, and the `use` of a module are
//! not imports. Code for tests and fuzzing only is ignored.

use super::{Finding, Tree, module_directory};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use syn::visit::{self, Visit};
use syn::{Attribute, ImplItemFn, Item, ItemFn, ItemMod, ItemUse, UseTree, Visibility};

/// Crates whose files must have no import cycles.
const CRATES: &[&str] = &[
    "crates/commands/src",
    "crates/linerate/src",
    "crates/linerate-cli/src",
    "crates/fib/src",
    "crates/grammar/src",
    "crates/inet/src",
    "crates/lock/src",
    "crates/metrics/src",
    "crates/node/src",
    "crates/pipe/src",
    "crates/pkt/src",
    "crates/port/src",
    "crates/sim/src",
    "crates/socket/src",
    "crates/stats/src",
    "crates/tcp/src",
    "crates/wire/src",
];

/// Module names from the crate's root to the file.
type Names = Vec<String>;

pub fn check(tree: &Tree) -> Vec<Finding> {
    CRATES.iter().flat_map(|root| below(tree, root)).collect()
}

/// Reports files below `root` that do not parse. If all files parse, reports a cycle if there is
/// one.
fn below(tree: &Tree, root: &str) -> Vec<Finding> {
    let (mut modules, mut unread) = (BTreeMap::new(), Vec::new());
    for (path, text) in tree.texts.iter().filter(|(path, _)| path.ends_with(".rs")) {
        if path.strip_prefix(root).is_none_or(|rest| !rest.starts_with('/')) {
            continue;
        }
        match Module::read(root, path, text) {
            Ok(module) => _ = modules.insert(module.names.clone(), module),
            Err(why) => unread.push(Finding::new(path, 1, why.to_string())),
        }
    }
    if unread.is_empty() { circle(modules).into_iter().collect() } else { unread }
}

/// Finds the shortest cycle among modules.
fn circle(mut modules: BTreeMap<Names, Module>) -> Option<Finding> {
    let for_tests: Vec<Names> = modules.values().flat_map(|module| module.for_tests.iter().cloned()).collect();
    modules.retain(|names, _| !for_tests.iter().any(|of_tests| names.starts_with(of_tests)));
    let imports: BTreeMap<&Names, BTreeSet<&Names>> = modules
        .iter()
        .map(|(names, module)| {
            let all = module.mentions().filter_map(|path| definer(&modules, &path, 0));
            (names, all.filter(|other| *other != names).collect())
        })
        .collect();
    let way = imports.keys().filter_map(|start| way_back(&imports, start)).min_by_key(Vec::len)?;
    let shown: Vec<String> = way.iter().map(|names| names.join("::")).collect();
    let what = format!("circular imports: {}; move the shared items into a module below them", shown.join(" -> "));
    Some(Finding::new(&modules.get(way.first().copied()?)?.path, 1, what))
}

/// Returns the module that defines the item with this path from the root; `None` if the item is a
/// module or belongs to another crate.
fn definer<'a>(modules: &'a BTreeMap<Names, Module>, path: &[String], depth: usize) -> Option<&'a Names> {
    let (names, module) = (0..=path.len()).rev().find_map(|len| modules.get_key_value(&path[..len]))?;
    let (item, rest) = path[names.len()..].split_first()?;
    match module.aliases.get(item) {
        Some(alias) if depth < 16 => definer(modules, &[alias, rest].concat(), depth + 1),
        _ => Some(names),
    }
}

/// Returns the shortest path from a module to itself, with that module at both ends.
fn way_back<'a>(imports: &BTreeMap<&'a Names, BTreeSet<&'a Names>>, start: &'a Names) -> Option<Vec<&'a Names>> {
    let (mut queue, mut seen) = (VecDeque::from([vec![start]]), BTreeSet::new());
    while let Some(way) = queue.pop_front() {
        for next in way.last().and_then(|last| imports.get(last)).into_iter().flatten() {
            let onward = [way.as_slice(), &[*next]].concat();
            if *next == start {
                return Some(onward);
            }
            if seen.insert(*next) {
                queue.push_back(onward);
            }
        }
    }
    None
}

/// A file, with the paths that occur in it.
#[derive(Debug, Default)]
struct Module {
    path: String,
    names: Names,
    /// Current depth of inline modules while the file is traversed.
    inner: usize,
    /// Imported paths, from the crate's root: by `use` without `pub`, and through a module or a
    /// glob.
    imported: BTreeSet<Names>,
    /// Paths from the crate's root, by the names that `use` and `pub use` give them.
    aliases: BTreeMap<String, Names>,
    /// Paths as written in the code.
    mentioned: BTreeSet<Names>,
    /// Modules in separate files that exist for tests only.
    for_tests: Vec<Names>,
}

impl Module {
    fn read(root: &str, path: &str, text: &str) -> syn::Result<Module> {
        let stem = module_directory(path).strip_prefix(root).unwrap_or_default();
        let names = stem.split('/').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        let mut module = Module { path: path.to_owned(), names, ..Module::default() };
        module.visit_file(&syn::parse_file(text)?);
        Ok(module)
    }

    /// Returns the paths from the root that the file imports.
    fn mentions(&self) -> impl Iterator<Item = Names> + '_ {
        let by_name = |path: &Names| {
            let (first, rest) = path.split_first()?;
            Some(
                self.aliases
                    .get(first)
                    .map_or_else(|| [&self.names[..], path].concat(), |alias| [alias, rest].concat()),
            )
        };
        self.imported.iter().cloned().chain(self.mentioned.iter().filter_map(by_name))
    }

    /// Converts a path that begins with `crate`, `self` or `super`, or occurs in a `use`, to a path
    /// from the root.
    fn absolute(&self, path: &[String]) -> Option<Names> {
        let (first, rest) = path.split_first()?;
        let (mut base, mut rest) = match first.as_str() {
            "crate" => (Names::new(), rest),
            "self" => (self.names.clone(), rest),
            _ => (self.names.clone(), path),
        };
        let mut inner = self.inner;
        while let Some((_, behind)) = rest.split_first().filter(|(word, _)| *word == "super") {
            match inner.checked_sub(1) {
                Some(left) => inner = left,
                None => drop(base.pop()?),
            }
            rest = behind;
        }
        base.extend_from_slice(rest);
        Some(base)
    }

    fn use_tree(&mut self, tree: &UseTree, before: &[String], exported: bool) {
        let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
        let (path, name) = match tree {
            UseTree::Path(path) => return self.use_tree(&path.tree, &with(&path.ident), exported),
            UseTree::Group(group) => {
                return group.items.iter().for_each(|item| self.use_tree(item, before, exported));
            }
            UseTree::Name(name) if name.ident == "self" => {
                (before.to_vec(), before.last().cloned().unwrap_or_default())
            }
            UseTree::Name(name) => (with(&name.ident), name.ident.to_string()),
            UseTree::Rename(rename) => (with(&rename.ident), rename.rename.to_string()),
            // The items of a glob are unknown, so the file itself is considered imported.
            UseTree::Glob(_) => ([before, &["*".to_owned()]].concat(), String::new()),
        };
        let Some(path) = self.absolute(&path) else { return };
        if !exported || name.is_empty() {
            self.imported.insert(path.clone());
        }
        if self.inner == 0 && !name.is_empty() {
            self.aliases.insert(name, path);
        }
    }
}

/// Returns whether the item exists for tests or fuzzing only.
fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().filter(|attribute| attribute.path().is_ident("cfg")).any(|attribute| {
        let condition = attribute.meta.require_list().map(|list| list.tokens.to_string()).unwrap_or_default();
        let condition = condition.replace(' ', "");
        condition.starts_with("all(test,")
            || matches!(condition.as_str(), "test" | "fuzzing" | "any(test,fuzzing)" | "any(fuzzing,test)")
    })
}

impl<'ast> Visit<'ast> for Module {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes = match item {
            Item::Const(item) => &item.attrs,
            Item::Enum(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Macro(item) => &item.attrs,
            Item::Static(item) => &item.attrs,
            Item::Struct(item) => &item.attrs,
            Item::Trait(item) => &item.attrs,
            Item::Type(item) => &item.attrs,
            Item::Union(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            _ => &Vec::new(),
        };
        if !is_for_tests(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        if !is_for_tests(&item.attrs) {
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        if !is_for_tests(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        let is_for_tests = is_for_tests(&item.attrs);
        match &item.content {
            None if is_for_tests => self.for_tests.push([&self.names[..], &[item.ident.to_string()]].concat()),
            Some(_) if !is_for_tests => {
                self.inner += 1;
                visit::visit_item_mod(self, item);
                self.inner -= 1;
            }
            _ => {}
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let exported = !matches!(item.vis, Visibility::Inherited);
        self.use_tree(&item.tree, &[], exported);
    }

    fn visit_visibility(&mut self, _: &'ast Visibility) {} // `pub(in path)` imports nothing

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Names = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if path.leading_colon.is_none() {
            match names.first().map(String::as_str) {
                Some("crate" | "self" | "super") if names.len() > 1 => self.imported.extend(self.absolute(&names)),
                _ => _ = self.mentioned.insert(names),
            }
        }
        visit::visit_path(self, path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIB: &str = "mod a; mod b; mod shared; pub use b::Thing;";

    fn found(texts: &[(&str, &str)]) -> Option<String> {
        let all = below(&Tree::of(texts), "crates/x/src");
        assert!(all.len() <= 1);
        all.first().map(Finding::to_string)
    }

    #[test]
    fn a_file_that_does_not_parse_is_a_finding() {
        assert!(found(&[("crates/x/src/lib.rs", "fn f( {")]).unwrap().starts_with("crates/x/src/lib.rs:1: "));
    }

    #[test]
    fn a_circle_is_found_and_shown() {
        let texts = [
            ("crates/x/src/lib.rs", LIB),
            ("crates/x/src/a.rs", "use crate::b::Thing;"),
            ("crates/x/src/b.rs", "pub struct Thing; fn f(_: super::a::Other) {}"),
        ];
        let what = "crates/x/src/a.rs:1: circular imports: a -> b -> a; move the shared items into a module below them";
        assert_eq!(found(&texts).as_deref(), Some(what));
    }

    #[test]
    fn an_exported_item_belongs_to_its_definer() {
        let with = |b: &str| {
            found(&[
                ("crates/x/src/lib.rs", LIB),
                ("crates/x/src/a.rs", "use crate::{Thing, shared::S}; pub struct A;"),
                ("crates/x/src/b.rs", b),
                ("crates/x/src/shared.rs", "pub struct S;"),
            ])
        };
        assert_eq!(with("pub struct Thing; use crate::shared::S;"), None);
        let what = "crates/x/src/a.rs:1: circular imports: a -> b -> a; move the shared items into a module below them";
        assert_eq!(with("pub struct Thing; use crate::a::{A as B};").as_deref(), Some(what));
    }

    #[test]
    fn a_parent_and_its_child_can_form_a_circle() {
        let with = |child: &str| {
            found(&[
                ("crates/x/src/lib.rs", "mod a;"),
                ("crates/x/src/a.rs", "mod child; use child::Part; pub struct A(Part);"),
                ("crates/x/src/a/child.rs", child),
            ])
        };
        assert_eq!(with("pub(in crate::a) struct Part;"), None);
        assert!(with("pub struct Part; mod inside { use super::Part; }").is_none());
        assert!(with("pub struct Part; impl super::A {}").is_some());
    }

    #[test]
    fn an_exported_item_that_is_also_used_is_imported() {
        let with = |a: &str| {
            found(&[
                ("crates/x/src/lib.rs", "mod a;"),
                ("crates/x/src/a.rs", a),
                ("crates/x/src/a/child.rs", "pub struct Part; impl super::A {}"),
            ])
        };
        assert!(with("mod child; pub use child::Part; pub struct A(Part);").is_some());
        assert!(with("mod child; pub use child::*; pub struct A(u8);").is_some());
        assert_eq!(with("mod child; pub use child::Part; pub struct A(u8);"), None);
    }

    #[test]
    fn an_item_named_like_its_module_belongs_to_its_definer() {
        let with = |a: &str| {
            found(&[
                ("crates/x/src/lib.rs", LIB),
                ("crates/x/src/a.rs", a),
                ("crates/x/src/b.rs", "mod c; pub use c::T; pub struct Thing; fn f(_: crate::a::A) {}"),
                ("crates/x/src/b/c.rs", "pub struct T;"),
            ])
        };
        assert_eq!(with("use crate::b; pub struct A(b::T);"), None);
        assert!(with("use crate::b; pub struct A(b::Thing);").is_some());
        assert_eq!(with("use crate::b; mod d { use super::b::T; } pub struct A;"), None);
    }

    #[test]
    fn tests_and_fuzzing_are_left_out() {
        let texts = [
            ("crates/x/src/lib.rs", "mod a; mod b; #[cfg(any(test, fuzzing))] pub mod fuzz;"),
            ("crates/x/src/a.rs", "#[cfg(test)] mod tests; #[cfg(test)] fn f() { crate::b::g() }"),
            ("crates/x/src/a/tests.rs", "use crate::b::g;"),
            ("crates/x/src/b.rs", "use crate::a::A; #[cfg(any(test, fuzzing))] use crate::fuzz::F;"),
            ("crates/x/src/fuzz.rs", "use crate::b::g;"),
        ];
        assert_eq!(found(&texts), None);
    }
}
