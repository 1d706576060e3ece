//! How a session ends: this side closes it, the peer says farewell, hangs up, dies, or does not leave this process's memory.

use std::sync::atomic::Ordering;

use super::Session;

impl Session {
    /// Ends the session on this side; false if it had ended. The peer does not learn of it before
    /// [`Session::stop_sending`].
    pub(crate) fn end(&self) -> bool {
        if self.dead.swap(true, Ordering::SeqCst) {
            return false;
        }
        if let Some(record) = self.record() {
            record.leave();
        }
        true
    }

    /// Closes this side's end of the socket, which promises the peer that no operation on its memory is left.
    pub(crate) fn stop_sending(&self) {
        if let Some(far) = &self.far {
            far.socket.stop_sending();
        }
    }

    /// Whether the session has ended on this side.
    #[inline]
    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    /// The peer says that it ends in order.
    pub(crate) fn depart(&self) {
        self.departed.store(true, Ordering::SeqCst);
    }

    /// Whether it has said so.
    pub(crate) fn peer_departed(&self) -> bool {
        self.departed.load(Ordering::SeqCst)
    }

    /// Whether the peer's process has ended.
    pub(crate) fn process_ended(&self) -> bool {
        self.far.as_ref().is_some_and(|far| far.peer.has_ended())
    }

    /// Whether the peer has closed its end, or its process has ended.
    pub(crate) fn peer_is_gone(&self) -> bool {
        self.far.as_ref().is_some_and(|far| far.socket.is_hung_up()) || self.process_ended()
    }

    /// Whether the peer can be inside an operation on this process's memory, or begin one, even if the session has ended here:
    /// it was shown keys, it lives, and it has not closed its end.
    pub(crate) fn peer_may_operate(&self) -> bool {
        !self.is_loopback() && self.has_shown() && !self.peer_is_gone()
    }

    /// The peer did not leave an operation in time, though its process lives: it is stopped.
    pub(crate) fn give_up(&self) {
        if !self.given_up.swap(true, Ordering::SeqCst) {
            let pid = self.credentials.pid;
            tracing::warn!(
                pid,
                "a peer stopped inside an operation on this process's memory; its link is closed"
            );
        }
    }

    /// Whether it once did not.
    pub(crate) fn was_given_up(&self) -> bool {
        self.given_up.load(Ordering::SeqCst)
    }
}
