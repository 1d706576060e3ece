//! Nodes and ports: what this process calls itself, and the names under which others of the same user find it.

use std::sync::OnceLock;

use nonic_sys::{effective_user, may_administer};

use crate::PortId;

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
    /// The node this process belongs to.
    pub(crate) own: u16,
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
        let own = number("NONIC_SCIF_NODE").unwrap_or(0);
        let mut named = variable("NONIC_SCIF_NODES").map(|text| parse_nodes(&text)).unwrap_or_default();
        named.push(own);
        named.sort_unstable();
        named.dedup();
        let fabric = variable("NONIC_SCIF_FABRIC").unwrap_or_else(|| "0".into());
        Self {
            prefix: format!("nonic-scif/{user}/{fabric}/"),
            own,
            named,
            lowest_port: number("NONIC_SCIF_PORT_MIN").unwrap_or(FIRST_FREE),
        }
    }

    /// The name of the endpoint that has a port.
    pub(crate) fn name(&self, id: PortId) -> String {
        format!("{}{}/{}", self.prefix, id.node, id.port)
    }

    /// Which port a name stands for, if it is one of this fabric.
    pub(crate) fn parse(&self, name: &str) -> Option<PortId> {
        let (node, port) = name.strip_prefix(&self.prefix)?.split_once('/')?;
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
        assert!(fabric.may_bind(40) && fabric.knows(6) && !fabric.knows(7));
        let plain = Fabric::new(7, |_| None);
        assert_eq!((plain.own, &plain.named[..], plain.lowest_port), (0, &[0][..], 1024));
    }
}
