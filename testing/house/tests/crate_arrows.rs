//! No crate uses one below it in ARCHITECTURE.md's table.

#![forbid(unsafe_code)]

use nonic_house::{packages, read};

/// The rows of the table of crates: folder and name.
fn table() -> Vec<(String, String)> {
    let text = read("ARCHITECTURE.md");
    let rows = text.split_once("| crate | what is in it |").expect("ARCHITECTURE.md has a table of crates").1;
    let rows = rows.lines().skip(2).take_while(|line| line.starts_with('|'));
    let cells = rows.map(|row| {
        let mut quoted = row.split('`').skip(1).step_by(2);
        Some((quoted.next()?.to_owned(), quoted.next()?.to_owned()))
    });
    cells.collect::<Option<_>>().expect("a row begins with a folder and the crate's name")
}

#[test]
fn the_table_of_crates_is_the_crates() {
    let table = table();
    let mut faults = Vec::new();
    let crates: Vec<_> =
        packages().into_iter().filter(|package| package.folder.starts_with("crates/")).collect();
    for package in &crates {
        if !table.iter().any(|(folder, name)| (folder, name) == (&package.folder, &package.name)) {
            faults.push(format!(
                "{} (`{}`) has no row in ARCHITECTURE.md's table",
                package.folder, package.name
            ));
        }
    }
    for (folder, _) in
        table.iter().filter(|(folder, _)| !crates.iter().any(|package| package.folder == *folder))
    {
        faults
            .push(format!("{folder} has a row in ARCHITECTURE.md's table and is no member of the workspace"));
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn no_crate_uses_one_below_it_in_the_table() {
    let table = table();
    let place = |name: &str| table.iter().position(|(_, other)| other == name);
    let mut faults = Vec::new();
    for package in packages().iter().filter(|package| package.folder.starts_with("crates/")) {
        for used in &package.uses {
            if place(used) >= place(&package.name) || place(used).is_none() {
                faults.push(format!(
                    "{}/Cargo.toml uses {used}, which is not above it in ARCHITECTURE.md's table: uses point from the bottom of \
                     the table to its top; move what is needed up, or the row",
                    package.folder
                ));
            }
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}
