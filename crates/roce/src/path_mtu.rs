//! How many bytes of a message one packet carries (IBTA vol. 1, 9.3: PMTU).

/// Payload of a packet at most, and of each but the last of a message exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathMtu {
    /// 256 bytes.
    Bytes256 = 1,
    /// 512 bytes.
    Bytes512,
    /// 1024 bytes.
    Bytes1024,
    /// 2048 bytes.
    Bytes2048,
    /// 4096 bytes.
    Bytes4096,
}

impl PathMtu {
    /// The one with this number in `enum ibv_mtu` and in messages of the connection manager.
    pub const fn from_number(number: u32) -> Option<Self> {
        Some(match number {
            1 => Self::Bytes256,
            2 => Self::Bytes512,
            3 => Self::Bytes1024,
            4 => Self::Bytes2048,
            5 => Self::Bytes4096,
            _ => return None,
        })
    }

    /// Its bytes.
    #[inline]
    pub const fn bytes(self) -> u32 {
        128 << self as u32
    }

    /// Packets of a message of so many bytes: one for an empty one, too.
    #[inline]
    pub const fn packets(self, length: u32) -> u32 {
        if length == 0 { 1 } else { length.div_ceil(self.bytes()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_cut_at_multiples_of_the_mtu() {
        let mtu = PathMtu::from_number(3).expect("three stands for 1024 bytes");
        assert_eq!(mtu.bytes(), 1024);
        let packets = [0, 1, 1024, 1025, 2048, 2049].map(|length| mtu.packets(length));
        assert_eq!(packets, [1, 1, 1, 2, 2, 3]);
        assert_eq!(PathMtu::Bytes256.packets(1 << 31), 1 << 23);
        assert_eq!((PathMtu::from_number(0), PathMtu::from_number(6)), (None, None));
        assert_eq!(PathMtu::Bytes4096.bytes(), 4096);
    }
}
