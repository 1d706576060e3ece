//! Remote memory regions (RMR): contexts for parts of local regions that are given out and taken back by requests of an
//! endpoint.
//!
//! A bind is carried out by the engine, in its turn among the requests of the endpoint. What the region is bound to changes at
//! that moment, which the engine tells by the window's key; a successful completion may be suppressed, so it is no measure.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nonic_device::{Access, Key, MemoryWindow, Operation, WindowKind};

use crate::endpoint::Endpoint;
use crate::error::{AccessKind, DatError, DatResult, HandleKind, Kind, Resource, Subtype};
use crate::interface_adapter::InterfaceAdapter;
use crate::local_region::LocalRegion;
use crate::mark::Mark;
use crate::members::{Member, MemberKind, Membership};
use crate::protection_zone::ProtectionZone;
use crate::values::{CompletionFlags, Privileges, Segment};

/// A remote memory region (`dat_rmr_create`).
#[derive(Debug)]
pub struct RemoteRegion {
    mark: Mark,
    membership: Membership,
    zone: Arc<ProtectionZone>,
    window: Arc<MemoryWindow>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    freed: bool,
    /// What it is bound to.
    held: Binding,
    /// Binds under way, in the order in which they were posted.
    pending: Vec<Pending>,
}

/// What a bind leads to; all zero: nowhere.
#[derive(Clone, Debug)]
struct Binding {
    segment: Segment,
    privileges: Privileges,
    context: u32,
}

impl Binding {
    const NONE: Self = Self {
        segment: Segment { context: 0, address: 0, length: 0 },
        privileges: Privileges::NONE,
        context: 0,
    };
}

#[derive(Debug)]
struct Pending {
    key: Key,
    binding: Binding,
    /// Its region counts it until it is over.
    region: Option<Arc<LocalRegion>>,
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(region) = &self.region {
            region.binds.release();
        }
    }
}

/// What a remote region is (`DAT_RMR_PARAM`); unbound: all zero.
#[derive(Clone, Debug)]
pub struct RemoteRegionFacts {
    /// Its zone.
    pub zone: Arc<ProtectionZone>,
    /// What it is bound to.
    pub segment: Segment,
    /// What peers may do.
    pub privileges: Privileges,
    /// For peers.
    pub context: u32,
}

const REMOTE_REGION_HANDLE: DatError = DatError::handle(Subtype::Handle(HandleKind::RemoteRegion));

impl RemoteRegion {
    /// Makes a region that is bound to nothing. `INVALID_HANDLE|PZ`; `INSUFFICIENT_RESOURCES|MEMORY_REGION` if there are too
    /// many.
    pub fn create(zone: &Arc<ProtectionZone>) -> DatResult<Arc<Self>> {
        let adapter = zone.adapter();
        adapter.check_open()?;
        zone.hold(adapter)?;
        let window = zone.zone().allocate_window(WindowKind::Type1).map_err(|_| {
            zone.release();
            DatError::resources(Subtype::Resource(Resource::MemoryRegion))
        })?;
        let created = Arc::new(Self {
            mark: Mark::default(),
            membership: Membership::new(MemberKind::RemoteRegion),
            zone: Arc::clone(zone),
            window,
            state: Mutex::new(State { freed: false, held: Binding::NONE, pending: Vec::new() }),
        });
        adapter.join(&created)?;
        Ok(created)
    }

    /// The face's word.
    pub fn mark(&self) -> &Mark {
        &self.mark
    }

    /// Its adapter.
    pub fn adapter(&self) -> &Arc<InterfaceAdapter> {
        self.zone.adapter()
    }

    /// What it is, after the last bind that was carried out.
    pub fn facts(&self) -> RemoteRegionFacts {
        let mut state = self.lock();
        self.settle(&mut state);
        let Binding { segment, privileges, context } = state.held.clone();
        RemoteRegionFacts { zone: Arc::clone(&self.zone), segment, privileges, context }
    }

    /// Posts a bind to `segment`, or an unbind if its length is 0, to an endpoint; returns the context that peers may use once
    /// it is done, 0 for an unbind. The bind waits for everything posted on the endpoint before, and everything posted after
    /// waits for it. The old context is dead when it is done. Only the remote ones of the privileges count.
    ///
    /// Errors, in the order of the checks: `INVALID_HANDLE|RMR`; `INVALID_PARAMETER|ARG2` for an unknown context;
    /// `INVALID_STATE` unless the endpoint is connected or disconnected; `MODEL_NOT_SUPPORTED` if the dispatcher of its requests
    /// takes no completions of binds; `INVALID_PARAMETER|ARG2` for bytes outside the local
    /// region; `PROTECTION_VIOLATION` if remote region, local region and endpoint are not of one zone; `PRIVILEGES_VIOLATION`
    /// for remote read where the local region has no local read, and for remote write where it has no local write; `INVALID_PARAMETER|ARG6` for `UNSIGNALLED` on an endpoint
    /// that is not configured for it; `INSUFFICIENT_RESOURCES` if the endpoint's queue is full.
    pub fn bind(
        self: &Arc<Self>,
        segment: Segment,
        privileges: Privileges,
        endpoint: &Arc<Endpoint>,
        cookie: u64,
        flags: CompletionFlags,
    ) -> DatResult<u32> {
        if self.lock().freed {
            return Err(REMOTE_REGION_HANDLE);
        }
        let wants_bytes = segment.length > 0;
        let region = if wants_bytes { self.adapter().regions.find(segment.context) } else { None };
        if wants_bytes && region.is_none() {
            return Err(DatError::argument(2));
        }
        endpoint.check_can_request()?;
        endpoint.check_takes_binds()?;
        let (same_zone, silent_allowed) = {
            let core = endpoint.core();
            (
                core.setup.zone.as_ref().is_some_and(|zone| Arc::ptr_eq(zone, &self.zone)),
                core.attributes.request_flags & CompletionFlags::UNSIGNALLED.bits() != 0,
            )
        };
        if let Some(region) = &region {
            self.judge(region, &segment, privileges)?;
        }
        if !same_zone {
            return Err(protection(privileges));
        }
        let not_for_binds = CompletionFlags::SOLICITED_WAIT | CompletionFlags::EVD_THRESHOLD;
        let silent = flags.contains(CompletionFlags::UNSIGNALLED);
        if flags.intersects(not_for_binds) || (silent && !silent_allowed) {
            return Err(DatError::argument(6));
        }
        self.post(region, &segment, privileges, endpoint, cookie, flags)
    }

