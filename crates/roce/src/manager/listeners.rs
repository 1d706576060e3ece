//! Who listens, and how many may ask at a time.

use alloc::collections::BTreeMap;

use super::event::{Accepts, CallError};
use super::settings::ManagerSettings;
use crate::address::HostAddress;

/// Services that somebody listens for.
#[derive(Debug, Default)]
pub(super) struct Listeners(BTreeMap<(u64, Option<HostAddress>), Accepts>);

impl Listeners {
    pub(super) fn add(
        &mut self,
        service_id: u64,
        at: Option<HostAddress>,
        accepts: Accepts,
    ) -> Result<(), CallError> {
        if self.0.contains_key(&(service_id, at)) {
            return Err(CallError::Listening);
        }
        self.0.insert((service_id, at), accepts);
        Ok(())
    }

    pub(super) fn remove(&mut self, service_id: u64, at: Option<HostAddress>) {
        self.0.remove(&(service_id, at));
    }

    /// What is taken there: by who listens at this address, else by who listens at all.
    pub(super) fn find(&self, service_id: u64, at: HostAddress) -> Option<Accepts> {
        [Some(at), None].into_iter().find_map(|at| self.0.get(&(service_id, at)).copied())
    }
}

/// Places of requests that have not led to a connection yet, and who has them.
#[derive(Debug)]
pub(super) struct HalfOpen {
    all: usize,
    most: usize,
    most_of_source: usize,
    of_source: BTreeMap<[u8; 16], usize>,
}

/// Who counts as one: an address of IPv4, a network of 64 bits of IPv6, of which one host may have as many addresses as it likes.
fn source(address: HostAddress) -> [u8; 16] {
    let mut source = address.gid();
    if let HostAddress::V6(_) = address {
        source[8..].fill(0);
    }
    source
}

impl HalfOpen {
    pub(super) fn new(settings: &ManagerSettings) -> Self {
        Self {
            all: 0,
            most: settings.half_open,
            most_of_source: settings.half_open_of_source,
            of_source: BTreeMap::new(),
        }
    }

    pub(super) fn take(&mut self, from: HostAddress) -> bool {
        let source = source(from);
        let has = self.of_source.get(&source).copied().unwrap_or(0);
        if self.all >= self.most || has >= self.most_of_source {
            return false;
        }
        self.of_source.insert(source, has + 1);
        self.all += 1;
        true
    }

    pub(super) fn give_back(&mut self, from: HostAddress) {
        let source = source(from);
        let has = self.of_source.get(&source).copied().unwrap_or(0);
        assert!(has > 0, "a place is given back that nobody took");
        if has == 1 {
            self.of_source.remove(&source);
        } else {
            self.of_source.insert(source, has - 1);
        }
        self.all -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(most: usize, most_of_source: usize) -> HalfOpen {
        let settings = ManagerSettings {
            half_open: most,
            half_open_of_source: most_of_source,
            ..ManagerSettings::new(1)
        };
        HalfOpen::new(&settings)
    }

    #[test]
    fn nobody_takes_more_than_a_share_and_all_together_no_more_than_there_is() {
        let mut places = places(3, 2);
        let host = |last| HostAddress::V4([10, 0, 0, last]);
        assert_eq!([1, 1, 1, 2, 3].map(|last| places.take(host(last))), [true, true, false, true, false]);
        places.give_back(host(1));
        assert!(places.take(host(3)));
        [1, 2, 3].into_iter().for_each(|last| places.give_back(host(last)));
        assert_eq!((places.all, places.of_source.len()), (0, 0));
    }

    #[test]
    fn a_network_of_ipv6_counts_as_one_source() {
        let mut places = places(9, 1);
        let host = |network, last| {
            let mut address = [0xfd; 16];
            (address[7], address[15]) = (network, last);
            HostAddress::V6(address)
        };
        assert_eq!([(1, 1), (1, 2), (2, 1)].map(|(n, l)| places.take(host(n, l))), [true, false, true]);
    }

    #[test]
    fn who_listens_at_an_address_comes_before_who_listens_at_all() {
        let mut listeners = Listeners::default();
        let [one, other] = [1, 2].map(|last| HostAddress::V4([10, 0, 0, last]));
        let connections = Accepts::Connections(crate::Transport::Reliable);
        listeners.add(5, None, Accepts::Datagrams).expect("nobody listens there");
        listeners.add(5, Some(one), connections).expect("nobody listens there");
        assert_eq!(listeners.add(5, None, connections), Err(CallError::Listening));
        assert_eq!(listeners.find(5, one), Some(connections));
        assert_eq!(listeners.find(5, other), Some(Accepts::Datagrams));
        listeners.remove(5, None);
        assert_eq!((listeners.find(5, other), listeners.find(5, one)), (None, Some(connections)));
        assert_eq!(listeners.find(6, one), None);
    }
}
