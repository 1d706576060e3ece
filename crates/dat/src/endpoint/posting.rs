//! Posting requests and receives.

use std::sync::Arc;

use arrayvec::ArrayVec;
use nonic_device::{
    Key, Operation, PostError, Posting, ReceiveRequest, RemoteRange, ScatterGather, SendFlags, SendRequest,
};

use super::attributes::PIECES_MAX;
use super::numbered::Tags;
use super::wiring::Wiring;
use super::{Endpoint, forbidden_by};
use crate::error::{DatError, DatResult, Kind, Resource, StateKind, Subtype};
use crate::remote_region::RemoteRegion;
use crate::values::{CompletionFlags, EndpointState, RemoteSegment, Segment};

/// Local memory as the engine takes it.
type Pieces = ArrayVec<ScatterGather, { PIECES_MAX as usize }>;

const TOO_LONG: DatError = DatError::new(Kind::LengthError, Subtype::None);
/// Argument numbers.
const COUNT: u8 = 2;
const FLAGS: u8 = 5;
const RDMA_FLAGS: u8 = 6;

/// So many requests are outstanding as may be.
const NO_ROOM: DatError = DatError::resources(Subtype::Resource(Resource::Credits));

/// What the engine's refusal means.
fn refusal(error: PostError) -> DatError {
    match error {
        PostError::QueueFull { .. } => NO_ROOM,
        PostError::TooManyPieces { .. } => DatError::argument(COUNT),
        PostError::HasSharedReceiveQueue => DatError::state(Subtype::State(StateKind::SrqInUse)),
        PostError::WrongState { .. } => DatError::state(Subtype::State(StateKind::EpNotReady)),
        PostError::InlineTooLong { .. }
        | PostError::InlineResult
        | PostError::NoWord
        | PostError::WrongOperation { .. }
        | PostError::NoDestination
        | PostError::Gone => DatError::new(Kind::InternalError, Subtype::None),
    }
}

/// Puts the pieces, `most` at most and `limit` bytes in all, into `collected`; those of length 0 are left out. Returns their length.
#[inline]
fn collect(
    pieces: impl ExactSizeIterator<Item = Segment>,
    most: usize,
    limit: u64,
    collected: &mut Pieces,
) -> DatResult<u64> {
    if pieces.len() > most {
        return Err(DatError::argument(COUNT));
    }
    let mut total = 0u64;
    for Segment { context, address, length } in pieces {
        if length == 0 {
            continue;
        }
        total = total.checked_add(length).filter(|total| *total <= limit).ok_or(TOO_LONG)?;
        // A message is not longer than 2 GiB, so no piece of it is.
        let piece = ScatterGather { address, length: length as u32, key: Key(context) };
        collected.try_push(piece).map_err(|_| DatError::argument(COUNT))?;
    }
    Ok(total)
}

/// Cuts the pieces to `length` bytes.
fn cut(pieces: &mut Pieces, mut length: u64) {
    let mut kept = 0;
    for piece in pieces.iter_mut() {
        if length == 0 {
            break;
        }
        piece.length = u64::from(piece.length).min(length) as u32;
        length -= u64::from(piece.length);
        kept += 1;
    }
    pieces.truncate(kept);
}

/// What an atomic operation does to a word of the peer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicChange {
    /// Adds this to it.
    Add(u64),
    /// Stores `swap` if it is `compare`.
    Swap {
        /// What it has to be.
        compare: u64,
        /// What it becomes.
        swap: u64,
    },
}

impl Endpoint {
    /// Sends a message. `length` of a completion is what was sent.
    #[inline]
    pub fn post_send(
        &self,
        pieces: impl ExactSizeIterator<Item = Segment>,
        cookie: u64,
        flags: CompletionFlags,
    ) -> DatResult<()> {
        let wiring = self.requesting()?;
        let (flags, silent) = request_flags(wiring, flags, FLAGS)?;
        let mut collected = Pieces::new();
        collect(pieces, wiring.limits.send_pieces, wiring.limits.message, &mut collected)?;
        let operation = Operation::Send { immediate: None };
        let request = SendRequest { id: cookie, operation, flags, pieces: &collected, destination: None };
        if wiring.notifies() {
            self.adapter.context().look();
        }
        self.post(wiring, &request, silent)
    }

    /// Writes local memory to the peer's. `LENGTH_ERROR` if it is longer than the segment there.
    #[inline]
    pub fn post_rdma_write(
        &self,
        pieces: impl ExactSizeIterator<Item = Segment>,
        cookie: u64,
        remote: RemoteSegment,
        flags: CompletionFlags,
    ) -> DatResult<()> {
        self.post_write(pieces, cookie, remote, None, flags)
    }

