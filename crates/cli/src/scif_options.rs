//! The settings of SCIF, as flags: each becomes the environment variable that the library reads.

use std::ffi::OsString;
use std::net::IpAddr;

use clap::Args;

/// Lowest port that needs no privilege anywhere: `SCIF_ADMIN_PORT_END`.
const ADMIN_PORT_END: i64 = 1024;

/// Nodes of a list of hosts at most.
const HOSTS_MAX: usize = 256;

/// Longest name of a fabric: it is a part of the names of sockets, which have room for 107 bytes.
const FABRIC_MAX: usize = 32;

/// Which node a program is, and which others there are.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "SCIF")]
pub(crate) struct ScifOptions {
    /// Number of the SCIF node that the program is on: 0 the host, 1 and up cards [NONIC_SCIF_NODE, default 0]
    ///
    /// Programs that name "host 0, card 1" run as two groups: nonic run --node 0 and nonic run --node 1.
    #[arg(long, value_name = "N")]
    node: Option<u16>,

    /// Nodes that count as online even while no program is on them, like 0,1 or 0-3 [NONIC_SCIF_NODES, default none]
    ///
    /// With --node and without this: 0 and 1, and all up to that node.
    #[arg(long, value_name = "LIST", value_parser = parse_nodes)]
    nodes: Option<String>,

    /// The hosts that are SCIF nodes, in order: addresses with commas between them, like 10.0.0.1,10.0.0.2 [NONIC_SCIF_HOSTS, default none]
    ///
    /// The same list on all of them: the first address is node 0, the next node 1. A program is on the node whose address is its host's.
    #[arg(long, value_name = "LIST", value_parser = parse_hosts)]
    scif_hosts: Option<String>,

    /// Lowest port that a program may bind without CAP_SYS_ADMIN, 1 to 1024 [NONIC_SCIF_PORT_MIN, default 1024]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..=ADMIN_PORT_END))]
    scif_port_min: Option<u16>,
}

impl ScifOptions {
    /// The variables to set for the program, only those that were asked for: the others keep what the user exported.
    pub(crate) fn environment(&self) -> Vec<(&'static str, OsString)> {
        let exported = std::env::var_os("NONIC_SCIF_NODES").is_some_and(|value| !value.is_empty());
        self.environment_beside(exported)
    }

