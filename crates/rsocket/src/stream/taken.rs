//! A stream that is taken away from the calls of the program.

use std::sync::Arc;
use std::time::Instant;

use nonic_memory::SharedSlice;

use super::transfer::PIECE_MOST;
use super::{Direction, State, Stream, lock};
use crate::gather::Gather;
use crate::waiting::Patience;
use crate::{Error, Result};

/// Has a stream alone. Calls of the program that receive or send fail with `ESTALE`, those that wait already too, unless they have
/// carried some bytes; whoever polls the stream is told that it is ready.
#[derive(Debug)]
pub struct TakenStream(Arc<Stream>);

impl Stream {
    /// Takes it away from the program. What was received so far, and sent, comes before what goes this way.
    pub fn take_over(self: &Arc<Self>) -> TakenStream {
        self.lock().taken = true;
        self.wakeup.ring();
        TakenStream(Arc::clone(self))
    }
}

impl State {
    /// For a call of the program: `ESTALE` if the stream was taken away from it.
    pub(super) fn of_program(&mut self) -> Result<&mut Self> {
        if self.taken { Err(Error::new(libc::ESTALE)) } else { Ok(self) }
    }
}

impl TakenStream {
    /// Receives what there is; 0 after the end. Waits for some.
    pub fn receive(&self, target: SharedSlice<'_>) -> Result<usize> {
        let _turn = lock(&self.0.receiving);
        self.0.wait(Patience::Endless, &mut |state| state.receive(target, false).transpose())?
    }

    /// Sends all of it. Waits until there is room.
    pub fn send_all(&self, bytes: SharedSlice<'_>) -> Result<()> {
        let _turn = lock(&self.0.sending);
        let slices = [bytes];
        let mut bytes = Gather::new(&slices);
        while bytes.left() > 0 {
            self.0.wait(Patience::Endless, &mut |state| state.send(&mut bytes, PIECE_MOST).transpose())??;
        }
        Ok(())
    }

    /// Nothing more is sent. Waits at most until then for what was sent to have gone.
    pub fn end_sending(&self, end: Instant) -> Result<()> {
        self.0.shut_down_until(Direction::Send, end)
    }

    /// Gives it back; waits at most until then for what was sent to have gone.
    pub fn close(&self, end: Instant) {
        self.0.close_until(end);
    }
}
