//! Unsafe code stands where ARCHITECTURE.md says, and the compiler refuses it elsewhere.
//!
//! That each block and implementation has a `SAFETY` comment is clippy's to check (`undocumented_unsafe_blocks`), which
//! every package asks for.

#![forbid(unsafe_code)]

use nonic_house::{Word, packages, read, rust_files, words};

/// Folders of packages, modules' folders and files.
const ALLOWED: &[&str] = &[
    "crates/sys",
    "crates/heap",
    "crates/memory/src/adoption/shared_parts.rs",
    "crates/memory/src/adoption/switching.rs",
    "crates/memory/src/paging.rs",
    "crates/memory/src/own_memory.rs",
    "crates/memory/src/shared_slice.rs",
    "crates/transport/src/reach/kernel_copy.rs",
    "crates/device/src/device_memory.rs",
    "crates/device/src/program_memory.rs",
    "crates/device/src/queue_pair/posting.rs",
    "crates/rsocket/src/memory.rs",
    "crates/rsocket/src/posting.rs",
    "crates/dat/src/endpoint/posting.rs",
    "crates/scif/src/descriptor.rs",
    "crates/scif/src/memory/copying.rs",
    "crates/scif/src/memory/mapped.rs",
    "crates/scif/src/program_memory.rs",
    "crates/faces/neighbour",
    "crates/faces/verbs",
    "crates/faces/scif",
    "crates/faces/scif-library",
    "crates/faces/rdmacm",
    "crates/faces/rdmacm-library",
    "crates/faces/sockets",
    "crates/faces/sockets-library",
    "crates/faces/view",
    "crates/faces/view-library",
    "crates/faces/dat",
    "crates/faces/dat-library",
    "crates/faces/dat-provider",
    "crates/shared-object",
    "crates/cli/src/bench/physical.rs",
    "crates/cli/src/dat",
    "crates/cli/src/rdmacm",
    "crates/cli/src/scif",
    "crates/cli/src/system.rs",
    "crates/cli/src/verbs",
    // Only tests.
    "crates/scif/src/memory/tests",
    "crates/transport/src/ring/mod.rs",
    "testing/conformance/src/program_memory.rs",
    "testing/second-process/src/user.rs",
];

fn is_in(path: &str, place: &str) -> bool {
    path.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn is_allowed(path: &str) -> bool {
    ALLOWED.iter().any(|place| is_in(path, place))
}

/// Where unsafe code stands or is allowed, by the words of a file: the file, or the module that the permission stands before.
fn unsafe_places(path: &str, words: &[Word]) -> Vec<String> {
    let mut places = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let before = at.checked_sub(2).map(|at| words[at].text.as_str());
        match word.text.as_str() {
            "unsafe" => places.push(path.to_owned()),
            "unsafe_code" if matches!(before, Some("allow" | "expect")) => {
                let behind: Vec<&str> =
                    words[at + 1..].iter().take(8).map(|word| word.text.as_str()).collect();
                places.push(match behind.as_slice() {
                    [")", "]", "mod", name, ";", ..] | [")", "]", "pub", "mod", name, ";", ..] => {
                        beside(path, name)
                    }
                    _ => path.to_owned(),
                });
            }
            _ => {}
        }
    }
    places
}

/// The module `name` that a file declares: its file or its folder.
fn beside(path: &str, name: &str) -> String {
    let (folder, file) = path.rsplit_once('/').expect("it is in a folder");
    let folder = match file {
        "lib.rs" | "main.rs" | "mod.rs" => folder.to_owned(),
        _ => path.trim_end_matches(".rs").to_owned(),
    };
    let file = format!("{folder}/{name}.rs");
    if nonic_house::root().join(&file).exists() { file } else { format!("{folder}/{name}") }
}

#[test]
fn unsafe_code_stands_only_where_it_is_allowed() {
    let mut faults = Vec::new();
    let mut used = vec![false; ALLOWED.len()];
    for file in [rust_files("crates"), rust_files("testing")].concat() {
        for place in unsafe_places(&file.path, &words(&file.text)) {
            ALLOWED
                .iter()
                .zip(&mut used)
                .filter(|(allowed, _)| is_in(&place, allowed))
                .for_each(|(_, used)| *used = true);
            if !is_allowed(&place) {
                faults.push(format!(
                    "unsafe code in {place} (by {}): put it where it is allowed, or allow the module by name, here and in \
                     ARCHITECTURE.md, and say there why",
                    file.path
                ));
            }
        }
    }
    faults.dedup();
    for (place, _) in ALLOWED.iter().zip(used).filter(|(_, used)| !used) {
        faults.push(format!(
            "there is no unsafe code in {place} any more: take it off this list and ARCHITECTURE.md's"
        ));
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn architecture_md_names_the_same_places() {
    let text = read("ARCHITECTURE.md");
    let behind =
        text.split_once("Unsafe code is allowed in").expect("ARCHITECTURE.md says where it is allowed").1;
    let list = behind.split_once("Everywhere else").expect("the list ends before `Everywhere else`").0;
    let mut named: Vec<&str> = list.split('`').skip(1).step_by(2).collect();
    let mut allowed = ALLOWED.to_vec();
    named.sort_unstable();
    allowed.sort_unstable();
    let missing: Vec<_> = allowed.iter().filter(|place| !named.contains(place)).collect();
    let too_many: Vec<_> = named.iter().filter(|place| !allowed.contains(place)).collect();
    assert!(
        named == allowed,
        "ARCHITECTURE.md and this test allow unsafe code in different places: only here {missing:?}, only there {too_many:?}"
    );
}

#[test]
fn a_package_without_unsafe_code_of_its_own_denies_it() {
    let mut faults = Vec::new();
    for package in packages() {
        if is_allowed(&package.folder) {
            continue;
        }
        let roots = ["lib.rs", "main.rs"].map(|name| format!("{}/src/{name}", package.folder));
        let roots = roots.iter().filter(|root| nonic_house::root().join(root).exists());
        for root in roots {
            let text = read(root);
            if !["#![forbid(unsafe_code)]", "#![deny(unsafe_code)]"].iter().any(|line| text.contains(line)) {
                faults.push(format!("{root} allows unsafe code: say #![forbid(unsafe_code)] at its head"));
            }
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn every_package_takes_the_lints_of_the_workspace() {
    let without: Vec<_> =
        packages().into_iter().filter(|package| !package.has_lints).map(|package| package.name).collect();
    assert!(
        without.is_empty(),
        "add `[lints]` with `workspace = true` to the manifests of {}",
        without.join(", ")
    );
}
