//! Datagrams of queue pair 1, and news of queue pairs, that came and were not looked at yet. They come under locks of the engine, and are looked at on the thread of
//! the connection manager.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use nonic_device::{ManagementArrival, ManagementObserver, QpNumber};
use nonic_roce::{Ends, HostAddress, MANAGEMENT, ManagementDatagram};

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

#[derive(Default)]
pub(crate) struct Inbox {
    news: Mutex<VecDeque<News>>,
    /// Has somebody look, soon and on another thread.
    call: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl fmt::Debug for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").field("news", &self.news).finish_non_exhaustive()
    }
}

impl Inbox {
    fn lock(&self) -> MutexGuard<'_, VecDeque<News>> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on somebody is there who looks when he is called: at what came before, too.
    pub(crate) fn open(&self, call: impl Fn() + Send + Sync + 'static) {
        let call = self.call.get_or_init(|| Box::new(call));
        if !self.lock().is_empty() {
            call();
        }
    }

    pub(crate) fn take(&self) -> VecDeque<News> {
        std::mem::take(&mut *self.lock())
    }

    /// Datagrams are lost if too many wait; of each queue pair there is one piece of news at a time, and of addresses one in all.
    fn push(&self, news: News) {
        let is_first = {
            let mut waiting = self.lock();
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
        if is_first && let Some(call) = self.call.get() {
            call();
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn what_came_before_anybody_could_look_is_looked_at_and_what_comes_later_too() {
        let inbox = Inbox::default();
        inbox.is_connected(QpNumber(1));
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        inbox.open(move || {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(calls.load(Ordering::Relaxed), 1);
        inbox.is_connected(QpNumber(2));
        assert_eq!((calls.load(Ordering::Relaxed), inbox.take().len()), (1, 2), "one look for both");
        inbox.is_connected(QpNumber(3));
        assert_eq!((calls.load(Ordering::Relaxed), inbox.take().len()), (2, 1));
    }
}
