//! Nodes: groups of processes of one user that call themselves one machine.

/// The nodes that can be reached, ascending and with this process's own, and this process's own.
pub fn node_ids() -> (Vec<u16>, u16) {
    (vec![0], 0)
}
