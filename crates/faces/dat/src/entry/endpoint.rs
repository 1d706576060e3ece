//! Endpoints: what is not posting.

use core::ffi::c_void;
use core::mem::size_of;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use nonic_dat::{
    DatError, DatResult, Endpoint, EndpointChange, EndpointSetup, EndpointState, EventDispatcher, HandleKind,
    Kind, ProtectionZone, SharedReceiveQueue, Subtype, forbidden_by,
};

use crate::calls::{Count, Handle, Return};
use crate::entry::{
    fetch, find, find_if_given, hand_out, private_data, room, room_if_given, shown, shown_adapter, timeout,
};
use crate::guard::answer;
use crate::handles;
use crate::opened::{opened, opened_of};
use crate::version::{AttributesWanted, EndpointWords, SetupWords, Version};

/// Members that are changed in no state: adapter, state, addresses, ports, shared receive queue, and what 1.2 has not.
const NEVER_CHANGED: u64 = 0x3f | 1 << 10 | 1 << 11;
/// Members about transport and provider, of which there are none.
const SPECIFIC: u64 = 0xf << 27;

/// Handles of zone and dispatchers, looked up.
fn setup<V: Version>([zone, receive, request, connect]: [Handle; 4]) -> DatResult<EndpointSetup> {
    Ok(EndpointSetup {
        zone: find_if_given::<V, ProtectionZone>(zone, HandleKind::ProtectionZone)?,
        receive: find_if_given::<V, EventDispatcher>(receive, HandleKind::ReceiveDispatcher)?,
        request: find_if_given::<V, EventDispatcher>(request, HandleKind::RequestDispatcher)?,
        connect: find_if_given::<V, EventDispatcher>(connect, HandleKind::ConnectionDispatcher)?,
        shared_receives: None,
        attributes: None,
    })
}

/// Attributes of transport or provider would be ones that this provider does not have.
fn known_attributes(wanted: AttributesWanted, argument: u8) -> DatResult<nonic_dat::EndpointAttributes> {
    if wanted.specific == (0, 0) { Ok(wanted.common) } else { Err(DatError::argument(argument)) }
}

/// # Safety
/// As in C: pointers are NULL or lead to what the call expects.
pub(crate) unsafe extern "C" fn ep_create<V: Version>(
    ia: Handle,
    pz: Handle,
    recv_evd: Handle,
    request_evd: Handle,
    connect_evd: Handle,
    attributes: *const c_void,
    ep: *mut Handle,
) -> Return {
    answer(V::NUMBERING, || {
        let opened = opened::<V>(ia)?;
        let mut setup = setup::<V>([pz, recv_evd, request_evd, connect_evd])?;
        let ep = room::<Handle>(ep.cast(), 7)?;
        if !attributes.is_null() {
            let wanted = V::endpoint_attributes(&fetch(attributes, 6)?);
            setup.attributes = Some(known_attributes(wanted, 6)?);
        }
        let endpoint = Endpoint::create(&opened.adapter, setup)?;
        ep.store(hand_out::<V, _>(ia, &endpoint, |endpoint| endpoint.free())?);
        Ok(())
    })
}

/// # Safety
/// As in C: pointers are NULL or lead to what the call expects.
pub(crate) unsafe extern "C" fn ep_create_with_srq<V: Version>(
    ia: Handle,
    pz: Handle,
    recv_evd: Handle,
    request_evd: Handle,
    connect_evd: Handle,
    srq: Handle,
    attributes: *const c_void,
    ep: *mut Handle,
) -> Return {
    answer(V::NUMBERING, || {
        let opened = opened::<V>(ia)?;
        let mut setup = setup::<V>([pz, recv_evd, request_evd, connect_evd])?;
        setup.shared_receives = Some(find::<V, SharedReceiveQueue>(srq, HandleKind::SharedReceiveQueue)?);
        let wanted = V::endpoint_attributes(&fetch(attributes, 7)?);
        setup.attributes = Some(known_attributes(wanted, 7)?);
        let ep = room::<Handle>(ep.cast(), 8)?;
        let endpoint = Endpoint::create(&opened.adapter, setup)?;
        ep.store(hand_out::<V, _>(ia, &endpoint, |endpoint| endpoint.free())?);
        Ok(())
    })
}

