//! Which identification a datagram of IPv4 had.
//!
//! The check covers it, and a socket does not tell it to whoever receives. But a CRC is linear: what the identification adds to the
//! check depends on it and on the bytes behind it alone, so from the difference between two checks follows the only one that
//! can have been. A packet that is wrong then passes if its difference is that of any identification: of 32 bits 16 are left to
//! find errors. Whoever knows the identification had better say it.

use crate::icrc::{Envelope, ICRC_LENGTH, Route, icrc, icrc_twice};
use crate::packet::{Base, is_flush};

/// The polynomial of CRC-32, the lowest power first.
const POLYNOMIAL: u32 = 0xedb8_8320;
/// The polynomial 1, in this order.
const ONE: u32 = 1 << 31;

/// Bytes of the headers from the identification on: of IPv4 the rest, and UDP's.
const HEADERS_FROM_IDENTIFICATION: usize = 16 + 8;

/// The bits of a length that a datagram can have.
const POWERS: usize = 16;

/// x to the power of -8, of -16, of -32 and so on: what takes back 1, 2, 4 and so on bytes of zeros.
const BACK: [u32; POWERS] = {
    let mut powers = [0; POWERS];
    let (mut power, mut bits) = (ONE, 0);
    while bits < 8 {
        power = divide(power);
        bits += 1;
    }
    let mut index = 0;
    while index < POWERS {
        powers[index] = power;
        power = multiply(power, power);
        index += 1;
    }
    powers
};

/// A polynomial times x, modulo the polynomial of the check.
const fn times_x(value: u32) -> u32 {
    value >> 1 ^ if value & 1 != 0 { POLYNOMIAL } else { 0 }
}

/// The one that times x is this one.
const fn divide(value: u32) -> u32 {
    if value >> 31 != 0 { (value ^ POLYNOMIAL) << 1 | 1 } else { value << 1 }
}

const fn multiply(factor: u32, mut other: u32) -> u32 {
    let (mut product, mut bit) = (0, ONE);
    while bit != 0 {
        if factor & bit != 0 {
            product ^= other;
        }
        other = times_x(other);
        bit >>= 1;
    }
    product
}

impl Envelope {
    /// This envelope with the identification that makes the check of a UDP datagram's payload right; `None` if there is none. By
    /// IPv6, which has no identification, itself, if the check is right. Half a microsecond beyond the check itself.
    pub fn identify(&self, datagram: &[u8]) -> Option<Self> {
        let (packet, found) = datagram.split_last_chunk::<ICRC_LENGTH>()?;
        if packet.len() < Base::LENGTH || packet.len() > usize::from(u16::MAX) - HEADERS_FROM_IDENTIFICATION {
            return None;
        }
        // A flush may count twice in its check.
        let twice = || is_flush(packet).then(|| self.identify_by(packet, *found, icrc_twice, 2)).flatten();
        self.identify_by(packet, *found, icrc, 1).or_else(twice)
    }

    /// The same where the check is made like this, in which the packet counts so often.
    fn identify_by(
        &self,
        packet: &[u8],
        found: [u8; ICRC_LENGTH],
        check: impl FnOnce(&Self, &[u8]) -> [u8; ICRC_LENGTH],
        times: usize,
    ) -> Option<Self> {
        let mut envelope = *self;
        if let Route::V4 { identification, .. } = &mut envelope.route {
            *identification = 0;
        }
        let of_none = u32::from_le_bytes(check(&envelope, packet));
        let mut difference = of_none ^ u32::from_le_bytes(found);
        let Route::V4 { identification, .. } = &mut envelope.route else {
            return (difference == 0).then_some(envelope);
        };
        let behind = HEADERS_FROM_IDENTIFICATION + times * packet.len();
        for (index, back) in BACK.iter().enumerate() {
            if behind >> index & 1 != 0 {
                difference = multiply(difference, *back);
            }
        }
        // The register that the two bytes alone would have been.
        *identification = u16::try_from(difference).ok()?.swap_bytes();
        Some(envelope)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use std::vec::Vec;

    use super::*;

    fn envelope(identification: u16) -> Envelope {
        let (source, destination) = ([10, 0, 0, 1], [10, 0, 0, 2]);
        Envelope {
            route: Route::V4 { source, destination, identification, dont_fragment: true },
            source_port: 0xc123,
        }
    }

    proptest! {
        #[test]
        fn the_identification_that_a_datagram_had_is_found(
            identification in any::<u16>(),
            packet in prop::collection::vec(any::<u8>(), 12..4200),
            flipped in any::<prop::sample::Index>(),
        ) {
            let check = icrc(&envelope(identification), &packet);
            let mut datagram: Vec<u8> = [packet.as_slice(), &check].concat();
            prop_assert_eq!(envelope(7).identify(&datagram), Some(envelope(identification)));
            // With one wrong bit it is another one, or none.
            let at = flipped.index(datagram.len());
            if at != 4 {
                datagram[at] ^= 1;
                prop_assert_ne!(envelope(7).identify(&datagram), Some(envelope(identification)));
            }
        }
    }

    proptest! {
        #[test]
        fn that_of_a_flush_is_found_however_its_check_is_made(
            identification in any::<u16>(),
            mut packet in prop::collection::vec(any::<u8>(), 12..44),
        ) {
            packet[0] = 0x1c;
            for check in [icrc, icrc_twice] {
                let check = check(&envelope(identification), &packet);
                let found = envelope(7).identify(&[packet.as_slice(), &check].concat()).expect("there is one");
                // Of 65,536 one is taken for one whose packet counts once, and has another number.
                prop_assert!(found == envelope(identification) || check == icrc(&found, &packet));
            }
            packet[0] = 0x1b;
            let check = icrc_twice(&envelope(identification), &packet);
            prop_assert_ne!(envelope(7).identify(&[packet.as_slice(), &check].concat()), Some(envelope(identification)));
        }
    }

    #[test]
    fn by_ipv6_there_is_nothing_to_find() {
        let route = Route::V6 { source: [1; 16], destination: [2; 16] };
        let envelope = Envelope { route, source_port: 9 };
        let mut datagram = [[7; 12].as_slice(), &icrc(&envelope, &[7; 12])].concat();
        assert_eq!(envelope.identify(&datagram), Some(envelope));
        datagram[0] ^= 1;
        assert_eq!(envelope.identify(&datagram), None);
        assert_eq!(envelope.identify(&datagram[..15]), None);
    }
}
