//! Zones (protection domains) and address handles.

use std::sync::Arc;

use nonic_memory::ZoneId;
use nonic_queue::AddressVector;

use crate::context::Context;
use crate::error::{Busy, CreateError};
use crate::use_count::UseCount;

/// A zone: memory and queue pairs that belong together (`ibv_alloc_pd(3)`).
#[derive(Debug)]
pub struct Zone {
    id: ZoneId,
    context: Arc<Context>,
    pub(crate) users: UseCount,
}

impl Context {
    /// Makes a zone.
    pub fn allocate_zone(self: &Arc<Self>) -> Result<Arc<Zone>, CreateError> {
        self.check_current()?;
        let limit = self.limits().zones.into();
        let too_many = CreateError::TooMany { what: "protection domains", limit };
        let id = self.engine().next_zone().ok_or(too_many)?;
        Ok(Arc::new(Zone { id, context: Arc::clone(self), users: UseCount::default() }))
    }
}

impl Zone {
    /// Its number, never used again in this process.
    pub fn id(&self) -> ZoneId {
        self.id
    }

    /// Its device context.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Gives the zone back; refused while regions, windows, queue pairs, shared receive queues or address handles
    /// are in it.
    pub fn release(&self) -> Result<(), Busy> {
        self.users.close("protection domain")
    }

    /// Makes an address handle.
    pub fn create_address_handle(
        self: &Arc<Self>,
        vector: AddressVector,
    ) -> Result<Arc<AddressHandle>, CreateError> {
        self.context.check_current()?;
        self.context.port_state().accepts(&vector).map_err(|(what, _)| CreateError::Invalid { what })?;
        if !self.users.acquire() {
            return Err(CreateError::Closed);
        }
        Ok(Arc::new(AddressHandle { zone: Arc::clone(self), vector, used: UseCount::default() }))
    }
}

/// Where datagrams can go (`ibv_create_ah(3)`).
#[derive(Debug)]
pub struct AddressHandle {
    zone: Arc<Zone>,
    vector: AddressVector,
    used: UseCount,
}

impl AddressHandle {
    /// The path.
    pub fn vector(&self) -> &AddressVector {
        &self.vector
    }

    /// Its zone.
    pub fn zone(&self) -> ZoneId {
        self.zone.id
    }

    /// Gives it back; requests already posted are not affected.
    pub fn destroy(&self) {
        if !self.used.is_closed() && self.used.close("address handle").is_ok() {
            self.zone.users.release();
        }
    }
}
