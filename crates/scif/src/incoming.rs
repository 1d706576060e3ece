//! The half of a connection that receives.

use std::sync::atomic::Ordering;
use std::time::Duration;

use nonic_memory::SharedSlice;
use nonic_sys::{CallLock, Record, SharedWords, light_fence};

use crate::ScifError;
use crate::direction::{Direction, Nonsense};
use crate::patience::Patience;
use crate::stream_socket::{StreamSocket, Woken};

/// Which record of the socket stands for receiving ([`CallLock`]).
const RECORD: i64 = 1;
/// Pause between looks at a descriptor that shows what is not there.
const PAUSE: Duration = Duration::from_micros(50);

/// What receives.
#[derive(Debug)]
pub(crate) struct Incoming {
    direction: Direction,
    lock: CallLock,
    patience: Patience,
    /// 1 while the sender's fences have effect, so that those here cost nothing; `None` if they do not reach this process.
    fences: Option<SharedWords>,
}

/// How far one call has come.
struct Progress<'a> {
    target: SharedSlice<'a>,
    done: usize,
    head: u64,
    /// Bytes before this position may have tokens that are not sent yet.
    unsure: u64,
}

impl Progress<'_> {
    fn is_complete(&self) -> bool {
        self.done == self.target.length()
    }
}

impl Incoming {
    pub(crate) fn new(direction: Direction, fences: Option<SharedWords>) -> Self {
        Self { direction, lock: CallLock::new(), patience: Patience::default(), fences }
    }

    fn sender_fences(&self) -> bool {
        self.fences.as_ref().is_some_and(|fences| fences.at(0).load(Ordering::Acquire) == 1)
    }

    /// Fills all of `target` if `block`, else with what is there; returns how much. An error means that nothing was taken.
    pub(crate) fn receive(
        &self,
        socket: StreamSocket,
        target: SharedSlice<'_>,
        block: bool,
        shared: impl Fn() -> bool,
    ) -> Result<usize, ScifError> {
        let record = Record { file: socket.0, byte: RECORD };
        self.lock.lock(record, shared).map_err(|_| ScifError::Interrupted)?;
        let head = self.direction.head();
        let mut progress = Progress { target, done: 0, head, unsure: head };
        let outcome = self.receive_locked(socket, &mut progress, block);
        if progress.unsure != head || self.direction.has_tokens() {
            self.direction.settle(progress.head, progress.unsure, &socket);
        }
        self.lock.unlock(record);
        match outcome {
            Err(error) if progress.done == 0 => Err(error),
            _ => Ok(progress.done),
        }
    }

    fn receive_locked(
        &self,
        socket: StreamSocket,
        progress: &mut Progress<'_>,
        block: bool,
    ) -> Result<(), ScifError> {
        if self.take(socket, progress, false)? && (progress.is_complete() || !block) {
            return Ok(());
        }
        if !block {
            // A peer that went may have sent something just before.
            let gone = socket.is_hung_up();
            return if self.take(socket, progress, false)? || !gone { Ok(()) } else { Err(ScifError::Reset) };
        }
        let wanted = progress.head.wrapping_add((progress.target.length() - progress.done) as u64);
        loop {
            self.direction.promise(wanted);
            self.take(socket, progress, false)?;
            while !progress.is_complete() && self.patience.look(|| self.direction.tail() != progress.head) {
                self.take(socket, progress, true)?;
            }
            if progress.is_complete() {
                return Ok(());
            }
            self.direction.retract(progress.head);
            if self.take(socket, progress, false)? {
                if progress.is_complete() {
                    return Ok(());
                }
                continue;
            }
            self.sleep(socket, progress)?;
        }
    }

    fn sleep(&self, socket: StreamSocket, progress: &mut Progress<'_>) -> Result<(), ScifError> {
        // Tokens of bytes that were taken, also those that are just being sent, would wake this thread again and again.
        self.direction.settle(progress.head, progress.unsure, &socket);
        match socket.wait_for_token() {
            Woken::Ready => {
                if !self.take(socket, progress, false)? && !self.direction.has_tokens() {
                    // A token that a stopped sender has not counted yet, or none of ours.
                    std::thread::sleep(PAUSE);
                }
                Ok(())
            }
            Woken::Interrupted => Err(ScifError::Interrupted),
            Woken::HungUp => {
                if self.take(socket, progress, false)? {
                    Ok(())
                } else {
                    Err(ScifError::Reset)
                }
            }
        }
    }

    /// Takes what is there, at most what is still missing; whether there was anything. `sure`: the look that showed it came
    /// after one that, after a promise, did not.
    #[inline]
    fn take(&self, socket: StreamSocket, progress: &mut Progress<'_>, sure: bool) -> Result<bool, Nonsense> {
        let tail = self.direction.tail();
        let unread = Direction::unread(progress.head, tail)? as usize;
        if unread == 0 {
            return Ok(false);
        }
        if !sure {
            progress.unsure = tail;
        }
        let count = unread.min(progress.target.length() - progress.done);
        if count > 0 {
            let target = progress.target.part(progress.done, count);
            let (first, second) = self.direction.places(progress.head, count);
            target.copy_near_from(first);
            if !second.is_empty() {
                target.part(first.length(), second.length()).copy_near_from(second);
            }
            progress.done += count;
            progress.head = progress.head.wrapping_add(count as u64);
            self.direction.advance(progress.head, &socket, || light_fence(|| self.sender_fences()));
        }
        Ok(true)
    }

    /// Whether bytes are unread.
    pub(crate) fn has_bytes(&self) -> bool {
        self.direction.tail() != self.direction.head()
    }

    /// Takes tokens away that no byte needs, if nobody receives at this moment.
    pub(crate) fn settle_now(&self, socket: StreamSocket) {
        let record = Record { file: socket.0, byte: RECORD };
        if self.lock.try_lock() {
            let head = self.direction.head();
            if self.direction.has_tokens() && self.direction.tail() == head {
                self.direction.settle(head, head, &socket);
            }
            self.lock.unlock(record);
        }
    }

    pub(crate) fn lock(&self) -> (&CallLock, i64) {
        (&self.lock, RECORD)
    }
}
