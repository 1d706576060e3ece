//! Datagrams of queue pair 1 that came and were not looked at yet. They come under locks of the engine, and are looked at on the thread of
//! the connection manager.

use std::collections::VecDeque;
use std::sync::{Mutex, OnceLock, PoisonError, Weak};

use nonic_connection::run;
use nonic_device::{ManagementArrival, ManagementObserver};
use nonic_roce::{Ends, HostAddress, MANAGEMENT, ManagementDatagram};

use crate::wire::Wire;

/// So many wait at most; more are lost, as they may be on their way, and come again.
const WAITING_MAX: usize = 1024;

/// One that came.
#[derive(Debug)]
pub(crate) struct Came {
    pub(crate) ends: Ends,
    pub(crate) bytes: Box<[u8; ManagementDatagram::LENGTH]>,
    /// No other process of this user had it first.
    pub(crate) came_here: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Inbox {
    came: Mutex<VecDeque<Came>>,
    pub(crate) wire: OnceLock<Weak<Wire>>,
}

impl Inbox {
    pub(crate) fn take(&self) -> VecDeque<Came> {
        std::mem::take(&mut *self.came.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ManagementObserver for Inbox {
    fn received(&self, arrival: &ManagementArrival<'_>) {
        let Ok(bytes) = <&[u8; ManagementDatagram::LENGTH]>::try_from(arrival.bytes) else { return };
        if arrival.source_qp != MANAGEMENT {
            return;
        }
        let ends = Ends {
            local: HostAddress::of_gid(arrival.destination),
            remote: HostAddress::of_gid(arrival.source),
        };
        let is_first = {
            let mut came = self.came.lock().unwrap_or_else(PoisonError::into_inner);
            if came.len() >= WAITING_MAX {
                return;
            }
            came.push_back(Came { ends, bytes: Box::new(*bytes), came_here: !arrival.was_handed_on });
            came.len() == 1
        };
        if is_first && let Some(wire) = self.wire.get().map(Weak::clone) {
            run(move || {
                if let Some(wire) = wire.upgrade() {
                    wire.look();
                }
            });
        }
    }
}
