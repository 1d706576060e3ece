//! The states of a queue pair and which attributes each move takes (Linux `qp_state_table`; IBTA vol. 1, 10.3.1).

use core::ops::BitOr;

/// Service type of a queue pair. The numbers are those of `enum ibv_qp_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum QpType {
    /// Reliable connection.
    ReliableConnection = 2,
    /// Unreliable connection.
    UnreliableConnection = 3,
    /// Unreliable datagram.
    UnreliableDatagram = 4,
    /// The end of an extended reliable connection that requests (IBTA vol. 1, annex A14: XRC initiator).
    ExtendedSend = 9,
    /// The end that responds (XRC target).
    ExtendedReceive = 10,
}

impl QpType {
    /// The service by whose rules it sends and answers: an extended reliable connection keeps those of a reliable one.
    pub const fn service(self) -> Self {
        match self {
            Self::ExtendedSend | Self::ExtendedReceive => Self::ReliableConnection,
            other => other,
        }
    }

    /// Whether it requests, and so has a send queue.
    pub const fn requests(self) -> bool {
        !matches!(self, Self::ExtendedReceive)
    }

    /// Whether it answers requests of a peer's.
    pub const fn responds(self) -> bool {
        !matches!(self, Self::ExtendedSend)
    }
}

/// State of a queue pair. The numbers are those of `enum ibv_qp_state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum QpState {
    /// Just created.
    Reset = 0,
    /// Takes receives.
    Init = 1,
    /// Receives.
    ReadyToReceive = 2,
    /// Receives and sends.
    ReadyToSend = 3,
    /// Send queue drained or draining.
    SendQueueDrain = 4,
    /// Send queue stopped by an error of an unreliable service.
    SendQueueError = 5,
    /// Everything is flushed.
    Error = 6,
}

impl QpState {
    /// The state with this number.
    pub const fn from_number(number: u32) -> Option<Self> {
        Some(match number {
            0 => Self::Reset,
            1 => Self::Init,
            2 => Self::ReadyToReceive,
            3 => Self::ReadyToSend,
            4 => Self::SendQueueDrain,
            5 => Self::SendQueueError,
            6 => Self::Error,
            _ => return None,
        })
    }

    /// Whether messages from the peer are taken.
    pub const fn receives(self) -> bool {
        matches!(self, Self::ReadyToReceive | Self::ReadyToSend | Self::SendQueueDrain | Self::SendQueueError)
    }
}

/// A set of attributes of `ibv_modify_qp(3)`, with the bits of `enum ibv_qp_attr_mask`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct AttributeMask(pub u32);

