//! What compilers say of texts that include our headers.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::library;

/// What the compiler says of a text that includes a header: nothing if it is in order.
pub(crate) fn compile(compiler: &str, language: &str, standard: &str, text: &str) -> String {
    library::path(); // It puts the headers into their place.
    let mut child = Command::new(compiler)
        .args(["-x", language, &format!("-std={standard}")])
        .args(["-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only"])
        .arg(format!("-I{}", library::names().join("include").display()))
        .arg("-")
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("there is a compiler for C and for C++ (packages gcc and g++)");
    child.stdin.take().expect("it is a pipe").write_all(text.as_bytes()).expect("it takes the text");
    let output = child.wait_with_output().expect("it ends");
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.success(), words.is_empty(), "{words}");
    words
}

/// A declaration that compiles only if the condition holds: an array that has a size only then, for languages without
/// assertions too.
pub(crate) fn holds(number: usize, condition: &str) -> String {
    format!("extern char condition_{number}[({condition}) ? 1 : -1];\n")
}
