//! Nodes and ports: what this process calls itself, and the names under which others of the same user find it.

use std::sync::OnceLock;

use nonic_sys::{effective_user, may_administer};

use crate::PortId;
use crate::hosts::Hosts;

/// First port that is chosen for an endpoint without one.
const FIRST_CHOSEN: u16 = 1089;
/// First port that everybody may bind, unless told otherwise.
const FIRST_FREE: u16 = 1024;

/// The nodes that can be reached, ascending and with this process's own, and this process's own.
///
/// Reached can be those named in `NONIC_SCIF_NODES` and those on which an endpoint has a port this moment.
pub fn node_ids() -> (Vec<u16>, u16) {
    let fabric = fabric();
    (fabric.online(), fabric.own)
}

/// The processes that can reach each other: those of one user with the same `NONIC_SCIF_FABRIC`.
#[derive(Debug)]
pub(crate) struct Fabric {
    /// What all its names begin with.
    prefix: String,
    /// The word that tells it from others.
    pub(crate) word: String,
    /// The node this process belongs to.
    pub(crate) own: u16,
    /// The hosts that are nodes, if there is a list.
    pub(crate) hosts: Option<Hosts>,
    /// Nodes that exist whether or not anybody is there.
    named: Vec<u16>,
    /// The lowest port that needs no privilege.
    pub(crate) lowest_port: u16,
}

/// The fabric of this process, as its environment says when it is first asked.
pub(crate) fn fabric() -> &'static Fabric {
    static FABRIC: OnceLock<Fabric> = OnceLock::new();
    FABRIC.get_or_init(|| {
        let variable = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
        Fabric::new(effective_user(), variable)
    })
}

impl Fabric {
    fn new(user: u32, variable: impl Fn(&str) -> Option<String>) -> Self {
        let number = |name: &str| {
            let text = variable(name)?;
            let number = text.parse::<u16>().ok();
            if number.is_none() {
                tracing::warn!("{name}={text} is ignored: it must be a number from 0 to 65535");
            }
            number
        };
        let hosts = variable("NONIC_SCIF_HOSTS").and_then(|text| {
            let hosts = Hosts::parse(&text);
            let wrong = |why| tracing::warn!("NONIC_SCIF_HOSTS={text} is ignored: {why}");
            hosts.map_err(wrong).ok()
        });
        let own = own_node(number("NONIC_SCIF_NODE"), hosts.as_ref());
        let mut named = variable("NONIC_SCIF_NODES").map(|text| parse_nodes(&text)).unwrap_or_default();
        named.push(own);
        named.extend(hosts.iter().flat_map(Hosts::nodes));
        named.sort_unstable();
        named.dedup();
        let fabric = variable("NONIC_SCIF_FABRIC").unwrap_or_else(|| "0".into());
        Self {
            prefix: format!("nonic-scif/{user}/{fabric}/"),
            word: fabric,
            own,
            hosts,
            named,
            lowest_port: number("NONIC_SCIF_PORT_MIN").unwrap_or(FIRST_FREE),
        }
    }

    /// The name of the endpoint that has a port.
    pub(crate) fn name(&self, id: PortId) -> String {
        format!("{}{}/{}", self.prefix, id.node, id.port)
    }

    /// The name of a relay's end that stands for an endpoint of another host.
    pub(crate) fn name_of_relay(&self, id: PortId, relay: u64) -> String {
        format!("{}/{relay:x}", self.name(id))
    }

    /// Which port a name stands for, if it is one of this fabric.
    pub(crate) fn parse(&self, name: &str) -> Option<PortId> {
        let (node, rest) = name.strip_prefix(&self.prefix)?.split_once('/')?;
        let port = rest.split_once('/').map_or(rest, |(port, _)| port);
        Some(PortId { node: node.parse().ok()?, port: port.parse().ok()? })
    }

    /// The ports to choose from for an endpoint of this process, best first.
    pub(crate) fn chosen_ports(&self) -> impl Iterator<Item = u16> {
        FIRST_CHOSEN..=u16::MAX
    }

    /// Whether this thread may bind a port.
    pub(crate) fn may_bind(&self, port: u16) -> bool {
        port >= self.lowest_port || may_administer()
    }

