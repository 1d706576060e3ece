//! Using as this process's own what another made and gave it a descriptor and handles for (`ibv_import_device(3)` and its relatives).
//!
//! What is imported has keys of this process, which it and its peers use as any others. The bytes stay with the owner: they are copied
//! for this process as paged memory is, by the owner's own key, so that they cannot be reached any more when the owner takes them back.

use std::sync::Arc;

use nonic_transport::{Granted, Wanted};

use crate::context::Context;
use crate::device::devices;
use crate::device_memory::DeviceMemory;
use crate::error::ImportError;
use crate::origin::{Command, ForeignBytes, Origin};
use crate::region::Region;
use crate::zone::Zone;

/// Opens the device that another process has open under this command, and through it what was made there.
pub fn import_device(command: Command) -> Result<Arc<Context>, ImportError> {
    let (Granted::Device { index, number }, pid) = command.ask(Wanted::Device)? else {
        return Err(ImportError::NotThere);
    };
    let device = devices().into_iter().find(|device| device.index() == index);
    let context = device.ok_or(ImportError::NotThere)?.open()?;
    match Origin::meet(context.engine(), command, (number, pid)) {
        Ok(origin) => {
            context.set_origin(Arc::new(origin));
            Ok(context)
        }
        Err(error) => {
            context.close();
            Err(error)
        }
    }
}

impl Context {
    /// Whether another process opened it, and this one imported it.
    pub fn is_imported(&self) -> bool {
        self.origin().is_some()
    }

    fn granted(&self, wanted: Wanted) -> Result<(Arc<Origin>, Granted), ImportError> {
        self.check_current()?;
        let origin = self.origin().ok_or(ImportError::NotThere)?;
        match origin.command().ask(wanted)?.0 {
            Granted::Nothing => Err(ImportError::NotThere),
            Granted::Unfit => Err(ImportError::Unreachable),
            granted => Ok((Arc::clone(origin), granted)),
        }
    }

    /// The zone that has this handle in the process that opened the device: what is imported of it belongs together here, with
    /// whatever else is made in it.
    pub fn import_zone(self: &Arc<Self>, handle: u32) -> Result<Arc<Zone>, ImportError> {
        match self.granted(Wanted::Zone(handle))? {
            (origin, Granted::Zone(zone)) => self.twin(&origin, zone),
            _ => Err(ImportError::NotThere),
        }
    }

    /// What stands here for a zone of the other process.
    fn twin(self: &Arc<Self>, origin: &Origin, zone: u32) -> Result<Arc<Zone>, ImportError> {
        Ok(origin.twin(zone, |known: &Zone| !known.is_released(), || self.allocate_zone())?)
    }

    /// The region that has this handle there, with its rights and under its addresses, in what stands here for its zone.
    pub fn import_region(self: &Arc<Self>, handle: u32) -> Result<Arc<Region>, ImportError> {
        let (origin, granted) = self.granted(Wanted::Region(handle))?;
        let Granted::Memory { memory, base, length, access } = granted else {
            return Err(ImportError::NotThere);
        };
        let bytes = Arc::new(ForeignBytes::find(&origin, memory, base, length, access)?);
        Ok(self.twin(&origin, memory.zone.0)?.register_foreign(bytes, base, length, access)?)
    }

    /// The device memory that has this handle there.
    pub fn import_device_memory(self: &Arc<Self>, handle: u32) -> Result<Arc<DeviceMemory>, ImportError> {
        let (origin, granted) = self.granted(Wanted::DeviceMemory(handle))?;
        let Granted::Memory { memory, base, length, access } = granted else {
            return Err(ImportError::NotThere);
        };
        let bytes = Arc::new(ForeignBytes::find(&origin, memory, base, length, access)?);
        Ok(DeviceMemory::imported(self, bytes, length))
    }
}
