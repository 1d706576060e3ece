//! The dynamic symbol table of the built library, against the list and against the distribution's library.

mod elf;
mod library;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use elf::versioned_symbols;

/// Where Debian installs the original.
const ORIGINAL: &str = "/usr/lib/x86_64-linux-gnu/libibverbs.so.1";

fn listed() -> BTreeSet<String> {
    let list = include_str!("../../faces/verbs/symbols.txt");
    list.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

fn difference(left: &BTreeSet<String>, right: &BTreeSet<String>) -> Vec<String> {
    left.difference(right).cloned().collect()
}

#[test]
fn the_library_exports_exactly_the_listed_symbols_under_exactly_their_versions() {
    let (ours, listed) = (versioned_symbols(&library::path()), listed());
    assert_eq!(difference(&listed, &ours), [""; 0], "listed and not exported");
    assert_eq!(difference(&ours, &listed), [""; 0], "exported and not listed");
}

#[test]
fn every_symbol_of_the_distributions_library_is_in_ours_under_the_same_version() {
    if !Path::new(ORIGINAL).exists() {
        println!(
            "SKIPPED: {ORIGINAL} is not installed, there is nothing to compare with (package libibverbs1)"
        );
        return;
    }
    let (ours, theirs) = (versioned_symbols(&library::path()), versioned_symbols(Path::new(ORIGINAL)));
    assert!(theirs.len() > 100, "the original's table was read");
    assert_eq!(difference(&theirs, &ours), [""; 0], "in the distribution's library and not in ours");
}

#[test]
fn the_library_answers_to_the_originals_name() {
    assert_eq!(elf::name(&library::path()), "libibverbs.so.1");
}

#[test]
fn the_names_programs_load_lead_to_the_library() {
    let folder = library::profile_folder().join("nonic-lib");
    for name in ["libibverbs.so.1", "libibverbs.so", "libnonic.so"] {
        let target = fs::read_link(folder.join(name)).expect("the build made the link");
        assert_eq!(target, Path::new("../libnonic.so"));
    }
}
