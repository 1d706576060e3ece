//! Changes of an environment in the words of who reads them.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use clap::ValueEnum;

/// Who reads the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Form {
    /// A shell of the POSIX kind: sh, bash, dash, zsh.
    Sh,
    /// fish.
    Fish,
    /// csh and tcsh.
    Csh,
    /// The environment file of GitHub Actions.
    #[value(skip)]
    Github,
}

/// What becomes of one variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    name: String,
    /// `None`: it is unset.
    value: Option<OsString>,
}

impl Change {
    pub(super) fn set(name: &str, value: OsString) -> Self {
        Self { name: name.to_owned(), value: Some(value) }
    }

    pub(super) fn unset(name: &str) -> Self {
        Self { name: name.to_owned(), value: None }
    }
}

/// Whether shells know a variable of that name.
pub(super) fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric())
}

impl Form {
    /// The lines; an error, as a sentence, for a value that they cannot carry.
    pub(super) fn write(self, changes: &[Change]) -> Result<String, String> {
        changes.iter().map(|change| self.line(change)).collect()
    }

    fn line(self, Change { name, value }: &Change) -> Result<String, String> {
        let Some(value) = value else {
            return Ok(match self {
                Self::Sh => format!("unset {name}\n"),
                Self::Fish => format!("set -e {name};\n"),
                Self::Csh => format!("unsetenv {name};\n"),
                Self::Github => String::new(),
            });
        };
        let unfit = |why: &str| format!("{name} is {value:?}, which such a line cannot carry: it {why}");
        let text = value.to_str().ok_or_else(|| unfit("is no UTF-8"))?;
        if value.as_bytes().iter().any(u8::is_ascii_control) {
            return Err(unfit("has a line break or another control character"));
        }
        Ok(match self {
            Self::Sh => format!("export {name}='{}'\n", text.replace('\'', r"'\''")),
            Self::Fish => {
                format!("set -gx {name} '{}';\n", text.replace('\\', r"\\").replace('\'', r"\'"))
            }
            // History is substituted in quotes, too.
            Self::Csh => {
                format!("setenv {name} '{}';\n", text.replace('\'', r"'\''").replace('!', r"\!"))
            }
            Self::Github => format!("{name}={text}\n"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(form: Form, value: &str) -> Result<String, String> {
        form.write(&[Change::set("NAME", value.into())])
    }

    #[test]
    fn each_reader_gets_its_own_words() {
        let both = [Change::set("A", "b c".into()), Change::unset("D")];
        assert_eq!(Form::Sh.write(&both).unwrap(), "export A='b c'\nunset D\n");
        assert_eq!(Form::Fish.write(&both).unwrap(), "set -gx A 'b c';\nset -e D;\n");
        assert_eq!(Form::Csh.write(&both).unwrap(), "setenv A 'b c';\nunsetenv D;\n");
        assert_eq!(Form::Github.write(&both).unwrap(), "A=b c\n");
    }

    #[test]
    fn a_quote_in_a_value_does_not_end_it() {
        assert_eq!(line(Form::Sh, "it's").unwrap(), "export NAME='it'\\''s'\n");
        assert_eq!(line(Form::Fish, r"it's \").unwrap(), "set -gx NAME 'it\\'s \\\\';\n");
        assert_eq!(line(Form::Csh, "it's!").unwrap(), "setenv NAME 'it'\\''s\\!';\n");
    }

    #[test]
    fn a_value_that_would_be_two_lines_is_refused() {
        for form in [Form::Sh, Form::Fish, Form::Csh, Form::Github] {
            assert!(line(form, "a\nexport B=c").unwrap_err().contains("control character"));
        }
    }
}
