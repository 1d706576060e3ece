//! Commands about XRC domains.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;

use nonic_device::{DomainFile, ExtendedDomain};
use nonic_sys::SharedMemory;

use super::{Executor, done, number, numbers, said};
use crate::command::{Command, Reply};

/// Receives and pieces of a shared receive queue.
const SIZE: (u32, u32) = (16, 4);

impl Executor {
    pub(super) fn execute_on_domains(&mut self, command: Command) -> Reply {
        match command {
            Command::Domain {} => {
                number(self.domains.add(self.context.open_extended_domain(None).map_err(said)?))
            }
            Command::DomainOfFile {} => {
                let file = SharedMemory::create("nonic-domain", 1).map_err(said)?;
                let domain = self.open_domain_of(file.as_fd(), true)?;
                let descriptor = file.as_fd().as_raw_fd() as u64;
                self.domain_files.push(file);
                numbers([self.domains.add(domain), std::process::id().into(), descriptor])
            }
            Command::SameDomain { process, descriptor } => {
                let file = File::open(format!("/proc/{process}/fd/{descriptor}")).map_err(said)?;
                let domain = self.open_domain_of(file.as_fd(), false)?;
                number(self.domains.add(domain))
            }
            Command::CloseDomain { domain } => done(self.domains.at(domain).close()),
            Command::DomainQueue { domain, zone, completions } => {
                let (domain, completions) = (self.domains.at(domain), self.queues.at(completions));
                let zone = self.zones.at(zone);
                let queue = zone.create_extended_receive_queue(domain, completions, SIZE, 0).map_err(said)?;
                let own = queue.number().expect("a queue of a domain has a number");
                numbers([self.shared.add(queue), u64::from(own.0)])
            }
            Command::Target { domain } => {
                let pair = self.domains.at(domain).create_queue_pair(0).map_err(said)?;
                let own = u64::from(pair.number().0);
                numbers([self.pairs.add(pair), own])
            }
            command => self.execute_on_imports(command),
        }
    }

    fn open_domain_of(
        &self,
        descriptor: BorrowedFd<'_>,
        exclusive: bool,
    ) -> Result<Arc<ExtendedDomain>, String> {
        let file = DomainFile { descriptor, create: exclusive, exclusive };
        self.context.open_extended_domain(Some(file)).map_err(said)
    }
}