/// # Safety
/// As in C: pointers are NULL or lead to what the call expects.
pub(crate) unsafe extern "C" fn ep_query<V: Version>(ep: Handle, mask: u64, param: *mut c_void) -> Return {
    answer(V::NUMBERING, || {
        let endpoint = find::<V, Endpoint>(ep, HandleKind::Endpoint)?;
        V::endpoint_mask(mask).ok_or(DatError::argument(2))?;
        let param = room(param, 3)?;
        let opened = opened_of::<V>(ep)?;
        let facts = endpoint.facts()?;
        param.store(V::ep_param(&EndpointWords {
            adapter: shown_adapter::<V>(ep)?,
            state: facts.state,
            local: (opened.own_address(), facts.local_port),
            remote: facts.remote.map_or((0, 0), |(address, port)| (opened.address(address), port)),
            zone: shown::<V, _>(ep, facts.zone.as_ref()),
            receive: shown::<V, _>(ep, facts.receive.as_ref()),
            request: shown::<V, _>(ep, facts.request.as_ref()),
            connect: shown::<V, _>(ep, facts.connect.as_ref()),
            shared_receives: shown::<V, _>(ep, facts.shared_receives.as_ref()),
            attributes: facts.attributes,
        }));
        Ok(())
    })
}

/// # Safety
/// As in C: pointers are NULL or lead to what the call expects.
pub(crate) unsafe extern "C" fn ep_modify<V: Version>(ep: Handle, mask: u64, param: *const c_void) -> Return {
    answer(V::NUMBERING, || {
        let endpoint = find::<V, Endpoint>(ep, HandleKind::Endpoint)?;
        let mask = V::endpoint_mask(mask).filter(|mask| mask & NEVER_CHANGED == 0);
        let mask = mask.ok_or(DatError::argument(2))?;
        let words = V::setup_words(&fetch(param, 3)?);
        if mask & SPECIFIC != 0 {
            if endpoint.state() != EndpointState::Unconnected {
                return Err(DatError::state(Subtype::State(forbidden_by(endpoint.state()))));
            }
            known_attributes(words.attributes, 3)?;
        }
        endpoint.modify(change::<V>(mask, &words)?)
    })
}

/// The members that a mask (in the bits of 1.2) selects.
fn change<V: Version>(mask: u64, words: &SetupWords) -> DatResult<EndpointChange> {
    let chosen = |bit: u32| mask & 1 << bit != 0;
    let handle = |bit: u32, handle: Handle| if chosen(bit) { handle } else { 0 };
    let wanted = setup::<V>([
        handle(6, words.zone),
        handle(7, words.receive),
        handle(8, words.request),
        handle(9, words.connect),
    ])?;
    let attributes = &words.attributes.common;
    Ok(EndpointChange {
        zone: chosen(6).then_some(wanted.zone),
        receive: chosen(7).then_some(wanted.receive),
        request: chosen(8).then_some(wanted.request),
        connect: chosen(9).then_some(wanted.connect),
        service_type: chosen(12).then_some(attributes.service_type),
        max_message_size: chosen(13).then_some(attributes.max_message_size),
        max_rdma_size: chosen(14).then_some(attributes.max_rdma_size),
        qos: chosen(15).then_some(attributes.qos),
        receive_flags: chosen(16).then_some(attributes.receive_flags),
        request_flags: chosen(17).then_some(attributes.request_flags),
        max_receives: chosen(18).then_some(attributes.max_receives),
        max_requests: chosen(19).then_some(attributes.max_requests),
        max_receive_pieces: chosen(20).then_some(attributes.max_receive_pieces),
        max_request_pieces: chosen(21).then_some(attributes.max_request_pieces),
        max_reads_in: chosen(22).then_some(attributes.max_reads_in),
        max_reads_out: chosen(23).then_some(attributes.max_reads_out),
        shared_soft_watermark: chosen(24).then_some(attributes.shared_soft_watermark),
        max_read_pieces: chosen(25).then_some(attributes.max_read_pieces),
        max_write_pieces: chosen(26).then_some(attributes.max_write_pieces),
    })
}

/// # Safety
/// As in C: pointers are NULL or lead to what the call expects.
pub(crate) unsafe extern "C" fn ep_get_status<V: Version>(
    ep: Handle,
    state: *mut u32,
    recv_idle: *mut u32,
    request_idle: *mut u32,
) -> Return {
    answer(V::NUMBERING, || {
        let endpoint = find::<V, Endpoint>(ep, HandleKind::Endpoint)?;
        let (found, receives_idle, requests_idle) = endpoint.status()?;
        let words =
            [(state, found as u32), (recv_idle, receives_idle.into()), (request_idle, requests_idle.into())];
        for (place, word) in words {
            if let Some(room) = room_if_given(place) {
                room.store(word);
            }
        }
        Ok(())
    })
}

