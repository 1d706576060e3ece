//! What people read: links lead somewhere, every page is in the book, and quoted messages are ones that the programs have.

#![forbid(unsafe_code)]

use std::fs;

use nonic_house::{read, root, rust_files};

/// The pages of a folder, by their paths from the root of the tree.
fn pages(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join(folder)).expect("it can be listed");
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().expect("plain letters"));
    let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
    names.filter(|name| name.ends_with(".md")).map(|name| format!("{prefix}{name}")).collect()
}

/// Where the links of a page lead, but for those to other sites.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')').map(|(target, _)| target));
    targets.filter(|target| !target.contains("://") && !target.contains([' ', '\n']))
}

#[test]
fn every_link_to_a_file_leads_to_one() {
    let mut count = 0;
    for page in [pages(""), pages("docs")].concat() {
        let text = read(&page);
        let folder = root().join(&page).parent().expect("it is in a folder").to_path_buf();
        for target in links(&text) {
            let (file, _) = target.split_once('#').unwrap_or((target, ""));
            assert!(folder.join(file).exists(), "{page} leads to {target}, which is not there");
            count += 1;
        }
    }
    assert!(count > 30, "only {count} links are found");
}

#[test]
fn the_book_has_every_page_once() {
    let summary = read("docs/SUMMARY.md");
    let listed: Vec<_> = links(&summary).map(|target| format!("docs/{target}")).collect();
    for page in pages("docs").iter().filter(|page| *page != "docs/SUMMARY.md") {
        assert_eq!(listed.iter().filter(|listed| *listed == page).count(), 1, "{page} in docs/SUMMARY.md");
    }
}

#[test]
fn the_readme_is_short() {
    let lines = read("README.md").lines().count();
    assert!(lines <= 160, "{lines} lines: move what only some readers need into docs");
}

#[test]
fn messages_that_are_explained_are_those_of_the_programs() {
    let page = read("docs/troubleshooting.md");
    let table = page.split_once("|---|---|\n").expect("the page has a table").1;
    let sources: String = rust_files("crates").into_iter().map(|file| file.text).collect();
    let rows: Vec<_> = table.lines().take_while(|line| line.starts_with("| `")).collect();
    assert!(rows.len() > 10, "the messages of the page are not found");
    for row in rows {
        let message = row.split('`').nth(1).expect("a row begins with a message");
        assert!(sources.contains(message), "no program says {message:?} any more");
    }
}
