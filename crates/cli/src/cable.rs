//! Two networks that nobody else is in, joined by a cable: where programs of this host have no way to each other but the wire.

use std::io;
use std::net::{IpAddr, Ipv4Addr};

use nonic_sys::{CableEnd, NetworkNamespace, enter_own_user_namespace, lay_cable};

/// The addresses of both ends.
const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 77, 0, 1), Ipv4Addr::new(10, 77, 0, 2)];

/// Packets of IP that the cable carries: room for 4,096 bytes of a packet of RoCEv2, and no more than a jumbo frame of Ethernet.
pub(crate) const MTU: u32 = 9000;

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CableError {
    #[error(
        "two network namespaces are needed, and this user may not make them here: {error} ({step}). What helps: in a container, \
         docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined, or --privileged; on Ubuntu 24.04, as root, \
         sysctl kernel.apparmor_restrict_unprivileged_userns=0; on older Debian sysctl kernel.unprivileged_userns_clone=1; where \
         user.max_user_namespaces is 0, a number; or run this command as root"
    )]
    Namespaces { step: &'static str, error: io::Error },
    #[error(
        "two network namespaces were made, and no cable between them (veth): {error}. Where the kernel has no veth, modprobe veth as \
         root brings it"
    )]
    Cable { error: io::Error },
    #[error("a network namespace of this command's own cannot be entered: {error}")]
    Enter { error: io::Error },
}

/// Lives as long as this, and as what runs there.
pub(crate) struct Cable {
    ends: [NetworkNamespace; 2],
}

impl Cable {
    /// Lays it. This process must have one thread, which is in the network of the second end afterwards and, if this user may not make
    /// networks, in a user namespace of its own.
    pub(crate) fn lay() -> Result<Self, CableError> {
        let made = |step| move |error| CableError::Namespaces { step, error };
        let near = match NetworkNamespace::enter_new() {
            Ok(near) => near,
            Err(_) => {
                enter_own_user_namespace().map_err(made("a user namespace"))?;
                NetworkNamespace::enter_new().map_err(made("the first network namespace"))?
            }
        };
        let far = NetworkNamespace::enter_new().map_err(made("the second network namespace"))?;
        let end = |namespace, interface, address| CableEnd { namespace, interface, address };
        let (first, second) = (end(&near, "near", ADDRESSES[0]), end(&far, "far", ADDRESSES[1]));
        lay_cable(first, second, MTU).map_err(|error| CableError::Cable { error })?;
        Ok(Self { ends: [near, far] })
    }

    /// Puts this thread, and what it starts, at an end: 0 or 1.
    pub(crate) fn enter(&self, end: usize) -> Result<(), CableError> {
        self.ends[end].enter().map_err(|error| CableError::Enter { error })
    }

    /// The address there.
    pub(crate) fn address(end: usize) -> IpAddr {
        ADDRESSES[end].into()
    }
}
