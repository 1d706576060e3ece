//! The licences and sources of all dependencies are those of deny.toml. `cargo deny` looks at more, such as advisories, and takes
//! minutes to build; this takes what cargo knows already.

#![forbid(unsafe_code)]

use std::process::Command;

use nonic_house::{read, root};
use serde_json::Value;
use spdx::{Expression, ParseMode};

/// The only source that `unknown-registry = "deny"` leaves.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// The list behind a key of a TOML file, of plain strings.
fn list(text: &str, key: &str) -> Vec<String> {
    let line = text.split_once(&format!("\n{key} = [")).unwrap_or_else(|| panic!("no {key} in deny.toml")).1;
    let inner = line.split_once(']').expect("the list has an end").0;
    inner.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

fn is_allowed(expression: &Expression, allowed: &[String]) -> bool {
    expression.evaluate(|requirement| allowed.contains(&requirement.to_string()))
}

/// What is wrong with the dependencies that `cargo metadata` tells of.
fn faults(metadata: &Value, allowed: &[String]) -> Vec<String> {
    let mut faults = Vec::new();
    for package in metadata["packages"].as_array().expect("cargo lists packages") {
        let text = |key: &str| package[key].as_str();
        let shown = format!("{} {}", text("name").unwrap_or("?"), text("version").unwrap_or("?"));
        match text("license").map(|words| Expression::parse_mode(words, ParseMode::LAX)) {
            None => faults.push(format!("{shown} names no licence")),
            Some(Err(error)) => faults.push(format!("{shown}: {}", error.reason)),
            Some(Ok(expression)) if !is_allowed(&expression, allowed) => {
                faults.push(format!("{shown} is under {expression}, which deny.toml does not allow"));
            }
            Some(Ok(_)) => {}
        }
        if let Some(source) = text("source").filter(|source| *source != REGISTRY) {
            faults.push(format!("{shown} comes from {source}, not from crates.io"));
        }
    }
    faults
}

#[test]
fn every_dependency_has_a_licence_and_a_source_of_deny_toml() {
    let rules = read("deny.toml");
    for rule in ["unknown-registry = \"deny\"", "unknown-git = \"deny\""] {
        assert!(rules.contains(rule), "deny.toml says no more {rule}: change this test with it");
    }
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--locked", "--format-version=1", "--all-features"]);
    cargo.args(["--filter-platform", &list(&rules, "targets")[0]]).current_dir(root());
    let output = cargo.output().expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
    let outside =
        metadata["packages"].as_array().unwrap().iter().filter(|package| !package["source"].is_null());
    assert!(outside.count() > 30, "cargo tells of hardly any dependency");
    let faults = faults(&metadata, &list(&rules, "allow"));
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn another_licence_and_another_source_are_faults() {
    let allowed = ["MIT", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned);
    let faults_of = |license: Value, source: &str| {
        let package =
            serde_json::json!({ "name": "a", "version": "1", "license": license, "source": source });
        faults(&serde_json::json!({ "packages": [package] }), &allowed)
    };
    for fine in ["MIT", "MIT OR GPL-3.0", "GPL-2.0/MIT", "MIT AND Apache-2.0 WITH LLVM-exception"] {
        assert_eq!(faults_of(fine.into(), REGISTRY), [""; 0], "{fine}");
    }
    for wrong in ["GPL-3.0", "MIT AND GPL-3.0", "Apache-2.0", "mine", ""] {
        assert_eq!(faults_of(wrong.into(), REGISTRY).len(), 1, "{wrong}");
    }
    assert_eq!(faults_of(Value::Null, REGISTRY), ["a 1 names no licence"]);
    let elsewhere = faults_of("MIT".into(), "git+https://example.org/a");
    assert_eq!(elsewhere, ["a 1 comes from git+https://example.org/a, not from crates.io"]);
}

#[test]
fn what_crates_io_gets_depends_on_nothing_that_it_does_not_get() {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--locked", "--format-version=1", "--no-deps"]).current_dir(root());
    let output = cargo.output().expect("cargo starts");
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
    let packages = metadata["packages"].as_array().expect("cargo lists packages");
    // An empty list: to nobody.
    let published: Vec<_> = packages.iter().filter(|package| package["publish"].is_null()).collect();
    let is_published = |name: &Value| published.iter().any(|package| package["name"] == *name);
    assert!(published.len() > 5 && published.len() < packages.len(), "{} are published", published.len());
    for package in &published {
        let of_workspace = package["dependencies"].as_array().unwrap().iter();
        for used in of_workspace.filter(|used| !used["path"].is_null() && used["kind"] != "dev") {
            let fine = is_published(&used["name"]) && used["req"] != "*";
            assert!(fine, "{} needs {}, which crates.io does not get", package["name"], used["name"]);
        }
        assert!(
            package["description"].is_string() && package["repository"].is_string(),
            "{}",
            package["name"]
        );
    }
}
