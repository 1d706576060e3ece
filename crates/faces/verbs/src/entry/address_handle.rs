//! Address handles, also made from what a datagram says about its sender.

use core::ffi::c_int;

use nonic_device::Context;

use super::gid::PORT;
use crate::abi::{
    IBV_WC_GRH, ibv_ah, ibv_ah_attr, ibv_context, ibv_gid, ibv_global_route, ibv_grh, ibv_pd, ibv_wc,
};
use crate::convert;
use crate::errno::Errno;
use crate::guard;
use crate::objects::{ADDRESS_HANDLES, AddressHandleParts, CONTEXTS, ZONES, working};

versions! {
    nonic_ibv_create_ah => "ibv_create_ah@@IBVERBS_1.1";
    nonic_ibv_destroy_ah => "ibv_destroy_ah@@IBVERBS_1.1";
    nonic_ibv_init_ah_from_wc => "ibv_init_ah_from_wc@@IBVERBS_1.1";
    nonic_ibv_create_ah_from_wc => "ibv_create_ah_from_wc@@IBVERBS_1.1";
    nonic_ibv_resolve_eth_l2_from_gid => "ibv_resolve_eth_l2_from_gid@@IBVERBS_1.1";
}

/// `ibv_create_ah(3)`: NULL with `EINVAL` (unknown domain, no such port or GID, or a path that leads
/// nowhere), `ENOMEM` (no more handles).
///
/// # Safety
/// `attr` is readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_create_ah(pd: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah {
    // SAFETY: the caller's attributes are readable.
    guard::or_null(|| create(pd, unsafe { &*attr }))
}

fn create(pd: *mut ibv_pd, attr: &ibv_ah_attr) -> Result<*mut ibv_ah, Errno> {
    let engine = ZONES.parent(pd)?.create_address_handle(convert::to_vector(attr))?;
    // SAFETY: the domain is in use by the new handle and so cannot be destroyed.
    let context = unsafe { (*pd).context };
    let parts = AddressHandleParts { vector: *engine.vector(), zone: engine.zone(), engine };
    Ok(ADDRESS_HANDLES.reserve().fill(parts, |handle| ibv_ah { context, pd, handle }))
}

/// `ibv_destroy_ah(3)`: 0, `ENOENT` (unknown or overwritten handle). Datagrams already posted still go out.
///
/// # Safety
/// No other thread posts with the handle any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_destroy_ah(ah: *mut ibv_ah) -> c_int {
    guard::status(|| {
        let claim = ADDRESS_HANDLES.claim(ah)?;
        claim.engine().engine.destroy();
        claim.retire();
        Ok(())
    })
}

/// `ibv_init_ah_from_wc(3)`: 0 with the way back to a datagram's sender; -1 with `EINVAL` (not an open
/// device, no such port, or the datagram was sent to none of its GIDs).
///
/// # Safety
/// `wc` is readable, `attr` writable; `grh` is the 40 bytes before the datagram if `wc` says that there are
/// any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_init_ah_from_wc(
    context: *mut ibv_context,
    port: u8,
    wc: *mut ibv_wc,
    grh: *mut ibv_grh,
    attr: *mut ibv_ah_attr,
) -> c_int {
    guard::or_minus_one(|| {
        let engine = CONTEXTS.parent(context)?;
        // SAFETY: the caller vouches for the completion and the header it announces.
        let back = unsafe { way_back(&engine, port, &*wc, grh.cast()) }?;
        // SAFETY: the caller's place is writable.
        unsafe { attr.write(back) };
        Ok(0)
    })
}

/// `ibv_create_ah_from_wc(3)`: the two calls above in one; NULL with the errno of either.
///
/// # Safety
/// As for [`nonic_ibv_init_ah_from_wc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_create_ah_from_wc(
    pd: *mut ibv_pd,
    wc: *mut ibv_wc,
    grh: *mut ibv_grh,
    port: u8,
) -> *mut ibv_ah {
    guard::or_null(|| {
        ZONES.parent(pd)?;
        // SAFETY: the domain was found; the caller vouches for the completion and the header it announces.
        let back = unsafe { way_back(&*CONTEXTS.parent((*pd).context)?, port, &*wc, grh.cast()) }?;
        create(pd, &back)
    })
}

