//! No file is too long to be read at one sitting.

#![forbid(unsafe_code)]

use nonic_house::rust_files;

/// Lines of a file, tests included.
const LINES_MAX: usize = 400;

/// Files that are longer, each with its length now, which it must not exceed, and the reason.
const LONGER: &[(&str, usize, &str)] = &[];

#[test]
fn no_file_of_the_source_is_longer_than_400_lines() {
    let mut faults = Vec::new();
    let files = [rust_files("crates"), rust_files("testing")].concat();
    for file in &files {
        let lines = file.text.lines().count();
        let listed = LONGER.iter().find(|(path, ..)| *path == file.path);
        let most = listed.map_or(LINES_MAX, |(_, most, _)| *most);
        if lines > most {
            faults.push(format!(
                "{} has {lines} lines, and {most} are allowed: split it by its nouns",
                file.path
            ));
        } else if listed.is_some() && lines <= LINES_MAX {
            faults.push(format!("{} has {lines} lines: take it off the list LONGER of this test", file.path));
        }
    }
    for (path, ..) in LONGER.iter().filter(|(path, ..)| !files.iter().any(|file| file.path == *path)) {
        faults.push(format!("{path} is not there: take it off the list LONGER of this test"));
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}
