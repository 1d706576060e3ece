//! The dynamic symbol table of the built library, against the list and against the distribution's library.

mod library;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use object::read::elf::{ElfFile64, FileHeader};
use object::{Endianness, elf};

/// Where Debian installs the original.
const ORIGINAL: &str = "/usr/lib/x86_64-linux-gnu/libibverbs.so.1";

/// Every symbol a shared object defines under a version, as `name@@VERSION` (default) or `name@VERSION`.
fn versioned_symbols(path: &Path) -> BTreeSet<String> {
    let data = fs::read(path).expect("the library can be read");
    let file = ElfFile64::<Endianness>::parse(&*data).expect("it is an ELF file");
    let (endian, header) = (file.endian(), file.elf_header());
    let sections = header.sections(endian, &*data).expect("it has sections");
    let symbols = sections.symbols(endian, &*data, elf::SHT_DYNSYM).expect("it has a dynamic symbol table");
    let versions =
        sections.versions(endian, &*data).expect("its versions are sound").expect("it has versions");
    let mut found = BTreeSet::new();
    for (index, symbol) in symbols.enumerate() {
        let version = versions.version_index(endian, index);
        let defined =
            symbol.st_shndx.get(endian) != elf::SHN_UNDEF && symbol.st_shndx.get(endian) != elf::SHN_ABS;
        let Some(node) = versions.version(version).expect("the version exists").filter(|_| defined) else {
            continue;
        };
        let name = String::from_utf8_lossy(symbols.symbol_name(endian, symbol).expect("it has a name"));
        let node = String::from_utf8_lossy(node.name());
        let at = if version.is_hidden() { "@" } else { "@@" };
        found.insert(format!("{name}{at}{node}"));
    }
    found
}

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
    let data = fs::read(library::path()).expect("the library can be read");
    let file = ElfFile64::<Endianness>::parse(&*data).expect("it is an ELF file");
    let (endian, header) = (file.endian(), file.elf_header());
    let sections = header.sections(endian, &*data).expect("it has sections");
    let (entries, strings) = sections.dynamic(endian, &*data).expect("it is sound").expect("it is dynamic");
    let strings = sections.strings(endian, &*data, strings).expect("it has strings");
    let name = entries
        .iter()
        .find(|entry| entry.d_tag.get(endian) == u64::from(elf::DT_SONAME))
        .expect("it has a name");
    let name = strings.get(name.d_val.get(endian) as u32).expect("the name is in the strings");
    assert_eq!(name, b"libibverbs.so.1");
}

#[test]
fn the_names_programs_load_lead_to_the_library() {
    let folder = library::profile_folder().join("nonic-lib");
    for name in ["libibverbs.so.1", "libibverbs.so"] {
        let target = fs::read_link(folder.join(name)).expect("the build made the link");
        assert_eq!(target, Path::new("../libnonic.so"));
    }
}
