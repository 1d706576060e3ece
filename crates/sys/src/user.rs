//! Who this process is among the users of the host, and what its user lets it have.

use crate::overflow_user;

/// The user this process acts as.
pub fn effective_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The user this process acts as, if that number tells it from all others. It does not where the number is the one by which a
/// user namespace shows everybody it has no number for.
pub fn own_user() -> Option<u32> {
    let user = effective_user();
    let map = || std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    (user != overflow_user() || maps_all(&map())).then_some(user)
}

/// Whether a namespace with this `uid_map` has a number for everybody.
fn maps_all(map: &str) -> bool {
    let lines = map.lines().filter_map(|line| line.split_ascii_whitespace().nth(2)?.parse::<u64>().ok());
    lines.sum::<u64>() >= u64::from(u32::MAX)
}

/// How many descriptors this process may have.
pub fn descriptor_limit() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_namespace_that_maps_every_user_has_a_number_for_everybody() {
        assert!(maps_all("         0          0 4294967295\n"));
        assert!(maps_all("0 0 1000\n1000 100000 4294966295\n"));
        assert!(!maps_all(""));
        assert!(!maps_all("      1000       1000          1\n"));
        assert!(!maps_all("0 100000 65536\n"));
    }

    #[test]
    fn the_limit_of_descriptors_is_the_process_s() {
        assert!(descriptor_limit() > 2);
    }
}
