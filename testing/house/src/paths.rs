//! Paths in a source text: `crate::a::B`, and what `use a::{B, c::D as E};` brings in.

use crate::Word;

/// A path, from its first name to its last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundPath {
    /// Its names; the last is `*` for everything.
    pub(crate) names: Vec<String>,
    /// What it is called where it was brought in.
    pub(crate) called: String,
    /// Where it begins, or where its last name stands in a list.
    pub(crate) line: usize,
    /// The modules of the same file that it stands in.
    pub(crate) inside: Vec<String>,
}

/// Every path that begins with `crate` or `super`.
pub(crate) fn paths(words: &[Word]) -> Vec<FoundPath> {
    let mut found = Vec::new();
    let mut inside: Vec<(usize, String)> = Vec::new();
    let mut depth = 0;
    let mut at = 0;
    while at < words.len() {
        match words[at].text.as_str() {
            "{" => {
                depth += 1;
                if at >= 2 && words[at - 2].text == "mod" {
                    inside.push((depth, words[at - 1].text.clone()));
                }
            }
            "}" => {
                inside.retain(|(of, _)| *of < depth);
                depth -= 1;
            }
            "crate" | "super" if text(words, at + 1) == "::" && !is_continued(words, at) => {
                let modules: Vec<String> = inside.iter().map(|(_, name)| name.clone()).collect();
                let first = found.len();
                at = read_tree(words, at, &[], &mut found);
                found[first..].iter_mut().for_each(|path| path.inside.clone_from(&modules));
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    found
}

/// Everything that the `use` declarations of a text bring in.
pub(crate) fn brought_in(words: &[Word]) -> Vec<FoundPath> {
    let mut found = Vec::new();
    for at in 0..words.len() {
        if words[at].text == "use" {
            read_tree(words, at + 1, &[], &mut found);
        }
    }
    found
}

/// The modules declared in files of their own: `mod name;`.
pub(crate) fn declared_modules(words: &[Word]) -> Vec<String> {
    let declarations = words.windows(3).filter(|three| three[0].text == "mod" && three[2].text == ";");
    declarations.map(|three| three[1].text.clone()).collect()
}

fn text(words: &[Word], at: usize) -> &str {
    words.get(at).map_or("", |word| word.text.as_str())
}

/// Whether the word is in the middle of a path, or says only who may see something: `pub(in crate::a)`.
fn is_continued(words: &[Word], at: usize) -> bool {
    at > 0
        && (text(words, at - 1) == "::"
            || (text(words, at - 1) == "in" && at > 1 && text(words, at - 2) == "("))
}

/// Reads a path, or a list of them, behind what is already known of it; returns the place behind.
fn read_tree(words: &[Word], mut at: usize, before: &[String], found: &mut Vec<FoundPath>) -> usize {
    let mut names = before.to_vec();
    let line = words.get(at).map_or(0, |word| word.line);
    loop {
        match text(words, at) {
            "{" => {
                at += 1;
                while at < words.len() && text(words, at) != "}" {
                    at = if text(words, at) == "," { at + 1 } else { read_tree(words, at, &names, found) };
                }
                return at + 1;
            }
            "self" if names.len() > before.len() || !before.is_empty() => {}
            name => names.push(name.to_owned()),
        }
        at += 1;
        let goes_on = text(words, at) == "::"
            && (is_name(text(words, at + 1)) || ["{", "*"].contains(&text(words, at + 1)));
        if !goes_on {
            break;
        }
        at += 1;
    }
    let mut called = names.last().cloned().unwrap_or_default();
    if text(words, at) == "as" && is_name(text(words, at + 1)) {
        called = text(words, at + 1).to_owned();
        at += 2;
    }
    found.push(FoundPath { names, called, line, inside: Vec::new() });
    at
}

fn is_name(text: &str) -> bool {
    text.starts_with(|letter: char| letter.is_alphabetic() || letter == '_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words;

    fn shown(found: Vec<FoundPath>) -> Vec<String> {
        found.into_iter().map(|path| format!("{} {}", path.names.join("::"), path.called)).collect()
    }

    #[test]
    fn a_list_is_as_many_paths_as_it_has_names() {
        let found = paths(&words("use crate::a::{self, B, c::{D as E, *}};\nuse std::f;"));
        assert_eq!(shown(found), ["crate::a a", "crate::a::B B", "crate::a::c::D E", "crate::a::c::* *"]);
    }

    #[test]
    fn a_path_is_found_wherever_it_stands() {
        let found = paths(&words(
            "pub(in crate::a) fn f(x: &crate::b::C<super::d::E>) { super::super::f::<u8>(x as u8) }",
        ));
        assert_eq!(shown(found), ["crate::b::C C", "super::d::E E", "super::super::f f"]);
    }

    #[test]
    fn a_path_knows_the_modules_of_its_file_around_it() {
        let found = paths(&words("mod a { mod b { super::x(); } super::y(); } super::z();"));
        let inside: Vec<String> = found.iter().map(|path| path.inside.join("::")).collect();
        assert_eq!(inside, ["a::b", "a", ""]);
    }

    #[test]
    fn what_is_brought_in_is_found_with_what_it_is_called() {
        let found = brought_in(&words("pub use a::{B, C as D}; use e;"));
        assert_eq!(shown(found), ["a::B B", "a::C D", "e e"]);
    }
}
