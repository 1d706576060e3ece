//! `DAT_RETURN`: class, type and subtype in one number, in the numbering of each version of the interface.

use nonic_dat::DatError;

/// A version of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Numbering {
    /// uDAPL 1.2.
    V1_2 = 1,
    /// uDAPL 2.0.
    V2_0 = 2,
}

/// `DAT_CLASS_ERROR`.
pub(crate) const CLASS_ERROR: u32 = 0x8000_0000;

/// First subtype, in the numbers of 1.2, before which 2.0 has one more (`DAT_INVALID_HANDLE_CSP`).
const BEHIND_COMMON_SERVICE_POINT: u16 = 26;
/// First subtype, in the numbers of 1.2, before which 2.0 has yet one more (`DAT_INVALID_STATE_SRQ_SHUTDOWN`).
const BEHIND_SHUTDOWN: u16 = 87;

/// The number of a refusal.
pub(crate) const fn encode(numbering: Numbering, error: DatError) -> u32 {
    let number = error.subtype.number();
    let subtype = match numbering {
        Numbering::V1_2 => number,
        Numbering::V2_0 => {
            number + (number >= BEHIND_COMMON_SERVICE_POINT) as u16 + (number >= BEHIND_SHUTDOWN) as u16
        }
    };
    let class = if error.bare { 0 } else { CLASS_ERROR };
    class | (error.kind as u32) << 16 | subtype as u32
}

#[cfg(test)]
mod tests {
    use nonic_dat::{AccessKind, HandleKind, Kind, StateKind, Subtype};

    use super::*;

    fn both(error: DatError) -> [u32; 2] {
        [Numbering::V1_2, Numbering::V2_0].map(|numbering| encode(numbering, error))
    }

    #[test]
    fn a_refusal_is_class_type_and_subtype() {
        assert_eq!(both(DatError::MODEL_NOT_SUPPORTED), [0x8009_0000; 2]);
        assert_eq!(both(DatError::handle(Subtype::Handle(HandleKind::InterfaceAdapter))), [0x8005_000b; 2]);
        assert_eq!(both(DatError::handle(Subtype::Handle(HandleKind::SharedReceiveQueue))), [0x8005_0019; 2]);
    }

    #[test]
    fn what_programs_compare_has_no_class() {
        assert_eq!(both(DatError::QUEUE_EMPTY), [0x000d_0000; 2]);
        assert_eq!(both(DatError::bare(Kind::ConnQualInUse)), [0x0002_0000; 2]);
    }

    #[test]
    fn version_2_0_counts_the_two_subtypes_it_inserts() {
        assert_eq!(both(DatError::handle(Subtype::Handle(HandleKind::First))), [0x8005_001a, 0x8005_001b]);
        assert_eq!(both(DatError::argument(4)), [0x8006_0027, 0x8006_0028]);
        assert_eq!(both(DatError::state(Subtype::State(StateKind::SrqInUse))), [0x8007_0056, 0x8007_0057]);
        let privileges = DatError::new(Kind::PrivilegesViolation, Subtype::Privileges(AccessKind::Read));
        assert_eq!(both(privileges), [0x800b_0057, 0x800b_0059]);
        let name = DatError::new(Kind::ProviderNotFound, Subtype::NameNotRegistered);
        assert_eq!(both(name), [0x800a_0062, 0x800a_0064]);
    }
}
