//! Names and services as addresses.

use core::ffi::{c_char, c_int};
use core::ptr;

use libc::{addrinfo, sockaddr, sockaddr_in6, socklen_t};
use nonic_rdma_cm::PortSpace;
use nonic_verbs::abi::{IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_RECV, IBV_QPT_XRC_SEND};
use nonic_verbs::errno::Errno;
use nonic_verbs::guard;

use crate::abi::{AF_IB, RAI_FAMILY, RAI_NUMERICHOST, RAI_PASSIVE, rdma_addrinfo, sockaddr_ib};
use crate::devices;

const TCP: c_int = PortSpace::Tcp as c_int;
const UDP: c_int = PortSpace::Udp as c_int;
const IPOIB: c_int = PortSpace::Ipoib as c_int;

/// `rdma_getaddrinfo(3)`: 0; -1 with `EINVAL` (neither name nor service nor hints), `ENODEV`, `ENOMEM`; or a code of
/// `getaddrinfo(3)`, for `gai_strerror(3)`.
pub(crate) unsafe extern "C-unwind" fn rdma_getaddrinfo(
    node: *const c_char,
    service: *const c_char,
    hints: *const rdma_addrinfo,
    res: *mut *mut rdma_addrinfo,
) -> c_int {
    guard::or_minus_one(|| {
        if (node.is_null() && service.is_null() && hints.is_null()) || res.is_null() {
            return Err(Errno::EINVAL);
        }
        // SAFETY: the program's texts and hints are what the manual page asks for, and its place is writable.
        unsafe {
            match look_up(node, service, hints.as_ref())? {
                Ok(found) => res.write(found.into_raw()),
                Err(code) => return Ok(code),
            }
        }
        Ok(0)
    })
}

/// Looks a name and a service up: what there is, or the code that the C library gives.
///
/// # Safety
/// The texts are NULL or end, and what the hints point to is readable.
pub(super) unsafe fn look_up(
    node: *const c_char,
    service: *const c_char,
    hints: Option<&rdma_addrinfo>,
) -> Result<Result<AddressInfo, c_int>, Errno> {
    devices::check_any()?;
    let found = AddressInfo(zeroed()?);
    // SAFETY: of hints that are none every member is 0; the caller answers for the rest, and the list was allocated just now.
    let code = unsafe {
        let none: rdma_addrinfo = core::mem::zeroed();
        fill(found.0, node, service, hints.unwrap_or(&none), hints.is_none())?
    };
    Ok(if code == 0 { Ok(found) } else { Err(code) })
}

/// A list of one entry, which is the program's to give back once it has it.
#[derive(Debug)]
pub(crate) struct AddressInfo(*mut rdma_addrinfo);

// SAFETY: nobody else has the list.
unsafe impl Send for AddressInfo {}

impl AddressInfo {
    /// Copies hints, or what was found: flags, kinds, addresses and their names.
    ///
    /// # Safety
    /// What it points to is readable.
    pub(super) unsafe fn copy(from: &rdma_addrinfo) -> Result<Self, Errno> {
        let new = Self(zeroed::<rdma_addrinfo>()?);
        // SAFETY: the entry was allocated just now; the caller answers for the rest.
        unsafe {
            let out = &mut *new.0;
            (out.ai_flags, out.ai_family) = (from.ai_flags, from.ai_family);
            (out.ai_qp_type, out.ai_port_space) = (from.ai_qp_type, from.ai_port_space);
            (out.ai_src_addr, out.ai_src_len) = copy(from.ai_src_addr, from.ai_src_len)?;
            (out.ai_dst_addr, out.ai_dst_len) = copy(from.ai_dst_addr, from.ai_dst_len)?;
            out.ai_src_canonname = copy_text(from.ai_src_canonname)?;
            out.ai_dst_canonname = copy_text(from.ai_dst_canonname)?;
        }
        Ok(new)
    }

    /// The entry.
    pub(super) fn entry(&self) -> &rdma_addrinfo {
        // SAFETY: it is this value's own.
        unsafe { &*self.0 }
    }

    /// For the program, and its to give back.
    pub(super) fn into_raw(self) -> *mut rdma_addrinfo {
        core::mem::ManuallyDrop::new(self).0
    }
}

