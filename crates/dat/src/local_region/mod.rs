//! Local memory regions (LMR): the program's memory, made reachable by data transfer operations and by peers.

mod table;

use std::sync::Arc;

/// `DAT_LMR_COOKIE`: all 40 bytes count.
pub use nonic_device::Cookie;
use nonic_device::{
    Access, AddressRange, Key, ProgramAddress, Region, RegionMemory, RegionRequest, RegisterError,
    SharedPlace,
};
use nonic_sys::UseCount;

use crate::error::{DatError, DatResult, HandleKind, Kind, Resource, StateKind, Subtype};
use crate::interface_adapter::{ADAPTER_HANDLE, InterfaceAdapter};
use crate::mark::Mark;
use crate::members::{Member, MemberKind, Membership};
use crate::protection_zone::ProtectionZone;
use crate::shared_memory;
use crate::values::Privileges;

pub(crate) use table::RegionTable;

/// What to register (`DAT_MEM_TYPE` and `DAT_REGION_DESCRIPTION`).
#[derive(Clone, Debug)]
pub enum Description {
    /// `DAT_MEM_TYPE_VIRTUAL`, or `DAT_MEM_TYPE_SO_VIRTUAL` for strong order; the order of all memory is strong here.
    Virtual {
        /// First byte.
        address: ProgramAddress,
        /// Whether strong order was asked for.
        strong_order: bool,
    },
    /// `DAT_MEM_TYPE_LMR`: the memory of another region.
    Region(Arc<LocalRegion>),
    /// `DAT_MEM_TYPE_SHARED_VIRTUAL`: memory that the machine shares (`MAP_SHARED` of a file or of shared memory).
    Shared {
        /// First byte.
        address: ProgramAddress,
        /// Names the memory among those who share it: all processes of this user in this network namespace.
        cookie: Cookie,
    },
}

/// A local memory region (`dat_lmr_create`).
#[derive(Debug)]
pub struct LocalRegion {
    mark: Mark,
    membership: Membership,
    adapter: Arc<InterfaceAdapter>,
    zone: Arc<ProtectionZone>,
    description: Description,
    address: ProgramAddress,
    length: u64,
    privileges: Privileges,
    region: Arc<Region>,
    /// What peers reach instead of the memory, if that is not coherent with them.
    shadow: Option<Arc<Region>>,
    /// Binds that are under way; those that are done the engine counts.
    pub(crate) binds: UseCount,
}

/// What a region is (`DAT_LMR_PARAM`).
#[derive(Clone, Debug)]
pub struct RegionFacts {
    /// `DAT_MEM_TYPE`.
    pub memory_type: u32,
    /// First byte.
    pub address: u64,
    /// Length in bytes.
    pub length: u64,
    /// The cookie of shared memory.
    pub cookie: Option<Cookie>,
    /// Its zone.
    pub zone: Arc<ProtectionZone>,
    /// Its privileges.
    pub privileges: Privileges,
    /// For local segments, and for binding remote regions.
    pub local_context: u32,
    /// For peers; 0 without remote privileges.
    pub remote_context: u32,
    /// Bytes that were registered.
    pub registered_size: u64,
    /// The first of them.
    pub registered_address: u64,
    /// The region whose memory it is on.
    pub base: Option<Arc<LocalRegion>>,
}

const REGION_HANDLE: DatError = DatError::handle(Subtype::Handle(HandleKind::LocalRegion));

impl LocalRegion {
    /// Why no bytes cannot be registered.
    pub const NO_BYTES: DatError = DatError::new(Kind::LengthError, Subtype::None);

