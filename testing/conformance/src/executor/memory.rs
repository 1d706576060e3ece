//! Commands about memory: zones, buffers, regions, windows, address handles.

use std::sync::Arc;

use nonic_device::{AddressRange, Region, RegionMemory, RegionRequest, RegisterError};

use super::{Executor, NOTHING, done, number, numbers, said};
use crate::command::{Answer, Command, MemoryKind, Reply, Source};
use crate::program_memory::{Buffer, copy_in, copy_out, is_in_file, program_address};

impl Executor {
    pub(super) fn execute_on_memory(&mut self, command: Command) -> Reply {
        match command {
            Command::Zone {} => number(self.zones.add(self.context.allocate_zone().map_err(said)?)),
            Command::ReleaseZone { zone } => done(self.zones.at(zone).release()),
            Command::Buffer { kind, length, log_alignment } => {
                self.create_buffer(kind, length, log_alignment)
            }
            Command::FreeBuffer { buffer } => match self.buffers.at(buffer).device() {
                Some(memory) => done(memory.free()),
                None => NOTHING,
            },
            Command::Peek { buffer, offset, length } => {
                Ok(Answer::Bytes { bytes: self.buffers.at(buffer).peek(offset, length) })
            }
            Command::Poke { buffer, offset, bytes } => {
                self.buffers.at(buffer).poke(offset, &bytes);
                NOTHING
            }
            Command::CopyIn { buffer, offset, bytes, length } => {
                let memory = self.buffers.at(buffer).device().expect("device memory");
                done(copy_in(memory, offset, &bytes, length))
            }
            Command::CopyOut { buffer, offset, length } => {
                let memory = self.buffers.at(buffer).device().expect("device memory");
                Ok(Answer::Bytes { bytes: copy_out(memory, offset, length).map_err(said)? })
            }
            Command::Register { zone, source, base, access } => {
                let (memory, address) = self.region_memory(source);
                let request = RegionRequest { memory, base: base.unwrap_or(address), access };
                self.add_region(self.zones.at(zone).register(request))
            }
            Command::Share { region, zone, access } => {
                self.add_region(self.regions.at(region).share(self.zones.at(zone), access))
            }
            Command::Shadow { region, zone, access } => {
                self.add_region(self.regions.at(region).shadow(self.zones.at(zone), access, None))
            }
            Command::Synchronize { region, address, length } => {
                let range = AddressRange::new(address, length);
                number(self.regions.at(region).synchronize(range).into())
            }
            Command::Publish { region, address, length } => {
                let range = AddressRange::new(address, length);
                number(self.regions.at(region).publish(range).into())
            }
            Command::Deregister { region } => done(self.regions.at(region).deregister()),
            Command::AllocateWindow { zone, kind } => {
                let window = self.zones.at(zone).allocate_window(kind).map_err(said)?;
                let (id, key) = (u64::from(window.id().0), u64::from(window.key().0));
                numbers([self.windows.add(window), id, key])
            }
            Command::NextKey { window } => number(self.windows.at(window).next_key().0.into()),
            Command::WindowKey { window } => number(self.windows.at(window).key().0.into()),
            Command::ReleaseWindow { window } => done(self.windows.at(window).release()),
            Command::IsInFile { address, length } => number(is_in_file(address, length).into()),
            Command::AddressHandle { zone, vector } => {
                let handle = self.zones.at(zone).create_address_handle(vector).map_err(said)?;
                number(self.handles.add(handle))
            }
            Command::DestroyAddressHandle { handle } => {
                self.handles.at(handle).destroy();
                NOTHING
            }
            command => self.execute_on_queues(command),
        }
    }

    fn create_buffer(&mut self, kind: MemoryKind, length: u64, log_alignment: u32) -> Reply {
        let buffer = if kind == MemoryKind::Device {
            Buffer::of_device(self.context.allocate_device_memory(length, log_alignment).map_err(said)?)
        } else {
            Buffer::create(kind, length).map_err(said)?
        };
        let address = buffer.address();
        numbers([self.buffers.add(Arc::new(buffer)), address])
    }

    fn add_region(&mut self, made: Result<Arc<Region>, RegisterError>) -> Reply {
        let region = made.map_err(said)?;
        let keys = [u64::from(region.local_key().0), u64::from(region.remote_key().0)];
        numbers([self.regions.add(region), keys[0], keys[1]])
    }

    fn region_memory(&self, source: Source) -> (RegionMemory, u64) {
        match source {
            Source::Raw { address, length } => (
                RegionMemory::Program { address: program_address(address), length: length as usize },
                address,
            ),
            Source::OnDemand { address, length } => {
                (RegionMemory::OnDemand { address: program_address(address), length }, address)
            }
            Source::Buffer { buffer, offset, length } => {
                let buffer = self.buffers.at(buffer);
                match buffer.device() {
                    Some(memory) => (RegionMemory::Device { memory: Arc::clone(memory), offset, length }, 0),
                    None => {
                        let address = buffer.address() + offset;
                        (
                            RegionMemory::Program {
                                address: program_address(address),
                                length: length as usize,
                            },
                            address,
                        )
                    }
                }
            }
        }
    }
}
