//! What a program reads in an identifier about its way: device, port, addresses, paths.

use std::net::{IpAddr, SocketAddr};

use nonic_device::Context;
use nonic_verbs::errno::Errno;

use crate::abi::{ibv_gid, ibv_sa_path_rec, rdma_cm_id};
use crate::objects::Identifier;
use crate::{devices, socket_address};

/// The one partition, as it stands in paths: network order.
const PARTITION: u16 = 0xffff;
/// The one port of a device.
const PORT: u8 = 1;
/// The rate of a path, `IBV_RATE_100_GBPS`: what the port says of its width and speed.
const RATE: u8 = 16;
/// Of rates, MTU and life time: exactly this.
const EXACTLY: u8 = 2;
/// 4.096 us x 2^18: what paths between hosts have.
const LIFE_TIME: u8 = 18;

/// Shows what the machine knows by now.
///
/// # Safety
/// `id` is the structure of this identifier, and alive.
pub(crate) unsafe fn show(id: *mut rdma_cm_id, identifier: &Identifier) -> Result<(), Errno> {
    let engine = &identifier.engine;
    let context = engine.context();
    let device = context.as_ref().map(|context| devices::opened(context.device())).transpose()?;
    let (source, destination) = (engine.source(), engine.destination());
    let [own, peers] = socket_address::both(engine);
    // SAFETY: the caller says that the structure is alive; these fields are ours to write.
    unsafe {
        let route = &raw mut (*id).route;
        (*route).addr.src_storage = own;
        if destination.is_some() {
            (*route).addr.dst_storage = peers;
        }
        let (Some(context), Some(device)) = (context, device) else { return Ok(()) };
        if (*id).verbs.is_null() {
            (*id).verbs = device.context;
            (*id).port_num = PORT;
            if (*id).pd.is_null() {
                (*id).pd = device.zone;
            }
        }
        let ibaddr = &raw mut (*route).addr.ibaddr;
        if let Some(wire) = engine.wire_route() {
            (*ibaddr).sgid = ibv_gid { raw: wire.source };
            (*ibaddr).dgid = ibv_gid { raw: wire.destination };
        } else {
            (*ibaddr).sgid = gid(&context, source);
            (*ibaddr).dgid = gid(&context, destination);
        }
        (*ibaddr).pkey = PARTITION;
    }
    Ok(())
}

/// Shows the path to the peer.
///
/// # Safety
/// As for [`show`].
pub(crate) unsafe fn show_path(id: *mut rdma_cm_id, identifier: &Identifier) -> Result<(), Errno> {
    // SAFETY: the caller's promise is the same.
    unsafe { show(id, identifier)? };
    let Some(context) = identifier.engine.context() else { return Ok(()) };
    let port = context.port();
    // SAFETY: as above.
    let ibaddr = unsafe { (*id).route.addr.ibaddr };
    let wire = identifier.engine.wire_route();
    // By IP there are no local identifiers.
    let lid = if wire.is_some() { 0 } else { port.lid };
    let record = ibv_sa_path_rec {
        dgid: ibaddr.dgid,
        sgid: ibaddr.sgid,
        dlid: lid.to_be(),
        slid: lid.to_be(),
        raw_traffic: 0,
        flow_label: 0,
        hop_limit: wire.map_or(0, |wire| wire.hop_limit),
        traffic_class: wire.map_or(0, |wire| wire.traffic_class),
        reversible: 1,
        numb_path: 1,
        pkey: PARTITION,
        sl: 0,
        mtu_selector: EXACTLY,
        mtu: wire.map_or(port.active_mtu as u8, |wire| wire.path_mtu),
        rate_selector: EXACTLY,
        rate: RATE,
        packet_life_time_selector: EXACTLY,
        packet_life_time: LIFE_TIME,
        preference: 0,
    };
    let place = identifier.rest().keep_path(record);
    // SAFETY: as above.
    unsafe {
        (*id).route.path_rec = place;
        (*id).route.num_paths = 1;
    }
    Ok(())
}

/// The entry of the GID table that stands for an address; the port's own if there is none, as for a wildcard.
fn gid(context: &Context, address: Option<SocketAddr>) -> ibv_gid {
    let wanted = address.map(|address| socket_address::gid(IpAddr::to_canonical(&address.ip())));
    let table = context.gid_table();
    let entry = table.iter().find(|entry| Some(entry.gid) == wanted).or(table.first());
    ibv_gid { raw: entry.map_or([0; 16], |entry| entry.gid) }
}
