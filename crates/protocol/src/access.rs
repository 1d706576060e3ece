//! Who may do what to a region.

use core::fmt;
use core::ops::{BitAnd, BitOr, BitOrAssign};

/// A set of rights on registered memory. Local read needs no right: whoever registered the memory may send from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub struct Access(u32);

impl Access {
    /// No right beyond local read.
    pub const LOCAL_READ: Self = Self(0);
    /// Receives, read responses and atomic results may be placed here.
    pub const LOCAL_WRITE: Self = Self(1);
    /// A peer may write. For verbs this needs [`Access::LOCAL_WRITE`] too: [`Access::is_consistent`].
    pub const REMOTE_WRITE: Self = Self(1 << 1);
    /// A peer may read.
    pub const REMOTE_READ: Self = Self(1 << 2);
    /// A peer may run atomics. As for [`Access::REMOTE_WRITE`].
    pub const REMOTE_ATOMIC: Self = Self(1 << 3);
    /// Memory windows may be bound to the region.
    pub const WINDOW_BIND: Self = Self(1 << 4);
    /// A peer may have what it wrote made visible to everybody (annex A19.4.1).
    pub const FLUSH_GLOBAL: Self = Self(1 << 5);
    /// A peer may have what it wrote made durable. No memory gives it: none is known to be persistent.
    pub const FLUSH_PERSISTENT: Self = Self(1 << 6);
    /// Every right by which a peer reaches bytes.
    pub const REMOTE: Self = Self(0b1110);

    /// The set as bits, as it stands in the shared key table.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// The set from bits; `None` if a bit has no meaning.
    pub const fn from_bits(bits: u32) -> Option<Self> {
        if bits & !0b111_1111 == 0 { Some(Self(bits)) } else { None }
    }

    /// Whether every right in `wanted` is in this set.
    pub const fn contains(self, wanted: Self) -> bool {
        self.0 & wanted.0 == wanted.0
    }

    /// Whether any right in `other` is in this set.
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether verbs takes the rights together: a peer that may write needs memory that may be written at all
    /// (`ibv_reg_mr(3)`; the Linux RDMA core refuses the combination for every driver). uDAPL has no such rule for regions.
    pub const fn is_consistent(self) -> bool {
        !self.intersects(Self(Self::REMOTE_WRITE.0 | Self::REMOTE_ATOMIC.0))
            || self.contains(Self::LOCAL_WRITE)
    }
}

impl BitOr for Access {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Access {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl BitAnd for Access {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (Self::LOCAL_WRITE, "local write"),
            (Self::REMOTE_WRITE, "remote write"),
            (Self::REMOTE_READ, "remote read"),
            (Self::REMOTE_ATOMIC, "remote atomic"),
            (Self::WINDOW_BIND, "window bind"),
            (Self::FLUSH_GLOBAL, "flush to visibility"),
            (Self::FLUSH_PERSISTENT, "flush to persistence"),
        ];
        f.write_str("local read")?;
        for (right, name) in names {
            if self.contains(right) {
                write!(f, ", {name}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn remote_write_without_local_write_makes_no_sense() {
        assert!(!Access::REMOTE_WRITE.is_consistent());
        assert!(!Access::REMOTE_ATOMIC.is_consistent());
        assert!((Access::REMOTE_WRITE | Access::LOCAL_WRITE).is_consistent());
        assert!(Access::REMOTE_READ.is_consistent());
    }

    #[test]
    fn a_bit_without_meaning_is_not_a_right() {
        assert_eq!(Access::from_bits(1 << 7), None);
        assert_eq!(Access::from_bits(0b11), Some(Access::LOCAL_WRITE | Access::REMOTE_WRITE));
    }

    #[test]
    fn rights_are_named_for_people() {
        assert_eq!(
            (Access::LOCAL_WRITE | Access::REMOTE_READ).to_string(),
            "local read, local write, remote read"
        );
    }
}
