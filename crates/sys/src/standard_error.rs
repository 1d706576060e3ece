//! What must be said where nothing may be allocated and no lock be taken: in a child right after a fork.

/// Writes a line to standard error as it is, as far as that takes it.
pub fn say_to_people(line: &str) {
    // SAFETY: the bytes live through the call; nothing is done with the descriptor but to write to it.
    unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
}
