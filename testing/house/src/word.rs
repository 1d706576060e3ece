//! A source text cut into words, without comments and texts.

/// A word of a source text: a name or keyword, a sign (`::` is one), or a number or lifetime, whatever it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// As it stands in the file, without `r#`. A text, a character, a number and a lifetime are `""`.
    pub text: String,
    /// Counted from one.
    pub line: usize,
}

/// Cuts a source text into words.
pub fn words(source: &str) -> Vec<Word> {
    let mut reader = Reader { source: source.as_bytes(), at: 0, line: 1, words: Vec::new() };
    while reader.at < reader.source.len() {
        reader.take_one();
    }
    reader.words
}

/// The words without what is only for tests: each item, statement or field behind `#[cfg(test)]` or
/// `#[cfg(all(test, ...))]`.
pub fn without_tests(words: &[Word]) -> Vec<Word> {
    let mut kept = Vec::new();
    let mut at = 0;
    while at < words.len() {
        if is_test_condition(&words[at..]) {
            at = end_of_item(words, at);
        } else {
            kept.push(words[at].clone());
            at += 1;
        }
    }
    kept
}

fn starts_with(words: &[Word], texts: &[&str]) -> bool {
    words.len() >= texts.len() && words.iter().zip(texts).all(|(word, text)| word.text == *text)
}

fn is_test_condition(words: &[Word]) -> bool {
    starts_with(words, &["#", "[", "cfg", "(", "test", ")", "]"])
        || starts_with(words, &["#", "[", "cfg", "(", "all", "(", "test", ","])
}

/// The place behind the item that the attribute at `at` belongs to.
fn end_of_item(words: &[Word], mut at: usize) -> usize {
    while starts_with(&words[at..], &["#", "["]) {
        at = end_of_group(words, at + 1);
    }
    let begins_with = |keywords: &[&str]| {
        let first =
            words[at..].iter().take_while(|word| !matches!(word.text.as_str(), "{" | ";" | "," | ":" | "="));
        first.map(|word| word.text.as_str()).any(|text| keywords.contains(&text))
    };
    let (is_use, is_member) =
        (begins_with(&["use"]), !begins_with(&["fn", "impl", "struct", "trait", "type", "use"]));
    while at < words.len() {
        match words[at].text.as_str() {
            ";" => return at + 1,
            "," if is_member => return at + 1,
            // The end of what the item is in.
            "}" | ")" | "]" => return at,
            "{" if !is_use => return end_of_group(words, at),
            "{" | "(" | "[" => at = end_of_group(words, at),
            _ => at += 1,
        }
    }
    at
}

/// The place behind the bracket that belongs to the one at `at`.
fn end_of_group(words: &[Word], at: usize) -> usize {
    let mut depth = 0;
    for (place, word) in words.iter().enumerate().skip(at) {
        match word.text.as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return place + 1;
        }
    }
    words.len()
}

struct Reader<'a> {
    source: &'a [u8],
    at: usize,
    line: usize,
    words: Vec<Word>,
}

impl Reader<'_> {
    fn take_one(&mut self) {
        let rest = &self.source[self.at..];
        match rest[0] {
            byte if byte.is_ascii_whitespace() => self.skip(1),
            b'/' if rest.starts_with(b"//") => self.skip(length_until(rest, b"\n")),
            b'/' if rest.starts_with(b"/*") => self.skip(length_of_comment(rest)),
            b'"' => self.keep_silent(length_of_text(rest)),
            b'\'' => self.keep_silent(length_of_character_or_lifetime(rest)),
            byte if byte.is_ascii_digit() => self.keep_silent(length_of_name(rest)),
            byte if is_of_name(byte) => self.take_name(),
            b':' if rest.starts_with(b"::") => self.keep(2, 0),
            _ => self.keep(1, 0),
        }
    }

    /// A name, or a text with a letter in front of it.
    fn take_name(&mut self) {
        let rest = &self.source[self.at..];
        let length = length_of_name(rest);
        let (name, behind) = rest.split_at(length);
        match name {
            b"r" | b"br" | b"cr" if matches!(behind.first(), Some(b'"' | b'#')) => {
                match length_of_raw_text(behind) {
                    Some(text) => self.keep_silent(length + text),
                    // `r#name`
                    None => self.keep(2 + length_of_name(&behind[1..]), 2),
                }
            }
            b"b" | b"c" if behind.first() == Some(&b'"') => self.keep_silent(length + length_of_text(behind)),
            b"b" if behind.first() == Some(&b'\'') => {
                self.keep_silent(length + length_of_character_or_lifetime(behind));
            }
            _ => self.keep(length, 0),
        }
    }

    /// Makes a word of the next bytes, but for the first `hidden` of them.
    fn keep(&mut self, length: usize, hidden: usize) {
        let text = String::from_utf8_lossy(&self.source[self.at + hidden..self.at + length]).into_owned();
        self.words.push(Word { text, line: self.line });
        self.skip(length);
    }

    fn keep_silent(&mut self, length: usize) {
        self.words.push(Word { text: String::new(), line: self.line });
        self.skip(length);
    }

    fn skip(&mut self, length: usize) {
        let end = (self.at + length).min(self.source.len());
        self.line += self.source[self.at..end].iter().filter(|byte| **byte == b'\n').count();
        self.at = end;
    }
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

