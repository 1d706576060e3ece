//! Registration: making memory reachable by work requests and by peers.

mod placing;
mod prefetch;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use nonic_memory::{Access, AddressRange, Entry, Key, KeyPair, PlainReason, RegionAddress, Translation};

use self::placing::place_on_demand;
pub(crate) use self::placing::{Placed, writes};
pub use self::prefetch::PrefetchError;
use nonic_sys::UseCount;

use crate::device_memory::DeviceMemory;
use crate::error::{Busy, RegisterError, WindowError};
use crate::memory_window::Binding;
use crate::origin::ForeignBytes;
use crate::program_memory::ProgramAddress;
use crate::zone::Zone;

/// What to register.
#[derive(Clone, Debug)]
pub struct RegionRequest {
    /// The memory.
    pub memory: RegionMemory,
    /// Address of the first byte as requests and peers name it; 0 makes the region zero based.
    pub base: u64,
    /// Rights.
    pub access: Access,
}

/// Memory to register.
#[derive(Clone, Debug)]
pub enum RegionMemory {
    /// The program's own.
    Program {
        /// First byte.
        address: ProgramAddress,
        /// Length in bytes. With 0 nothing needs to be there, and the region's keys lead to no byte.
        length: usize,
    },
    /// The program's own, looked for when it is used: nothing needs to be there before (on-demand paging). Copies are the kernel's,
    /// peers go through this process, and there are no atomics. `u64::MAX` bytes from 0 are the whole address space.
    OnDemand {
        /// First byte.
        address: ProgramAddress,
        /// Length in bytes.
        length: u64,
    },
    /// None: what is written vanishes, and what is read is zero.
    Null,
    /// A range of device memory.
    Device {
        /// The device memory.
        memory: Arc<DeviceMemory>,
        /// Offset in bytes.
        offset: u64,
        /// Length in bytes. With 0 the region holds the memory, and its keys lead to no byte.
        length: u64,
    },
}

/// What of a region is to be another (`ibv_rereg_mr(3)`).
#[derive(Clone, Debug, Default)]
pub struct RegionChange {
    /// Its zone.
    pub zone: Option<Arc<Zone>>,
    /// Its memory: the first byte, by whose address requests and peers name it from then on unless it is zero based, and how many.
    pub memory: Option<(ProgramAddress, usize)>,
    /// Whether it is looked for when it is used.
    pub on_demand: Option<bool>,
    /// Whether the new memory is named from 0.
    pub zero_based: bool,
    /// Its rights.
    pub access: Option<Access>,
}

/// Registered memory (`ibv_reg_mr(3)`, `ibv_reg_dm_mr(3)`).
#[derive(Debug)]
pub struct Region {
    pub(crate) zone: Arc<Zone>,
    keys: KeyPair,
    pub(crate) base: u64,
    pub(crate) length: u64,
    access: Access,
    /// Windows bound to it.
    pub(crate) users: UseCount,
    /// Until it is deregistered.
    placed: Mutex<Option<Arc<Placed>>>,
}

impl Zone {
    /// Registers memory in this zone. Nothing is pinned; the program keeps the memory mapped until it deregisters. Any set of
    /// rights is taken: whether a peer's writes need local write is for the face to say ([`Access::is_consistent`]).
    pub fn register(self: &Arc<Self>, request: RegionRequest) -> Result<Arc<Region>, RegisterError> {
        let (base, access) = (request.base, request.access);
        let (placed, length) = self.place(request)?;
        self.enter(placed, base, length, access)
    }

    /// Registers memory of another process, which the keys lead to as long as that has it.
    pub(crate) fn register_foreign(
        self: &Arc<Self>,
        bytes: Arc<ForeignBytes>,
        base: u64,
        length: u64,
        access: Access,
    ) -> Result<Arc<Region>, RegisterError> {
        self.enter(Arc::new(Placed::foreign(bytes, 0)), base, length, access)
    }

    /// Finds the memory of a request, and how long it is.
    fn place(self: &Arc<Self>, request: RegionRequest) -> Result<(Arc<Placed>, u64), RegisterError> {
        let RegionRequest { memory, base, access } = request;
        if !self.context().is_usable() {
            return Err(RegisterError::Gone);
        }
        can_be_given(access)?;
        let length = match memory {
            RegionMemory::Program { length, .. } => length as u64,
            RegionMemory::Device { length, .. } | RegionMemory::OnDemand { length, .. } => length,
            RegionMemory::Null => u64::MAX,
        };
        if length > 0 && base.checked_add(length - 1).is_none() {
            return Err(RegisterError::Wraps);
        }
        let mut placed = match memory {
            RegionMemory::Program { address, length } => self.place_program(address.get(), length, access)?,
            RegionMemory::Device { memory, offset, length } => self.place_device(memory, offset, length)?,
            RegionMemory::OnDemand { address, length } => place_on_demand(address.get(), length)?,
            RegionMemory::Null => Placed::new(Translation::Null, PlainReason::None),
        };
        placed.writable = AtomicBool::new(writes(access));
        Ok((Arc::new(placed), length))
    }

