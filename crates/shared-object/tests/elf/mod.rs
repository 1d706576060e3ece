//! What the dynamic linker reads in a shared object.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use object::read::elf::{ElfFile64, FileHeader};
use object::{Endianness, elf};

/// Every symbol a shared object defines under a version, as `name@@VERSION` (default) or `name@VERSION`.
pub(crate) fn versioned_symbols(path: &Path) -> BTreeSet<String> {
    let named = |(name, version): (String, Option<String>)| version.map(|version| name + &version);
    defined_symbols(path).into_iter().filter_map(named).collect()
}

/// Every symbol a shared object defines without a version.
#[allow(dead_code)] // A question about one of the two libraries only.
pub(crate) fn unversioned_symbols(path: &Path) -> BTreeSet<String> {
    let bare = |(name, version): (String, Option<String>)| version.is_none().then_some(name);
    defined_symbols(path).into_iter().filter_map(bare).collect()
}

/// The names a shared object defines, each with `@@VERSION` (default) or `@VERSION` if it has one.
fn defined_symbols(path: &Path) -> Vec<(String, Option<String>)> {
    let data = fs::read(path).expect("the library can be read");
    let file = ElfFile64::<Endianness>::parse(&*data).expect("it is an ELF file");
    let (endian, header) = (file.endian(), file.elf_header());
    let sections = header.sections(endian, &*data).expect("it has sections");
    let symbols = sections.symbols(endian, &*data, elf::SHT_DYNSYM).expect("it has a dynamic symbol table");
    let versions =
        sections.versions(endian, &*data).expect("its versions are sound").expect("it has versions");
    let mut found = Vec::new();
    for (index, symbol) in symbols.enumerate() {
        if matches!(symbol.st_shndx.get(endian), elf::SHN_UNDEF | elf::SHN_ABS) {
            continue;
        }
        let name = String::from_utf8_lossy(symbols.symbol_name(endian, symbol).expect("it has a name"));
        let version = versions.version_index(endian, index);
        let node = versions.version(version).expect("the version exists").map(|node| {
            let at = if version.is_hidden() { "@" } else { "@@" };
            format!("{at}{}", String::from_utf8_lossy(node.name()))
        });
        found.push((name.into_owned(), node));
    }
    found
}

/// The name a shared object gives itself (`DT_SONAME`).
pub(crate) fn name(path: &Path) -> String {
    let data = fs::read(path).expect("the library can be read");
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
    String::from_utf8_lossy(name).into_owned()
}
