//! The manual pages of uDAPL: one for each call, in step with the headers, and sound roff.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a header declares.
struct Call {
    name: String,
    parameters: Vec<String>,
}

/// Calls of programs, and those for providers.
const CALLS: usize = 70;
const FOR_PROVIDERS: [&str; 3] =
    ["dat_registry_add_provider", "dat_registry_remove_provider", "dats_get_ia_handle"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn man(name: &str) -> PathBuf {
    root().join("docs/man").join(name)
}

/// The text of a page, or of the page that it leads to.
fn page(name: &str) -> String {
    let text = read(&man(name));
    match text.strip_prefix(".so man3/") {
        Some(other) => read(&man(other.trim())),
        None => text,
    }
}

/// The headers without their comments.
fn headers() -> String {
    let folder = fs::read_dir(root().join("include/dat")).expect("the folder is there").flatten();
    let mut files: Vec<_> = folder.map(|entry| entry.path()).collect();
    files.sort();
    let text: String = files.iter().map(|file| read(file)).collect();
    let mut words = String::new();
    for (number, part) in text.split("/*").enumerate() {
        words.push_str(if number == 0 { part } else { part.split_once("*/").map_or("", |(_, after)| after) });
    }
    words
}

/// One blank between words, none behind a star.
fn tidy(words: &str) -> String {
    let words: Vec<_> =
        words.split_whitespace().filter(|word| !["IN", "OUT", "INOUT"].contains(word)).collect();
    words.join(" ").replace("* ", "*")
}

fn calls() -> Vec<Call> {
    let headers = headers();
    let declared = headers.split("extern DAT_RETURN ").skip(1).map(|rest| {
        let (declaration, _) = rest.split_once(");").expect("a declaration ends");
        let (name, parameters) = declaration.split_once('(').expect("it has parameters");
        let parameters = parameters.split(',').map(tidy).collect();
        Call { name: name.trim().to_owned(), parameters }
    });
    declared.collect()
}

/// All pages about uDAPL that are not links.
fn pages() -> BTreeMap<String, String> {
    let entries = fs::read_dir(root().join("docs/man")).expect("the folder is there").flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let pages = names.filter(|name| name.starts_with("dat")).map(|name| {
        let text = read(&man(&name));
        (name, text)
    });
    pages.filter(|(_, text)| !text.starts_with(".so ")).collect()
}

#[test]
fn every_call_has_a_page_with_the_declaration_of_the_header() {
    let calls = calls();
    let of_programs = calls.iter().filter(|call| !FOR_PROVIDERS.contains(&call.name.as_str()));
    assert_eq!(of_programs.count(), CALLS);
    for Call { name, parameters } in &calls {
        let page = page(&format!("{name}.3"));
        assert!(
            page.lines()
                .any(|line| [format!(".Nm {name}"), format!(".Nm {name} ,")].contains(&line.to_owned()))
        );
        let parameters: Vec<_> = parameters.iter().map(|words| format!("\"{words}\"")).collect();
        let synopsis = format!("\n.Ft DAT_RETURN\n.Fn {name} {}\n", parameters.join(" "));
        assert!(page.contains(&synopsis), "{name}: no {synopsis}");
        for heading in ["DESCRIPTION", "RETURN VALUES", "STANDARDS", "SEE ALSO"] {
            assert!(page.contains(&format!("\n.Sh {heading}\n")), "{name}: no {heading}");
        }
        assert!(page.contains("\n.Xr dat 7"), "{name}: does not lead to the overview");
    }
}

#[test]
fn every_argument_of_a_page_is_a_parameter_or_a_member_that_the_headers_have() {
    let headers = headers();
    let names: BTreeSet<_> =
        headers.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').collect();
    for (file, text) in pages() {
        for word in marked(&text, "Fa ") {
            let parts = word.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
            for part in parts.filter(|part| !part.is_empty()) {
                assert!(names.contains(part), "{file}: {part} is in no header");
            }
        }
    }
}

#[test]
fn every_constant_of_a_page_is_in_a_header() {
    let headers = headers();
    let names: BTreeSet<_> =
        headers.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').collect();
    for (file, text) in pages() {
        let constants = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        let variables = ["DAT_OVERRIDE", "DAT_DBG_TYPE", "DAT_DBG_DEST"];
        // Versions of symbols, as `DAT_1.2`.
        let is_constant = |word: &&str| {
            word.starts_with("DAT_")
                && !variables.contains(word)
                && !word[4..].starts_with(|letter: char| letter.is_ascii_digit())
                && word.chars().all(|letter| !letter.is_ascii_lowercase())
        };
        // The names in a page's own title.
        let title = text.lines().find(|line| line.starts_with(".Dt ")).unwrap_or_default();
        for constant in constants.filter(is_constant).filter(|word| !title.contains(word)) {
            assert!(names.contains(constant), "{file}: {constant} is in no header");
        }
    }
}

/// The words behind a macro, in requests of a page.
fn marked<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let requests = text.lines().filter(|line| line.starts_with('.') && !line.starts_with(".Fn "));
    requests.flat_map(|line| line.split(name).skip(1)).filter_map(|rest| rest.split(' ').next()).collect()
}

