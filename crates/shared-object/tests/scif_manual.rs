//! The manual pages of SCIF: one for each call, in step with the header, and sound roff.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A declaration of the header, with what the comment before it says.
struct Call {
    name: String,
    result: String,
    parameters: Vec<String>,
    comment: String,
}

/// Calls whose comment says that they are as the one before, and that one.
const AS_BEFORE: [(&str, &str); 1] = [("scif_writeto", "scif_readfrom")];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn page(name: &str) -> String {
    read(&format!("docs/man/{name}"))
}

fn calls() -> Vec<Call> {
    let header = read("include/scif.h");
    let declared = header.split("MICACCESSAPI ").skip(1).filter_map(|rest| {
        let (declaration, _) = rest.split_once(");")?;
        let (before, parameters) = declaration.split_once('(')?;
        let at = before.rfind([' ', '*'])? + 1;
        let comment = &header[..rest.as_ptr() as usize - header.as_ptr() as usize];
        let comment = &comment[comment.rfind("/*")?..];
        Some(Call {
            name: before[at..].to_owned(),
            result: before[..at].trim().to_owned(),
            parameters: parameters.split(", ").map(str::to_owned).collect(),
            comment: comment.to_owned(),
        })
    });
    declared.collect()
}

/// The names of errors in a text.
fn errors(text: &str) -> BTreeSet<String> {
    let words = text.split(|character: char| !character.is_ascii_alphanumeric());
    let is_error = |word: &&str| {
        word.len() > 3
            && word.starts_with('E')
            && word.chars().all(|character| character.is_ascii_uppercase())
    };
    words.filter(is_error).map(str::to_owned).collect()
}

/// The errors that a page lists.
fn listed(page: &str) -> BTreeSet<String> {
    page.lines().filter_map(|line| line.strip_prefix(".It Bq Er ")).map(str::to_owned).collect()
}

#[test]
fn every_call_has_a_page_with_the_declaration_of_the_header() {
    let calls = calls();
    assert_eq!(calls.len(), 22);
    for call in &calls {
        let page = page(&format!("{}.3", call.name));
        assert!(page.contains(&format!("\n.Nm {}\n", call.name)), "{}: another name", call.name);
        assert!(page.contains(&format!("\n.Ft {}\n", call.result)), "{}: another result", call.name);
        let parameters: Vec<_> = call.parameters.iter().map(|words| format!("\"{words}\"")).collect();
        let synopsis = format!("\n.Fn {} {}\n", call.name, parameters.join(" "));
        assert!(page.contains(&synopsis), "{}: no {synopsis:?}", call.name);
        assert!(page.contains(".Sh RETURN VALUES"), "{}: no results", call.name);
        assert!(page.contains(".Xr scif 7"), "{}: does not lead to the overview", call.name);
    }
}

#[test]
fn a_page_lists_the_errors_that_the_header_names() {
    let calls = calls();
    for call in &calls {
        let like = AS_BEFORE
            .iter()
            .find(|(name, _)| *name == call.name)
            .map_or(call.name.as_str(), |(_, like)| like);
        let comment = &calls.iter().find(|other| other.name == like).expect("it is a call").comment;
        let mut named = errors(comment);
        // What a comment refers to instead of repeating it.
        for other in calls.iter().filter(|other| comment.contains(&format!("as {}()\n", other.name))) {
            named.extend(errors(&other.comment));
        }
        let listed = listed(&page(&format!("{}.3", call.name)));
        let missing: Vec<_> = named.difference(&listed).collect();
        assert!(missing.is_empty(), "{}: {missing:?} are in the header and not on the page", call.name);
        // Said once for all calls, in the header's first comment.
        let common = errors("EINVAL ENXIO EFAULT ENOMEM ENOTCONN ECONNRESET");
        let unknown: Vec<_> =
            listed.iter().filter(|error| !named.contains(*error) && !common.contains(*error)).collect();
        assert!(unknown.is_empty(), "{}: {unknown:?} are on the page and not in the header", call.name);
    }
}

#[test]
fn the_overview_leads_to_every_call_and_names_every_variable() {
    let overview = page("scif.7");
    for call in calls() {
        assert!(overview.matches(&format!(".Xr {} 3", call.name)).count() >= 2, "no {}", call.name);
    }
    for variable in ["NODE", "NODES", "HOSTS", "FABRIC", "PORT_MIN", "MEMLOCK"] {
        assert!(overview.contains(&format!(".It Ev NONIC_SCIF_{variable}\n")), "no {variable}");
    }
}

#[test]
fn what_a_page_refers_to_is_there() {
    for file in pages() {
        let text = fs::read_to_string(&file).expect("it can be read");
        let names = text.lines().filter_map(|line| line.strip_prefix(".Xr scif"));
        for rest in names {
            let mut words = rest.split_whitespace();
            let name = if rest.starts_with('_') { words.next().unwrap_or_default() } else { "" };
            let section = words.next().expect("a section follows a name");
            let target = root().join(format!("docs/man/scif{name}.{section}"));
            assert!(target.exists(), "{}: no page {}", file.display(), target.display());
        }
    }
}

#[test]
fn every_page_is_sound_roff() {
    if Command::new("groff").arg("--version").output().is_err() {
        println!("SKIPPED: groff is not installed (package groff-base)");
        return;
    }
    let files = pages();
    assert_eq!(files.len(), 23);
    for file in files {
        let output = Command::new("groff").args(["-mdoc", "-ww", "-z"]).arg(&file).output().expect("it runs");
        assert!(output.status.success(), "{}: {output:?}", file.display());
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{}", file.display());
    }
}

fn pages() -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join("docs/man")).expect("the folder is there").flatten();
    let is_page =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("scif"));
    entries.map(|entry| entry.path()).filter(is_page).collect()
}
