//! What this process lets others use as their own (`ibv_import_device(3)`): the names by which they find what a program made. Nothing
//! is given that they do not prove to be allowed, as for any other peer.

use std::sync::{Arc, OnceLock};

use nonic_transport::{BLOCK_SIZE, Granted, NamedMemory, Wanted};

use crate::context::Context;
use crate::device_memory::DeviceMemory;
use crate::engine::Engine;
use crate::region::Region;
use crate::zone::Zone;

/// What a program made.
#[derive(Clone, Debug)]
pub enum Exported {
    /// An open device.
    Device(Arc<Context>),
    /// A zone.
    Zone(Arc<Zone>),
    /// A region.
    Region(Arc<Region>),
    /// Device memory.
    DeviceMemory(Arc<DeviceMemory>),
}

/// Finds what has a handle among what was made on the open device of this number ([`Context::number`]). Called on a thread of the
/// library.
pub type Exporter = fn(u64, Wanted) -> Option<Exported>;

static EXPORTER: OnceLock<Exporter> = OnceLock::new();

/// Says who knows the handles of this process. The first who does is asked.
pub fn set_exporter(exporter: Exporter) {
    let _ = EXPORTER.set(exporter);
}

impl Engine {
    /// What another process of this user is told that would use something of this one's.
    pub(crate) fn grant(&self, context: u64, wanted: Wanted) -> Granted {
        let found = EXPORTER.get().and_then(|exporter| exporter(context, wanted));
        let Some(found) = found.filter(|found| std::ptr::eq(found.context().engine(), self)) else {
            return Granted::Nothing;
        };
        match found {
            Exported::Device(context) => match self.number_to_meet_by() {
                Ok(number) => Granted::Device { index: context.device().index(), number },
                Err(error) => {
                    tracing::debug!(%error, "no process can find this one");
                    Granted::Unfit
                }
            },
            Exported::Zone(zone) => Granted::Zone(zone.id().0),
            Exported::Region(region) => region.as_named().map_or(Granted::Unfit, |(key, base)| {
                let memory = NamedMemory { zone: region.zone().id(), key };
                Granted::Memory { memory, base, length: region.length(), access: region.access() }
            }),
            Exported::DeviceMemory(memory) => match memory.export() {
                Some((memory, access, length)) => Granted::Memory { memory, base: 0, length, access },
                None => Granted::Unfit,
            },
        }
    }

    /// A number of queue pairs that leads to this process.
    fn number_to_meet_by(&self) -> Result<u32, crate::error::CreateError> {
        Ok(self.any_block()? * BLOCK_SIZE)
    }
}

impl Exported {
    fn context(&self) -> &Arc<Context> {
        match self {
            Self::Device(context) => context,
            Self::Zone(zone) => zone.context(),
            Self::Region(region) => region.zone().context(),
            Self::DeviceMemory(memory) => memory.context(),
        }
    }
}