#[test]
fn the_overview_leads_to_every_call_and_names_every_variable() {
    let overview = page("dat.7");
    for Call { name, .. } in calls().iter().filter(|call| !FOR_PROVIDERS.contains(&call.name.as_str())) {
        let leads = overview.contains(&format!(".Xr {name} 3"))
            || *name == "dat_ia_openv" && overview.contains(".Xr dat_ia_open 3");
        assert!(leads, "no {name}");
    }
    let variables = [
        "NONIC_NONCOHERENT",
        "NONIC_CACHE_SEED",
        "DAPL_ACK_RETRY",
        "DAPL_ACK_TIMER",
        "DAPL_RNR_RETRY",
        "DAT_OVERRIDE",
        "DAT_DBG_TYPE",
        "DAT_DBG_DEST",
    ];
    for variable in variables {
        assert!(overview.contains(&format!(".It Ev {variable}\n")), "no {variable}");
    }
}

#[test]
fn what_a_page_refers_to_is_there() {
    for (file, text) in pages() {
        for line in text.lines().filter(|line| line.starts_with('.')) {
            let mut words = line.split(' ').skip_while(|word| !word.ends_with("Xr")).skip(1);
            let (Some(name), Some(section)) = (words.next(), words.next()) else { continue };
            if name.starts_with("dat") || name == "nonic" {
                assert!(man(&format!("{name}.{section}")).exists(), "{file}: no page {name}({section})");
            }
        }
    }
    // And what a link leads to.
    for entry in fs::read_dir(root().join("docs/man")).expect("the folder is there").flatten() {
        let text = read(&entry.path());
        if let Some(target) = text.strip_prefix(".so ") {
            let file = target.trim().strip_prefix("man3/").expect("links are those of calls");
            assert!(man(file).exists(), "{}: no {file}", entry.path().display());
            let name = entry.file_name().to_string_lossy().trim_end_matches(".3").to_owned();
            assert!(page(file).contains(&format!("\n.Fn {name} ")), "{file} does not tell of {name}");
        }
    }
}

#[test]
fn every_page_is_sound_roff() {
    if Command::new("groff").arg("--version").output().is_err() {
        println!("SKIPPED: groff is not installed (package groff-base)");
        return;
    }
    let pages = pages();
    assert!(pages.len() > 50, "{} pages", pages.len());
    for name in pages.keys() {
        let output =
            Command::new("groff").args(["-mdoc", "-ww", "-z"]).arg(man(name)).output().expect("it runs");
        assert!(output.status.success(), "{name}: {output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{name}");
    }
}
