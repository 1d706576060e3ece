//! What the environment says of the devices of this process.

use std::path::PathBuf;
use std::time::Duration;

use nonic_memory::AdoptionPolicy;
use nonic_roce::PathMtu;
use nonic_transport::{Tier, TrustedUsers};

/// Devices at most.
const DEVICES_MAX: u32 = 16;
/// Device memory of a device unless told otherwise.
const DEVICE_MEMORY: u64 = 64 << 20;
/// Device memory of a device at most: it is virtual until touched.
const DEVICE_MEMORY_MAX: u64 = 64 << 30;
/// How long a peer on another host may say nothing, though it is asked, unless told otherwise.
const WIRE_SILENCE: Duration = Duration::from_secs(20);
/// The longest such time: a day.
const WIRE_SILENCE_MAX: u64 = 24 * 60 * 60;
/// As long as a cache line.
const DEVICE_MEMORY_GRANULE_MAX: u64 = 64;

/// When links rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestPolicy {
    /// When nothing has come for 2 ms, in processes that have more than four.
    Auto,
    /// As soon as nothing has come between two looks: so that tests meet links that rest.
    Always,
    /// Never.
    Never,
}

/// Whether queue pairs may have peers on other hosts, by RoCEv2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WirePolicy {
    /// Never: no socket is opened.
    Off,
    /// When a program gives a queue pair the address of another host.
    Auto,
    /// The same; besides, queue pairs of datagrams take what other hosts send, and the port says that it is Ethernet.
    Roce,
}

/// Settings of an engine and its devices. Those of the engine that a process shares are read from `NONIC_*` once, when the first device
/// is listed or opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// `NONIC_DEVICES`: how many devices there are, 0 to 16; default 1.
    pub devices: u32,
    /// `NONIC_DEVICE_NAME`: their names without the number; default `nonic`.
    pub device_name: String,
    /// `NONIC_LINK_LAYER`: `infiniband` (default) or `ethernet`.
    pub ethernet: bool,
    /// `NONIC_DEVICE_MEMORY`: bytes of device memory, with an optional `K`, `M` or `G`; default 64M.
    pub device_memory: u64,
    /// `NONIC_DEVICE_MEMORY_GRANULE`: offsets and lengths of copies to and from device memory are multiples of so many bytes, a
    /// power of 2 up to 64; default 1. Some cards have 4.
    pub device_memory_granule: u64,
    /// `NONIC_TIER`: the best way bytes may take: `auto` or `mapped` (default), `kernel`, `ring`.
    pub tier: Tier,
    /// `NONIC_EXPRESS`: whether requests and messages may take the express ways: `on` (default), or `off`, where everything
    /// takes the ordinary ones, which do the same and are slower.
    pub express: bool,
    /// `NONIC_ADOPT`: whether registered private memory is moved where peers can map it: `auto` (default), `always`,
    /// `never`.
    pub adoption: AdoptionPolicy,
    /// `NONIC_FORK_COPY`: adopted bytes that a fork copies into the child at most, with an optional `K`, `M` or `G`;
    /// `None`: as the process has it, 256M unless another of its engines says something else: the last one counts.
    pub fork_copy: Option<u64>,
    /// `NONIC_PTRACE=any`: let same-user peers copy by the kernel under Yama's `ptrace_scope` 1; from then on the whole process does.
    pub allow_tracers: bool,
    /// `NONIC_TRUST`: users, by name or number with commas between them, whose processes may reach this process's memory
    /// though the kernel cannot be asked whether it would let them; default nobody.
    pub trusted_users: TrustedUsers,
    /// `NONIC_CACHE_SEED`: what the cache of memory that is not coherent does to a program that leaves a call out; a number,
    /// default 0.
    pub cache_seed: u64,
    /// `NONIC_REST`: when the rings of peers that say nothing are looked at no more until they call: `auto` (default), `always`,
    /// `never`.
    pub rest: RestPolicy,
    /// `NONIC_WIRE`: whether queue pairs may have peers on other hosts, by RoCEv2: `off`, `auto` (default), or `roce`, where queue
    /// pairs of datagrams listen from the beginning and the port is an Ethernet port unless `NONIC_LINK_LAYER` says otherwise.
    pub wire: WirePolicy,
    /// `NONIC_MTU`: how many bytes of a message a packet to another host carries at most, and what the port says it does: 256, 512, 1024,
    /// 2048 or 4096 (default). Less where the interface carries less.
    pub mtu: PathMtu,
    /// `NONIC_WIRE_SILENCE`: after how many seconds a connected peer on another host counts as gone that says nothing, though it is asked,
    /// and a process of this host that has a number and does not introduce itself to who connects to that, unless it is stopped; default 20,
    /// a day at most, 0 (`None`): never.
    pub wire_silence: Option<Duration>,
    /// `NONIC_MEET`: a folder in which processes of other network namespaces of this host are met, which name the same; an absolute
    /// path, default none.
    pub meet: Option<PathBuf>,
    /// `NONIC_FAULTS`: a file with changes of the device and the times at which they are made; default none.
    pub faults: Option<PathBuf>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            devices: 1,
            device_name: "nonic".to_owned(),
            ethernet: false,
            device_memory: DEVICE_MEMORY,
            device_memory_granule: 1,
            tier: Tier::Mapped,
            express: true,
            adoption: AdoptionPolicy::Auto,
            fork_copy: None,
            allow_tracers: false,
            trusted_users: TrustedUsers::default(),
            cache_seed: 0,
            rest: RestPolicy::Auto,
            wire: WirePolicy::Auto,
            mtu: PathMtu::Bytes4096,
            wire_silence: Some(WIRE_SILENCE),
            meet: None,
            faults: None,
        }
    }
}

