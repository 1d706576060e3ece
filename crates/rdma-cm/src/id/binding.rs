//! Binding to an address and a port.

use std::net::SocketAddr;
use std::sync::Arc;

use super::{Core, device_context};
use crate::address::{canonical, check_own};
use crate::names::Wanted;
use crate::ports::bind;
use crate::{Error, GidAddress, Id, Named, PortSpace, State};

impl Id {
    /// Binds it to an address of this host, or a wildcard; port 0 chooses one that is free (`rdma_bind_addr(3)`).
    ///
    /// Errors: `State` unless IDLE, `AddressNotOwn`, `AddressInUse`, `AddressOverlaps`, `Denied`, `NoPort`, `Argument` for a
    /// link-local address without scope, and on Ethernet in the space IPOIB for every address.
    pub fn bind(self: &Arc<Self>, address: SocketAddr) -> Result<(), Error> {
        let mut core = self.lock_in(&[State::Idle])?;
        self.bind_in(&mut core, Named::Ip(address))
    }

    /// The same to an address of either family, which is its family from now on. A service is one of the ports of its space, or in that of
    /// InfiniBand also of those of connections and datagrams; whose port it is, there it is bound. Errors: also `ForeignService`.
    pub fn bind_named(self: &Arc<Self>, address: Named) -> Result<(), Error> {
        let mut core = self.lock_in(&[State::Idle])?;
        let before = self.is_by_gid();
        self.name_by_gid(address.is_by_gid());
        self.bind_in(&mut core, address).inspect_err(|_| self.name_by_gid(before))
    }

    pub(super) fn bind_in(&self, core: &mut Core, named: Named) -> Result<(), Error> {
        let address = canonical(named.own());
        if address.ip().is_multicast() {
            return Err(Error::AddressNotOwn(address.ip()));
        }
        check_own(address)?;
        let context = device_context()?;
        if self.space() == PortSpace::Ipoib && context.port().ethernet {
            return Err(Error::Argument("IP over InfiniBand is not on Ethernet"));
        }
        let ports = self.ports_of(named)?;
        let binding = bind(&Wanted {
            space: ports,
            naming: self.naming(),
            address,
            one_family: core.options.one_family(self.naming(), address.ip()),
            reuse: core.options.reuse,
        })?;
        let mut source = address;
        source.set_port(binding.port());
        core.source = Some(source);
        core.ports = ports;
        core.binding = Some(binding);
        if !address.ip().is_unspecified() {
            core.context = Some(context);
        }
        core.state = State::AddressBound;
        Ok(())
    }

    /// Whose ports it gets.
    pub(super) fn ports_of(&self, named: Named) -> Result<PortSpace, Error> {
        match named {
            Named::Ip(_) => Ok(self.space()),
            Named::Gid(GidAddress { service, mask, .. }) => {
                self.space().of_own_service(service, mask).ok_or(Error::ForeignService(service))
            }
        }
    }
}