impl Drop for AddressInfo {
    fn drop(&mut self) {
        // SAFETY: the list is this value's own.
        unsafe { free(self.0) };
    }
}

/// # Safety
/// As for [`rdma_getaddrinfo`]; `out` is zeros.
unsafe fn fill(
    out: *mut rdma_addrinfo,
    node: *const c_char,
    service: *const c_char,
    hints: &rdma_addrinfo,
    no_hints: bool,
) -> Result<c_int, Errno> {
    // SAFETY: the caller says so.
    unsafe {
        if node.is_null() && service.is_null() {
            (*out).ai_flags = hints.ai_flags;
            (*out).ai_family = hints.ai_family;
            (*out).ai_qp_type = hints.ai_qp_type;
            (*out).ai_port_space = hints.ai_port_space;
            ((*out).ai_dst_addr, (*out).ai_dst_len) = copy(hints.ai_dst_addr, hints.ai_dst_len)?;
        } else {
            let c_hints = to_c(hints);
            let c_hints = if no_hints { ptr::null() } else { &raw const c_hints };
            let mut first = ptr::null_mut();
            let code = libc::getaddrinfo(node, service, c_hints, &raw mut first);
            if code != 0 {
                return Ok(code);
            }
            let converted = from_c(out, hints, &*first);
            libc::freeaddrinfo(first);
            converted?;
        }
        if (*out).ai_src_len == 0 && hints.ai_src_len != 0 {
            ((*out).ai_src_addr, (*out).ai_src_len) = copy(hints.ai_src_addr, hints.ai_src_len)?;
        }
    }
    Ok(0)
}

/// What the C library is asked for.
fn to_c(hints: &rdma_addrinfo) -> addrinfo {
    let has = |flag, theirs| if hints.ai_flags & flag != 0 { theirs } else { 0 };
    let ai_socktype = match hints.ai_qp_type {
        IBV_QPT_RC | IBV_QPT_UC | IBV_QPT_XRC_SEND | IBV_QPT_XRC_RECV => libc::SOCK_STREAM,
        IBV_QPT_UD => libc::SOCK_DGRAM,
        _ => 0,
    };
    let ai_protocol = match (hints.ai_port_space, ai_socktype) {
        (TCP, _) => libc::IPPROTO_TCP,
        (UDP | IPOIB, _) => libc::IPPROTO_UDP,
        (0, _) => 0,
        (_, libc::SOCK_STREAM) => libc::IPPROTO_TCP,
        (_, libc::SOCK_DGRAM) => libc::IPPROTO_UDP,
        _ => 0,
    };
    addrinfo {
        ai_flags: has(RAI_PASSIVE, libc::AI_PASSIVE) | has(RAI_NUMERICHOST, libc::AI_NUMERICHOST),
        // A GID is written as an IPv6 address.
        ai_family: if hints.ai_family == AF_IB { libc::AF_INET6 } else { hints.ai_family },
        ai_socktype,
        ai_protocol,
        ai_addrlen: 0,
        ai_addr: ptr::null_mut(),
        ai_canonname: ptr::null_mut(),
        ai_next: ptr::null_mut(),
    }
}

/// # Safety
/// `out` is writable; what `found` points to is readable.
unsafe fn from_c(out: *mut rdma_addrinfo, hints: &rdma_addrinfo, found: &addrinfo) -> Result<(), Errno> {
    // SAFETY: the caller says so.
    unsafe {
        (*out).ai_qp_type = match (hints.ai_qp_type, found.ai_socktype) {
            (0, libc::SOCK_STREAM) => IBV_QPT_RC,
            (0, libc::SOCK_DGRAM) => IBV_QPT_UD,
            (asked, _) => asked,
        };
        (*out).ai_port_space = match (hints.ai_port_space, found.ai_protocol) {
            (0, libc::IPPROTO_TCP) => TCP,
            (0, libc::IPPROTO_UDP) => UDP,
            (asked, _) => asked,
        };
        let as_gid = hints.ai_flags & RAI_FAMILY != 0
            && hints.ai_family == AF_IB
            && hints.ai_flags & RAI_NUMERICHOST != 0;
        let address = if as_gid {
            (*out).ai_family = AF_IB;
            gid_address(found.ai_addr.cast(), (*out).ai_port_space)?
        } else {
            (*out).ai_family = found.ai_family;
            copy(found.ai_addr, found.ai_addrlen)?
        };
        let name = copy_text(found.ai_canonname)?;
        if hints.ai_flags & RAI_PASSIVE != 0 {
            (*out).ai_flags = RAI_PASSIVE;
            (*out).ai_src_canonname = name;
            ((*out).ai_src_addr, (*out).ai_src_len) = address;
        } else {
            (*out).ai_dst_canonname = name;
            ((*out).ai_dst_addr, (*out).ai_dst_len) = address;
        }
    }
    Ok(())
}

