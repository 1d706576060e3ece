//! The source tree: where it is, and its Rust files.

use std::fs;
use std::path::{Path, PathBuf};

/// A Rust file of the tree.
#[derive(Clone, Debug)]
pub struct RustFile {
    /// Its path from the root of the tree.
    pub path: String,
    /// What stands in it.
    pub text: String,
}

/// The folder where the workspace begins.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("this package lies two folders below the root").to_path_buf()
}

/// What stands in a file, which is named from the root of the tree.
pub fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("cannot read {path}: {error}"))
}

/// Every Rust file in the `src` folders of the packages below a folder, in the order of their paths.
pub fn rust_files(below: &str) -> Vec<RustFile> {
    let mut paths = Vec::new();
    collect(&root(), below, &mut paths);
    paths.sort();
    assert!(!paths.is_empty(), "no Rust file below {below}: was the folder renamed?");
    paths.into_iter().map(|path| RustFile { text: read(&path), path }).collect()
}

fn collect(root: &Path, folder: &str, paths: &mut Vec<String>) {
    let entries =
        fs::read_dir(root.join(folder)).unwrap_or_else(|error| panic!("cannot list {folder}: {error}"));
    for entry in entries {
        let entry = entry.unwrap_or_else(|error| panic!("cannot list {folder}: {error}"));
        let path = format!("{folder}/{}", entry.file_name().to_str().expect("names are of plain letters"));
        if entry.file_type().expect("it was listed this moment").is_dir() {
            collect(root, &path, paths);
        } else if path.ends_with(".rs") && path.split('/').any(|part| part == "src") {
            paths.push(path);
        }
    }
}
