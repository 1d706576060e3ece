//! What the dynamic linker reads in a shared object.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use object::read::elf::{ElfFile64, FileHeader};
use object::{Endianness, elf};

/// Every symbol a shared object defines under a version, as `name@@VERSION` (default) or `name@VERSION`.
pub(crate) fn versioned_symbols(path: &Path) -> BTreeSet<String> {
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

/// Every symbol a shared object defines without a version.
#[allow(dead_code)] // A question about one of the two libraries only.
pub(crate) fn unversioned_symbols(path: &Path) -> BTreeSet<String> {
    let data = fs::read(path).expect("the library can be read");
    let file = ElfFile64::<Endianness>::parse(&*data).expect("it is an ELF file");
    let (endian, header) = (file.endian(), file.elf_header());
    let sections = header.sections(endian, &*data).expect("it has sections");
    let symbols = sections.symbols(endian, &*data, elf::SHT_DYNSYM).expect("it has a dynamic symbol table");
    let versions =
        sections.versions(endian, &*data).expect("its versions are sound").expect("it has versions");
    let mut found = BTreeSet::new();
    for (index, symbol) in symbols.enumerate() {
        let defined =
            symbol.st_shndx.get(endian) != elf::SHN_UNDEF && symbol.st_shndx.get(endian) != elf::SHN_ABS;
        let version = versions.version_index(endian, index);
        if defined && versions.version(version).expect("the version exists").is_none() {
            let name = symbols.symbol_name(endian, symbol).expect("it has a name");
            found.insert(String::from_utf8_lossy(name).into_owned());
        }
    }
    found
}
