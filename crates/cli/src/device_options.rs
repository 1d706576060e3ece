//! The settings of the device, as flags: each becomes the environment variable that the device reads.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use nonic_transport::{TrustedUsers, read_faults};

use crate::{dat_options, scif_options, view_options};

/// Most devices a process can have.
const DEVICES_MAX: u32 = 16;

/// Longest prefix of a device name. The structures of the C interface have room for 63 bytes with the index.
const PREFIX_MAX: usize = 48;

/// Most device memory of a process, in bytes: 64 GiB of addresses, taken from the machine only when touched.
const DEVICE_MEMORY_MAX: u64 = 64 << 30;

/// The longest time that a peer on another host may be silent: a day.
const SILENCE_MAX: i64 = 24 * 60 * 60;

/// Settings of the device, shared by all commands that start a program on it.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Device")]
pub(crate) struct DeviceOptions {
    /// Number of devices the program sees, 1 to 16 [NONIC_DEVICES, default 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=DEVICES_MAX as i64))]
    devices: Option<u32>,

    /// Their names without the index: PREFIX0, PREFIX1, ... [NONIC_DEVICE_NAME, default nonic]
    #[arg(long, value_name = "PREFIX", value_parser = parse_prefix)]
    device_name: Option<String>,

    /// Whether the port says it is InfiniBand (with a LID) or Ethernet (RoCE) [NONIC_LINK_LAYER, default infiniband]
    #[arg(long, value_name = "LAYER")]
    link_layer: Option<LinkLayer>,

    /// Device memory of each process, in bytes or with K, M or G [NONIC_DEVICE_MEMORY, default 64M]
    #[arg(long, value_name = "SIZE", value_parser = parse_device_memory)]
    device_memory: Option<u64>,

    /// What offsets and lengths of copies to and from device memory are multiples of [NONIC_DEVICE_MEMORY_GRANULE, default 1]
    ///
    /// A power of 2 up to 64. With 4 the device is as exact as cards that copy whole words: a program that passes will do
    /// there, too.
    #[arg(long, value_name = "BYTES", value_parser = parse_granule)]
    device_memory_granule: Option<u64>,

    /// Fastest way of moving bytes that may be used [NONIC_TIER, default auto]
    ///
    /// mapped: the sender writes into memory that both processes have mapped. kernel: one system call copies from
    /// process to process. ring: the bytes travel through a ring and the receiver places them. auto: the fastest that
    /// works, for each piece of memory.
    #[arg(long, value_name = "TIER")]
    tier: Option<Tier>,

    /// Whether the ways for short and plain requests are used, or only those for all [NONIC_EXPRESS, default on]
    ///
    /// off is slower and does the same: for tests, and to find out whether such a way is at fault.
    #[arg(long, value_name = "SWITCH")]
    express: Option<Switch>,

    /// Whether registered private memory is moved to where peers can map it [NONIC_ADOPT, default auto]
    ///
    /// auto: where it pays. always: also where it does not, as long as it is safe. never: peers copy such memory
    /// through the kernel.
    #[arg(long, value_name = "WHEN")]
    adopt: Option<When>,

    /// Adopted bytes that a fork copies into the child at most [NONIC_FORK_COPY, default 256M]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    fork_copy: Option<u64>,

    /// When the rings of peers that say nothing are looked at no more until they call [NONIC_REST, default auto]
    ///
    /// auto: after 2 ms, in programs that talk with more than four processes, so that a poll costs the same however many there
    /// are; the next message of such a peer costs a microsecond more. always: as soon as they say nothing, for tests. never: a
    /// poll looks at the ring of every peer.
    #[arg(long, value_name = "WHEN")]
    rest: Option<When>,

    /// Whether the program's queue pairs may have peers on other hosts, by RoCEv2 [NONIC_WIRE, default auto]
    ///
    /// auto: UDP port 4791 of an address is opened when the program gives a queue pair, or an address handle, the address of
    /// another host or network namespace, or joins a group by it. roce: the same; besides, queue pairs of datagrams take what other
    /// hosts send, groups too, from the beginning, and the port is an Ethernet port unless --link-layer says otherwise. off: nothing is opened.
    #[arg(long, value_name = "WHEN")]
    wire: Option<Wire>,