    /// Whether a node can be reached.
    pub(crate) fn knows(&self, node: u16) -> bool {
        self.named.binary_search(&node).is_ok() || self.live().contains(&node)
    }

    fn online(&self) -> Vec<u16> {
        let mut nodes = self.live();
        nodes.extend_from_slice(&self.named);
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// Nodes on which a name is taken.
    fn live(&self) -> Vec<u16> {
        let Ok(text) = std::fs::read_to_string("/proc/net/unix") else { return Vec::new() };
        // The kernel shows the zero byte of an abstract name as `@`.
        let names = text.lines().filter_map(|line| line.split_once('@').map(|(_, name)| name));
        names.filter_map(|name| self.parse(name).map(|id| id.node)).collect()
    }
}

/// The node of this process: the one that was asked for, if that can be, or the first that is this host.
fn own_node(asked: Option<u16>, hosts: Option<&Hosts>) -> u16 {
    let Some(hosts) = hosts else { return asked.unwrap_or(0) };
    let first = hosts.first_own().unwrap_or(0);
    match asked {
        Some(node) if hosts.is_own(node) => node,
        Some(node) => {
            tracing::warn!(
                "NONIC_SCIF_NODE={node} is ignored: in NONIC_SCIF_HOSTS that node is not this host, and node {first} is"
            );
            first
        }
        None => first,
    }
}

/// Nodes of a text like `0,1` or `0-3,7`.
fn parse_nodes(text: &str) -> Vec<u16> {
    let part = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse::<u16>().ok()?..=last.trim().parse::<u16>().ok()?)
    };
    let mut nodes = Vec::new();
    for piece in text.split(',') {
        match part(piece) {
            Some(range) => nodes.extend(range),
            None => tracing::warn!(
                "'{piece}' in NONIC_SCIF_NODES is ignored: it must be a node or a range of nodes, as in 0,1 or 0-3"
            ),
        }
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_names_nodes_and_ports() {
        let variables = [
            ("NONIC_SCIF_NODE", "1"),
            ("NONIC_SCIF_NODES", "0, 4-6,x"),
            ("NONIC_SCIF_FABRIC", "lab"),
            ("NONIC_SCIF_PORT_MIN", "40"),
        ];
        let find =
            |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        let fabric = Fabric::new(7, find);
        assert_eq!((fabric.own, &fabric.named[..]), (1, &[0, 1, 4, 5, 6][..]));
        let id = PortId { node: 1, port: 2050 };
        assert_eq!(fabric.name(id), "nonic-scif/7/lab/1/2050");
        assert_eq!(fabric.parse("nonic-scif/7/lab/1/2050"), Some(id));
        for other in ["nonic-scif/7/0/1/2050", "nonic-scif/8/lab/1/2050", "nonic-scif/7/lab/1", "x"] {
            assert_eq!(fabric.parse(other), None);
        }
        let relay = fabric.name_of_relay(id, 0xabc);
        assert_eq!((&relay[..], fabric.parse(&relay)), ("nonic-scif/7/lab/1/2050/abc", Some(id)));
        assert!(fabric.may_bind(40) && fabric.knows(6) && !fabric.knows(7));
        let of = |node: &'static str, hosts: &'static str| {
            let fabric = Fabric::new(7, |name| match name {
                "NONIC_SCIF_NODE" => Some(node.to_owned()).filter(|node| !node.is_empty()),
                "NONIC_SCIF_HOSTS" => Some(hosts.to_owned()),
                _ => None,
            });
            (fabric.own, fabric.named, fabric.hosts.is_some())
        };
        assert_eq!(of("", "192.0.2.1,127.0.0.1,127.0.0.2"), (1, vec![0, 1, 2], true));
        assert_eq!(of("2", "192.0.2.1,127.0.0.1,127.0.0.2").0, 2);
        assert_eq!(of("0", "192.0.2.1,127.0.0.1,127.0.0.2").0, 1, "that node is another host");
        assert_eq!(of("3", "192.0.2.1"), (3, vec![3], false));
        let plain = Fabric::new(7, |_| None);
        assert_eq!((plain.own, &plain.named[..], plain.lowest_port), (0, &[0][..], 1024));
    }
}
