//! Who listens, and how many may ask at a time.

use alloc::collections::BTreeMap;

use super::event::{Accepts, CallError};
use super::settings::ManagerSettings;
use crate::address::HostAddress;
use crate::management::Naming;

/// A service as it is named, at an address or at all.
type Place = (u64, Naming, Option<HostAddress>);

/// Services that somebody listens for.
#[derive(Debug, Default)]
pub(super) struct Listeners(BTreeMap<Place, Accepts>);

impl Listeners {
    pub(super) fn add(&mut self, place: Place, accepts: Accepts) -> Result<(), CallError> {
        if self.0.contains_key(&place) {
            return Err(CallError::Listening);
        }
        self.0.insert(place, accepts);
        Ok(())
    }

    pub(super) fn remove(&mut self, place: Place) {
        self.0.remove(&place);
    }

    /// What is taken there of a request that is named so, and how its listener is named: the same way if there is one. Who listens at this
    /// address comes before who listens at all.
    pub(super) fn find(&self, service_id: u64, naming: Naming, at: HostAddress) -> Option<(Naming, Accepts)> {
        let places = naming.in_order().into_iter().flat_map(|naming| [(naming, Some(at)), (naming, None)]);
        let mut found = places.map(|(naming, at)| Some((naming, *self.0.get(&(service_id, naming, at))?)));
        found.find_map(|found| found)
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
        let found = |listeners: &Listeners, service, at| Some(listeners.find(service, Naming::Ip, at)?.1);
        listeners.add((5, Naming::Ip, None), Accepts::Datagrams).expect("nobody listens there");
        listeners.add((5, Naming::Ip, Some(one)), connections).expect("nobody listens there");
        assert_eq!(listeners.add((5, Naming::Ip, None), connections), Err(CallError::Listening));
        assert_eq!(found(&listeners, 5, one), Some(connections));
        assert_eq!(found(&listeners, 5, other), Some(Accepts::Datagrams));
        listeners.remove((5, Naming::Ip, None));
        assert_eq!((found(&listeners, 5, other), found(&listeners, 5, one)), (None, Some(connections)));
        assert_eq!(found(&listeners, 6, one), None);
    }

    #[test]
    fn who_listens_as_it_is_named_comes_before_who_listens_the_other_way_and_that_one_before_nobody() {
        let here = HostAddress::V4([10, 0, 0, 1]);
        let connections = Accepts::Connections(crate::Transport::Reliable);
        for naming in [Naming::Ip, Naming::Gid] {
            let other = naming.in_order()[1];
            let mut listeners = Listeners::default();
            listeners.add((5, other, Some(here)), Accepts::Datagrams).expect("nobody listens there");
            assert_eq!(listeners.find(5, naming, here), Some((other, Accepts::Datagrams)));
            listeners.add((5, naming, None), connections).expect("nobody listens so");
            assert_eq!(listeners.find(5, naming, here), Some((naming, connections)));
            assert_eq!(listeners.find(5, other, here), Some((other, Accepts::Datagrams)));
            listeners.remove((5, naming, None));
            assert_eq!(listeners.find(5, naming, here), Some((other, Accepts::Datagrams)));
        }
    }
}