    /// Bytes of a message that a packet to another host carries at most [NONIC_MTU, default 4096]
    ///
    /// The path MTU, as the port says it: less where the interface carries less. For ways that carry less than the interfaces at their
    /// ends, and for both ends.
    #[arg(long, value_name = "BYTES")]
    mtu: Option<Mtu>,

    /// Seconds after which a connected peer on another host is gone that says nothing [NONIC_WIRE_SILENCE, default 20]
    ///
    /// Who only receives does not miss a peer that was killed. So a queue pair of a reliable connection that hears nothing asks its peer
    /// whether it is there, from a quarter of this time on: by a packet that every peer acknowledges and that changes nothing. If twelve
    /// are not answered, the connection is over. 0: nobody is asked.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(0..=SILENCE_MAX))]
    wire_silence: Option<u32>,

    /// A folder in which processes of other network namespaces of this host are met [NONIC_MEET, default none]
    ///
    /// A common volume of containers, with the same flag in each: addresses of the others then lead to them through memory and
    /// not by the wire. Whoever may make folders in it can be met.
    #[arg(long, value_name = "FOLDER", value_parser = parse_meet)]
    meet: Option<PathBuf>,

    /// A file with changes of the device and the times at which they are made [NONIC_FAULTS, default none]
    ///
    /// A line each: a time counted from when the program first opens a device (a number with us, ms or s), and a change in the
    /// words of nonic ctl; # begins a remark.
    #[arg(long, value_name = "FILE", value_parser = parse_faults)]
    faults: Option<PathBuf>,

    /// Messages of the device on standard error, down to LEVEL [NONIC_LOG, default warn]
    #[arg(long, value_name = "LEVEL")]
    log: Option<LogLevel>,

    /// Let any process of this user copy to and from the program, where Yama would not [NONIC_PTRACE=any]
    ///
    /// Under /proc/sys/kernel/yama/ptrace_scope 1 the kernel lets only parents copy to and from their children, so
    /// that two programs would use the ring. This makes the program say PR_SET_PTRACER_ANY when it opens the device:
    /// any process of the same user may then also debug it.
    #[arg(long)]
    allow_ptrace: bool,

    /// Users whose processes may reach the program's memory without a proof, by name or number [NONIC_TRUST, default nobody]
    ///
    /// Two processes map each other's memory when each has proved that the kernel lets it at the other. Containers that
    /// share a network and nothing else cannot; with this setting on both sides they need not. Whoever runs as one of
    /// these users in that network, in whatever container, may then read and write what the program registers, and the
    /// whole of any file or shared memory of which it registers a part.
    #[arg(long, value_name = "USERS", value_parser = parse_users)]
    trust: Option<String>,
}

/// Path MTUs (IBTA vol. 1, 9.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mtu {
    #[value(name = "256")]
    Bytes256,
    #[value(name = "512")]
    Bytes512,
    #[value(name = "1024")]
    Bytes1024,
    #[value(name = "2048")]
    Bytes2048,
    #[value(name = "4096")]
    Bytes4096,
}

/// Link layers of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LinkLayer {
    #[value(alias = "ib")]
    Infiniband,
    #[value(alias = "roce")]
    Ethernet,
}

/// Ways to move bytes on one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Tier {
    Auto,
    Mapped,
    Kernel,
    Ring,
}

/// Whether something is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

/// What goes to other hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Wire {
    Off,
    Auto,
    Roce,
}

/// When something is done that the device decides by itself otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum When {
    Auto,
    Always,
    Never,
}

