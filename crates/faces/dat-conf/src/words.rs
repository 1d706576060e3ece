//! The words of a line: separated by blanks, grouped by quotation marks, ended by a comment.

use crate::Reason;

/// The words of one line. A comment begins with a word that begins with `#`.
pub(crate) fn words(line: &str) -> Result<Vec<String>, Reason> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while let Some(first) = rest.chars().next() {
        rest = match first {
            '#' => return Ok(words),
            '"' => {
                let (word, behind) = quoted(&rest[1..]).ok_or(Reason::QuoteNotClosed)?;
                words.push(word);
                behind
            }
            _ => {
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                words.push(rest[..end].to_owned());
                &rest[end..]
            }
        }
        .trim_start();
    }
    Ok(words)
}

/// What is before the closing mark, and what is behind it. A backslash takes the character behind it as it is.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut word = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((word, &text[at + 1..])),
            '\\' => word.push(characters.next()?.1),
            other => word.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_separate_quotes_group_and_a_comment_ends() {
        assert_eq!(words("  a\tb \"c d\" \"\" e # f").unwrap(), ["a", "b", "c d", "", "e"]);
        assert_eq!(words("# nothing").unwrap(), [""; 0]);
        assert_eq!(words("").unwrap(), [""; 0]);
    }

    #[test]
    fn a_mark_inside_a_word_is_a_part_of_it() {
        assert_eq!(words("a#b c\"d").unwrap(), ["a#b", "c\"d"]);
        assert_eq!(words("\"a\"b").unwrap(), ["a", "b"]);
    }

    #[test]
    fn a_backslash_in_quotes_takes_what_is_behind_it() {
        assert_eq!(words(r#""a\"b\\c""#).unwrap(), [r#"a"b\c"#]);
        assert_eq!(words("\"a b"), Err(Reason::QuoteNotClosed));
        assert_eq!(words("\"a\\"), Err(Reason::QuoteNotClosed));
    }
}
