//! Zones (protection domains) and address handles.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nonic_memory::ZoneId;
use nonic_protocol::AddressVector;
use nonic_sys::{CannotClose, UseCount};

use crate::context::Context;
use crate::error::{Busy, CreateError};

/// A zone: memory and queue pairs that belong together (`ibv_alloc_pd(3)`).
#[derive(Debug)]
pub struct Zone {
    id: ZoneId,
    context: Arc<Context>,
    pub(crate) users: UseCount,
    /// It counts among the zones of its context.
    counted: AtomicBool,
    /// What it is another name of, with what it was told of threads.
    parent: Option<(Arc<Self>, Option<Arc<ThreadDomain>>)>,
}

impl Context {
    /// Makes a zone. Refused beyond [`Limits::zones`](crate::Limits::zones).
    pub fn allocate_zone(self: &Arc<Self>) -> Result<Arc<Zone>, CreateError> {
        self.check_current()?;
        let limit = self.limits().zones.into();
        let more = |count: u32| (count < self.limits().zones).then_some(count + 1);
        self.zones
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .map_err(|_| CreateError::TooMany { what: "protection domains", limit })?;
        let Some(id) = self.engine().next_zone() else {
            self.zones.fetch_sub(1, Ordering::Relaxed);
            let limit = ZoneId::of_one_pair(0).0.into();
            return Err(CreateError::TooMany { what: "numbers of protection domains", limit });
        };
        Ok(Arc::new(Zone {
            id,
            context: Arc::clone(self),
            users: UseCount::default(),
            counted: AtomicBool::new(true),
            parent: None,
        }))
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

    /// Another name for the zone (`ibv_alloc_parent_domain(3)`): what is made in either belongs together. It is given back on its
    /// own, and keeps the zone and the thread domain meanwhile.
    pub fn derive(self: &Arc<Self>, threads: Option<&Arc<ThreadDomain>>) -> Result<Arc<Self>, CreateError> {
        self.context.check_current()?;
        if threads.is_some_and(|threads| !Arc::ptr_eq(&threads.context, &self.context)) {
            return Err(CreateError::OtherContext);
        }
        if !self.users.acquire() {
            return Err(CreateError::Closed);
        }
        if threads.is_some_and(|threads| !threads.users.acquire()) {
            self.users.release();
            return Err(CreateError::Closed);
        }
        Ok(Arc::new(Self {
            id: self.id,
            context: Arc::clone(&self.context),
            users: UseCount::default(),
            counted: AtomicBool::new(false),
            parent: Some((Arc::clone(self), threads.cloned())),
        }))
    }

    /// Whether it is another name for a zone.
    pub fn is_derived(&self) -> bool {
        self.parent.is_some()
    }

    /// Whether it was given back.
    pub fn is_released(&self) -> bool {
        self.users.is_closed()
    }

    /// Gives the zone back; refused while regions, windows, queue pairs, shared receive queues or address handles
    /// are in it, or it has other names.
    pub fn release(&self) -> Result<(), Busy> {
        match self.users.close() {
            Ok(()) => {}
            Err(CannotClose::Closed) => return Ok(()),
            Err(CannotClose::Used(users)) => return Err(Busy { what: "protection domain", users }),
        }
        self.count_less();
        if let Some((zone, threads)) = &self.parent {
            zone.users.release();
            if let Some(threads) = threads {
                threads.users.release();
            }
        }
        Ok(())
    }

    fn count_less(&self) {
        if self.counted.swap(false, Ordering::Relaxed) {
            self.context.zones.fetch_sub(1, Ordering::Relaxed);
        }
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
        self.context.engine_owner().be_reached_from(self.context.port_state(), &vector);
        Ok(Arc::new(AddressHandle { zone: Arc::clone(self), vector, used: UseCount::default() }))
    }
}

impl Drop for Zone {
    fn drop(&mut self) {
        self.count_less();
    }
}

/// A promise that what is made with it is used by one thread at a time (`ibv_alloc_td(3)`). Nothing is locked that could be spared,
/// so that it changes nothing.
#[derive(Debug)]
pub struct ThreadDomain {
    context: Arc<Context>,
    users: UseCount,
}

impl Context {
    /// Makes a thread domain.
    pub fn allocate_thread_domain(self: &Arc<Self>) -> Result<Arc<ThreadDomain>, CreateError> {
        self.check_current()?;
        Ok(Arc::new(ThreadDomain { context: Arc::clone(self), users: UseCount::default() }))
    }
}

impl ThreadDomain {
    /// Gives it back; refused while a zone was derived with it.
    pub fn release(&self) -> Result<(), Busy> {
        Busy::unless_closed(&self.users, "thread domain")
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
        if self.used.close().is_ok() {
            self.zone.users.release();
        }
    }
}
