//! Events, as the library stores them and as words.

/// `DAT_EVENT`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RawEvent {
    number: u32,
    dispatcher: usize,
    data: [u64; 4],
}

/// How an operation ended (`DAT_DTO_COMPLETION_STATUS`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Status(u32);

impl Status {
    /// The peer has no such memory for this operation.
    pub(crate) const REMOTE_ACCESS: Self = Self(6);

    /// Whether all went well.
    pub(crate) fn is_success(self) -> bool {
        self.0 == 0
    }

    /// Its name in the header.
    pub(crate) fn name(self) -> &'static str {
        const NAMES: [&str; 12] = [
            "DAT_DTO_SUCCESS",
            "DAT_DTO_ERR_FLUSHED",
            "DAT_DTO_ERR_LOCAL_LENGTH",
            "DAT_DTO_ERR_LOCAL_EP",
            "DAT_DTO_ERR_LOCAL_PROTECTION",
            "DAT_DTO_ERR_BAD_RESPONSE",
            "DAT_DTO_ERR_REMOTE_ACCESS",
            "DAT_DTO_ERR_REMOTE_RESPONDER",
            "DAT_DTO_ERR_TRANSPORT",
            "DAT_DTO_ERR_RECEIVER_NOT_READY",
            "DAT_DTO_ERR_PARTIAL_PACKET",
            "DAT_RMR_OPERATION_FAILED",
        ];
        NAMES.get(self.0 as usize).copied().unwrap_or("a status without a name")
    }
}

/// What is told by an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A data transfer operation has ended.
    Transfer {
        /// How it ended.
        status: Status,
    },
    /// A bind has ended.
    Bind {
        /// How it ended.
        status: Status,
    },
    /// Somebody wants to connect.
    Request {
        /// The request's handle.
        request: usize,
    },
    /// What became of a connection.
    Connection(Connection),
    /// Another event, by its number.
    Other(u32),
}

/// `DAT_CONNECTION_EVENT_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Connection {
    /// There is one.
    Established,
    /// It was ended in order.
    Disconnected,
    /// It failed.
    Broken,
    /// There never was one: the event's number.
    Refused(u32),
}

impl RawEvent {
    /// As words.
    pub(super) fn read(&self) -> Event {
        let status = Status(self.data[2] as u32);
        match self.number {
            0x0001 => Event::Transfer { status },
            0x1001 => Event::Bind { status },
            0x2001 => Event::Request { request: self.data[3] as usize },
            0x4001 => Event::Connection(Connection::Established),
            0x4005 => Event::Connection(Connection::Disconnected),
            0x4006 => Event::Connection(Connection::Broken),
            number @ 0x4002..=0x4008 => Event::Connection(Connection::Refused(number)),
            number => Event::Other(number),
        }
    }
}

const _: () = assert!(size_of::<RawEvent>() == 48);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_by_their_number() {
        let event = |number, data| RawEvent { number, dispatcher: 0, data }.read();
        assert_eq!(event(1, [5, 7, 0, 8]), Event::Transfer { status: Status(0) });
        // What is beside a status in its eight bytes has no meaning.
        let status = Status(6);
        assert_eq!(event(0x1001, [5, 7, 6 | 9 << 32, 0]), Event::Bind { status });
        assert_eq!((status, status.name()), (Status::REMOTE_ACCESS, "DAT_DTO_ERR_REMOTE_ACCESS"));
        assert_eq!(event(0x2001, [1, 2, 3, 4]), Event::Request { request: 4 });
        assert_eq!(event(0x4006, [0; 4]), Event::Connection(Connection::Broken));
        assert_eq!(event(0x4003, [0; 4]), Event::Connection(Connection::Refused(0x4003)));
        assert_eq!(event(0x8001, [0; 4]), Event::Other(0x8001));
    }
}
