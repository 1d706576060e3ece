//! The settings of uDAPL: one flag, and the file in which the registry of uDAPL 2.0 finds nonic's adapters.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::Args;

/// The variable in which registries look for the path of their `dat.conf`.
const OVERRIDE: &str = "DAT_OVERRIDE";

/// The variable that makes every adapter a non-coherent one.
const NONCOHERENT: &str = "NONIC_NONCOHERENT";

/// The variable with the seed of their caches.
const CACHE_SEED: &str = "NONIC_CACHE_SEED";

/// How the program's uDAPL adapters behave.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "uDAPL")]
pub(crate) struct DatOptions {
    /// Let all uDAPL adapters be non-coherent [NONIC_NONCOHERENT=1]
    ///
    /// What peers write stays invisible until dat_lmr_sync_rdma_write, and what the program writes stays invisible to
    /// peers until dat_lmr_sync_rdma_read, so that a program which forgets these calls shows it. Without this flag
    /// only the adapter nonic-noncoherent is so.
    #[arg(long)]
    noncoherent: bool,
    /// What the cache does to a program that stores without these calls [NONIC_CACHE_SEED, default 0]
    ///
    /// Which lines it writes back over the bytes of peers, and when, follows from this number: the same program is
    /// harmed in the same way by the same number.
    #[arg(long, value_name = "NUMBER")]
    cache_seed: Option<u64>,
}

impl DatOptions {
    /// The variables to set for the program: what was asked for, and the registry's file in the folder of libraries,
    /// unless the user has named one.
    pub(crate) fn environment(&self, libraries: &Path) -> Vec<(&'static str, OsString)> {
        self.environment_beside(libraries, std::env::var_os(OVERRIDE).as_deref())
    }

    fn environment_beside(&self, libraries: &Path, named: Option<&OsStr>) -> Vec<(&'static str, OsString)> {
        let mut variables = Vec::new();
        let configuration = libraries.join("dat.conf");
        if named.is_none_or(OsStr::is_empty) && configuration.is_file() {
            variables.push((OVERRIDE, configuration.into_os_string()));
        }
        if self.noncoherent {
            variables.push((NONCOHERENT, "1".into()));
        }
        if let Some(seed) = self.cache_seed {
            variables.push((CACHE_SEED, seed.to_string().into()));
        }
        variables
    }
}

/// Whether a variable is one of uDAPL's.
pub(crate) fn is_variable(name: &str) -> bool {
    [NONCOHERENT, CACHE_SEED].contains(&name)
}

/// What is wrong with the value of one of uDAPL's variables, if anything.
pub(crate) fn complaint_about(name: &str, value: &str) -> Option<String> {
    if name == CACHE_SEED {
        return value
            .trim()
            .parse::<u64>()
            .is_err()
            .then(|| "must be a number from 0 to 2^64 - 1".to_owned());
    }
    (!["", "0", "1"].contains(&value)).then(|| "must be 0 or 1".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_a_file() -> std::path::PathBuf {
        let folder = std::env::temp_dir().join(format!("nonic-dat-options-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("dat.conf"), "").unwrap();
        folder
    }

    #[test]
    fn the_registry_is_led_to_the_file_beside_the_libraries_unless_the_user_named_one() {
        let folder = with_a_file();
        let set =
            |named: Option<&str>| DatOptions::default().environment_beside(&folder, named.map(OsStr::new));
        let ours = vec![(OVERRIDE, folder.join("dat.conf").into_os_string())];
        assert_eq!(set(None), ours);
        assert_eq!(set(Some("")), ours);
        assert_eq!(set(Some("/etc/dat.conf")), []);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_build_without_the_file_sets_nothing_but_what_was_asked_for() {
        let folder = Path::new("/nonexistent");
        assert_eq!(DatOptions::default().environment_beside(folder, None), []);
        let asked = DatOptions { noncoherent: true, cache_seed: Some(7) }.environment_beside(folder, None);
        assert_eq!(asked, [(NONCOHERENT, OsString::from("1")), (CACHE_SEED, OsString::from("7"))]);
    }

    #[test]
    fn one_variable_is_0_or_1_and_the_other_a_number() {
        for (name, good, bad) in [(NONCOHERENT, "1", "2"), (CACHE_SEED, "18446744073709551615", "-1")] {
            assert!(is_variable(name));
            assert_eq!(complaint_about(name, good), None);
            assert_eq!(complaint_about(name, "0"), None);
            assert!(complaint_about(name, bad).is_some());
            assert!(complaint_about(name, "yes").is_some());
        }
        assert!(!is_variable("NONIC_CACHE"));
    }
}
