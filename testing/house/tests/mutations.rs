//! What the mutations of `testing/mutations` exchange stands where they say, once: so none of them rots unseen between two runs of
//! `ci/mutations`, which takes long.

#![forbid(unsafe_code)]

use nonic_house::{read, root};

/// The exchanges of a file of mutations: the file to change, and the text to be found there.
fn exchanges(text: &str) -> Vec<(String, String)> {
    let (mut found, mut path) = (Vec::new(), String::new());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(named) = line.strip_prefix("in ") {
            path = named.trim().to_owned();
        }
        if line == "find" {
            let sought: Vec<&str> = lines.by_ref().take_while(|line| *line != "put").collect();
            found.push((path.clone(), sought.join("\n")));
            lines.by_ref().find(|line| *line == "end");
        }
    }
    found
}

#[test]
fn what_a_mutation_exchanges_stands_once_where_it_says() {
    let folder = root().join("testing/mutations");
    let names =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut count = 0;
    let mut wrong = Vec::new();
    for name in names.filter(|name| !name.ends_with(".md")) {
        for (path, sought) in exchanges(&read(&format!("testing/mutations/{name}"))) {
            count += 1;
            let times = read(&path).matches(&sought).count();
            if times != 1 {
                wrong.push(format!("{name}: {times} times in {path}:\n{sought}"));
            }
        }
    }
    assert!(wrong.is_empty(), "to be written anew:\n\n{}", wrong.join("\n\n"));
    assert!(count > 100, "only {count} exchanges are found: has the format changed?");
}