    /// Reads the peer's segment to local memory. `LENGTH_ERROR` if that is shorter.
    #[inline]
    pub fn post_rdma_read(
        &self,
        pieces: impl ExactSizeIterator<Item = Segment>,
        cookie: u64,
        remote: RemoteSegment,
        flags: CompletionFlags,
    ) -> DatResult<()> {
        let wiring = self.requesting()?;
        let (flags, silent) = request_flags(wiring, flags, RDMA_FLAGS)?;
        let mut collected = Pieces::new();
        let total = collect(pieces, wiring.limits.read_pieces, wiring.limits.rdma, &mut collected)?;
        if total < remote.length {
            return Err(TOO_LONG);
        }
        if total > remote.length {
            cut(&mut collected, remote.length);
        }
        let remote = RemoteRange { address: remote.address, key: Key(remote.context) };
        let operation = Operation::Read { remote };
        let request = SendRequest { id: cookie, operation, flags, pieces: &collected, destination: None };
        self.post(wiring, &request, silent)
    }

    /// Writes as [`Self::post_rdma_write`] does and tells the peer with a word, which uses up one of its receives.
    pub fn post_rdma_write_immediate(
        &self,
        pieces: impl ExactSizeIterator<Item = Segment>,
        cookie: u64,
        remote: RemoteSegment,
        immediate: u32,
        flags: CompletionFlags,
    ) -> DatResult<()> {
        self.post_write(pieces, cookie, remote, Some(immediate), flags)
    }

    #[inline]
    fn post_write(
        &self,
        pieces: impl ExactSizeIterator<Item = Segment>,
        cookie: u64,
        remote: RemoteSegment,
        immediate: Option<u32>,
        flags: CompletionFlags,
    ) -> DatResult<()> {
        let wiring = self.requesting()?;
        let (flags, silent) = request_flags(wiring, flags, RDMA_FLAGS)?;
        let mut collected = Pieces::new();
        let total = collect(pieces, wiring.limits.write_pieces, wiring.limits.rdma, &mut collected)?;
        if total > remote.length {
            return Err(TOO_LONG);
        }
        let remote = RemoteRange { address: remote.address, key: Key(remote.context) };
        let operation = Operation::Write { remote, immediate };
        let request = SendRequest { id: cookie, operation, flags, pieces: &collected, destination: None };
        self.post(wiring, &request, silent)
    }

    /// Changes a word of eight bytes of the peer's in one step, and stores what it was before in local memory.
    /// `LENGTH_ERROR` unless both are that long.
    pub fn post_atomic(
        &self,
        change: AtomicChange,
        result: Segment,
        cookie: u64,
        remote: RemoteSegment,
        flags: CompletionFlags,
    ) -> DatResult<()> {
        const WORD: u64 = 8;
        let wiring = self.requesting()?;
        let (flags, silent) = request_flags(wiring, flags, RDMA_FLAGS)?;
        if result.length != WORD || remote.length < WORD {
            return Err(TOO_LONG);
        }
        let mut collected = Pieces::new();
        collect([result].into_iter(), 1, WORD, &mut collected)?;
        let remote = RemoteRange { address: remote.address, key: Key(remote.context) };
        let operation = match change {
            AtomicChange::Add(add) => Operation::FetchAdd { remote, add },
            AtomicChange::Swap { compare, swap } => Operation::CompareSwap { remote, compare, swap },
        };
        let request = SendRequest { id: cookie, operation, flags, pieces: &collected, destination: None };
        self.post(wiring, &request, silent)
    }

    /// Posts a receive, in any state.
    pub fn post_receive(
        &self,
        pieces: impl ExactSizeIterator<Item = Segment>,
        cookie: u64,
        flags: CompletionFlags,
    ) -> DatResult<()> {
        let wiring = match self.wiring() {
            Some(wiring) => wiring,
            None => self.wire()?,
        };
        if wiring.receive.is_none() {
            return Err(DatError::state(Subtype::State(StateKind::EpReceiveDispatcher)));
        }
        let silent = flags.contains(CompletionFlags::UNSIGNALLED);
        if flags != CompletionFlags::DEFAULT
            && !(flags == CompletionFlags::UNSIGNALLED && wiring.limits.silent_receives)
        {
            return Err(DatError::argument(FLAGS));
        }
        let mut collected = Pieces::new();
        collect(pieces, wiring.limits.receive_pieces, wiring.limits.message, &mut collected)?;
        let post = |id| wiring.pair.post_receive(&ReceiveRequest { id, pieces: &collected }).map_err(refusal);
        match wiring.tags.as_ref().and_then(|tags| tags.receives.as_ref()) {
            Some(receives) => receives.post(cookie, silent, true, post),
            None => post(cookie),
        }
    }

    /// Posts the bind of a window, judged already. It takes one place among the requests.
    pub(crate) fn post_bind(
        &self,
        region: &Arc<RemoteRegion>,
        operation: Operation,
        cookie: u64,
        flags: CompletionFlags,
    ) -> DatResult<()> {
        let wiring = self.requesting()?;
        let (asked, silent) = request_flags(wiring, flags, FLAGS)?;
        let Operation::Bind { key, .. } = operation else { return Err(DatError::argument(1)) };
        // Its end is always told, for the region must learn of it; one that is not to be shown is left out later.
        let flags = SendFlags { signaled: true, solicited: false, ..asked };
        self.find_room(wiring, || {
            wiring.post_bind(region, key, cookie, !asked.signaled, silent, |id| {
                post_one(wiring, &SendRequest { id, operation, flags, pieces: &[], destination: None })
            })
        })
    }

