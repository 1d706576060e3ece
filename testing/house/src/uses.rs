//! Which module at the top of a crate uses which other.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::paths::{FoundPath, brought_in, declared_modules, paths};
use crate::{RustFile, Word, rust_files, without_tests, words};

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file's path from the root of the tree.
    pub path: String,
    /// Counted from one.
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.path, self.line)
    }
}

/// For each module that uses another, the two and a place where it does.
pub type Uses = BTreeMap<(String, String), Place>;

/// The uses between the modules at the top of a crate, which is named by its folder. Tests are left out, and so is the
/// root itself, which brings all together.
pub fn module_uses(folder: &str) -> Uses {
    uses_between(&format!("{folder}/src/"), &rust_files(&format!("{folder}/src")))
}

fn uses_between(source_folder: &str, files: &[RustFile]) -> Uses {
    let cut: Vec<(Vec<String>, &RustFile, Vec<Word>)> =
        files.iter().map(|file| (module_of(source_folder, &file.path), file, words(&file.text))).collect();
    let mut modules = BTreeSet::new();
    let mut brought_to_root = BTreeMap::new();
    let mut test_modules = Vec::new();
    for (module, _, words) in &cut {
        let kept = without_tests(words);
        let declared = declared_modules(&kept);
        let of_tests = declared_modules(words).into_iter().filter(|name| !declared.contains(name));
        test_modules.extend(of_tests.map(|name| [module.as_slice(), &[name]].concat()));
        if module.is_empty() {
            modules.extend(declared);
            brought_to_root.extend(brought_in(&kept).into_iter().map(|path| (path.called, path.names)));
        }
    }
    let mut uses = Uses::new();
    for (module, file, words) in &cut {
        if module.is_empty() || test_modules.iter().any(|tests| module.starts_with(tests)) {
            continue;
        }
        for path in paths(&without_tests(words)) {
            let Some(name) = first_name_from_root(module, &path) else { continue };
            let name = if modules.contains(&name) { Some(&name) } else { origin(&brought_to_root, &name) };
            if let Some(used) = name.filter(|used| modules.contains(*used) && **used != module[0]) {
                let place = Place { path: file.path.clone(), line: path.line };
                uses.entry((module[0].clone(), used.clone())).or_insert(place);
            }
        }
    }
    uses
}

/// The names from the crate's root to the module that a file is: none for the root.
fn module_of(source_folder: &str, path: &str) -> Vec<String> {
    let path = path
        .strip_prefix(source_folder)
        .and_then(|path| path.strip_suffix(".rs"))
        .expect("a file of the crate");
    let mut names: Vec<String> = path.split('/').map(str::to_owned).collect();
    let is_root = names.len() == 1 && (path == "lib" || path == "main");
    if is_root || names.last().is_some_and(|name| name == "mod") {
        names.pop();
    }
    names
}

/// What a path names first, seen from the crate's root; none if that is the root itself.
fn first_name_from_root(module: &[String], path: &FoundPath) -> Option<String> {
    let mut around = [module, &path.inside].concat();
    for name in &path.names {
        match name.as_str() {
            "crate" => around.clear(),
            "super" => drop(around.pop()),
            name => {
                around.push(name.to_owned());
                break;
            }
        }
    }
    around.into_iter().next()
}

/// The module from which the root has a name.
fn origin<'a>(brought_to_root: &'a BTreeMap<String, Vec<String>>, name: &str) -> Option<&'a String> {
    brought_to_root.get(name)?.iter().find(|name| !["crate", "self"].contains(&name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let file = |(path, text): &(&str, &str)| RustFile {
            path: format!("x/src/{path}"),
            text: (*text).to_owned(),
        };
        let uses = uses_between("x/src/", &files.iter().map(file).collect::<Vec<_>>());
        uses.into_iter().map(|((from, to), place)| format!("{from} {to} {}", place.line)).collect()
    }

    const ROOT: (&str, &str) =
        ("lib.rs", "mod a; mod b; mod c; pub use b::{B, Other as Known}; pub use other::*;");

    #[test]
    fn a_use_is_one_of_the_module_at_the_top() {
        let below = ("a/mod.rs", "mod d;\nuse crate::b::Thing;\nuse super::c;");
        assert_eq!(
            found(&[ROOT, below, ("a/d.rs", "use super::d; use super::super::c;")]),
            ["a b 2", "a c 3"]
        );
    }

    #[test]
    fn a_name_of_the_root_is_one_of_the_module_it_comes_from() {
        assert_eq!(
            found(&[ROOT, ("c.rs", "fn f(b: crate::B, o: crate::Known, x: crate::Unknown) {}")]),
            ["c b 1"]
        );
    }

    #[test]
    fn tests_may_use_what_they_like() {
        let with_tests = ("a/mod.rs", "#[cfg(test)] mod tests; #[cfg(test)] mod more { use crate::b; }");
        assert_eq!(found(&[ROOT, with_tests, ("a/tests.rs", "use crate::c;")]), [] as [String; 0]);
    }
}
