//! What becomes of completions on their way to the program.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use nonic_device::{Completion, CompletionOpcode, Status};

use super::Endpoint;
use crate::event::Event;
use crate::remote_region::RemoteRegion;
use crate::values::{EndpointState, TransferKind, TransferStatus};

/// An event of an endpoint.
#[derive(Debug)]
pub(crate) enum Shown {
    Transfer { cookie: u64, status: TransferStatus, length: u64, kind: TransferKind, immediate: u32 },
    Bind { region: Arc<RemoteRegion>, cookie: u64, status: TransferStatus },
}

impl Shown {
    /// As it is handed out.
    pub(crate) fn event<'a>(&'a self, endpoint: &'a Arc<Endpoint>) -> Event<'a> {
        match self {
            &Self::Transfer { cookie, status, length, kind, immediate } => {
                Event::Transfer { endpoint, cookie, status, length, kind, immediate }
            }
            Self::Bind { region, cookie, status } => Event::Bind { region, cookie: *cookie, status: *status },
        }
    }
}

/// The bits of a request's id that are not its number, where requests are numbered (`Tags`), and of a bind's: it does not
/// notify, and its success is not shown.
pub(super) const SILENT: u64 = 1 << 63;
pub(super) const HIDDEN: u64 = 1 << 62;

pub(super) fn kind_of(opcode: CompletionOpcode) -> TransferKind {
    match opcode {
        CompletionOpcode::RdmaWrite | CompletionOpcode::AtomicWrite => TransferKind::RdmaWrite,
        CompletionOpcode::RdmaRead | CompletionOpcode::Flush => TransferKind::RdmaRead,
        CompletionOpcode::Bind => TransferKind::Bind,
        CompletionOpcode::Send | CompletionOpcode::Invalidate => TransferKind::Send,
        CompletionOpcode::Receive | CompletionOpcode::ReceiveInvalidate => TransferKind::Receive,
        CompletionOpcode::WriteWithImmediate => TransferKind::RdmaWriteImmediate,
        CompletionOpcode::ReceiveWriteWithImmediate => TransferKind::ReceiveImmediate,
        CompletionOpcode::CompareSwap => TransferKind::CompareSwap,
        CompletionOpcode::FetchAdd => TransferKind::FetchAdd,
    }
}

fn status_of(status: Status) -> TransferStatus {
    match status {
        Status::Success => TransferStatus::Success,
        Status::LocalLength => TransferStatus::LocalLength,
        Status::LocalQpOperation => TransferStatus::LocalEndpoint,
        Status::LocalProtection | Status::LocalAccess => TransferStatus::LocalProtection,
        Status::Flushed => TransferStatus::Flushed,
        Status::WindowBind => TransferStatus::BindFailed,
        Status::BadResponse => TransferStatus::BadResponse,
        Status::RemoteInvalidRequest | Status::RemoteOperation => TransferStatus::RemoteResponder,
        Status::RemoteAccess => TransferStatus::RemoteAccess,
        Status::RetryExceeded | Status::General => TransferStatus::Transport,
        Status::RnrRetryExceeded => TransferStatus::ReceiverNotReady,
    }
}

impl Endpoint {
    /// The event of a completion, if it is one of the many that only have to be shown. `this` is the endpoint's own `Arc`.
    #[inline]
    pub(crate) fn plain_event<'a>(self: &'a Arc<Self>, completion: &Completion) -> Option<Event<'a>> {
        let plain = completion.status.is_success()
            && completion.opcode != CompletionOpcode::Bind
            && self.is_plain.load(Ordering::Acquire);
        if !plain {
            return None;
        }
        Some(Event::Transfer {
            endpoint: self,
            cookie: completion.id,
            status: TransferStatus::Success,
            length: completion.byte_length.into(),
            kind: kind_of(completion.opcode),
            immediate: completion.immediate.unwrap_or(0),
        })
    }

    /// Such a completion is handed out now.
    #[inline]
    pub(crate) fn plain_is_shown(&self, completion: &Completion) {
        if kind_of(completion.opcode).is_receive()
            && let Some(wiring) = self.wiring()
            && wiring.is_shared
        {
            wiring.observer.shown();
        }
    }

    /// Whether a completion tells that the peer knows of the connection before ESTABLISHED does.
    pub(crate) fn establishes(&self, completion: &Completion) -> bool {
        self.state() == EndpointState::CompletionPending && completion.status != Status::Flushed
    }

    /// Whether a completion is not to be shown, being of a suppressed bind that succeeded.
    pub(crate) fn hides(completion: &Completion) -> bool {
        completion.opcode == CompletionOpcode::Bind
            && completion.id & HIDDEN != 0
            && completion.status.is_success()
    }

    /// Whether a completion is of a request that was posted not to notify.
    pub(crate) fn is_silent(&self, completion: &Completion) -> bool {
        let is_receive = kind_of(completion.opcode).is_receive();
        let says_so = completion.opcode == CompletionOpcode::Bind
            || self.wiring().is_some_and(|wiring| wiring.numbers(is_receive));
        says_so && completion.id & SILENT != 0
    }

    /// What any other completion comes to; `None` if it is not to be shown. The caller holds no lock.
    pub(crate) fn end_transfer(&self, completion: &Completion) -> Option<Shown> {
        let status = status_of(completion.status);
        let kind = kind_of(completion.opcode);
        let succeeded = status == TransferStatus::Success;
        if !matches!(status, TransferStatus::Success | TransferStatus::Flushed) {
            self.break_if_failed();
        }
        let wiring = self.wiring()?;
        if kind == TransferKind::Bind {
            return wiring.end_bind(status);
        }
        if wiring.is_shared && kind.is_receive() {
            wiring.observer.shown();
        }
        let cookie = wiring.cookie(kind.is_receive(), completion.id);
        let length = if succeeded { completion.byte_length.into() } else { 0 };
        let immediate = completion.immediate.unwrap_or(0);
        Some(Shown::Transfer { cookie, status, length, kind, immediate })
    }
}