fn length_of_name(rest: &[u8]) -> usize {
    rest.iter().take_while(|byte| is_of_name(**byte)).count()
}

/// The length up to an end, and with it.
fn length_until(rest: &[u8], end: &[u8]) -> usize {
    rest.windows(end.len()).position(|window| window == end).map_or(rest.len(), |place| place + end.len())
}

fn length_of_comment(rest: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0);
    while at < rest.len() {
        match &rest[at..] {
            [b'/', b'*', ..] => (at, depth) = (at + 2, depth + 1),
            [b'*', b'/', ..] => (at, depth) = (at + 2, depth - 1),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// `"text"`, with its quotes.
fn length_of_text(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != b'"' {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

/// `#"text"#`, with any number of `#`; none if this is no text.
fn length_of_raw_text(rest: &[u8]) -> Option<usize> {
    let hashes = rest.iter().take_while(|byte| **byte == b'#').count();
    let text = rest[hashes..].strip_prefix(b"\"")?;
    let end = [b"\"".as_slice(), &rest[..hashes]].concat();
    Some(hashes + 1 + length_until(text, &end))
}

fn length_of_character_or_lifetime(rest: &[u8]) -> usize {
    if rest.get(1) == Some(&b'\\') {
        return 3 + length_until(&rest[3..], b"'");
    }
    // A character may have several bytes; what is behind a lifetime's name is no quote.
    let name = length_of_name(&rest[1..]).max(1);
    let one_character = std::str::from_utf8(&rest[1..rest.len().min(5)])
        .unwrap_or_else(|error| {
            std::str::from_utf8(&rest[1..1 + error.valid_up_to()]).expect("it is valid so far")
        })
        .chars()
        .next()
        .map_or(1, char::len_utf8);
    if rest.get(1 + one_character) == Some(&b'\'') { 2 + one_character } else { 1 + name }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> String {
        words(source).into_iter().map(|word| word.text).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments_and_texts_are_no_words() {
        assert_eq!(texts("a /* unsafe /* b */ c */ d // unsafe\n/// unsafe\ne"), "a d e");
        assert_eq!(
            texts(r##"f("unsafe \" unsafe", r#"un"safe"#, b"x\\", c"y", br"z")"##),
            "f (  ,  ,  ,  ,  )"
        );
    }

    #[test]
    fn characters_and_lifetimes_do_not_begin_a_text() {
        assert_eq!(texts(r#"'"' x 'a' y '\'' z b'"' w '\u{1F600}' v 'é' u"#), " x  y  z  w  v  u");
        assert_eq!(texts("fn f<'a>(x: &'a str) -> &'static str"), "fn f <  > ( x : &  str ) - > &  str");
    }

    #[test]
    fn a_word_knows_its_line_behind_texts_of_several_lines() {
        let words = words("a\n\"b\n c\"\n/* \n */ d");
        assert_eq!(words.last(), Some(&Word { text: "d".to_owned(), line: 5 }));
    }

    #[test]
    fn names_may_be_raw() {
        assert_eq!(texts("r#type::r#fn"), "type :: fn");
    }

    #[test]
    fn items_that_are_only_for_tests_are_left_out() {
        let kept = |source| {
            let kept = without_tests(&words(source));
            kept.into_iter().map(|word| word.text).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(kept("a; #[cfg(test)] mod tests { b; { c } } d"), "a ; d");
        assert_eq!(kept("#[cfg(test)] #[allow(x)] pub(crate) use a::{b, c}; d"), "d");
        assert_eq!(kept("#[cfg(test)] impl<A, B> C<A, B> for D { e } f"), "f");
        assert_eq!(kept("struct S { #[cfg(test)] a: T, b: U, #[cfg(test)] c: V }"), "struct S { b : U , }");
        assert_eq!(
            kept("#[cfg(all(test, not(loom)))] mod tests; e #[cfg(not(test))] f"),
            "e # [ cfg ( not ( test ) ) ] f"
        );
    }
}
