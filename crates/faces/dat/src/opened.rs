//! An interface adapter that a program has opened, with what the interface wants to lie in memory: addresses, agents, cookies.

use core::cell::UnsafeCell;
use core::mem::size_of;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nonic_dat::{DatResult, HandleKind, InterfaceAdapter, Mark};

use crate::calls::{Handle, ProxyAgent, RegionDescription};
use crate::handles::{self, Object, ObjectKind};
use crate::version::Version;

/// Memory that programs read and may write.
struct AddressRoom(Box<UnsafeCell<libc::sockaddr_storage>>);

// SAFETY: the library writes it once, before anybody else knows of it, and never reads it.
unsafe impl Send for AddressRoom {}
// SAFETY: as above.
unsafe impl Sync for AddressRoom {}

impl AddressRoom {
    fn new(address: SocketAddr) -> Self {
        // SAFETY: plain numbers, of which zero is a value.
        let mut storage: libc::sockaddr_storage = unsafe { core::mem::zeroed() };
        let place = &raw mut storage;
        match address {
            SocketAddr::V4(v4) => {
                let address = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: v4.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) },
                    sin_zero: [0; 8],
                };
                const { assert!(size_of::<libc::sockaddr_in>() <= size_of::<libc::sockaddr_storage>()) };
                // SAFETY: the storage is large enough (above) and aligned for every address.
                unsafe { place.cast::<libc::sockaddr_in>().write(address) };
            }
            SocketAddr::V6(v6) => {
                let address = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: v6.port().to_be(),
                    sin6_flowinfo: v6.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                    sin6_scope_id: v6.scope_id(),
                };
                const { assert!(size_of::<libc::sockaddr_in6>() <= size_of::<libc::sockaddr_storage>()) };
                // SAFETY: as above.
                unsafe { place.cast::<libc::sockaddr_in6>().write(address) };
            }
        }
        Self(Box::new(UnsafeCell::new(storage)))
    }

    fn place(&self) -> usize {
        self.0.get().expose_provenance()
    }
}

/// What a handle of an interface adapter stands for.
pub(crate) struct Opened {
    /// The adapter.
    pub(crate) adapter: Arc<InterfaceAdapter>,
    /// What the program calls it, as the registry of its version numbers adapters; 0 as long as nobody knows.
    pub(crate) number: AtomicUsize,
    own_address: AddressRoom,
    /// Addresses of peers, each once.
    peers: Mutex<HashMap<SocketAddr, AddressRoom>>,
    notes: Mutex<Notes>,
}

/// What programs gave and can ask for again.
#[derive(Default)]
struct Notes {
    /// By the handle of a notification object.
    agents: HashMap<Handle, ProxyAgent>,
    /// By the handle of a local region.
    descriptions: HashMap<Handle, RegionDescription>,
}

impl Object for Opened {
    const KIND: ObjectKind = ObjectKind::InterfaceAdapter;

    fn mark(&self) -> &Mark {
        self.adapter.mark()
    }
}

impl Opened {
    pub(crate) fn new(adapter: Arc<InterfaceAdapter>) -> Self {
        let own_address = AddressRoom::new(adapter.address());
        Self {
            adapter,
            number: AtomicUsize::new(0),
            own_address,
            peers: Mutex::default(),
            notes: Mutex::default(),
        }
    }

    /// Where the adapter's own address lies. It stays as long as the adapter is open, and may be written to.
    pub(crate) fn own_address(&self) -> usize {
        self.own_address.place()
    }

    /// Where this address lies. It stays as long as the adapter is open.
    pub(crate) fn address(&self, address: SocketAddr) -> usize {
        if address == self.adapter.address() {
            return self.own_address();
        }
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        peers.entry(address).or_insert_with(|| AddressRoom::new(address)).place()
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes or forgets the agent of a notification object.
    pub(crate) fn note_agent(&self, object: Handle, agent: Option<ProxyAgent>) {
        let agents = &mut self.notes().agents;
        match agent {
            Some(agent) => agents.insert(object, agent),
            None => agents.remove(&object),
        };
    }

    /// The agent of a notification object that has not been called yet.
    pub(crate) fn agent(&self, object: Handle) -> Option<ProxyAgent> {
        self.notes().agents.get(&object).copied()
    }

    /// Notes or forgets how a local region was described.
    pub(crate) fn note_description(&self, region: Handle, description: Option<RegionDescription>) {
        let descriptions = &mut self.notes().descriptions;
        match description {
            Some(description) => descriptions.insert(region, description),
            None => descriptions.remove(&region),
        };
    }

    /// How a local region was described, if that was noted.
    pub(crate) fn description(&self, region: Handle) -> Option<RegionDescription> {
        self.notes().descriptions.get(&region).copied()
    }

    /// What the program calls the adapter; its handle, if no registry has given it a number.
    pub(crate) fn shown(&self) -> Handle {
        match self.number.load(Ordering::Relaxed) {
            0 => self.mark().get(),
            number => number,
        }
    }
}

/// The adapter behind what a program passes for one.
pub(crate) fn opened<V: Version>(handle: Handle) -> DatResult<Arc<Opened>> {
    let found = handles::find(V::NUMBERING, handles::real_adapter(handle));
    found.map_err(|wrong| wrong.named(HandleKind::InterfaceAdapter))
}

/// The adapter that a living object belongs to.
pub(crate) fn opened_of<V: Version>(object: Handle) -> DatResult<Arc<Opened>> {
    let found = handles::find(V::NUMBERING, handles::adapter_of(object));
    found.map_err(|wrong| wrong.named(HandleKind::InterfaceAdapter))
}