    /// Makes a region of placed memory.
    pub(crate) fn enter(
        self: &Arc<Self>,
        placed: Arc<Placed>,
        base: u64,
        length: u64,
        access: Access,
    ) -> Result<Arc<Region>, RegisterError> {
        let engine = self.context().engine();
        if !self.users.acquire() {
            Placed::release(placed, engine, true);
            return Err(RegisterError::Closed);
        }
        let entry = self.entry(&placed, base, length, access);
        let Some(keys) = engine.party().segment.keys().insert(entry) else {
            self.users.release();
            Placed::release(placed, engine, true);
            return Err(RegisterError::TableFull);
        };
        Ok(self.publish(keys, placed, base, length, access))
    }

    /// What the key table says of placed memory.
    fn entry(&self, placed: &Placed, base: u64, length: u64, access: Access) -> Entry {
        let Placed { translation, reason, .. } = *placed;
        tracing::debug!(length, ?translation, ?reason, "memory is registered");
        let base = RegionAddress(base);
        Entry { zone: self.id(), access, base, length, translation, reason, local_tag: 0, remote_tag: 0 }
    }

    /// The region of keys that lead somewhere. The zone counts it among its users.
    fn publish(
        self: &Arc<Self>,
        keys: KeyPair,
        placed: Arc<Placed>,
        base: u64,
        length: u64,
        access: Access,
    ) -> Arc<Region> {
        let (zone, placed) = (Arc::clone(self), Mutex::new(Some(placed)));
        let users = UseCount::default();
        let region = Arc::new(Region { zone, keys, base, length, access, users, placed });
        if access.contains(Access::WINDOW_BIND) {
            self.context().engine().windows.add_region(&region);
        }
        region
    }
}

/// Whether any memory gives these rights.
fn can_be_given(access: Access) -> Result<(), RegisterError> {
    if access.contains(Access::FLUSH_PERSISTENT) { Err(RegisterError::NotPersistent) } else { Ok(()) }
}

impl Region {
    /// Registers the same memory once more, in a zone of the same context and with rights of its own. Nothing is looked up or
    /// moved: the bytes are where they are, and are given back with the last region on them. Only if writing is asked for
    /// and was not before, the mapping is looked at.
    pub fn share(&self, zone: &Arc<Zone>, access: Access) -> Result<Arc<Self>, RegisterError> {
        let placed = self.share_place(zone, access)?;
        zone.enter(placed, self.base, self.length, access)
    }

    fn share_place(&self, zone: &Arc<Zone>, access: Access) -> Result<Arc<Placed>, RegisterError> {
        can_be_given(access)?;
        if !zone.context().is_usable() {
            return Err(RegisterError::Gone);
        }
        if !Arc::ptr_eq(zone.context(), self.zone.context()) {
            return Err(RegisterError::OtherContext);
        }
        let placed = self.placed().ok_or(RegisterError::Closed)?;
        if writes(access)
            && let Err(error) = placed.check_writable(self.length)
        {
            Placed::release(placed, zone.context().engine(), true);
            return Err(error);
        }
        Ok(placed)
    }

