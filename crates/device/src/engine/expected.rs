//! Processes that this one has connected to and that have not introduced themselves. A name is anybody's who takes it, in this network
//! namespace as in a folder where others are met: who has it and says nothing is not waited for.

use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use nonic_sys::{Seldom, process_is_stopped};
use nonic_transport::Link;

use super::{Engine, lock};

/// How soon it is looked again whether a process that is stopped goes on. As long is given once more if this process has not run
/// either: those of a job go on together.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

static SILENT: Seldom = Seldom::new();

/// Links that this process made, and until when their peers may be silent.
#[derive(Debug, Default)]
pub(super) struct Expected(Mutex<Vec<(Instant, Weak<Link>)>>);

impl Engine {
    /// The peer of a link that this process has made may be silent for as long as one on another host.
    pub(super) fn expect(&self, link: &Arc<Link>) {
        let Some(until) = self.wire_silence().and_then(|silence| Instant::now().checked_add(silence)) else {
            return;
        };
        lock(&self.links.expected.0).push((until, Arc::downgrade(link)));
        // The agent has to know until when it may sleep.
        self.party.doorbell.signal();
    }

    /// Parts from those who have been silent for too long; returns when to look again. Called by the agent, which holds no lock.
    pub(crate) fn part_from_silent(&self, now: Instant) -> Option<Duration> {
        let mut expected = lock(&self.links.expected.0);
        let (mut silent, mut next) = (Vec::new(), None::<Instant>);
        expected.retain_mut(|(until, link)| {
            let Some(link) = link.upgrade().filter(|link| !link.has_met() && !link.is_dead()) else {
                return false;
            };
            if *until <= now {
                let pid = link.credentials().pid;
                let late = now.saturating_duration_since(*until) >= LOOK_AGAIN;
                // It has no chance to say anything, and a network card would have answered for it.
                let stopped = pid > 0 && process_is_stopped(pid);
                if !late && !stopped {
                    silent.push(link);
                    return false;
                }
                *until = now + LOOK_AGAIN;
            }
            next = Some(next.map_or(*until, |next| next.min(*until)));
            true
        });
        drop(expected);
        for link in silent {
            if let Some(unsaid) = SILENT.turn() {
                let (pid, uid) = (link.credentials().pid, link.credentials().uid);
                tracing::warn!(
                    pid,
                    uid,
                    unsaid,
                    "a process that holds the number of a queue pair takes connections and never introduces itself: its queue pairs \
                     count as gone (NONIC_WIRE_SILENCE says how long it is waited for)"
                );
            }
            self.part_from(&link);
        }
        next.map(|next| next.saturating_duration_since(now))
    }
}
