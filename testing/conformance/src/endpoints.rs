//! A side's endpoints of SCIF.

use std::os::fd::BorrowedFd;

use nonic_scif::{Endpoint, PortId, Protection, RmaFlags, ScifError, node_ids};
use rustix::fs::OFlags;

use crate::command::{Answer, Command, Reply, WindowRights};
use crate::executor::said;
use crate::objects::Objects;
use crate::program_memory::{Buffer, borrow};

/// A transfer that is complete when the call returns.
const SYNC: RmaFlags = RmaFlags { use_cpu: false, sync: true, ordered: false };

/// Numbered endpoints.
#[derive(Debug)]
pub(crate) struct Endpoints(Objects<Endpoint>);

impl Default for Endpoints {
    fn default() -> Self {
        Self(Objects::new())
    }
}

fn set_waiting(endpoint: BorrowedFd<'_>, waits: bool) -> rustix::io::Result<()> {
    let mut flags = rustix::fs::fcntl_getfl(endpoint)?;
    flags.set(OFlags::NONBLOCK, !waits);
    rustix::fs::fcntl_setfl(endpoint, flags)
}

fn protection(rights: WindowRights) -> Protection {
    Protection { read: rights.read, write: rights.write }
}

fn done(result: Result<(), ScifError>) -> Reply {
    result.map(|()| Answer::Nothing {}).map_err(said)
}

fn numbers(numbers: impl Into<Vec<u64>>) -> Reply {
    Ok(Answer::Numbers { numbers: numbers.into() })
}

impl Endpoints {
    /// Carries out a command on endpoints.
    pub(crate) fn execute(&mut self, command: Command) -> Reply {
        match command {
            Command::Listen {} => {
                let endpoint = Endpoint::open().map_err(said)?;
                let port = endpoint.bind(0).map_err(said)?;
                endpoint.listen(8).map_err(said)?;
                numbers([self.0.add(endpoint), node_ids().1.into(), port.into()])
            }
            Command::Ask { node, port } => {
                let endpoint = Endpoint::open().map_err(said)?;
                set_waiting(borrow(&endpoint), false).map_err(said)?;
                match endpoint.connect(PortId { node, port }) {
                    Err(ScifError::InProgress) => numbers([self.0.add(endpoint)]),
                    other => Err(format!("not undecided: {other:?}")),
                }
            }
            Command::Accept { listener } => {
                let (endpoint, _) = self.0.at(listener).accept(true).map_err(said)?;
                numbers([self.0.add(endpoint)])
            }
            Command::Collect { endpoint, node, port } => {
                let endpoint = self.0.at(endpoint);
                endpoint.connect(PortId { node, port }).map_err(said)?;
                set_waiting(borrow(endpoint), true).map_err(said)?;
                Ok(Answer::Nothing {})
            }
            Command::CloseEndpoint { endpoint } => {
                self.0.objects.remove(&endpoint);
                Ok(Answer::Nothing {})
            }
            command => self.execute_on_windows(command),
        }
    }

    fn execute_on_windows(&mut self, command: Command) -> Reply {
        match command {
            Command::OpenWindow { endpoint, address, length, offset, rights, fixed } => {
                let (address, length) = (address as usize, length as usize);
                let offset = self
                    .0
                    .at(endpoint)
                    .register(address, length, offset as i64, protection(rights), fixed)
                    .map_err(said)?;
                numbers([offset as u64])
            }
            Command::CloseWindow { endpoint, offset, length } => {
                done(self.0.at(endpoint).unregister(offset as i64, length as usize))
            }
            Command::ReadFrom { endpoint, local, length, remote } => {
                done(self.0.at(endpoint).read_from(local as i64, length as usize, remote as i64, SYNC))
            }
            Command::WriteTo { endpoint, local, length, remote } => {
                done(self.0.at(endpoint).write_to(local as i64, length as usize, remote as i64, SYNC))
            }
            Command::ReadInto { endpoint, address, length, remote } => {
                done(self.0.at(endpoint).read_into(address as usize, length as usize, remote as i64, SYNC))
            }
            Command::WriteOut { endpoint, address, length, remote } => {
                done(self.0.at(endpoint).write_out(address as usize, length as usize, remote as i64, SYNC))
            }
            command => Err(format!("{command:?} is not a command of this side")),
        }
    }

    /// Maps windows of an endpoint's peer.
    pub(crate) fn map(
        &self,
        endpoint: u32,
        offset: u64,
        length: u64,
        rights: WindowRights,
    ) -> Result<Buffer, ScifError> {
        let length = length as usize;
        let address = self.0.at(endpoint).map(0, length, protection(rights), false, offset as i64)?;
        Ok(Buffer::of_window(address, length))
    }

    /// Closes what a rule left open.
    pub(crate) fn close_all(&mut self) {
        self.0.objects.clear();
    }
}