    /// Registers anew what the region is of, but for what changes, in place of this one, which is deregistered: when this returns
    /// nothing is reached that was reached before and should not be now. The keys stay, unless a peer that was stopped may still be
    /// looking at what they led to. Refused, everything is as it was.
    pub fn change(&self, change: RegionChange) -> Result<Arc<Self>, RegisterError> {
        let zone = change.zone.as_ref().unwrap_or(&self.zone);
        let engine = zone.context().engine();
        let access = change.access.unwrap_or(self.access);
        if !Arc::ptr_eq(zone.context(), self.zone.context()) {
            return Err(RegisterError::OtherContext);
        }
        let before = self.placed();
        let program = before.as_ref().and_then(|placed| placed.program_memory());
        let (start, was_on_demand) = program.ok_or(RegisterError::OfDevice)?;
        let on_demand = change.on_demand.unwrap_or(was_on_demand);
        let anew = |address: ProgramAddress, length: usize, base| {
            let memory = match on_demand {
                true => RegionMemory::OnDemand { address, length: length as u64 },
                false => RegionMemory::Program { address, length },
            };
            let (placed, length) = zone.place(RegionRequest { memory, base, access })?;
            Ok::<_, RegisterError>((placed, base, length))
        };
        let (placed, base, length) = match change.memory {
            Some((address, length)) => {
                anew(address, length, if change.zero_based { 0 } else { address.get() as u64 })
            }
            None if on_demand != was_on_demand => anew(start, self.length as usize, self.base),
            None => Ok((self.share_place(zone, access)?, self.base, self.length)),
        }?;
        drop(before);
        let refusal = if !zone.users.acquire() {
            Some(RegisterError::Closed)
        } else if self.users.close().is_err() {
            zone.users.release();
            Some(RegisterError::Bound)
        } else {
            None
        };
        if let Some(refusal) = refusal {
            Placed::release(placed, engine, true);
            return Err(refusal);
        }
        let entry = zone.entry(&placed, base, length, access);
        let all_left = self.kill();
        let keys = engine.party().segment.keys();
        let renewed = if all_left {
            keys.renew(self.keys, &entry);
            Some(self.keys)
        } else {
            engine.recycle_keys(self.keys, false);
            keys.insert(entry)
        };
        if let Some(before) = self.placed.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Placed::release(before, engine, all_left);
        }
        self.zone.users.release();
        match renewed {
            Some(keys) => Ok(zone.publish(keys, placed, base, length, access)),
            None => {
                zone.users.release();
                Placed::release(placed, engine, true);
                Err(RegisterError::TableFull)
            }
        }
    }

    /// Has the keys lead nowhere, and waits for all who are inside; false if one may still be.
    fn kill(&self) -> bool {
        let engine = self.zone.context().engine();
        if self.access.contains(Access::WINDOW_BIND) {
            engine.windows.remove_region(self.keys.local);
        }
        engine.party().segment.keys().kill(self.keys);
        engine.wait_for_operations()
    }

    pub(crate) fn placed(&self) -> Option<Arc<Placed>> {
        self.placed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether it is of no memory ([`RegionMemory::Null`]).
    pub fn is_null(&self) -> bool {
        self.placed().is_some_and(|placed| placed.translation == Translation::Null)
    }

    /// Whether it was taken back, or registered anew as another.
    pub fn is_deregistered(&self) -> bool {
        self.users.is_closed()
    }

    /// The key for this process's own work requests.
    pub fn local_key(&self) -> Key {
        self.keys.local
    }

    /// The key for peers; refused there unless the region has remote rights.
    pub fn remote_key(&self) -> Key {
        self.keys.remote
    }

    /// Length in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Its rights.
    pub(crate) fn access(&self) -> Access {
        self.access
    }

    /// Its key and first address as another process names them that uses it as its own; `None` if it is of a kind that only its owner
    /// finds.
    pub(crate) fn as_named(&self) -> Option<(Key, u64)> {
        let found = matches!(
            self.placed()?.translation,
            Translation::Plain { .. }
                | Translation::Adopted { .. }
                | Translation::SharedFile { .. }
                | Translation::Device { .. }
        );
        found.then_some((self.keys.local, self.base))
    }

    /// Its zone.
    pub fn zone(&self) -> &Arc<Zone> {
        &self.zone
    }

    /// What a window on a part of the region publishes; zone and tags are the window's.
    pub(crate) fn entry_of_part(&self, wanted: &Binding) -> Result<Entry, WindowError> {
        let range = AddressRange::new(wanted.address, wanted.length);
        let base = RegionAddress(self.base);
        let offset = range.offset_within(base, self.length).ok_or(WindowError::OutOfRange { range })?;
        let access = wanted.access;
        if !Access::REMOTE.contains(access) || !(access | self.access & Access::LOCAL_WRITE).is_consistent() {
            return Err(WindowError::Rights { wanted: access, given: self.access });
        }
        let placed = self.placed.lock().unwrap_or_else(PoisonError::into_inner);
        let placed = placed.as_ref().ok_or(WindowError::NoRegion)?;
        Ok(Entry {
            zone: self.zone.id(),
            access,
            base: RegionAddress(if wanted.zero_based { 0 } else { wanted.address }),
            length: wanted.length,
            translation: placed.translation.moved_by(offset),
            reason: placed.reason,
            local_tag: 0,
            remote_tag: 0,
        })
    }

    /// Takes the memory back; refused while windows are bound to it. When this returns no operation that used the region is under way, here or in a peer, and
    /// none can begin.
    pub fn deregister(&self) -> Result<(), Busy> {
        Busy::unless_closed(&self.users, "region")?;
        let placed = self.placed.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(placed) = placed else { return Ok(()) };
        let context = self.zone.context();
        // A child of the process that registered must not touch the parent's table, nor its pages.
        if context.is_current() {
            let engine = context.engine();
            let all_left = self.kill();
            engine.recycle_keys(self.keys, all_left);
            Placed::release(placed, engine, all_left);
        } else if let Some(Placed { device_memory: Some(memory), .. }) = Arc::into_inner(placed) {
            memory.users.release();
        }
        self.zone.users.release();
        Ok(())
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        let _ = self.deregister();
    }
}
