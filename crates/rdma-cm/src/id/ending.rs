//! Ending a connection. Who ends it says so, and has ended it when the other side has answered.

use std::sync::Weak;
use std::time::Duration;

use nonic_connection::{lend, run_after};

use super::connecting::{Link, TIMED_OUT};
use super::line::{END, Line};
use super::{Core, State};
use crate::{ConnectionParameters, Error, EventKind, Id, Parameters, REJECT_CONSUMER};

/// How long an answer to that is waited for.
const PATIENCE: Duration = Duration::from_secs(66);
/// How long a queue pair rests after its connection has ended. On InfiniBand packets may come for seconds; here none does.
const TIMEWAIT: Duration = Duration::from_millis(100);

impl Id {
    /// Ends the connection (`rdma_disconnect(3)`): DISCONNECTED there, and here when the other side has ended it too. Answers the
    /// other side's end. Of datagrams nothing happens. Errors: `State` if there never was one.
    pub fn disconnect(&self) -> Result<(), Error> {
        let mut core = self.lock_alive()?;
        match std::mem::replace(&mut core.link, Link::Over) {
            Link::None => {
                core.link = Link::None;
                let is_over = self.is_datagram() && core.context.is_some();
                return if is_over { Ok(()) } else { Err(Error::State(core.state)) };
            }
            Link::Accepted(connection) | Link::Open(connection) => {
                connection.say_end();
                let by_wire = matches!(connection, Line::Wire(_));
                core.link = Link::Closing(connection);
                if by_wire {
                    // The machine there knows how long it waits.
                    return Ok(());
                }
                let id = Weak::clone(&self.this);
                run_after(PATIENCE, move || {
                    lend(&id, |id| id.end_unanswered());
                });
            }
            Link::Closed(Line::Host(connection)) => {
                drop(connection);
                self.rest();
            }
            Link::Closed(Line::Wire(connection)) => {
                connection.disconnect(&[]);
                core.link = Link::Resting(Line::Wire(connection));
            }
            // Not wanted any more, before it was ready.
            Link::Answered(connection) => connection.reject(REJECT_CONSUMER as u8, &[]),
            other => core.link = other,
        }
        Ok(())
    }

    /// The other side says something.
    pub(super) fn take_word(&self, word: &[u8]) {
        if word == END {
            self.take_their_end();
        }
    }

    /// The other side ends the connection.
    pub(super) fn take_their_end(&self) {
        let mut core = self.lock();
        match std::mem::replace(&mut core.link, Link::Over) {
            Link::Answered(connection) | Link::Accepted(connection) | Link::Open(connection) => {
                self.show_end(&mut core, 0);
                core.link = Link::Closed(connection);
            }
            // Both at the same time: each takes the other's word for the answer.
            Link::Closing(connection) => {
                drop(connection);
                self.is_disconnected(&mut core);
            }
            other => core.link = other,
        }
    }

    /// The connection is over on both sides.
    pub(super) fn is_disconnected(&self, core: &mut Core) {
        core.link = Link::Over;
        self.show_end(core, 0);
        self.rest();
    }

    /// The other side did not answer that this one ended the connection.
    fn end_unanswered(&self) {
        let mut core = self.lock();
        if let Link::Closing(_) = core.link {
            core.link = Link::Over;
            self.show_end(&mut core, TIMED_OUT);
        }
    }

    pub(super) fn show_end(&self, core: &mut Core, status: i32) {
        core.state = State::Disconnect;
        let nothing = Parameters::Connection(ConnectionParameters::default());
        self.push(core, EventKind::Disconnected, status, nothing);
    }

    /// TIMEWAIT_EXIT comes after a while.
    fn rest(&self) {
        let id = Weak::clone(&self.this);
        run_after(TIMEWAIT, move || {
            lend(&id, |id| {
                let core = id.lock();
                if core.state == State::Disconnect {
                    id.push(&core, EventKind::TimewaitExit, 0, Parameters::None);
                }
            });
        });
    }
}