    /// Whether the local region allows it.
    fn judge(&self, region: &LocalRegion, segment: &Segment, privileges: Privileges) -> DatResult<()> {
        if !region.holds(segment.address, segment.length) {
            return Err(DatError::argument(2));
        }
        if !Arc::ptr_eq(region.zone(), &self.zone) {
            return Err(protection(privileges));
        }
        let writes = Privileges::REMOTE_WRITE | Privileges::REMOTE_ATOMIC;
        for (remote, local, missing) in [
            (Privileges::REMOTE_READ, Privileges::LOCAL_READ, AccessKind::RdmaRead),
            (writes, Privileges::LOCAL_WRITE, AccessKind::RdmaWrite),
        ] {
            if privileges.intersects(remote) && !region.privileges().contains(local) {
                return Err(DatError::new(Kind::PrivilegesViolation, Subtype::Privileges(missing)));
            }
        }
        Ok(())
    }

    fn post(
        self: &Arc<Self>,
        region: Option<Arc<LocalRegion>>,
        segment: &Segment,
        privileges: Privileges,
        endpoint: &Arc<Endpoint>,
        cookie: u64,
        flags: CompletionFlags,
    ) -> DatResult<u32> {
        // The region cannot be freed from here on until the bind is over.
        if region.as_ref().is_some_and(|region| !region.binds.acquire()) {
            return Err(DatError::argument(2));
        }
        let key = self.window.next_key();
        let binding = match &region {
            Some(_) => Binding { segment: *segment, privileges, context: key.0 },
            None => Binding::NONE,
        };
        let operation = Operation::Bind {
            window: self.window.id(),
            key,
            region: region.as_ref().map(|region| region.window_key()),
            address: if region.is_some() { segment.address } else { 0 },
            length: if region.is_some() { segment.length } else { 0 },
            access: privileges.access() & Access::REMOTE,
            zero_based: false,
        };
        let context = binding.context;
        {
            let mut state = self.lock();
            self.settle(&mut state);
            state.pending.push(Pending { key, binding, region });
        }
        // Not under the lock: its completion may be shown before this returns.
        let posted = endpoint.post_bind(self, operation, cookie, flags);
        if posted.is_err() {
            self.window.take_back(key);
            self.forget(key);
        }
        posted.map(|()| context)
    }

    /// Takes a bind that is over out of those under way.
    fn forget(&self, key: Key) {
        let mut state = self.lock();
        self.settle(&mut state);
        let place = state.pending.iter().position(|pending| pending.key == key);
        let over = place.map(|place| state.pending.remove(place));
        drop(state);
        // A region may go with it: not under the lock.
        drop(over);
    }

    /// A bind of this key ended: its completion is about to be shown, or never will be.
    pub(crate) fn bind_completed(&self, key: Key) {
        self.forget(key);
    }

    /// Takes over what the engine has done by now: the window's key is that of the last bind it carried out.
    fn settle(&self, state: &mut State) {
        let key = self.window.key();
        if let Some(done) = state.pending.iter_mut().find(|pending| pending.key == key) {
            // It is not counted any more: the engine counts what is bound. The rest of it goes when its end is told.
            if let Some(region) = done.region.take() {
                region.binds.release();
            }
            state.held = done.binding.clone();
        }
    }

    /// Gives it back, bound or not: its contexts are dead when this returns. `INVALID_HANDLE|RMR` if it was freed.
    pub fn free(&self) -> DatResult<()> {
        if self.let_go() { Ok(()) } else { Err(REMOTE_REGION_HANDLE) }
    }

    fn let_go(&self) -> bool {
        let pending = {
            let mut state = self.lock();
            if std::mem::replace(&mut state.freed, true) {
                return false;
            }
            state.held = Binding::NONE;
            std::mem::take(&mut state.pending)
        };
        // A stopped peer may still be inside an operation: the key is dead all the same, and the place in the table is not
        // used again before the peer has left.
        let _ = self.window.release();
        drop(pending);
        self.zone.release();
        self.adapter().leave(&self.membership);
        true
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Member for RemoteRegion {
    fn membership(&self) -> &Membership {
        &self.membership
    }

    fn end(&self) {
        self.let_go();
    }

    fn look_again(&self) {
        let mut state = self.lock();
        self.settle(&mut state);
    }
}

impl Drop for RemoteRegion {
    fn drop(&mut self) {
        self.let_go();
    }
}

/// The objects are not of one zone.
fn protection(privileges: Privileges) -> DatError {
    let writes = privileges.contains(Privileges::REMOTE_WRITE);
    let kind = if writes { AccessKind::RdmaWrite } else { AccessKind::RdmaRead };
    DatError::new(Kind::ProtectionViolation, Subtype::Protection(kind))
}