    /// Registers memory. `length` is in bytes, and does not count for a region on a region. Nothing is pinned; the program
    /// keeps the memory mapped until it frees the region.
    ///
    /// Local read needs no privilege; remote write does not need local write. Errors, in the order of the checks:
    /// `INVALID_HANDLE` with `IA`, `PZ` or `LMR`; `LENGTH_ERROR` for no bytes; `INVALID_PARAMETER|ARG4` if address plus length
    /// runs over the end of the address space; `INVALID_STATE` for shared memory that the machine does not share;
    /// `INVALID_PARAMETER|ARG3` for memory that is not mapped, or the cookie of other memory; `INVALID_PARAMETER|ARG6` for privileges to write to memory that
    /// is mapped for reading only; `INSUFFICIENT_RESOURCES|MEMORY_REGION` if there are too many regions, or nothing can be agreed on
    /// about a cookie with other processes, and `|MEMORY` if there is no memory for what peers see of one.
    pub fn create(
        adapter: &Arc<InterfaceAdapter>,
        description: Description,
        length: u64,
        zone: &Arc<ProtectionZone>,
        privileges: Privileges,
    ) -> DatResult<Arc<Self>> {
        adapter.check_open()?;
        let (address, length) = match &description {
            Description::Region(base) => {
                if !Arc::ptr_eq(&base.adapter, adapter) || base.binds.is_closed() {
                    return Err(REGION_HANDLE);
                }
                (base.address, base.length)
            }
            Description::Virtual { address, .. } | Description::Shared { address, .. } => (*address, length),
        };
        if length == 0 {
            return Err(Self::NO_BYTES);
        }
        let first = address.get() as u64;
        if first.checked_add(length).is_none() {
            return Err(DatError::argument(4));
        }
        let shared = match &description {
            Description::Shared { cookie, .. } => Some(shared_memory::judge(adapter, cookie, first, length)?),
            _ => None,
        };
        zone.hold(adapter)?;
        let base = match &description {
            Description::Region(base) => Some(base),
            // Translations belong to a device that was opened, and so to one adapter.
            _ => shared
                .as_ref()
                .and_then(|shared| shared.same.as_ref())
                .filter(|same| Arc::ptr_eq(&same.adapter, adapter)),
        };
        let memory = (address, length, shared.as_ref().map(shared_memory::Judged::place));
        let registered = Registered::new(base.map(|base| &**base), adapter, memory, zone, privileges);
        let Registered { region, shadow } = registered.inspect_err(|_| zone.release())?;
        let created = Arc::new(Self {
            mark: Mark::default(),
            membership: Membership::new(MemberKind::LocalRegion),
            adapter: Arc::clone(adapter),
            zone: Arc::clone(zone),
            description,
            address,
            length,
            privileges,
            region,
            shadow,
            binds: UseCount::default(),
        });
        adapter.join(&created)?;
        created.enter(shared.as_ref()).inspect_err(|_| created.end())?;
        Ok(created)
    }

    /// Has it found by its context, and by its cookie.
    fn enter(self: &Arc<Self>, shared: Option<&shared_memory::Judged>) -> DatResult<()> {
        if let (Description::Shared { cookie, .. }, Some(shared)) = (&self.description, shared) {
            shared_memory::add(*cookie, shared, self)?;
        }
        self.adapter.regions.add(self);
        if self.binds.is_closed() {
            // The adapter was closed meanwhile, and the region with it.
            self.leave_tables();
        }
        Ok(())
    }

    fn leave_tables(&self) {
        self.adapter.regions.remove(self);
        if let Description::Shared { cookie, .. } = &self.description {
            shared_memory::remove(cookie, self);
        }
    }

    /// The face's word.
    pub fn mark(&self) -> &Mark {
        &self.mark
    }

    /// Its adapter.
    pub fn adapter(&self) -> &Arc<InterfaceAdapter> {
        &self.adapter
    }

    /// What it is.
    pub fn facts(&self) -> RegionFacts {
        let (memory_type, cookie, base) = match &self.description {
            Description::Virtual { strong_order, .. } => (if *strong_order { 3 } else { 0 }, None, None),
            Description::Region(base) => (1, None, Some(Arc::clone(base))),
            Description::Shared { cookie, .. } => (2, Some(*cookie), None),
        };
        RegionFacts {
            memory_type,
            address: self.first(),
            length: self.length,
            cookie,
            zone: Arc::clone(&self.zone),
            privileges: self.privileges,
            local_context: self.local_context(),
            remote_context: self.remote_context(),
            registered_size: self.length,
            registered_address: self.first(),
            base,
        }
    }

    /// For local segments, and for binding remote regions.
    pub fn local_context(&self) -> u32 {
        self.region.local_key().0
    }

    /// For peers; 0 without remote privileges.
    pub fn remote_context(&self) -> u32 {
        if self.privileges.intersects(Privileges::REMOTE | Privileges::REMOTE_ATOMIC) {
            self.for_peers().remote_key().0
        } else {
            0
        }
    }

    /// What peers reach.
    fn for_peers(&self) -> &Arc<Region> {
        self.shadow.as_ref().unwrap_or(&self.region)
    }

    /// What windows are bound to, as requests name it.
    pub(crate) fn window_key(&self) -> Key {
        self.for_peers().local_key()
    }

    /// Shows the program what peers wrote to a range.
    pub(crate) fn synchronize(&self, range: AddressRange) {
        if let Some(shadow) = &self.shadow {
            // A region that is freed meanwhile shows nothing.
            let _ = shadow.synchronize(range);
        }
    }

    /// Has peers see what the program wrote to a range.
    pub(crate) fn publish(&self, range: AddressRange) {
        if let Some(shadow) = &self.shadow {
            let _ = shadow.publish(range);
        }
    }