/// # Safety
/// `header` is readable if `wc` announces one.
unsafe fn way_back(
    context: &Context,
    port: u8,
    wc: &ibv_wc,
    header: *const [u8; 40],
) -> Result<ibv_ah_attr, Errno> {
    if u32::from(port) != PORT {
        return Err(Errno::EINVAL);
    }
    let mut attr = convert::from_vector(None);
    attr.dlid = wc.slid;
    attr.sl = wc.sl;
    attr.src_path_bits = wc.dlid_path_bits;
    attr.port_num = port;
    if wc.wc_flags & IBV_WC_GRH != 0 {
        // SAFETY: the completion announces the header; it is bytes, so any alignment will do.
        let route = Route::read(&unsafe { header.read_unaligned() });
        let table = context.gid_table();
        let own = table.iter().find(|entry| entry.gid == route.destination).ok_or(Errno::EINVAL)?;
        attr.is_global = 1;
        attr.grh = ibv_global_route {
            dgid: ibv_gid { raw: route.source },
            flow_label: route.flow_label,
            sgid_index: own.index.try_into().map_err(|_| Errno::EINVAL)?,
            // The way a packet came says nothing about how far its sender is: as far as it takes.
            hop_limit: u8::MAX,
            traffic_class: route.traffic_class,
        };
    }
    Ok(attr)
}

/// What the 40 bytes before a datagram say: a global routing header, or 20 undefined bytes and an IPv4 header
/// (IBTA vol. 1, annex A17).
#[derive(Debug, PartialEq, Eq)]
struct Route {
    source: [u8; 16],
    destination: [u8; 16],
    flow_label: u32,
    traffic_class: u8,
}

impl Route {
    fn read(header: &[u8; 40]) -> Self {
        if let Some(route) = Self::of_ipv4(header) {
            return route;
        }
        let words = u32::from_be_bytes([header[0], header[1], header[2], header[3]]);
        let gid = |at: usize| core::array::from_fn(|i| header[at + i]);
        Self {
            source: gid(8),
            destination: gid(24),
            flow_label: words & 0xf_ffff,
            traffic_class: (words >> 20) as u8,
        }
    }

    /// The second half may look like IPv4 by accident, so its checksum has to fit too.
    fn of_ipv4(header: &[u8; 40]) -> Option<Self> {
        let ipv4 = &header[20..];
        let sum: u32 = ipv4.chunks_exact(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
        let folded = (sum & 0xffff) + (sum >> 16);
        if ipv4[0] != 0x45 || (folded & 0xffff) + (folded >> 16) != 0xffff {
            return None;
        }
        let mapped = |at: usize| {
            let mut gid = [0; 16];
            gid[10..12].fill(0xff);
            gid[12..].copy_from_slice(&ipv4[at..at + 4]);
            gid
        };
        Some(Self { source: mapped(12), destination: mapped(16), flow_label: 0, traffic_class: ipv4[1] })
    }
}

/// `ibv_resolve_eth_l2_from_gid(3)`: 0, the Ethernet address of who has the path's destination GID, and no VLAN (0xffff). -1 with
/// `EINVAL` (not an open device, no such port or source GID, no global route), `EOPNOTSUPP` (an InfiniBand port), `EHOSTUNREACH` (the system
/// knows no neighbour of that address).
///
/// # Safety
/// `attr` is readable; `mac` is writable for 6 bytes; `vlan` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_resolve_eth_l2_from_gid(
    context: *mut ibv_context,
    attr: *mut ibv_ah_attr,
    mac: *mut u8,
    vlan: *mut u16,
) -> c_int {
    guard::or_minus_one(|| {
        let engine = working(context)?;
        // SAFETY: the caller's attributes are readable.
        let vector = convert::to_vector(unsafe { &*attr });
        let gids = engine.gid_table();
        let route = vector.global.filter(|route| {
            vector.port == 1 && gids.iter().any(|own| own.index == u32::from(route.source_index))
        });
        let address = engine.ethernet_address(route.ok_or(Errno::EINVAL)?.destination)?;
        // SAFETY: the caller's places are writable.
        unsafe {
            mac.cast::<[u8; 6]>().write(address);
            if !vlan.is_null() {
                vlan.write(NO_VLAN);
            }
        }
        Ok(0)
    })
}

/// What stands for a frame without a VLAN.
const NO_VLAN: u16 = 0xffff;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_global_routing_header_names_both_ends() {
        let mut header = [0u8; 40];
        header[..4].copy_from_slice(&0x61_2a_bc_deu32.to_be_bytes());
        header[8..24].fill(1);
        header[24..].fill(2);
        let expected =
            Route { source: [1; 16], destination: [2; 16], flow_label: 0xa_bcde, traffic_class: 0x12 };
        assert_eq!(Route::read(&header), expected);
    }

    #[test]
    fn an_ipv4_header_in_the_second_half_names_mapped_addresses() {
        let mut header = [0x60u8; 40];
        // 192.168.0.1 to 192.168.0.199, the checksum example of many text books.
        header[20..].copy_from_slice(&[
            0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0x00, 0x01,
            0xc0, 0xa8, 0x00, 0xc7,
        ]);
        let route = Route::read(&header);
        assert_eq!(route.source, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 168, 0, 1]);
        assert_eq!(route.destination, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 168, 0, 199]);
        header[39] ^= 1;
        assert_ne!(Route::read(&header).source, route.source, "a wrong checksum is no IPv4 header");
    }
}
