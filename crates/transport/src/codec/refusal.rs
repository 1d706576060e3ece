//! The numbers of refusals.

use nonic_protocol::Refusal;

/// A refusal as a number.
pub(super) fn number_of(refusal: Refusal) -> u32 {
    match refusal {
        Refusal::NotReady { timer } => u32::from(timer) << 8 | 1,
        Refusal::NoAnswer => 2,
        Refusal::OutOfSequence => 3,
        Refusal::InvalidRequest => 4,
        Refusal::Access => 5,
        Refusal::Operation => 6,
        Refusal::RequesterMemory => 7,
        Refusal::CannotPull => 8,
    }
}

/// The refusal that a number stands for.
pub(super) fn refusal_of(number: u32) -> Option<Refusal> {
    Some(match (number & 0xff, number >> 8) {
        (1, timer @ 0..=31) => Refusal::NotReady { timer: timer as u8 },
        (2, 0) => Refusal::NoAnswer,
        (3, 0) => Refusal::OutOfSequence,
        (4, 0) => Refusal::InvalidRequest,
        (5, 0) => Refusal::Access,
        (6, 0) => Refusal::Operation,
        (7, 0) => Refusal::RequesterMemory,
        (8, 0) => Refusal::CannotPull,
        _ => return None,
    })
}