impl Config {
    /// From the environment. A value that makes no sense is named on the log and the default used: a library cannot
    /// refuse to be loaded.
    pub fn from_environment() -> Self {
        Self::from_lookup(|name| std::env::var(name).ok())
    }

    fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Self {
        let mut config = Self::default();
        let take = |name: &str, apply: &mut dyn FnMut(&str) -> Option<()>| {
            if let Some(value) = lookup(name)
                && apply(value.trim()).is_none()
            {
                tracing::warn!(name, value, "not a value this variable can have; the default is used");
            }
        };
        take("NONIC_DEVICES", &mut |value| {
            config.devices = value.parse().ok().filter(|count| *count <= DEVICES_MAX)?;
            Some(())
        });
        take("NONIC_DEVICE_NAME", &mut |value| {
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            (!value.is_empty() && value.len() <= 48 && value.chars().all(plain)).then(|| {
                config.device_name = value.to_owned();
            })
        });
        take("NONIC_WIRE", &mut |value| {
            config.wire = match value.to_ascii_lowercase().as_str() {
                "off" => WirePolicy::Off,
                "auto" => WirePolicy::Auto,
                "roce" => WirePolicy::Roce,
                _ => return None,
            };
            config.ethernet = config.wire == WirePolicy::Roce;
            Some(())
        });
        take("NONIC_MTU", &mut |value| {
            let bytes = value.parse().ok()?;
            config.mtu = (1..=5).filter_map(PathMtu::from_number).find(|mtu| mtu.bytes() == bytes)?;
            Some(())
        });
        take("NONIC_WIRE_SILENCE", &mut |value| {
            let seconds = value.parse().ok().filter(|seconds| *seconds <= WIRE_SILENCE_MAX)?;
            config.wire_silence = (seconds > 0).then(|| Duration::from_secs(seconds));
            Some(())
        });
        take("NONIC_LINK_LAYER", &mut |value| {
            config.ethernet = match value.to_ascii_lowercase().as_str() {
                "infiniband" | "ib" => false,
                "ethernet" | "roce" => true,
                _ => return None,
            };
            Some(())
        });
        take("NONIC_DEVICE_MEMORY", &mut |value| {
            config.device_memory = parse_size(value).filter(|size| *size <= DEVICE_MEMORY_MAX)?;
            Some(())
        });
        take("NONIC_DEVICE_MEMORY_GRANULE", &mut |value| {
            let fits = |granule: &u64| granule.is_power_of_two() && *granule <= DEVICE_MEMORY_GRANULE_MAX;
            config.device_memory_granule = value.parse().ok().filter(fits)?;
            Some(())
        });
        take("NONIC_TIER", &mut |value| {
            config.tier = match value.to_ascii_lowercase().as_str() {
                "auto" | "mapped" => Tier::Mapped,
                "kernel" => Tier::Kernel,
                "ring" => Tier::Ring,
                _ => return None,
            };
            Some(())
        });
        take("NONIC_EXPRESS", &mut |value| {
            config.express = match value.to_ascii_lowercase().as_str() {
                "on" => true,
                "off" => false,
                _ => return None,
            };
            Some(())
        });
        take("NONIC_ADOPT", &mut |value| {
            config.adoption = match value.to_ascii_lowercase().as_str() {
                "auto" => AdoptionPolicy::Auto,
                "always" => AdoptionPolicy::Always,
                "never" => AdoptionPolicy::Never,
                _ => return None,
            };
            Some(())
        });
        take("NONIC_FORK_COPY", &mut |value| {
            config.fork_copy = Some(parse_size(value)?);
            Some(())
        });
        take("NONIC_CACHE_SEED", &mut |value| {
            config.cache_seed = value.parse().ok()?;
            Some(())
        });
        take("NONIC_REST", &mut |value| {
            config.rest = match value.to_ascii_lowercase().as_str() {
                "auto" => RestPolicy::Auto,
                "always" => RestPolicy::Always,
                "never" => RestPolicy::Never,
                _ => return None,
            };
            Some(())
        });
        take("NONIC_MEET", &mut |value| {
            config.meet = (!value.is_empty()).then(|| PathBuf::from(value));
            config.meet.as_ref().is_none_or(|path| path.is_absolute()).then_some(()).or_else(|| {
                config.meet = None;
                None
            })
        });
        take("NONIC_FAULTS", &mut |value| {
            config.faults = (!value.is_empty()).then(|| PathBuf::from(value));
            Some(())
        });
        take("NONIC_PTRACE", &mut |value| {
            config.allow_tracers = match value {
                "any" => true,
                "" | "default" => false,
                _ => return None,
            };
            Some(())
        });
        take("NONIC_TRUST", &mut |value| match TrustedUsers::parse(value) {
            Ok(users) => {
                config.trusted_users = users;
                Some(())
            }
            Err(unknown) => {
                tracing::warn!(%unknown, "NONIC_TRUST");
                None
            }
        });
        config
    }
}

