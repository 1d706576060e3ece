//! The half of a connection that sends.

use std::sync::atomic::{AtomicU64, Ordering};

use nonic_memory::SharedSlice;
use nonic_sys::{CallLock, FenceReach, Record, heavy_fence};

use crate::ScifError;
use crate::direction::{Direction, Nonsense, Sent, WINDOW};
use crate::patience::Patience;
use crate::stream_socket::{StreamSocket, Woken};

/// Which record of the socket stands for sending ([`CallLock`]).
const RECORD: i64 = 0;

/// What sends.
#[derive(Debug)]
pub(crate) struct Outgoing {
    direction: Direction,
    lock: CallLock,
    /// How far the receiver was when last looked at.
    known_head: AtomicU64,
    patience: Patience,
}

impl From<Nonsense> for ScifError {
    fn from(_: Nonsense) -> Self {
        Self::Reset
    }
}

impl Outgoing {
    pub(crate) fn new(direction: Direction) -> Self {
        Self {
            direction,
            lock: CallLock::new(),
            known_head: AtomicU64::new(0),
            patience: Patience::default(),
        }
    }

    /// Sends all of `source` if `block`, else what there is room for; returns how much. An error means that nothing was sent.
    pub(crate) fn send(
        &self,
        socket: StreamSocket,
        source: SharedSlice<'_>,
        block: bool,
        shared: impl Fn() -> bool,
    ) -> Result<usize, ScifError> {
        let record = Record { file: socket.0, byte: RECORD };
        self.lock.lock(record, shared).map_err(|_| ScifError::Interrupted)?;
        let mut sent = 0;
        let outcome = self.send_locked(socket, source, block, &mut sent);
        self.lock.unlock(record);
        match outcome {
            Err(error) if sent == 0 => Err(error),
            _ => Ok(sent),
        }
    }

    fn send_locked(
        &self,
        socket: StreamSocket,
        source: SharedSlice<'_>,
        block: bool,
        sent: &mut usize,
    ) -> Result<(), ScifError> {
        let mut tail = self.direction.tail();
        loop {
            let rest = source.length() - *sent;
            let count = self.room(tail, rest)?.min(rest);
            if count > 0 {
                self.direction.reopen(&socket);
                self.copy(tail, source.part(*sent, count));
                tail = tail.wrapping_add(count as u64);
                let (head, told) = self.direction.publish(tail, &socket)?;
                self.known_head.store(head, Ordering::Relaxed);
                if told == Sent::Gone {
                    // What was there before the peer went counts as sent.
                    return if *sent == 0 { Err(ScifError::Reset) } else { Ok(()) };
                }
                *sent += count;
            }
            if *sent == source.length() || !block {
                break;
            }
            self.wait_for_room(tail, socket)?;
        }
        if tail.wrapping_sub(self.known_head.load(Ordering::Relaxed)) >= WINDOW {
            self.close_when_full(tail, socket)?;
        }
        Ok(())
    }

    /// Bytes there is room for, at least `enough` if that is known without looking at what the receiver writes.
    #[inline]
    fn room(&self, tail: u64, enough: usize) -> Result<usize, Nonsense> {
        let known = tail.wrapping_sub(self.known_head.load(Ordering::Relaxed));
        if known <= WINDOW && WINDOW - known >= enough as u64 {
            return Ok((WINDOW - known) as usize);
        }
        let head = self.direction.head();
        let unread = Direction::unread(head, tail)?;
        self.known_head.store(head, Ordering::Relaxed);
        Ok((WINDOW - unread) as usize)
    }

    #[inline]
    fn copy(&self, tail: u64, source: SharedSlice<'_>) {
        let (first, second) = self.direction.places(tail, source.length());
        first.copy_from(source.part(0, first.length()));
        if !second.is_empty() {
            second.copy_from(source.part(first.length(), second.length()));
        }
    }

    fn wait_for_room(&self, tail: u64, socket: StreamSocket) -> Result<(), ScifError> {
        let is_full = || tail.wrapping_sub(self.direction.head()) == WINDOW;
        if self.patience.look(|| !is_full()) {
            return Ok(());
        }
        while self.close_when_full(tail, socket)? {
            match socket.wait_until_writable() {
                Woken::Ready => {}
                Woken::HungUp => return Err(ScifError::Reset),
                Woken::Interrupted => return Err(ScifError::Interrupted),
            }
            if !is_full() {
                break;
            }
        }
        Ok(())
    }

    fn close_when_full(&self, tail: u64, socket: StreamSocket) -> Result<bool, Nonsense> {
        self.direction.close_when_full(tail, &socket, || heavy_fence(FenceReach::Machine))
    }

    /// Has the end become writable when the receiver takes bytes behind `head`; false if it has taken some already.
    pub(crate) fn ask_for_taking(&self, head: u64, socket: StreamSocket) -> Result<bool, Nonsense> {
        let fence_all = || heavy_fence(FenceReach::Machine);
        self.direction.close_until_taken(self.direction.tail(), head, &socket, fence_all)
    }

    /// How far it has sent, and how far the receiver is, which is checked.
    pub(crate) fn positions(&self) -> Result<(u64, u64), Nonsense> {
        let (tail, head) = (self.direction.tail(), self.direction.head());
        Direction::unread(head, tail).map(|_| (tail, head))
    }

    pub(crate) fn lock(&self) -> (&CallLock, i64) {
        (&self.lock, RECORD)
    }
}