    /// Posts a request, whose id is the consumer's cookie; `silent`: it does not notify.
    #[inline]
    fn post(&self, wiring: &Wiring, request: &SendRequest<'_>, silent: bool) -> DatResult<()> {
        self.find_room(wiring, || match &wiring.tags {
            None => post_one(wiring, request),
            Some(tags) => post_numbered(wiring, tags, request, silent),
        })
    }

    /// Posts by `post`; again if the queue is full and room is found.
    #[inline]
    fn find_room(&self, wiring: &Wiring, mut post: impl FnMut() -> DatResult<()>) -> DatResult<()> {
        match post() {
            Ok(()) => Ok(()),
            Err(error) => self.try_again(error, wiring, &mut post),
        }
    }

    /// `post` is not known here, so that there is only one copy of it on the way of those that find room.
    #[cold]
    fn try_again(
        &self,
        mut error: DatError,
        wiring: &Wiring,
        post: &mut dyn FnMut() -> DatResult<()>,
    ) -> DatResult<()> {
        // Another thread may have been faster, then there is more to be found, or none.
        while error == NO_ROOM && self.has_room(wiring) {
            match post() {
                Ok(()) => return Ok(()),
                Err(another) => error = another,
            }
        }
        Err(error)
    }

    /// Whether a queue that seems full has room. The engine gives a place back when a completion is polled; a suppressed
    /// request has none, and does not count any more as soon as it is over.
    fn has_room(&self, wiring: &Wiring) -> bool {
        wiring.reclaim() || {
            // What ended some requests may have come, and nobody looked.
            self.adapter.context().catch_up();
            wiring.reclaim()
        }
    }

    /// Whether requests may be posted now: `INVALID_STATE` with the state if not.
    pub(crate) fn check_can_request(&self) -> DatResult<()> {
        match self.state() {
            EndpointState::Connected | EndpointState::Disconnected => Ok(()),
            _ => self.check_settled(),
        }
    }

    /// Whether binds may be posted: `MODEL_NOT_SUPPORTED` if the dispatcher of requests does not take their ends.
    pub(crate) fn check_takes_binds(&self) -> DatResult<()> {
        let takes = self.wiring().is_some_and(Wiring::takes_binds);
        if takes { Ok(()) } else { Err(DatError::MODEL_NOT_SUPPORTED) }
    }

    /// The same when no change of state is under way: ESTABLISHED can be taken from its dispatcher a moment before the
    /// endpoint is CONNECTED.
    #[cold]
    fn check_settled(&self) -> DatResult<()> {
        let _settled = self.core();
        match self.state() {
            EndpointState::Connected | EndpointState::Disconnected => Ok(()),
            other => Err(DatError::state(Subtype::State(forbidden_by(other)))),
        }
    }

    /// The wiring, if requests may be posted now.
    #[inline]
    fn requesting(&self) -> DatResult<&Wiring> {
        self.check_can_request()?;
        self.wiring().ok_or(DatError::state(Subtype::State(StateKind::EpNotReady)))
    }
}

/// The engine's flags for a request. The second: it does not notify.
#[inline]
fn request_flags(wiring: &Wiring, flags: CompletionFlags, argument: u8) -> DatResult<(SendFlags, bool)> {
    let silent = flags.contains(CompletionFlags::UNSIGNALLED);
    if flags.contains(CompletionFlags::EVD_THRESHOLD) || (silent && !wiring.limits.silent_requests) {
        return Err(DatError::argument(argument));
    }
    let flags = SendFlags {
        fence: flags.contains(CompletionFlags::BARRIER_FENCE),
        signaled: !flags.contains(CompletionFlags::SUPPRESS),
        solicited: flags.contains(CompletionFlags::SOLICITED_WAIT),
        inline: false,
    };
    Ok((flags, silent))
}

#[cold]
fn post_numbered(wiring: &Wiring, tags: &Tags, request: &SendRequest<'_>, silent: bool) -> DatResult<()> {
    let SendRequest { id, flags, .. } = *request;
    tags.requests.post(id, silent, flags.signaled, |id| post_one(wiring, &SendRequest { id, ..*request }))
}

#[inline]
fn post_one(wiring: &Wiring, request: &SendRequest<'_>) -> DatResult<()> {
    let mut posting: Posting<'_> = wiring.pair.post().map_err(refusal)?;
    // SAFETY: nothing is sent inline. The pieces lie in regions, which the program keeps mapped until it frees them: that is
    // the promise it makes by registering them.
    unsafe { posting.post(request) }.map_err(refusal)?;
    posting.ring_doorbell();
    Ok(())
}
