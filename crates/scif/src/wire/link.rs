//! A relay, as calls of the program know it: what goes to the other host, and what is asked there.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use nonic_rsocket::Entry;
use nonic_sys::{EventCount, PerProcess, random_u64};

use super::operations::Operations;
use super::{Frame, PAYLOAD_MOST};
use crate::ScifError;

/// Requests of one side that are under way at most; more wait.
pub(crate) const REQUESTS_MOST: usize = 64;
/// Bytes that wait to go at most, before calls wait for others to have gone.
const QUEUED_MOST: usize = 4 * PAYLOAD_MOST;
/// With an end, however late, any signal ends a sleep.
const LATE: Duration = Duration::from_secs(3600);

/// Those of this process, by the numbers that stand in their segments.
static LINKS: PerProcess<Mutex<HashMap<u64, Weak<Link>>>> = PerProcess::new();

/// Whose relay a connection has.
#[derive(Clone, Debug)]
pub(crate) enum Relayed {
    /// This process's.
    Here(Arc<Link>),
    /// Another's of this host: that of whoever listened, or of a parent.
    Elsewhere,
}

/// A relay of this process.
pub(crate) struct Link {
    /// The process that it is in: children inherit this and not the relay.
    process: u32,
    /// Tells it from all others of this host.
    number: u64,
    shared: Mutex<Shared>,
    /// Rings when something has gone, was answered or is over.
    bell: EventCount,
    /// Tells the relay's thread to look.
    wake: Arc<Entry>,
    ended: AtomicBool,
    /// Why there is no connection.
    refusal: OnceLock<ScifError>,
}

#[derive(Debug, Default)]
struct Shared {
    outbox: VecDeque<Frame>,
    /// Bytes in it.
    queued: usize,
    requests: HashMap<u64, Request>,
    last: u64,
    operations: Operations,
}

/// What was asked of the other host, and what has come of it.
#[derive(Debug, Default)]
struct Request {
    pieces: VecDeque<Vec<u8>>,
    outcome: Option<Result<u64, ScifError>>,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link")
            .field("number", &self.number)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The relay of a number.
pub(crate) fn find(number: u64) -> Relayed {
    let found = LINKS.get().and_then(|links| lock(links).get(&number).and_then(Weak::upgrade));
    found.map_or(Relayed::Elsewhere, Relayed::Here)
}

/// Has all relays of this process look; if who they are is just being changed, none.
pub(crate) fn tell_all() {
    let Some(links) = LINKS.get().and_then(|links| links.try_lock().ok()) else { return };
    let all: Vec<_> = links.values().filter_map(Weak::upgrade).collect();
    // Without the lock, which the last of them takes when it goes.
    drop(links);
    all.iter().for_each(|link| link.tell());
}

impl Link {
    /// Of a relay whose thread is told by `wake`.
    pub(crate) fn new(wake: Arc<Entry>) -> Arc<Self> {
        let link = Arc::new(Self {
            process: std::process::id(),
            number: random_u64().max(1),
            shared: Mutex::default(),
            bell: EventCount::default(),
            wake,
            ended: AtomicBool::new(false),
            refusal: OnceLock::new(),
        });
        lock(LINKS.get_or_make(Mutex::default)).insert(link.number, Arc::downgrade(&link));
        link
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Whether it is in this process.
    pub(crate) fn is_here(&self) -> bool {
        self.process == std::process::id()
    }

    /// Has the thread look.
    pub(crate) fn tell(&self) {
        self.wake.tell();
    }

    /// What was told is about to be looked at.
    pub(crate) fn is_looked_at(&self) {
        self.wake.is_looked_at();
    }

    /// Puts a frame behind those that go.
    pub(crate) fn push(&self, frame: Frame) {
        lock(&self.shared).push(frame);
    }

    /// The same for a call of the program, which waits while too much is on its way.
    pub(crate) fn push_in_turn(&self, frame: Frame) -> Result<(), ScifError> {
        let mut frame = Some(frame);
        self.wait(false, |shared| {
            let room = shared.queued < QUEUED_MOST;
            room.then(|| frame.take().map(|frame| shared.push(frame)))
        })?;
        self.tell();
        Ok(())
    }

    /// The next that goes.
    pub(crate) fn next(&self) -> Option<Frame> {
        let next = {
            let mut shared = lock(&self.shared);
            let next = shared.outbox.pop_front()?;
            shared.queued -= next.0.len();
            next
        };
        self.bell.ring();
        Some(next)
    }

    /// Bytes that are to go.
    pub(crate) fn queued(&self) -> usize {
        lock(&self.shared).queued
    }

    /// There will be no connection.
    pub(crate) fn refuse(&self, why: ScifError) {
        let _ = self.refusal.set(why);
    }

    /// Why there is none.
    pub(crate) fn refusal(&self) -> ScifError {
        self.refusal.get().copied().unwrap_or(ScifError::Refused)
    }

    /// Nothing more comes or goes: whoever waits is told.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
        self.bell.ring();
    }

