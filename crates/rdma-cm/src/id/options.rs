//! Options.

use std::net::IpAddr;
use std::sync::Arc;

use nonic_roce::Naming;

use crate::{Error, EventKind, Id, IdOption, Parameters, State};

/// What was set.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Options {
    pub(super) type_of_service: u8,
    pub(super) reuse: bool,
    one_family: Option<bool>,
    /// As the exponent that queue pairs have.
    pub(super) ack_timeout: Option<u8>,
    /// Peers on other hosts are none of its.
    pub(super) within_host: bool,
}

impl Options {
    /// Whether an address stands for its own family only.
    pub(super) fn one_family(&self, naming: Naming, ip: IpAddr) -> bool {
        match naming {
            Naming::Ip => ip.is_ipv4() || self.one_family.unwrap_or_else(is_one_family_by_default),
            Naming::Gid => self.one_family.unwrap_or(false),
        }
    }
}

fn is_one_family_by_default() -> bool {
    std::fs::read_to_string("/proc/sys/net/ipv6/bindv6only").is_ok_and(|text| text.trim() == "1")
}

impl Id {
    /// Neither asks other hosts nor takes requests of theirs, from now on.
    pub fn stay_within_host(&self) {
        self.lock().options.within_host = true;
    }

    /// Sets an option. Errors: `State`, `Argument`.
    pub fn set_option(self: &Arc<Self>, option: IdOption) -> Result<(), Error> {
        use State::{AddressBound, AddressResolved, Idle, Listen, RouteResolved};
        let mut core = self.lock_alive()?;
        let state = core.state;
        let in_states = |states: &[State]| {
            if states.contains(&state) { Ok(()) } else { Err(Error::State(state)) }
        };
        match option {
            IdOption::TypeOfService(value) => core.options.type_of_service = value,
            IdOption::ReuseAddress(true) => {
                if state == Listen {
                    return Err(Error::State(state));
                }
                core.options.reuse = true;
                if let Some(binding) = &core.binding {
                    binding.allow_reuse();
                }
            }
            IdOption::ReuseAddress(false) => {
                in_states(&[Idle])?;
                core.options.reuse = false;
            }
            IdOption::AddressFamilyOnly(value) => {
                in_states(&[Idle, AddressBound])?;
                core.options.one_family = Some(value);
            }
            IdOption::AckTimeout(exponent) => {
                if self.is_datagram() {
                    return Err(Error::Argument("datagrams are not acknowledged"));
                }
                // Queue pairs have five bits for it.
                core.options.ack_timeout = Some(exponent.min(31));
            }
            IdOption::Path => {
                in_states(&[AddressResolved])?;
                core.state = RouteResolved;
                self.push(&core, EventKind::RouteResolved, 0, Parameters::None);
            }
        }
        Ok(())
    }
}
