//! How many receives of a shared queue an endpoint has in use: those that messages filled and whose completions were not
//! handed out.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use nonic_device::QueuePairObserver;

use super::Endpoint;
use super::attributes::HARDWARE_DEFAULT;
use crate::error::{DatError, DatResult, HandleKind, StateKind, Subtype};
use crate::event::AsyncObject;
use crate::values::AsyncError;

/// No watermark (`DAT_WATERMARK_INFINITE`, -1).
const INFINITE: u32 = u32::MAX;
/// `DAT_EP_SOFT_HIGH_WATERMARK`, a reason.
const SOFT_HIGH: i32 = 2;

/// What the engine tells of a queue pair. It is told under locks of the engine, so the endpoint learns of it on another
/// thread.
#[derive(Debug)]
pub(super) struct Observer {
    endpoint: Weak<Endpoint>,
    in_use: AtomicU32,
    /// Above this an asynchronous event tells, once.
    soft: AtomicU32,
    /// Above this the connection breaks.
    hard: AtomicU32,
}

impl Observer {
    pub(super) fn new(endpoint: Weak<Endpoint>, soft: i32) -> Self {
        // Consumers that know nothing of it leave 0.
        let soft = if soft > 0 { soft.unsigned_abs() } else { INFINITE };
        Self {
            endpoint,
            in_use: AtomicU32::new(0),
            soft: AtomicU32::new(soft),
            hard: AtomicU32::new(INFINITE),
        }
    }

    /// The completion of one is handed out.
    #[inline]
    pub(super) fn shown(&self) {
        // Those of a connection before a reset are not counted any more.
        let _ = self.in_use.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |count| count.checked_sub(1));
    }

    /// The queue pair is reset.
    pub(super) fn reset(&self) {
        self.in_use.store(0, Ordering::Release);
    }

    fn tell(&self, tell: impl FnOnce(&Arc<Endpoint>) + Send + 'static) {
        let endpoint = Weak::clone(&self.endpoint);
        nonic_connection::run(move || {
            if let Some(endpoint) = endpoint.upgrade() {
                tell(&endpoint);
            }
        });
    }

    /// Does what is due with this many in use.
    fn look(&self, count: u32) {
        let soft = self.soft.load(Ordering::Acquire);
        if count > soft
            && self.soft.compare_exchange(soft, INFINITE, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        {
            self.tell(|endpoint| {
                let object = AsyncObject::Endpoint(endpoint);
                endpoint.adapter().raise(AsyncError::EndpointBroken, object, SOFT_HIGH);
            });
        }
        if count > self.hard.load(Ordering::Acquire) {
            self.tell(|endpoint| endpoint.break_connection());
        }
    }
}

impl QueuePairObserver for Observer {
    fn failed(&self) {
        self.tell(|endpoint| endpoint.break_if_failed());
    }

    fn requests_ended(&self) {
        self.tell(|endpoint| endpoint.requests_ended());
    }

    fn receive_completed(&self) {
        let count = self.in_use.fetch_add(1, Ordering::AcqRel) + 1;
        self.look(count);
    }
}

impl Endpoint {
    /// How many receives of the shared queue messages are in or have filled, without those whose completions were handed out;
    /// and the span of those, which is the same, for they are used in order. `INVALID_STATE` without shared receives.
    pub fn receive_query(&self) -> DatResult<(i32, i32)> {
        let core = self.core();
        self.check_shared(&core)?;
        let count = self.wiring().map_or(0, |wiring| {
            let being_filled = u32::from(!wiring.pair.idle().1);
            wiring.observer.in_use.load(Ordering::Acquire) + being_filled
        });
        let count = i32::try_from(count).unwrap_or(i32::MAX);
        Ok((count, count))
    }

    /// Sets how many receives of the shared queue may be in use before an asynchronous event tells, once, and before the
    /// connection breaks; -1 for no limit. Either happens at once if more are in use already.
    ///
    /// Errors: `INVALID_STATE` without shared receives; `INVALID_PARAMETER|ARG2` and `ARG3` for other negative numbers.
    pub fn set_watermarks(&self, soft: i32, hard: i32) -> DatResult<()> {
        let core = self.core();
        self.check_shared(&core)?;
        let mark = |asked: i32, argument| match asked {
            HARDWARE_DEFAULT => Ok(INFINITE),
            asked => u32::try_from(asked).map_err(|_| DatError::argument(argument)),
        };
        let (soft, hard) = (mark(soft, 2)?, mark(hard, 3)?);
        let wiring = self.wiring().ok_or(DatError::state(Subtype::State(StateKind::EpNotReady)))?;
        let observer = &wiring.observer;
        observer.hard.store(hard, Ordering::Release);
        observer.soft.store(soft, Ordering::Release);
        observer.look(observer.in_use.load(Ordering::Acquire));
        Ok(())
    }

    fn check_shared(&self, core: &super::Core) -> DatResult<()> {
        if core.freed {
            return Err(DatError::handle(Subtype::Handle(HandleKind::Endpoint)));
        }
        let shared = core.setup.shared_receives.is_some();
        if shared { Ok(()) } else { Err(DatError::state(Subtype::State(StateKind::EpReceiveWatermark))) }
    }
}