fn parse_size(text: &str) -> Option<u64> {
    let (digits, shift) = match text.as_bytes().last()?.to_ascii_uppercase() {
        b'K' => (&text[..text.len() - 1], 10),
        b'M' => (&text[..text.len() - 1], 20),
        b'G' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(pairs: &[(&str, &str)]) -> Config {
        Config::from_lookup(|name| {
            pairs.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn every_variable_is_heard() {
        let config = with(&[
            ("NONIC_DEVICES", "3"),
            ("NONIC_DEVICE_NAME", "mlx5_"),
            ("NONIC_LINK_LAYER", "Ethernet"),
            ("NONIC_DEVICE_MEMORY", "2M"),
            ("NONIC_DEVICE_MEMORY_GRANULE", "4"),
            ("NONIC_TIER", "ring"),
            ("NONIC_EXPRESS", "Off"),
            ("NONIC_ADOPT", "Always"),
            ("NONIC_FORK_COPY", "3K"),
            ("NONIC_PTRACE", "any"),
            ("NONIC_TRUST", "root,7"),
            ("NONIC_CACHE_SEED", "18446744073709551615"),
            ("NONIC_REST", "Always"),
            ("NONIC_WIRE", "Off"),
            ("NONIC_MTU", "1024"),
            ("NONIC_WIRE_SILENCE", "86400"),
            ("NONIC_MEET", "/tmp/meet"),
            ("NONIC_FAULTS", "/tmp/faults"),
        ]);
        let expected = Config {
            devices: 3,
            device_name: "mlx5_".to_owned(),
            ethernet: true,
            device_memory: 2 << 20,
            device_memory_granule: 4,
            tier: Tier::Ring,
            express: false,
            adoption: AdoptionPolicy::Always,
            fork_copy: Some(3 << 10),
            allow_tracers: true,
            trusted_users: TrustedUsers::parse("0,7").unwrap(),
            cache_seed: u64::MAX,
            rest: RestPolicy::Always,
            wire: WirePolicy::Off,
            mtu: PathMtu::Bytes1024,
            wire_silence: Some(Duration::from_secs(86_400)),
            meet: Some(PathBuf::from("/tmp/meet")),
            faults: Some(PathBuf::from("/tmp/faults")),
        };
        assert_eq!(config, expected);
    }

    #[test]
    fn a_port_on_the_wire_is_ethernet_unless_told_otherwise() {
        let layer = |pairs: &[(&str, &str)]| with(pairs).ethernet;
        assert!(layer(&[("NONIC_WIRE", "roce")]));
        assert!(!layer(&[("NONIC_WIRE", "roce"), ("NONIC_LINK_LAYER", "infiniband")]));
        assert!(!layer(&[("NONIC_WIRE", "auto")]));
    }

    #[test]
    fn a_peer_may_be_silent_for_ever_if_that_is_asked_for() {
        assert_eq!(with(&[("NONIC_WIRE_SILENCE", "0")]).wire_silence, None);
        assert_eq!(Config::default().wire_silence, Some(WIRE_SILENCE));
    }

    #[test]
    fn nonsense_leaves_the_default() {
        for (name, value) in [
            ("NONIC_DEVICES", "17"),
            ("NONIC_DEVICES", "-1"),
            ("NONIC_DEVICE_NAME", "a/b"),
            ("NONIC_LINK_LAYER", "token ring"),
            ("NONIC_DEVICE_MEMORY", "1T"),
            ("NONIC_DEVICE_MEMORY", "99999999999G"),
            ("NONIC_DEVICE_MEMORY_GRANULE", "3"),
            ("NONIC_DEVICE_MEMORY_GRANULE", "128"),
            ("NONIC_TIER", "fast"),
            ("NONIC_EXPRESS", "never"),
            ("NONIC_ADOPT", "yes"),
            ("NONIC_FORK_COPY", "much"),
            ("NONIC_PTRACE", "all"),
            ("NONIC_CACHE_SEED", "-1"),
            ("NONIC_CACHE_SEED", "random"),
            ("NONIC_REST", "often"),
            ("NONIC_WIRE", "tcp"),
            ("NONIC_MTU", "1500"),
            ("NONIC_WIRE_SILENCE", "86401"),
            ("NONIC_WIRE_SILENCE", "never"),
            ("NONIC_MEET", "here"),
            ("NONIC_TRUST", "65534"),
            ("NONIC_TRUST", "no such user"),
        ] {
            assert_eq!(with(&[(name, value)]), Config::default(), "{name}={value}");
        }
    }
}