macro_rules! attribute_bits {
    ($($(#[$doc:meta])* $name:ident = $bit:literal),* $(,)?) => {
        impl AttributeMask {
            $($(#[$doc])* pub const $name: Self = Self(1 << $bit);)*
        }
    };
}

attribute_bits! {
    /// The state to go to.
    STATE = 0,
    /// The state the caller believes in.
    CURRENT_STATE = 1,
    /// Ask for an event when drained.
    ENABLE_DRAINED_NOTIFY = 2,
    /// What the peer may do.
    ACCESS_FLAGS = 3,
    /// Index into the P_Key table.
    PKEY_INDEX = 4,
    /// Port, 1 based.
    PORT = 5,
    /// Q_Key.
    QKEY = 6,
    /// The path.
    ADDRESS_VECTOR = 7,
    /// Largest packet.
    PATH_MTU = 8,
    /// ACK timeout exponent.
    TIMEOUT = 9,
    /// Retries after timeouts.
    RETRY_COUNT = 10,
    /// Retries after RNR.
    RNR_RETRY = 11,
    /// First packet number expected.
    RQ_PSN = 12,
    /// Reads and atomics outstanding as requester.
    MAX_RD_ATOMIC = 13,
    /// A second path.
    ALTERNATE_PATH = 14,
    /// How long a sender waits after RNR.
    MIN_RNR_TIMER = 15,
    /// First packet number sent.
    SQ_PSN = 16,
    /// Reads and atomics outstanding as responder.
    MAX_DEST_RD_ATOMIC = 17,
    /// State of path migration.
    PATH_MIGRATION_STATE = 18,
    /// Sizes of the queues.
    CAPABILITIES = 19,
    /// The peer's number.
    DESTINATION_QP = 20,
    /// Static rate.
    RATE_LIMIT = 25,
}

impl BitOr for AttributeMask {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl AttributeMask {
    /// Nothing.
    pub const NONE: Self = Self(0);

    /// Whether any attribute of `other` is in the set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// What of it concerns a queue pair of this type. Attributes of the end that a queue pair of an extended connection is not are
    /// not looked at: programs set both ends up alike (Linux `modify_qp_mask`).
    pub const fn concerning(self, transport: QpType) -> Self {
        let ignored = match transport {
            QpType::ExtendedSend => Self::MAX_DEST_RD_ATOMIC.and(Self::MIN_RNR_TIMER),
            QpType::ExtendedReceive => Self::MAX_RD_ATOMIC.and(Self::RETRY_COUNT).and(Self::RNR_RETRY),
            _ => Self::NONE,
        };
        Self(self.0 & !ignored.0)
    }

    const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Why a move was refused. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransitionError {
    /// No such move.
    #[error("a {transport:?} queue pair does not go from {from:?} to {to:?}")]
    NoSuchMove {
        /// Type of the queue pair.
        transport: QpType,
        /// Where it is.
        from: QpState,
        /// Where it was to go.
        to: QpState,
    },
    /// A required attribute is not given.
    #[error("from {from:?} to {to:?} these attributes are missing: mask {missing:#x}")]
    Missing {
        /// Where it is.
        from: QpState,
        /// Where it was to go.
        to: QpState,
        /// The missing bits.
        missing: u32,
    },
    /// An attribute that this move does not take.
    #[error("from {from:?} to {to:?} these attributes are not taken: mask {surplus:#x}")]
    Surplus {
        /// Where it is.
        from: QpState,
        /// Where it was to go.
        to: QpState,
        /// The surplus bits.
        surplus: u32,
    },
}

/// Checks that a queue pair of this type may go `from` one state `to` another with exactly these attributes.
pub fn check_transition(
    transport: QpType,
    from: QpState,
    to: QpState,
    given: AttributeMask,
) -> Result<(), TransitionError> {
    let Some((required, optional)) = attributes_of(transport, from, to) else {
        return Err(TransitionError::NoSuchMove { transport, from, to });
    };
    let missing = required.0 & !given.0;
    if missing != 0 {
        return Err(TransitionError::Missing { from, to, missing });
    }
    let allowed = required.and(optional).and(AttributeMask::STATE);
    let surplus = given.0 & !allowed.0;
    if surplus != 0 {
        return Err(TransitionError::Surplus { from, to, surplus });
    }
    Ok(())
}

/// Required and optional attributes of a move, besides the state itself; `None` where there is no such move.
fn attributes_of(transport: QpType, from: QpState, to: QpState) -> Option<(AttributeMask, AttributeMask)> {
    use AttributeMask as A;
    use QpState::*;
    let datagram = transport == QpType::UnreliableDatagram;
    let reliable = transport.service() == QpType::ReliableConnection;
    let (requests, responds) = (reliable && transport.requests(), reliable && transport.responds());
    let none = A::NONE;
    let identity = A::PKEY_INDEX | A::PORT | if datagram { A::QKEY } else { A::ACCESS_FLAGS };
    Some(match (from, to) {
        (Reset | Init | ReadyToReceive | ReadyToSend | SendQueueDrain | SendQueueError | Error, Reset) => {
            (none, none)
        }
        (Init | ReadyToReceive | ReadyToSend | SendQueueDrain | SendQueueError | Error, Error) => {
            (none, none)
        }
        (Reset, Init) => (identity, none),
        (Init, Init) => (none, identity),
        (Init, ReadyToReceive) if datagram => (none, A::PKEY_INDEX | A::QKEY),
        (Init, ReadyToReceive) => {
            let path = A::ADDRESS_VECTOR | A::PATH_MTU | A::DESTINATION_QP | A::RQ_PSN;
            let reads = if responds { A::MAX_DEST_RD_ATOMIC | A::MIN_RNR_TIMER } else { none };
            (path | reads, A::ALTERNATE_PATH | A::ACCESS_FLAGS | A::PKEY_INDEX)
        }
        (ReadyToReceive, ReadyToSend) if datagram => (A::SQ_PSN, A::CURRENT_STATE | A::QKEY),
        (ReadyToReceive, ReadyToSend) => {
            let retries = if requests { A::RETRY_COUNT | A::RNR_RETRY | A::MAX_RD_ATOMIC } else { none };
            let timeout = if reliable { A::TIMEOUT } else { none };
            (A::SQ_PSN | timeout | retries, running_options(responds))
        }
        (ReadyToSend | SendQueueDrain, ReadyToSend) if datagram => (none, A::CURRENT_STATE | A::QKEY),
        (ReadyToSend | SendQueueDrain, ReadyToSend) => (none, running_options(responds)),
        (ReadyToSend, SendQueueDrain) => (none, A::ENABLE_DRAINED_NOTIFY),
        (SendQueueDrain, SendQueueDrain) if datagram => (none, A::PKEY_INDEX | A::QKEY),
        (SendQueueDrain, SendQueueDrain) => {
            let path = A::ADDRESS_VECTOR
                | A::ALTERNATE_PATH
                | A::ACCESS_FLAGS
                | A::PKEY_INDEX
                | A::PATH_MIGRATION_STATE;
            let timeout = if reliable { A::PORT | A::TIMEOUT } else { none };
            let retries = if requests { A::RETRY_COUNT | A::RNR_RETRY | A::MAX_RD_ATOMIC } else { none };
            let reads = if responds { A::MAX_DEST_RD_ATOMIC | A::MIN_RNR_TIMER } else { none };
            (none, path | timeout | retries | reads)
        }
        (SendQueueError, ReadyToSend) if datagram => (none, A::CURRENT_STATE | A::QKEY),
        (SendQueueError, ReadyToSend) if !reliable => (none, A::CURRENT_STATE | A::ACCESS_FLAGS),
        _ => return None,
    })
}

fn running_options(responds: bool) -> AttributeMask {
    use AttributeMask as A;
    let common = A::CURRENT_STATE | A::ACCESS_FLAGS | A::ALTERNATE_PATH | A::PATH_MIGRATION_STATE;
    if responds { common | A::MIN_RNR_TIMER } else { common }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{vec, vec::Vec};

    const ALL: [QpState; 7] = [
        QpState::Reset,
        QpState::Init,
        QpState::ReadyToReceive,
        QpState::ReadyToSend,
        QpState::SendQueueDrain,
        QpState::SendQueueError,
        QpState::Error,
    ];

    #[test]
    fn only_the_moves_of_the_table_exist() {
        use QpState::*;
        let moves = |transport| {
            let mut found = Vec::new();
            for from in ALL {
                for to in ALL {
                    if attributes_of(transport, from, to).is_some() && to != Reset && to != Error {
                        found.push((from, to));
                    }
                }
            }
            found
        };
        let mut expected = vec![
            (Reset, Init),
            (Init, Init),
            (Init, ReadyToReceive),
            (ReadyToReceive, ReadyToSend),
            (ReadyToSend, ReadyToSend),
            (ReadyToSend, SendQueueDrain),
            (SendQueueDrain, ReadyToSend),
            (SendQueueDrain, SendQueueDrain),
        ];
        for reliable in [QpType::ReliableConnection, QpType::ExtendedSend, QpType::ExtendedReceive] {
            assert_eq!(moves(reliable), expected);
        }
        expected.push((SendQueueError, ReadyToSend));
        assert_eq!(moves(QpType::UnreliableConnection), expected);
        assert_eq!(moves(QpType::UnreliableDatagram), expected);
    }

    #[test]
    fn each_end_of_an_extended_connection_is_told_what_it_needs_and_not_what_the_other_needs() {
        use AttributeMask as A;
        use QpState::*;
        let (sends, receives) = (QpType::ExtendedSend, QpType::ExtendedReceive);
        let of = |transport, from, to| attributes_of(transport, from, to).expect("there is such a move");
        let path = A::ADDRESS_VECTOR | A::PATH_MTU | A::DESTINATION_QP | A::RQ_PSN;
        assert_eq!(of(sends, Init, ReadyToReceive).0, path);
        assert_eq!(of(receives, Init, ReadyToReceive).0, path | A::MAX_DEST_RD_ATOMIC | A::MIN_RNR_TIMER);
        let retries = A::RETRY_COUNT | A::RNR_RETRY | A::MAX_RD_ATOMIC;
        assert_eq!(of(sends, ReadyToReceive, ReadyToSend).0, A::SQ_PSN | A::TIMEOUT | retries);
        assert_eq!(of(receives, ReadyToReceive, ReadyToSend).0, A::SQ_PSN | A::TIMEOUT);
        for from in [ReadyToReceive, ReadyToSend, SendQueueDrain] {
            assert!(!of(sends, from, ReadyToSend).1.has(A::MIN_RNR_TIMER));
            assert!(of(receives, from, ReadyToSend).1.has(A::MIN_RNR_TIMER));
        }
        let (sends, receives) =
            (of(sends, SendQueueDrain, SendQueueDrain).1, of(receives, SendQueueDrain, SendQueueDrain).1);
        let all = A(u32::MAX);
        assert_eq!(all.concerning(QpType::ExtendedSend).0, !(A::MAX_DEST_RD_ATOMIC | A::MIN_RNR_TIMER).0);
        assert_eq!(all.concerning(QpType::ExtendedReceive).0, !retries.0);
        assert_eq!(all.concerning(QpType::ReliableConnection), all);
        assert!(!sends.has(A::MAX_DEST_RD_ATOMIC | A::MIN_RNR_TIMER) && !receives.has(retries));
        assert_eq!(sends | receives, of(QpType::ReliableConnection, SendQueueDrain, SendQueueDrain).1);
    }

    #[test]
    fn from_reset_straight_to_error_is_refused() {
        let refused = check_transition(
            QpType::ReliableConnection,
            QpState::Reset,
            QpState::Error,
            AttributeMask::STATE,
        );
        assert!(matches!(refused, Err(TransitionError::NoSuchMove { .. })));
    }

    #[test]
    fn a_missing_and_a_surplus_attribute_are_each_refused() {
        use AttributeMask as A;
        let full = A::STATE | A::PKEY_INDEX | A::PORT | A::ACCESS_FLAGS;
        let check = |mask| check_transition(QpType::ReliableConnection, QpState::Reset, QpState::Init, mask);
        assert_eq!(check(full), Ok(()));
        let without_port = AttributeMask(full.0 & !A::PORT.0);
        assert!(
            matches!(check(without_port), Err(TransitionError::Missing { missing, .. }) if missing == A::PORT.0)
        );
        assert!(
            matches!(check(full | A::QKEY), Err(TransitionError::Surplus { surplus, .. }) if surplus == A::QKEY.0)
        );
    }
}
