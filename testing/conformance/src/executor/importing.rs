//! Commands about what one side makes and another imports; what is none of them is about endpoints.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nonic_device::{Context, Exported, Wanted, import_device};

use super::{Executor, NOTHING, number, numbers, said};
use crate::command::{Command, Reply};
use crate::objects::Objects;
use crate::program_memory::Buffer;

/// What the sides of this process have handed out. A handle is not given twice, so that one of an earlier rule is of nothing.
static LENT: Mutex<Objects<Exported>> = Mutex::new(Objects::new());

fn lent() -> MutexGuard<'static, Objects<Exported>> {
    LENT.lock().unwrap_or_else(PoisonError::into_inner)
}

fn lend(thing: Exported) -> Reply {
    number(lent().add(thing))
}

/// What has a handle, for the engine, which asks when another side imports it.
pub(super) fn find_lent(device: u64, wanted: Wanted) -> Option<Exported> {
    let lent = lent();
    let found = match wanted {
        Wanted::Device => lent
            .objects
            .values()
            .find(|thing| matches!(thing, Exported::Device(context) if context.number() == device)),
        Wanted::Zone(handle) | Wanted::Region(handle) | Wanted::DeviceMemory(handle) => {
            lent.objects.get(&handle)
        }
    };
    let fits = |thing: &&Exported| match (thing, wanted) {
        (Exported::Device(_), Wanted::Device) => true,
        (Exported::Zone(zone), Wanted::Zone(_)) => !zone.is_released(),
        (Exported::Region(region), Wanted::Region(_)) => !region.is_deregistered(),
        (Exported::DeviceMemory(memory), Wanted::DeviceMemory(_)) => !memory.is_freed(),
        _ => false,
    };
    found.filter(fits).filter(|thing| context_of(thing).number() == device).cloned()
}

fn context_of(thing: &Exported) -> &Arc<Context> {
    match thing {
        Exported::Device(context) => context,
        Exported::Zone(zone) => zone.context(),
        Exported::Region(region) => region.zone().context(),
        Exported::DeviceMemory(memory) => memory.context(),
    }
}

impl Executor {
    pub(super) fn execute_on_imports(&mut self, command: Command) -> Reply {
        match command {
            Command::Descriptor {} => {
                lent().add(Exported::Device(Arc::clone(&self.opened)));
                numbers([std::process::id().into(), self.opened.command_fd().as_raw_fd() as u64])
            }
            Command::LendZone { zone } => lend(Exported::Zone(Arc::clone(self.zones.at(zone)))),
            Command::LendRegion { region } => lend(Exported::Region(Arc::clone(self.regions.at(region)))),
            Command::LendDeviceMemory { buffer } => {
                let memory = self.buffers.at(buffer).device().expect("device memory");
                lend(Exported::DeviceMemory(Arc::clone(memory)))
            }
            Command::ImportDevice { process, descriptor } => {
                // A copy of the descriptor, as if the other side had passed it over a socket.
                let copy = File::open(format!("/proc/{process}/fd/{descriptor}")).map_err(said)?;
                let command = nonic_device::Command::of(copy.as_fd()).ok_or("no descriptor of a device")?;
                self.context = import_device(command).map_err(said)?;
                NOTHING
            }
            Command::ImportZone { handle } => {
                number(self.zones.add(self.context.import_zone(handle).map_err(said)?))
            }
            Command::ImportRegion { handle } => {
                let region = self.context.import_region(handle).map_err(said)?;
                let keys = [u64::from(region.local_key().0), u64::from(region.remote_key().0)];
                numbers([self.regions.add(region), keys[0], keys[1]])
            }
            Command::ImportDeviceMemory { handle } => {
                let memory = self.context.import_device_memory(handle).map_err(said)?;
                number(self.buffers.add(Arc::new(Buffer::of_device(memory))))
            }
            command => self.endpoints.execute(command),
        }
    }

    /// Hands nothing out any more, and makes everything on the opened device again.
    pub(super) fn give_back_imports(&mut self) {
        let own = [self.context.number(), self.opened.number()];
        lent().objects.retain(|_, thing| !own.contains(&context_of(thing).number()));
        if !Arc::ptr_eq(&self.context, &self.opened) {
            self.context.close();
            self.context = Arc::clone(&self.opened);
        }
    }
}
