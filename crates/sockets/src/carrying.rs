//! Connections that leave the program's calls: two threads carry their bytes between the stream and the program's socket, which is
//! the kernel's from then on, in whichever process it is used.

use std::collections::HashSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nonic_rsocket::{SharedSlice, Stream, TakenStream};
use nonic_sys::{PerProcess, RawFd, TcpEnd, close_number, spawn_without_signals};

/// Bytes that go at a time.
const PIECE: usize = 1 << 16;
/// How long an end waits for what was sent to have gone.
const LAST_PATIENCE: Duration = Duration::from_secs(2);

/// Numbers of this process that children must not keep: ends of connections, and listeners.
static KEPT: Mutex<Option<HashSet<RawFd>>> = Mutex::new(None);
/// Connections of which the program may still have sent something that has not gone.
static UNDER_WAY: PerProcess<(Mutex<usize>, Condvar)> = PerProcess::new();

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Numbers that children do not get. Whoever makes one holds this from before it is there. `nonic_sys::forget_in_children` is for
/// the device's own few descriptors: it has room for so many and no more, leaves each number taken in the child, and a fork
/// between the making of one and its entry passes it by. A server has as many connections as it likes, forks while others are
/// made, and its children count their numbers.
pub(crate) struct Kept(MutexGuard<'static, Option<HashSet<RawFd>>>);

impl Kept {
    pub(crate) fn lock() -> Self {
        Self(lock(&KEPT))
    }

    pub(crate) fn add(&mut self, number: RawFd) {
        self.0.get_or_insert_default().insert(number);
    }

    /// In a child, which has none of these threads: what is the parent's is closed here, so that its end is seen.
    pub(crate) fn close_in_child(&mut self) {
        for number in self.0.take().into_iter().flatten() {
            let _ = close_number(number);
        }
    }
}

/// A connection that is carried.
struct Carried {
    stream: TakenStream,
    /// There until this is dropped.
    end: Option<TcpEnd>,
}

impl Carried {
    fn end(&self) -> &TcpEnd {
        self.end.as_ref().expect("there until it is dropped")
    }

    /// What the program sends.
    fn carry_out(&self) {
        let mut piece = vec![0; PIECE];
        while let Ok(count @ 1..) = self.end().receive(&mut piece) {
            if self.stream.send_all(SharedSlice::of_private(&mut piece[..count])).is_err() {
                // As TCP tells whoever sends to a peer that is gone.
                self.end().reset();
                break;
            }
        }
        let _ = self.stream.end_sending(Instant::now() + LAST_PATIENCE);
    }

    /// What the peer sends.
    fn carry_in(&self) {
        let mut piece = vec![0; PIECE];
        loop {
            match self.stream.receive(SharedSlice::of_private(&mut piece)) {
                Ok(0) => break self.end().end_sending(),
                Ok(count) => {
                    if self.end().send_all(&piece[..count]).is_err() {
                        break;
                    }
                }
                Err(_) => break self.end().reset(),
            }
        }
    }
}

impl Drop for Carried {
    fn drop(&mut self) {
        self.stream.close(Instant::now() + LAST_PATIENCE);
        let Some(end) = self.end.take() else { return };
        // Both directions have ended: what the kernel still has to deliver it delivers.
        end.reset_when_closed(false);
        let mut kept = Kept::lock();
        if let Some(numbers) = kept.0.as_mut() {
            numbers.remove(&end.number());
        }
        drop(end);
    }
}

/// Carries what goes between a stream and the other end of the program's socket from now on. `kept` has the end's number.
pub(crate) fn carry(stream: &Arc<Stream>, end: TcpEnd) {
    // If this process is killed there must be no orderly end.
    end.reset_when_closed(true);
    end.do_not_delay();
    let carried = Arc::new(Carried { stream: stream.take_over(), end: Some(end) });
    *lock(&under_way().0) += 1;
    let own = Arc::clone(&carried);
    let out = spawn_without_signals("carry-out", move || {
        own.carry_out();
        drop(own);
        one_less();
    });
    let own = Arc::clone(&carried);
    let inward = spawn_without_signals("carry-in", move || own.carry_in());
    if out.is_err() {
        one_less();
    }
    if let Err(error) = out.and(inward) {
        tracing::warn!(%error, "a connection breaks: no thread carries it");
        carried.end().reset();
    }
}

fn under_way() -> &'static (Mutex<usize>, Condvar) {
    UNDER_WAY.get_or_make(Default::default)
}

fn one_less() {
    let (count, changed) = under_way();
    *lock(count) -= 1;
    changed.notify_all();
}

/// Waits until everything that the program sent has gone, at most until then. This may be called by a handler of a signal.
pub(crate) fn finish(end: Instant) {
    let Some((count, changed)) = UNDER_WAY.get() else { return };
    if let Ok(count) = count.try_lock() {
        let left = end.saturating_duration_since(Instant::now());
        drop(changed.wait_timeout_while(count, left, |count| *count > 0));
    }
}
