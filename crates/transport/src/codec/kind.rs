//! The numbers of the kinds of messages.

use nonic_protocol::{Answer, Body, Request};

/// The numbers of the kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Padding = 1,
    Send = 2,
    Pull = 3,
    Write = 4,
    WriteNotify = 5,
    Read = 6,
    Atomic = 7,
    Datagram = 8,
    Acknowledge = 9,
    Refuse = 10,
    ReadResponse = 11,
    AtomicResponse = 12,
    SendInvalidate = 13,
    Ready = 14,
    Flush = 15,
}

impl Kind {
    #[inline]
    pub(super) fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Padding,
            2 => Self::Send,
            3 => Self::Pull,
            4 => Self::Write,
            5 => Self::WriteNotify,
            6 => Self::Read,
            7 => Self::Atomic,
            8 => Self::Datagram,
            9 => Self::Acknowledge,
            10 => Self::Refuse,
            11 => Self::ReadResponse,
            12 => Self::AtomicResponse,
            13 => Self::SendInvalidate,
            14 => Self::Ready,
            15 => Self::Flush,
            _ => return None,
        })
    }

    #[inline]
    pub(super) fn of(body: &Body) -> Self {
        match body {
            Body::Request(request) => Self::of_request(request),
            Body::Answer(Answer::Acknowledge) => Self::Acknowledge,
            Body::Answer(Answer::Refuse(_)) => Self::Refuse,
            Body::Answer(Answer::Ready) => Self::Ready,
            Body::Answer(Answer::ReadResponse(_)) => Self::ReadResponse,
            Body::Answer(Answer::AtomicResponse { .. }) => Self::AtomicResponse,
            Body::Datagram(_) => Self::Datagram,
        }
    }

    #[inline]
    pub(super) fn of_request(request: &Request) -> Self {
        match request {
            Request::Send(_) => Self::Send,
            Request::Pull(_) => Self::Pull,
            Request::SendInvalidate(_) => Self::SendInvalidate,
            Request::Write(_) => Self::Write,
            Request::WriteNotify(_) => Self::WriteNotify,
            Request::Read(_) => Self::Read,
            Request::Atomic(_) => Self::Atomic,
            Request::Flush(_) => Self::Flush,
        }
    }

    /// Whether it asks something of a responder.
    pub(super) fn is_request(self) -> bool {
        use Kind::{Atomic, Flush, Pull, Read, Send, SendInvalidate, Write, WriteNotify};
        matches!(self, Send | Pull | SendInvalidate | Write | WriteNotify | Read | Atomic | Flush)
    }

    /// Words that follow the three every header has.
    pub(super) const fn extension_words(self, whole: bool) -> usize {
        match self {
            Self::Padding | Self::Acknowledge | Self::Refuse | Self::Ready => 0,
            // The payload's length says it.
            Self::Send => !whole as usize,
            Self::Pull
            | Self::SendInvalidate
            | Self::WriteNotify
            | Self::Datagram
            | Self::ReadResponse
            | Self::AtomicResponse => 1,
            Self::Read | Self::Flush => 2,
            Self::Write => 3,
            Self::Atomic => 4,
        }
    }
}
