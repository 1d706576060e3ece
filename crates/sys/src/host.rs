//! What processes of one host call it to each other, whatever build of this library each of them has.

use std::sync::OnceLock;

use siphasher::sip::SipHasher13;

/// The name of this host in its network.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// A number for this host as long as it runs; for its name, where the kernel does not tell one run from another. Read once.
pub fn host_number() -> u64 {
    static NUMBER: OnceLock<u64> = OnceLock::new();
    *NUMBER.get_or_init(|| {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
        stable_number(&boot.unwrap_or_else(|_| host_name()))
    })
}

/// A number that stands for a text. It is the same in every build and release: the standard library's hashes need not be.
pub fn stable_number(text: &str) -> u64 {
    SipHasher13::new().hash(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_the_same_number_in_every_release() {
        assert_eq!(stable_number(""), 0xd1fb_a762_150c_532c);
        assert_ne!(stable_number("a"), stable_number("b"));
    }

    #[test]
    fn this_host_keeps_its_number() {
        assert_eq!(host_number(), host_number());
    }
}
