//! What a connection manager is told once: who it is, how patient it is, and how much it keeps.

use core::fmt;
use core::time::Duration;

use alloc::boxed::Box;

/// Exponents of time that a peer names count up to here: 8 s. Longer ones would have it say how long it is remembered.
const PEERS_EXPONENT_MAX: u8 = 21;
/// The time that a peer asks for to think counts up to here: 65.5 s, what Linux asks for.
const PEERS_SERVICE_MAX: u8 = 24;

/// What a connection manager is told once. Times are exponents of IBTA vol. 1, 12.7.4: 4.096 us · 2^exponent, which counts as
/// 2^(exponent - 8) ms, as in Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManagerSettings {
    /// GUID of the channel adapter. Peers take a queue pair's number that comes twice with one GUID for the old one that is
    /// gone: so it is the process's own, by chance.
    pub ca_guid: u64,
    /// In which time either side answers, its network apart.
    pub response_timeout: u8,
    /// How often a message is repeated that nobody answers, 0 to 15.
    pub repeats: u8,
    /// How long this side's program may think, as a peer is told that asks again.
    pub service_timeout: u8,
    /// How long a packet lives at most.
    pub packet_lifetime: u8,
    /// How long this side's acknowledgements take.
    pub ack_delay: u8,
    /// Requests of peers at most that have not led to a connection yet. More are not answered; who asks, repeats.
    pub half_open: usize,
    /// Of them those that came from one address of IPv4, or one network of 64 bits of IPv6.
    pub half_open_of_source: usize,
    /// How many communications at most are remembered that the program does not know any more.
    pub left_behind: usize,
    /// How many managers, a power of two, may be at this side's addresses, such as those of several processes: each hears everything and
    /// answers for itself. Whose a communication is, the lowest bits of its number say.
    pub places: u8,
    /// Which of them this one is, from 0.
    pub place: u8,
}

impl ManagerSettings {
    /// Those of Linux, with this GUID.
    pub const fn new(ca_guid: u64) -> Self {
        Self {
            ca_guid,
            response_timeout: 20,
            repeats: 15,
            service_timeout: 24,
            packet_lifetime: 16,
            ack_delay: 15,
            half_open: 1024,
            half_open_of_source: 128,
            left_behind: 4096,
            places: 1,
            place: 0,
        }
    }

    /// How long an acknowledgement takes at most between this side and one whose acknowledgements take so long: what a request says,
    /// and what the queue pair's `timeout` is. The time of the packet and that of the acknowledgement are added as exponents.
    pub const fn ack_timeout(&self, delay: u8) -> u8 {
        let way = self.packet_lifetime + 1;
        let folded =
            if way >= delay { way + (delay + 1 >= way) as u8 } else { delay + (way + 1 >= delay) as u8 };
        if folded > 31 { 31 } else { folded }
    }

    /// Whether nobody else answers at this side's addresses.
    pub(super) fn is_alone(&self) -> bool {
        self.places <= 1
    }

    /// Whether a communication of this number is this manager's, or was.
    pub(super) fn is_own(&self, number: u32) -> bool {
        number & self.place_bits() == u32::from(self.place)
    }

    /// The number of its own that is nearest.
    pub(super) fn own_number(&self, number: u32) -> u32 {
        number & !self.place_bits() | u32::from(self.place)
    }

    fn place_bits(&self) -> u32 {
        u32::from(self.places.max(1)) - 1
    }

    /// When a request is repeated: after the way there and back, and the time the peer has.
    pub(super) fn request_timeout(&self) -> Duration {
        2 * time(self.packet_lifetime) + time(self.response_timeout)
    }
}

/// How long an exponent is.
pub(super) const fn time(exponent: u8) -> Duration {
    Duration::from_millis(1 << (exponent & 31).saturating_sub(8))
}

/// The same, as far as a peer may decide.
pub(super) fn peers_time(exponent: u8) -> Duration {
    time(exponent.min(PEERS_EXPONENT_MAX))
}

/// How long a peer may think that asks for so long.
pub(super) fn peers_thinking(exponent: u8) -> Duration {
    time(exponent.min(PEERS_SERVICE_MAX))
}

/// Where numbers come from that nobody can guess.
pub(super) struct Numbers(pub(super) Box<dyn FnMut() -> u64 + Send>);

impl Numbers {
    pub(super) fn next(&mut self) -> u64 {
        (self.0)()
    }
}

impl fmt::Debug for Numbers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Numbers")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_linux() {
        assert_eq!([0, 8, 9, 20, 24].map(|code| time(code).as_millis()), [1, 1, 2, 4096, 65_536]);
        let settings = ManagerSettings::new(1);
        assert_eq!(settings.request_timeout(), Duration::from_millis(4096 + 512));
        // Packet lifetime 16 of Linux 6.12, 18 of 6.1; the delay of its device is 15.
        assert_eq!(settings.ack_timeout(15), 17);
        assert_eq!(ManagerSettings { packet_lifetime: 18, ..settings }.ack_timeout(15), 19);
        assert_eq!([16, 17, 18, 30, 31].map(|delay| settings.ack_timeout(delay)), [18, 18, 19, 30, 31]);
    }

    #[test]
    fn a_peer_does_not_decide_for_how_long_it_is_remembered() {
        assert_eq!([20, 21, 22, 31].map(|code| peers_time(code).as_millis()), [4096, 8192, 8192, 8192]);
        assert_eq!([24, 25, 31].map(|code| peers_thinking(code).as_millis()), [65_536, 65_536, 65_536]);
    }
}
