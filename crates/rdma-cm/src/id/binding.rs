//! Binding to an address and a port.

use std::net::SocketAddr;
use std::sync::Arc;

use super::{Core, device_context};
use crate::address::{canonical, check_own};
use crate::ports::{Wanted, bind};
use crate::{Error, Id, PortSpace, State};

impl Id {
    /// Binds it to an address of this host, or a wildcard; port 0 chooses one that is free (`rdma_bind_addr(3)`).
    ///
    /// Errors: `State` unless IDLE, `AddressNotOwn`, `AddressInUse`, `AddressOverlaps`, `Denied`, `NoPort`, `Argument` for a
    /// link-local address without scope, and on Ethernet in the space IPOIB for every address.
    pub fn bind(self: &Arc<Self>, address: SocketAddr) -> Result<(), Error> {
        let mut core = self.lock_in(&[State::Idle])?;
        self.bind_in(&mut core, address)
    }

    pub(super) fn bind_in(&self, core: &mut Core, address: SocketAddr) -> Result<(), Error> {
        let address = canonical(address);
        if address.ip().is_multicast() {
            return Err(Error::AddressNotOwn(address.ip()));
        }
        check_own(address)?;
        let context = device_context()?;
        if self.space() == PortSpace::Ipoib && context.port().ethernet {
            return Err(Error::Argument("IP over InfiniBand is not on Ethernet"));
        }
        let binding = bind(&Wanted {
            space: self.space(),
            address,
            one_family: core.options.one_family(address.ip()),
            reuse: core.options.reuse,
        })?;
        let mut source = address;
        source.set_port(binding.port());
        core.source = Some(source);
        core.binding = Some(binding);
        if !address.ip().is_unspecified() {
            core.context = Some(context);
        }
        core.state = State::AddressBound;
        Ok(())
    }
}
