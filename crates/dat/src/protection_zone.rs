//! Protection zones: memory and endpoints that belong together.

use std::sync::Arc;

use nonic_device::{Zone, ZoneId};
use nonic_sys::UseCount;

use crate::error::{DatError, DatResult, HandleKind, Resource, StateKind, Subtype};
use crate::interface_adapter::InterfaceAdapter;
use crate::mark::Mark;
use crate::members::{Member, MemberKind, Membership};

/// A protection zone (`dat_pz_create`).
#[derive(Debug)]
pub struct ProtectionZone {
    mark: Mark,
    membership: Membership,
    adapter: Arc<InterfaceAdapter>,
    zone: Arc<Zone>,
    /// Endpoints, regions and shared receive queues of it.
    users: UseCount,
}

impl ProtectionZone {
    /// Makes a zone. `INSUFFICIENT_RESOURCES|PROTECTION_DOMAIN` beyond the adapter's limit.
    pub fn create(adapter: &Arc<InterfaceAdapter>) -> DatResult<Arc<Self>> {
        adapter.check_open()?;
        let none_left = DatError::resources(Subtype::Resource(Resource::ProtectionDomain));
        let zone = adapter.context().allocate_zone().map_err(|_| none_left)?;
        let created = Arc::new(Self {
            mark: Mark::default(),
            membership: Membership::new(MemberKind::ProtectionZone),
            adapter: Arc::clone(adapter),
            zone,
            users: UseCount::default(),
        });
        adapter.join(&created)?;
        adapter.add_zone(created.id());
        Ok(created)
    }

    /// The face's word.
    pub fn mark(&self) -> &Mark {
        &self.mark
    }

    /// Its adapter.
    pub fn adapter(&self) -> &Arc<InterfaceAdapter> {
        &self.adapter
    }

    /// The engine's zone.
    pub(crate) fn zone(&self) -> &Arc<Zone> {
        &self.zone
    }

    /// The engine's number of it, never used again in this process.
    pub(crate) fn id(&self) -> ZoneId {
        self.zone.id()
    }

    /// Counts a user; `INVALID_HANDLE|PZ` if the zone was freed, or is another adapter's.
    pub(crate) fn hold(&self, adapter: &Arc<InterfaceAdapter>) -> DatResult<()> {
        if Arc::ptr_eq(&self.adapter, adapter) && self.users.acquire() { Ok(()) } else { Err(ZONE_HANDLE) }
    }

    /// Counts a user less.
    pub(crate) fn release(&self) {
        self.users.release();
    }

    /// Gives it back. `INVALID_STATE|PZ_IN_USE` while endpoints, regions or shared receive queues are in it.
    pub fn free(&self) -> DatResult<()> {
        if self.users.close().is_err() {
            let freed = self.users.is_closed();
            return Err(if freed {
                ZONE_HANDLE
            } else {
                DatError::state(Subtype::State(StateKind::PzInUse))
            });
        }
        self.let_go();
        Ok(())
    }

    fn let_go(&self) {
        self.adapter.remove_zone(self.id());
        let _ = self.zone.release();
        self.adapter.leave(&self.membership);
    }
}

const ZONE_HANDLE: DatError = DatError::handle(Subtype::Handle(HandleKind::ProtectionZone));

impl Member for ProtectionZone {
    fn membership(&self) -> &Membership {
        &self.membership
    }

    fn end(&self) {
        if self.users.close_anyway() {
            self.let_go();
        }
    }
}

impl Drop for ProtectionZone {
    fn drop(&mut self) {
        self.end();
    }
}