/// The address of a peer, as the program's structure says it.
fn peer_address(pointer: *const c_void) -> DatResult<SocketAddr> {
    let wrong = |subtype| DatError::new(Kind::InvalidAddress, subtype);
    if pointer.is_null() {
        return Err(wrong(Subtype::AddressMalformed));
    }
    let family = fetch::<libc::sa_family_t>(pointer, 2)?;
    match i32::from(family) {
        libc::AF_INET => {
            let address = fetch::<libc::sockaddr_in>(pointer, 2)?;
            let ip = Ipv4Addr::from(address.sin_addr.s_addr.to_ne_bytes());
            Ok((ip, u16::from_be(address.sin_port)).into())
        }
        libc::AF_INET6 => {
            const { assert!(size_of::<libc::sockaddr_in6>() == 28) };
            let address = fetch::<libc::sockaddr_in6>(pointer, 2)?;
            let ip = Ipv6Addr::from(address.sin6_addr.s6_addr);
            let port = u16::from_be(address.sin6_port);
            Ok(SocketAddrV6::new(ip, port, address.sin6_flowinfo, address.sin6_scope_id).into())
        }
        _ => Err(wrong(Subtype::AddressUnsupported)),
    }
}

/// # Safety
/// As in C: pointers are NULL or lead to what the call expects.
pub(crate) unsafe extern "C" fn ep_connect<V: Version>(
    ep: Handle,
    address: *const c_void,
    conn_qual: u64,
    microseconds: u32,
    size: Count,
    data: *const c_void,
    qos: u32,
    flags: u32,
) -> Return {
    answer(V::NUMBERING, || {
        let endpoint = find::<V, Endpoint>(ep, HandleKind::Endpoint)?;
        let address = peer_address(address)?;
        let data = private_data(size, data, (5, 6))?;
        endpoint.connect(address, conn_qual, timeout(microseconds), &data, qos, flags)
    })
}

/// # Safety
/// As in C: pointers are NULL or lead to what the call expects.
pub(crate) unsafe extern "C" fn ep_dup_connect<V: Version>(
    ep: Handle,
    dup_ep: Handle,
    microseconds: u32,
    size: Count,
    data: *const c_void,
    qos: u32,
) -> Return {
    answer(V::NUMBERING, || {
        let endpoint = find::<V, Endpoint>(ep, HandleKind::Endpoint)?;
        let other = find::<V, Endpoint>(dup_ep, HandleKind::Endpoint)?;
        let data = private_data(size, data, (4, 5))?;
        endpoint.duplicate_connect(&other, timeout(microseconds), &data, qos)
    })
}

/// # Safety
/// As in C.
pub(crate) unsafe extern "C" fn ep_disconnect<V: Version>(ep: Handle, flags: u32) -> Return {
    answer(V::NUMBERING, || {
        let endpoint = find::<V, Endpoint>(ep, HandleKind::Endpoint)?;
        match flags {
            0 => endpoint.disconnect(false),
            1 => endpoint.disconnect(true),
            _ => Err(DatError::argument(2)),
        }
    })
}

/// # Safety
/// As in C.
pub(crate) unsafe extern "C" fn ep_reset<V: Version>(ep: Handle) -> Return {
    answer(V::NUMBERING, || find::<V, Endpoint>(ep, HandleKind::Endpoint)?.reset())
}

/// # Safety
/// As in C.
pub(crate) unsafe extern "C" fn ep_free<V: Version>(ep: Handle) -> Return {
    answer(V::NUMBERING, || {
        find::<V, Endpoint>(ep, HandleKind::Endpoint)?.free()?;
        handles::remove::<Endpoint>(V::NUMBERING, ep);
        Ok(())
    })
}

/// # Safety
/// As in C: pointers are NULL or lead to what the call expects.
pub(crate) unsafe extern "C" fn ep_recv_query<V: Version>(
    ep: Handle,
    allocated: *mut Count,
    span: *mut Count,
) -> Return {
    answer(V::NUMBERING, || {
        let endpoint = find::<V, Endpoint>(ep, HandleKind::Endpoint)?;
        let allocated = room::<Count>(allocated.cast(), 2)?;
        let span = room::<Count>(span.cast(), 3)?;
        let (found_allocated, found_span) = endpoint.receive_query()?;
        allocated.store(found_allocated);
        span.store(found_span);
        Ok(())
    })
}

/// # Safety
/// As in C.
pub(crate) unsafe extern "C" fn ep_set_watermark<V: Version>(ep: Handle, soft: Count, hard: Count) -> Return {
    answer(V::NUMBERING, || find::<V, Endpoint>(ep, HandleKind::Endpoint)?.set_watermarks(soft, hard))
}