/// Levels of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LogLevel {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl DeviceOptions {
    /// The variables to set for the program, only those that were asked for: the others keep what the user exported.
    pub(crate) fn environment(&self) -> Vec<(&'static str, OsString)> {
        let mut variables: Vec<(&'static str, OsString)> = Vec::new();
        let mut set = |name, value: Option<String>| variables.extend(value.map(|value| (name, value.into())));
        set("NONIC_DEVICES", self.devices.map(|count| count.to_string()));
        set("NONIC_DEVICE_NAME", self.device_name.clone());
        set("NONIC_LINK_LAYER", self.link_layer.map(word));
        set("NONIC_DEVICE_MEMORY", self.device_memory.map(|bytes| bytes.to_string()));
        set("NONIC_DEVICE_MEMORY_GRANULE", self.device_memory_granule.map(|bytes| bytes.to_string()));
        set("NONIC_TIER", self.tier.map(word));
        set("NONIC_EXPRESS", self.express.map(word));
        set("NONIC_ADOPT", self.adopt.map(word));
        set("NONIC_FORK_COPY", self.fork_copy.map(|bytes| bytes.to_string()));
        set("NONIC_REST", self.rest.map(word));
        set("NONIC_WIRE", self.wire.map(word));
        set("NONIC_MTU", self.mtu.map(word));
        set("NONIC_WIRE_SILENCE", self.wire_silence.map(|seconds| seconds.to_string()));
        set("NONIC_MEET", self.meet.as_ref().map(|path| path.display().to_string()));
        let faults = self.faults.as_ref().map(|path| path.display().to_string());
        set("NONIC_FAULTS", faults);
        set("NONIC_LOG", self.log.map(word));
        set("NONIC_PTRACE", self.allow_ptrace.then(|| "any".to_owned()));
        set("NONIC_TRUST", self.trust.clone());
        variables
    }
}

/// What is wrong with the value of one of nonic's variables, if anything; for values that came by the environment.
pub(crate) fn complaint_about(name: &str, value: &str) -> Option<String> {
    match name {
        "NONIC_DEVICES" => match value.parse() {
            Ok(0..=DEVICES_MAX) => None, // None at all is of use to whoever tests that case; no flag is needed for it.
            _ => Some(format!("must be a number from 1 to {DEVICES_MAX}")),
        },
        "NONIC_DEVICE_NAME" => parse_prefix(value).err(),
        "NONIC_LINK_LAYER" => complaint_about_choice::<LinkLayer>(value),
        "NONIC_DEVICE_MEMORY" => parse_device_memory(value).err(),
        "NONIC_DEVICE_MEMORY_GRANULE" => parse_granule(value).err(),
        "NONIC_FORK_COPY" => parse_size(value).err(),
        "NONIC_ADOPT" => complaint_about_choice::<When>(value),
        "NONIC_REST" => complaint_about_choice::<When>(value),
        "NONIC_WIRE" => complaint_about_choice::<Wire>(value),
        "NONIC_MTU" => complaint_about_choice::<Mtu>(value),
        "NONIC_WIRE_SILENCE" => match value.parse() {
            Ok(0..=SILENCE_MAX) => None,
            _ => Some(format!("must be a number of seconds from 0 to {SILENCE_MAX}")),
        },
        "NONIC_TIER" => complaint_about_choice::<Tier>(value),
        "NONIC_EXPRESS" => complaint_about_choice::<Switch>(value),
        "NONIC_LOG" => complaint_about_choice::<LogLevel>(value),
        "NONIC_PTRACE" => {
            (!["any", "default", ""].contains(&value)).then(|| "must be any or default".to_owned())
        }
        "NONIC_TRUST" => parse_users(value).err(),
        "NONIC_MEET" => (!value.is_empty()).then(|| complaint_about_meet(value)).flatten(),
        "NONIC_FAULTS" => (!value.is_empty()).then(|| parse_faults(value).err()).flatten(),
        _ if view_options::is_variable(name) => view_options::complaint_about(value),
        _ if scif_options::is_variable(name) => scif_options::complaint_about(name, value),
        _ if dat_options::is_variable(name) => dat_options::complaint_about(name, value),
        _ => Some("is no variable of nonic; a typing error?".to_owned()),
    }
}

fn parse_faults(value: &str) -> Result<PathBuf, String> {
    read_faults(Path::new(value)).map_err(|error| format!("{value} cannot be followed: {error}"))?;
    std::path::absolute(value).map_err(|error| error.to_string())
}

fn parse_meet(value: &str) -> Result<PathBuf, String> {
    let path = std::path::absolute(value).map_err(|error| error.to_string())?;
    if path.is_dir() { Ok(path) } else { Err(format!("{value} is no folder")) }
}

fn complaint_about_meet(value: &str) -> Option<String> {
    if Path::new(value).is_absolute() {
        parse_meet(value).err()
    } else {
        Some("must be an absolute path".to_owned())
    }
}

fn parse_users(text: &str) -> Result<String, String> {
    TrustedUsers::parse(text).map(|_| text.to_owned()).map_err(|unknown| unknown.to_string())
}

