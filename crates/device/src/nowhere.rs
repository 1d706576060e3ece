//! What is said of addresses that lead nowhere. Its program sees timeouts, and nothing at all if it only receives.

use std::net::Ipv6Addr;

use nonic_protocol::{AddressVector, GlobalRoute, QpNumber};
use nonic_sys::Seldom;
use nonic_wire::Location;

use crate::wire_address::ip_address;

static NO_HOST: Seldom = Seldom::new();
static NOBODY: Seldom = Seldom::new();

/// A queue pair is connected to a GID that nobody here has, from one that leads to no other host, or from an address of the other version
/// of IP, which is `own` then.
#[cold]
pub(crate) fn leads_to_no_host(route: &GlobalRoute, own: Option<Location>) {
    let Some(unsaid) = NO_HOST.turn() else { return };
    let (index, to) = (route.source_index, Ipv6Addr::from(route.destination).to_canonical());
    match own.map(|own| ip_address(own.address)) {
        Some(from) => tracing::warn!(
            index, %from, %to, unsaid,
            "the GID that a queue pair is connected to is an address of the other version of IP than the one at this index: both sides have \
             to use the index of an address of the same (ibv_devinfo -v lists them)"
        ),
        None => tracing::warn!(
            index, %to, unsaid,
            "no process of this host has the GID that a queue pair is connected to, and the one at this index leads to no other host: \
             both sides have to use the index of an address (ibv_devinfo -v lists them); with --wire roce programs choose one by themselves"
        ),
    }
}

/// What was sent to a queue pair was not answered, and no process of this host has ever had it.
#[cold]
pub(crate) fn is_nobodys(number: QpNumber, vector: Option<&AddressVector>) {
    let is_by_lid = vector.is_some_and(|vector| vector.global.is_none());
    if is_by_lid && let Some(unsaid) = NOBODY.turn() {
        tracing::warn!(
            number = number.0,
            lid = vector.map(|vector| vector.destination_lid),
            unsaid,
            "no process of this host has the queue pair that another is connected to by LID, which leads to no other host: a peer elsewhere \
             is reached by the GID of an address (-x of perftest, -g of the pingpongs; ibv_devinfo -v lists them) or by rdma_cm"
        );
    }
}