    /// Waits until `look` finds something; `Reset` if the connection ends first.
    fn wait<T>(
        &self,
        interruptible: bool,
        mut look: impl FnMut(&mut Shared) -> Option<T>,
    ) -> Result<T, ScifError> {
        if let Some(found) = look(&mut lock(&self.shared)) {
            return Ok(found);
        }
        loop {
            let ticket = self.bell.prepare();
            // Before the look: what came before the end counts.
            let ended = self.ended.load(Ordering::SeqCst);
            if let Some(found) = look(&mut lock(&self.shared)) {
                return Ok(found);
            }
            if ended {
                return Err(ScifError::Reset);
            }
            let until = interruptible.then(|| Instant::now() + LATE);
            if let Err(error) = self.bell.sleep(ticket, until)
                && interruptible
                && error.kind() == io::ErrorKind::Interrupted
            {
                return Err(ScifError::Interrupted);
            }
        }
    }

    // Requests.

    /// A request of this side's, as soon as it may make another.
    pub(crate) fn ask(&self) -> Result<Asked<'_>, ScifError> {
        let number = self.wait(false, |shared| {
            (shared.requests.len() < REQUESTS_MOST).then(|| {
                shared.last += 1;
                shared.requests.insert(shared.last, Request::default());
                shared.last
            })
        })?;
        Ok(Asked { link: self, number })
    }

    /// The other host has answered; false if it was not asked, or has answered before.
    pub(crate) fn is_answered(&self, number: u64, outcome: Result<u64, ScifError>) -> bool {
        let expected = {
            let mut shared = lock(&self.shared);
            // Of a request that a call has given up nobody wants to know.
            let last = shared.last;
            match shared.requests.get_mut(&number) {
                Some(request) => request.outcome.replace(outcome).is_none(),
                None => (1..=last).contains(&number),
            }
        };
        self.bell.ring();
        expected
    }

    /// Bytes came that a read asked for; `most` may wait for it.
    pub(crate) fn has_come(&self, number: u64, bytes: Vec<u8>, most: usize) -> bool {
        let expected = {
            let mut shared = lock(&self.shared);
            let last = shared.last;
            match shared.requests.get_mut(&number) {
                Some(request) => {
                    let waiting: usize = request.pieces.iter().map(Vec::len).sum();
                    request.pieces.push_back(bytes);
                    waiting < most && request.outcome.is_none()
                }
                None => (1..=last).contains(&number),
            }
        };
        self.bell.ring();
        expected
    }

    // Copies of this side's program.

    /// One begins; it ends with what is returned.
    pub(crate) fn begin_operation(&self) -> Operation<'_> {
        Operation { link: self, number: lock(&self.shared).operations.begin() }
    }

    /// How many have begun.
    pub(crate) fn mark(&self) -> u64 {
        lock(&self.shared).operations.mark()
    }

    /// Whether those up to a mark are complete; `Invalid` if it was never given.
    pub(crate) fn are_complete(&self, mark: u64) -> Result<bool, ScifError> {
        lock(&self.shared).operations.are_complete(mark)
    }

    /// Waits for those up to a mark.
    pub(crate) fn wait_for_operations(&self, mark: u64) -> Result<(), ScifError> {
        self.wait(true, |shared| match shared.operations.are_complete(mark) {
            Ok(false) => None,
            Ok(true) => Some(Ok(())),
            Err(error) => Some(Err(error)),
        })?
    }
}

impl Shared {
    fn push(&mut self, frame: Frame) {
        self.queued += frame.0.len();
        self.outbox.push_back(frame);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if self.is_here()
            && let Some(links) = LINKS.get()
        {
            lock(links).remove(&self.number);
        }
    }
}

/// A request that is under way as long as this is there.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    link: &'a Link,
    number: u64,
}

impl Asked<'_> {
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Whether the other host has answered.
    pub(crate) fn is_decided(&self) -> bool {
        lock(&self.link.shared).requests.get(&self.number).is_some_and(|request| request.outcome.is_some())
    }

    /// Waits for the answer, and the mark that it may bring.
    pub(crate) fn wait(&self, interruptible: bool) -> Result<u64, ScifError> {
        self.link.wait(interruptible, |shared| shared.requests.get(&self.number)?.outcome)?
    }

    /// Waits for the next bytes; `None` when all have come.
    pub(crate) fn piece(&self) -> Result<Option<Vec<u8>>, ScifError> {
        self.link.wait(false, |shared| {
            let request = shared.requests.get_mut(&self.number)?;
            match (request.pieces.pop_front(), request.outcome) {
                (Some(piece), _) => Some(Ok(Some(piece))),
                (None, Some(outcome)) => Some(outcome.map(|_| None)),
                (None, None) => None,
            }
        })?
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        lock(&self.link.shared).requests.remove(&self.number);
        self.link.bell.ring();
    }
}

/// A copy that is under way as long as this is there.
#[derive(Debug)]
pub(crate) struct Operation<'a> {
    link: &'a Link,
    number: u64,
}

impl Drop for Operation<'_> {
    fn drop(&mut self) {
        lock(&self.link.shared).operations.end(self.number);
        self.link.bell.ring();
        // The other host may wait for it.
        self.link.tell();
    }
}
