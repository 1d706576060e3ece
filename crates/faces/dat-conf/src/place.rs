//! Which file is read.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The variable that names another file.
pub const OVERRIDE: &str = "DAT_OVERRIDE";

/// Where systems have the file, in the order in which they are looked for.
pub const USUAL_PLACES: [&str; 4] =
    ["/etc/dat.conf", "/etc/rdma/dat.conf", "/etc/rdma/compat-dapl/dat.conf", "/etc/dat/dat.conf"];

/// A file, which need not be readable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its path.
    pub path: PathBuf,
    /// Whether [`OVERRIDE`] names it; then no other file counts, even if this one is not there.
    pub is_override: bool,
}

/// The file that counts in this process: that of the environment, else the first usual one that exists.
pub fn place() -> Option<Place> {
    place_beside(std::env::var_os(OVERRIDE))
}

/// The file that counts if the variable has this value. A program that runs with more rights than its user has must not
/// pass on the user's.
pub fn place_beside(variable: Option<OsString>) -> Option<Place> {
    match variable.filter(|value| !value.is_empty()) {
        Some(path) => Some(Place { path: path.into(), is_override: true }),
        None => {
            let found = USUAL_PLACES.into_iter().map(Path::new).find(|path| path.exists());
            found.map(|path| Place { path: path.to_owned(), is_override: false })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_counts_alone_even_if_its_file_is_not_there() {
        let place = place_beside(Some("/nowhere/dat.conf".into())).unwrap();
        assert_eq!((place.path.as_path(), place.is_override), (Path::new("/nowhere/dat.conf"), true));
        let usual = place_beside(None);
        assert_eq!(place_beside(Some("".into())), usual, "an empty variable is none");
        assert!(usual.is_none_or(|place| !place.is_override && place.path.exists()));
    }
}