    /// Its zone.
    pub(crate) fn zone(&self) -> &Arc<ProtectionZone> {
        &self.zone
    }

    /// Its privileges.
    pub(crate) fn privileges(&self) -> Privileges {
        self.privileges
    }

    /// Whether a range is inside it.
    fn first(&self) -> u64 {
        self.address.get() as u64
    }

    pub(crate) fn holds(&self, address: u64, length: u64) -> bool {
        address
            .checked_sub(self.first())
            .is_some_and(|offset| offset.checked_add(length).is_some_and(|end| end <= self.length))
    }

    /// Takes the memory back: when this returns no operation through the region is under way, here or in a peer, and none can
    /// begin. `INVALID_STATE|LMR_IN_USE` while remote regions are bound to it, or about to be; `INVALID_HANDLE|LMR` if it was
    /// freed.
    pub fn free(&self) -> DatResult<()> {
        let in_use = DatError::state(Subtype::State(StateKind::LmrInUse));
        if self.binds.close().is_err() {
            if self.binds.is_closed() {
                return Err(REGION_HANDLE);
            }
            // Perhaps they are done by now.
            self.adapter.look_again_at_binds();
            if self.binds.close().is_err() {
                return Err(if self.binds.is_closed() { REGION_HANDLE } else { in_use });
            }
        }
        if self.for_peers().deregister().is_err() {
            self.binds.reopen();
            return Err(in_use);
        }
        let _ = self.region.deregister();
        self.let_go();
        Ok(())
    }

    fn let_go(&self) {
        self.leave_tables();
        self.zone.release();
        self.adapter.leave(&self.membership);
    }
}

impl Member for LocalRegion {
    fn membership(&self) -> &Membership {
        &self.membership
    }

    fn end(&self) {
        if self.binds.close_anyway() {
            let _ = self.for_peers().deregister();
            let _ = self.region.deregister();
            self.let_go();
        }
    }
}

impl Drop for LocalRegion {
    fn drop(&mut self) {
        self.end();
    }
}

/// The engine's regions of one of ours.
struct Registered {
    region: Arc<Region>,
    shadow: Option<Arc<Region>>,
}

impl Registered {
    /// Registers the memory, or that of `base` once more. With its place in what processes share, what peers see of it is the same
    /// in all of them.
    fn new(
        base: Option<&LocalRegion>,
        adapter: &InterfaceAdapter,
        (address, length, place): (ProgramAddress, u64, Option<SharedPlace>),
        zone: &ProtectionZone,
        privileges: Privileges,
    ) -> DatResult<Self> {
        // Remote regions can be bound to every region.
        let access = Access::WINDOW_BIND | privileges.access();
        // With a shadow peers have no business in the memory itself.
        let own = if adapter.is_coherent() { access } else { access & Access::LOCAL_WRITE };
        let share = |region: &Arc<Region>, access| {
            region.share(zone.zone(), access).map_err(|error| match error {
                // One of the two has been freed meanwhile, and the zone is counted.
                RegisterError::Closed => REGION_HANDLE,
                error => refusal(error),
            })
        };
        let region = match base {
            Some(base) => share(&base.region, own)?,
            None => {
                let memory = RegionMemory::Program { address, length: length as usize };
                let request = RegionRequest { memory, base: address.get() as u64, access: own };
                zone.zone().register(request).map_err(refusal)?
            }
        };
        if adapter.is_coherent() {
            return Ok(Self { region, shadow: None });
        }
        let shadow = match base.and_then(|base| base.shadow.as_ref()) {
            Some(shadow) => share(shadow, access)?,
            None => region.shadow(zone.zone(), access, place).map_err(refusal)?,
        };
        Ok(Self { region, shadow: Some(shadow) })
    }
}

fn refusal(error: RegisterError) -> DatError {
    let none_left = DatError::resources(Subtype::Resource(Resource::MemoryRegion));
    match error {
        RegisterError::NotMapped { .. } => DatError::argument(3),
        RegisterError::Wraps => DatError::argument(4),
        RegisterError::NotWritable { .. } => DatError::argument(6),
        RegisterError::Closed => DatError::handle(Subtype::Handle(HandleKind::ProtectionZone)),
        RegisterError::Gone => ADAPTER_HANDLE,
        RegisterError::System(_) => DatError::resources(Subtype::Resource(Resource::Memory)),
        RegisterError::Ledger(error) => {
            shared_memory::tell(&error);
            DatError::resources(Subtype::Resource(Resource::Memory))
        }
        _ => none_left,
    }
}