fn complaint_about_choice<T: ValueEnum>(value: &str) -> Option<String> {
    let choices =
        || T::value_variants().iter().map(|choice| word(choice.clone())).collect::<Vec<_>>().join(", ");
    T::from_str(value, true).is_err().then(|| format!("must be one of {}", choices()))
}

fn word<T: ValueEnum>(value: T) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

fn parse_prefix(text: &str) -> Result<String, String> {
    let allowed = |character: char| character.is_ascii_alphanumeric() || "_-".contains(character);
    if text.is_empty() || !text.chars().all(allowed) {
        return Err("must be letters, digits, '_' and '-'".to_owned());
    }
    if text.len() > PREFIX_MAX {
        return Err(format!("is {} bytes long; a device name has room for {PREFIX_MAX}", text.len()));
    }
    Ok(text.to_owned())
}

/// Bytes, or a number with K, M or G (1024, 1024^2, 1024^3), small letters too.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 10),
        Some((at, 'm' | 'M')) => (&text[..at], 20),
        Some((at, 'g' | 'G')) => (&text[..at], 30),
        _ => (text, 0),
    };
    let all_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !all_digits {
        return Err("must be a whole number of bytes, or one with K, M or G behind it, like 64M".to_owned());
    }
    let size = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    size.ok_or_else(|| "is more than any memory has".to_owned())
}

/// A size that device memory can have.
fn parse_granule(text: &str) -> Result<u64, String> {
    let fits = |granule: &u64| granule.is_power_of_two() && *granule <= 64;
    text.parse().ok().filter(fits).ok_or_else(|| "must be 1, 2, 4, 8, 16, 32 or 64".to_owned())
}

fn parse_device_memory(text: &str) -> Result<u64, String> {
    let size = parse_size(text)?;
    if size > DEVICE_MEMORY_MAX { Err("is more than 64G, the most there is".to_owned()) } else { Ok(size) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_binary_suffixes_in_either_case() {
        assert_eq!(parse_size("4096"), Ok(4096));
        assert_eq!(parse_size("64K"), Ok(64 << 10));
        assert_eq!(parse_size("64m"), Ok(64 << 20));
        assert_eq!(parse_size("2G"), Ok(2 << 30));
        assert_eq!(parse_size("0"), Ok(0));
    }

    #[test]
    fn sizes_that_are_no_number_or_too_large_are_refused() {
        for text in ["", "M", "-1", "+1", "1.5G", "64MB", "1T", "6é", "99999999999999999999", "99999999999G"]
        {
            assert!(parse_size(text).is_err(), "{text} was taken");
        }
    }

    #[test]
    fn device_memory_ends_at_64g_and_what_a_fork_copies_does_not() {
        assert_eq!(parse_device_memory("64G"), Ok(64 << 30));
        for text in ["65G", "68719476737"] {
            assert!(parse_device_memory(text).is_err_and(|words| words.contains("64G")), "{text} was taken");
            assert!(complaint_about("NONIC_DEVICE_MEMORY", text).is_some());
            assert_eq!(complaint_about("NONIC_FORK_COPY", text), None);
        }
    }

    #[test]
    fn a_device_name_has_no_slash_or_space_and_leaves_room_for_its_index() {
        assert!(parse_prefix("mlx5_").is_ok());
        assert!(parse_prefix(&"a".repeat(PREFIX_MAX)).is_ok());
        for text in ["", "a.b", "a/b", "a b", &"a".repeat(PREFIX_MAX + 1)] {
            assert!(parse_prefix(text).is_err(), "{text} was taken");
        }
    }

    #[test]
    fn nothing_asked_sets_nothing() {
        assert!(DeviceOptions::default().environment().is_empty());
    }

    #[test]
    fn values_from_the_environment_are_judged_as_those_of_flags() {
        assert_eq!(complaint_about("NONIC_TIER", "ring"), None);
        assert_eq!(complaint_about("NONIC_DEVICE_MEMORY", "1G"), None);
        assert_eq!(complaint_about("NONIC_LINK_LAYER", "RoCE"), None);
        assert!(complaint_about("NONIC_TIER", "fast").is_some_and(|words| words.contains("kernel")));
        assert!(complaint_about("NONIC_DEVICES", "17").is_some());
        assert!(complaint_about("NONIC_TEIR", "ring").is_some());
    }
}