    fn environment_beside(&self, nodes_exported: bool) -> Vec<(&'static str, OsString)> {
        let mut variables: Vec<(&'static str, OsString)> = Vec::new();
        let mut set = |name, value: Option<String>| variables.extend(value.map(|value| (name, value.into())));
        set("NONIC_SCIF_NODE", self.node.map(|node| node.to_string()));
        let alone = self.scif_hosts.is_none() && !nodes_exported;
        let usual = self.node.filter(|_| alone).map(|node| format!("0-{}", node.max(1)));
        set("NONIC_SCIF_NODES", self.nodes.clone().or(usual));
        set("NONIC_SCIF_HOSTS", self.scif_hosts.clone());
        set("NONIC_SCIF_PORT_MIN", self.scif_port_min.map(|port| port.to_string()));
        variables
    }
}

/// What is wrong with the value of one of SCIF's variables, if anything; `None` also for other variables' names, which
/// [`is_variable`] tells apart.
pub(crate) fn complaint_about(name: &str, value: &str) -> Option<String> {
    match name {
        "NONIC_SCIF_NODE" => {
            value.parse::<u16>().err().map(|_| "must be a number from 0 to 65535".to_owned())
        }
        "NONIC_SCIF_NODES" => parse_nodes(value).err(),
        "NONIC_SCIF_HOSTS" => parse_hosts(value).err(),
        "NONIC_SCIF_FABRIC" => complaint_about_fabric(value),
        "NONIC_SCIF_PORT_MIN" => match value.parse::<i64>() {
            Ok(1..=ADMIN_PORT_END) => None,
            _ => Some(format!("must be a port from 1 to {ADMIN_PORT_END}")),
        },
        "NONIC_SCIF_MEMLOCK" => (!["0", "1"].contains(&value)).then(|| "must be 0 or 1".to_owned()),
        _ => None,
    }
}

/// Whether a variable is one of SCIF's.
pub(crate) fn is_variable(name: &str) -> bool {
    let names = ["NODE", "NODES", "HOSTS", "FABRIC", "PORT_MIN", "MEMLOCK"];
    name.strip_prefix("NONIC_SCIF_").is_some_and(|rest| names.contains(&rest))
}

fn complaint_about_fabric(value: &str) -> Option<String> {
    let allowed = |character: char| character.is_ascii_alphanumeric() || "_-.".contains(character);
    if value.is_empty() || value.len() > FABRIC_MAX || !value.chars().all(allowed) {
        return Some(format!("must be 1 to {FABRIC_MAX} letters, digits, '_', '-' and '.'"));
    }
    None
}

/// A list of nodes like `0,1` or `0-3,7`; returned as it is.
fn parse_nodes(text: &str) -> Result<String, String> {
    let node = |word: &str| word.parse::<u16>().ok();
    let item = |item: &str| match item.split_once('-') {
        None => node(item).is_some(),
        Some((first, last)) => node(first).zip(node(last)).is_some_and(|(first, last)| first <= last),
    };
    if text.split(',').all(item) {
        Ok(text.to_owned())
    } else {
        Err("must be node numbers from 0 to 65535 and ranges of them, like 0,1 or 0-3".to_owned())
    }
}

/// A list of hosts' addresses; returned as it is.
fn parse_hosts(text: &str) -> Result<String, String> {
    let address = |word: &str| word.trim().parse::<IpAddr>().is_ok_and(|address| !address.is_unspecified());
    let count = text.split(',').count();
    if count <= HOSTS_MAX && text.split(',').all(address) {
        Ok(text.to_owned())
    } else {
        Err(format!("must be addresses of hosts, {HOSTS_MAX} at most, like 10.0.0.1,10.0.0.2"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(options: &ScifOptions, nodes_exported: bool) -> Vec<String> {
        let variables = options.environment_beside(nodes_exported);
        variables.iter().map(|(name, value)| format!("{name}={}", value.to_string_lossy())).collect()
    }

    #[test]
    fn nothing_asked_sets_nothing() {
        assert!(set(&ScifOptions::default(), false).is_empty());
    }

    #[test]
    fn a_node_brings_the_host_the_first_card_and_all_up_to_it() {
        let node = |node| ScifOptions { node: Some(node), ..ScifOptions::default() };
        assert_eq!(set(&node(0), false), ["NONIC_SCIF_NODE=0", "NONIC_SCIF_NODES=0-1"]);
        assert_eq!(set(&node(1), false), ["NONIC_SCIF_NODE=1", "NONIC_SCIF_NODES=0-1"]);
        assert_eq!(set(&node(3), false), ["NONIC_SCIF_NODE=3", "NONIC_SCIF_NODES=0-3"]);
    }

    #[test]
    fn nodes_that_the_user_named_stay() {
        let node = ScifOptions { node: Some(1), ..ScifOptions::default() };
        assert_eq!(set(&node, true), ["NONIC_SCIF_NODE=1"]);
        let both = ScifOptions { nodes: Some("0,7".to_owned()), ..node };
        assert_eq!(set(&both, true), ["NONIC_SCIF_NODE=1", "NONIC_SCIF_NODES=0,7"]);
    }

    #[test]
    fn hosts_are_a_list_of_their_own_and_bring_no_other_nodes() {
        let hosts =
            ScifOptions { scif_hosts: Some("10.0.0.1,10.0.0.2".to_owned()), ..ScifOptions::default() };
        assert_eq!(set(&hosts, false), ["NONIC_SCIF_HOSTS=10.0.0.1,10.0.0.2"]);
        let node = ScifOptions { node: Some(1), ..hosts };
        assert_eq!(set(&node, false), ["NONIC_SCIF_NODE=1", "NONIC_SCIF_HOSTS=10.0.0.1,10.0.0.2"]);
        for text in ["", "10.0.0.1,", "0.0.0.0", "host"] {
            assert!(parse_hosts(text).is_err(), "{text:?} was taken");
        }
    }

    #[test]
    fn lists_of_nodes_are_numbers_and_ascending_ranges() {
        for text in ["0", "0,1", "0-3", "0-1,5,7-9", "65535"] {
            assert_eq!(parse_nodes(text), Ok(text.to_owned()));
        }
        for text in ["", ",", "0,", "3-1", "a", "0-", "-1", "65536", "0 1", "0-1-2"] {
            assert!(parse_nodes(text).is_err(), "{text:?} was taken");
        }
    }

    #[test]
    fn values_from_the_environment_are_judged() {
        for (name, good, bad) in [
            ("NONIC_SCIF_NODE", "1", "card"),
            ("NONIC_SCIF_NODES", "0-3", "all"),
            ("NONIC_SCIF_HOSTS", "10.0.0.1,fd00::2", "10.0.0.1,host"),
            ("NONIC_SCIF_FABRIC", "test-1", "a/b"),
            ("NONIC_SCIF_PORT_MIN", "40", "1025"),
            ("NONIC_SCIF_MEMLOCK", "1", "yes"),
        ] {
            assert!(is_variable(name));
            assert_eq!(complaint_about(name, good), None, "{name}");
            assert!(complaint_about(name, bad).is_some(), "{name}");
        }
        assert!(!is_variable("NONIC_SCIF_NOD"));
        assert!(complaint_about("NONIC_SCIF_FABRIC", &"a".repeat(FABRIC_MAX + 1)).is_some());
    }
}