/// An IPv6 address and a port as address of InfiniBand: GID, and the service of the port.
///
/// # Safety
/// `address` is readable.
unsafe fn gid_address(
    address: *const sockaddr_in6,
    space: c_int,
) -> Result<(*mut sockaddr, socklen_t), Errno> {
    let out = zeroed::<sockaddr_ib>()?;
    // SAFETY: the caller says so; `out` was allocated just now.
    unsafe {
        let port = u16::from_be((*address).sin6_port);
        out.write(sockaddr_ib {
            sib_family: AF_IB as u16,
            sib_pkey: 0xffff,
            sib_flowinfo: (*address).sin6_flowinfo,
            sib_addr: (*address).sin6_addr.s6_addr,
            sib_sid: ((space as u64) << 16 | u64::from(port)).to_be(),
            sib_sid_mask: u64::MAX,
            sib_scope_id: (*address).sin6_scope_id.into(),
        });
    }
    Ok((out.cast(), size_of::<sockaddr_ib>() as socklen_t))
}

/// # Safety
/// `address` leads to `length` bytes.
unsafe fn copy(address: *const sockaddr, length: socklen_t) -> Result<(*mut sockaddr, socklen_t), Errno> {
    if address.is_null() || length == 0 {
        return Ok((ptr::null_mut(), 0));
    }
    // SAFETY: malloc takes any size, and the result is checked; the caller says how long the address is.
    unsafe {
        let out = libc::malloc(length as usize);
        if out.is_null() {
            return Err(Errno::ENOMEM);
        }
        out.copy_from_nonoverlapping(address.cast(), length as usize);
        Ok((out.cast(), length))
    }
}

/// # Safety
/// `text` is NULL or ends.
unsafe fn copy_text(text: *const c_char) -> Result<*mut c_char, Errno> {
    if text.is_null() {
        return Ok(ptr::null_mut());
    }
    // SAFETY: the caller says so; the result is checked.
    let new = unsafe { libc::strdup(text) };
    if new.is_null() { Err(Errno::ENOMEM) } else { Ok(new) }
}

/// Zeros of the C library's, which `rdma_freeaddrinfo` gives back to it.
fn zeroed<T>() -> Result<*mut T, Errno> {
    // SAFETY: calloc takes any sizes; the result is checked.
    let place = unsafe { libc::calloc(1, size_of::<T>()) };
    if place.is_null() { Err(Errno::ENOMEM) } else { Ok(place.cast()) }
}

/// `rdma_freeaddrinfo(3)`.
pub(crate) unsafe extern "C-unwind" fn rdma_freeaddrinfo(res: *mut rdma_addrinfo) {
    // SAFETY: the program's promise is the same.
    unsafe { free(res) };
}

/// # Safety
/// `list` came from [`rdma_getaddrinfo`], or is NULL.
unsafe fn free(mut list: *mut rdma_addrinfo) {
    while !list.is_null() {
        // SAFETY: the caller says so: the entry and all it points to came from malloc, or is NULL, which free ignores.
        unsafe {
            let info = list.read();
            let parts = [
                info.ai_src_addr.cast(),
                info.ai_dst_addr.cast(),
                info.ai_src_canonname.cast(),
                info.ai_dst_canonname.cast(),
                info.ai_route,
                info.ai_connect,
                list.cast(),
            ];
            parts.into_iter().for_each(|part| libc::free(part));
            list = info.ai_next;
        }
    }
}
