//! The packages of the workspace, and which of them each uses.

use crate::read;

/// A package of the workspace.
#[derive(Debug)]
pub struct Package {
    /// Its folder, from the root of the tree.
    pub folder: String,
    /// Its name.
    pub name: String,
    /// The packages of this workspace that it uses, but for those that only its tests use.
    pub uses: Vec<String>,
    /// Whether it takes the workspace's lints over.
    pub has_lints: bool,
}

/// The members of the workspace, in its order.
pub fn packages() -> Vec<Package> {
    let workspace = read("Cargo.toml");
    let list = workspace.split_once("members = [").expect("the workspace lists its members").1;
    let list = list.split_once(']').expect("the list has an end").0;
    let folders =
        list.split(',').map(|folder| folder.trim().trim_matches('"')).filter(|folder| !folder.is_empty());
    folders.map(|folder| package(folder, &read(&format!("{folder}/Cargo.toml")))).collect()
}

fn package(folder: &str, manifest: &str) -> Package {
    let mut section = "";
    let mut package =
        Package { folder: folder.to_owned(), name: String::new(), uses: Vec::new(), has_lints: false };
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            section = line;
        }
        let key = line.split(['=', '.', ' ']).next().expect("the first part of anything");
        match section {
            "[package]" if key == "name" => {
                package.name = line.split('"').nth(1).unwrap_or_default().to_owned()
            }
            "[lints]" if line == "workspace = true" => package.has_lints = true,
            // Also `[target.'...'.dependencies]`.
            _ if section.ends_with("dependencies]")
                && !section.contains("dev-")
                && key.starts_with("nonic-") =>
            {
                package.uses.push(key.to_owned());
            }
            _ => {}
        }
    }
    assert!(!package.name.is_empty(), "{folder}/Cargo.toml names no package");
    package
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_tests_use_is_no_use() {
        let manifest = "[package]\nname = \"nonic-a\"\n[dependencies]\nlibc.workspace = true\nnonic-b.workspace = true\n\
            nonic-c = { workspace = true }\n[build-dependencies]\nnonic-d.workspace = true\n\
            [dev-dependencies]\nnonic-e.workspace = true\n[lints]\nworkspace = true\n";
        let package = package("a", manifest);
        assert_eq!((package.name.as_str(), package.has_lints), ("nonic-a", true));
        assert_eq!(package.uses, ["nonic-b", "nonic-c", "nonic-d"]);
    }
}
