//! Datagrams of queue pair 1, and news of queue pairs, that came and were not looked at yet. They come under locks of the engine, and are looked at on the thread of
//! the connection manager.

use std::collections::VecDeque;
use std::sync::{Mutex, OnceLock, PoisonError, Weak};

use nonic_connection::run;
use nonic_device::{ManagementArrival, ManagementObserver, QpNumber};
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

/// What there is to look at.
#[derive(Debug)]
pub(crate) enum News {
    Came(Came),
    /// The peer of a queue pair of this process is connected.
    Connected(QpNumber),
    /// The peer of a queue pair of this process is gone.
    Silent(QpNumber),
    /// Addresses of this host have come or gone.
    Addresses,
}

#[derive(Debug, Default)]
pub(crate) struct Inbox {
    news: Mutex<VecDeque<News>>,
    pub(crate) wire: OnceLock<Weak<Wire>>,
}

impl Inbox {
    pub(crate) fn take(&self) -> VecDeque<News> {
        std::mem::take(&mut *self.news.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Datagrams are lost if too many wait; of each queue pair there is one piece of news at a time, and of addresses one in all.
    fn push(&self, news: News) {
        let is_first = {
            let mut waiting = self.news.lock().unwrap_or_else(PoisonError::into_inner);
            let is_left_out = match news {
                News::Came(_) => waiting.len() >= WAITING_MAX,
                News::Addresses => waiting.iter().any(|news| matches!(news, News::Addresses)),
                News::Connected(_) | News::Silent(_) => false,
            };
            if is_left_out {
                return;
            }
            waiting.push_back(news);
            waiting.len() == 1
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
        self.push(News::Came(Came { ends, bytes: Box::new(*bytes), came_here: !arrival.was_handed_on }));
    }

    fn is_connected(&self, pair: QpNumber) {
        self.push(News::Connected(pair));
    }

    fn is_silent(&self, pair: QpNumber) {
        self.push(News::Silent(pair));
    }

    fn addresses_changed(&self) {
        self.push(News::Addresses);
    }
}
