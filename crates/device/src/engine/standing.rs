//! Which links this process looks at on its own: those to processes of its user or that it trusts, and those which lead to
//! where its queue pairs are connected. All others are looked at when their sockets say so, by the agent, which gives them
//! a share of its time. So a stranger that nobody here talks with costs a poll nothing, however many links it makes.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use nonic_sys::Seldom;
use nonic_transport::Link;

use super::Engine;
use super::links::KnownLinks;

/// Links that lead to one stranger and are looked at by every poll: two processes that connect to each other at the same
/// moment have two, and more if several of their threads do.
const LINKS_PER_STRANGER: usize = 8;

/// The links that every poll looks at, unless they rest.
#[derive(Debug, Default)]
pub(super) struct Attended {
    pub(super) links: Vec<Arc<Link>>,
    /// So many of them, the first, do not lead to foreigners.
    pub(super) own: usize,
}

impl Attended {
    fn is_same(&self, other: &Self) -> bool {
        self.links.len() == other.links.len()
            && self.links.iter().zip(&other.links).all(|(one, other)| Arc::ptr_eq(one, other))
    }

    fn has(&self, link: &Link) -> bool {
        self.links.iter().any(|other| std::ptr::eq(&raw const **other, link))
    }
}

/// A link that a queue pair uses, counted as long as it does.
#[derive(Debug)]
pub(crate) struct UsedLink(Arc<Link>);

impl UsedLink {
    pub(super) fn new(link: Arc<Link>) -> Self {
        link.attention.begin_use();
        Self(link)
    }
}

impl Deref for UsedLink {
    type Target = Arc<Link>;
    #[inline(always)]
    fn deref(&self) -> &Arc<Link> {
        &self.0
    }
}

impl Drop for UsedLink {
    fn drop(&mut self) {
        self.0.attention.end_use();
    }
}

impl Engine {
    /// Whether a link leads to a process of another user that this process does not trust.
    pub(crate) fn is_foreign(&self, link: &Link) -> bool {
        link.is_stranger() && !self.is_own_user(link.credentials().uid)
    }

    /// Whether polls look at a link.
    pub(crate) fn is_attended(&self, link: &Link) -> bool {
        !self.is_foreign(link) || self.attended().has(link)
    }

    /// The links that every poll looks at, unless they rest.
    pub(super) fn attended(&self) -> Arc<Attended> {
        Arc::clone(&self.links.known.read().unwrap_or_else(PoisonError::into_inner).attended)
    }

    /// Finds out anew which links polls look at. `links` is held for writing. True if they are others than before, and
    /// whoever holds the lock has to call [`Engine::attended_changed`] when it is free.
    pub(super) fn settle(&self, links: &mut KnownLinks) -> bool {
        let (foreign, mut attended): (Vec<_>, Vec<_>) =
            links.all.iter().cloned().partition(|link| self.is_foreign(link));
        let own = attended.len();
        let (used, silent): (Vec<_>, Vec<_>) =
            foreign.into_iter().partition(|link| link.attention.was_used_lately());
        let mut by_process: HashMap<_, Vec<_>> = HashMap::new();
        for link in silent {
            by_process.entry(process_of(&link)).or_default().push(link);
        }
        for talking in &used {
            // Several of the used ones may lead to one process.
            let Some(others) = by_process.remove(&process_of(talking)) else { continue };
            let leads_there = |link: &Arc<Link>| used.iter().any(|used| link.leads_where(used));
            attended.extend(others.into_iter().filter(leads_there).take(LINKS_PER_STRANGER));
        }
        attended.extend(used);
        let attended = Attended { links: attended, own };
        let changed = !attended.is_same(&links.attended);
        if changed {
            links.attended = Arc::new(attended);
        }
        changed
    }

    /// Has everybody see which links are attended now.
    pub(super) fn attended_changed(&self) {
        self.links.version.fetch_add(1, Ordering::Release);
        // The agent must say on every ring that is looked at, too, that it sleeps.
        self.party.doorbell.signal();
    }

    /// Finds out anew which links polls look at, after one was used or became trusted.
    pub(crate) fn look_who_talks(&self) {
        let changed = self.settle(&mut self.links.known.write().unwrap_or_else(PoisonError::into_inner));
        if changed {
            self.attended_changed();
        }
    }

    /// Ceases to look at the links of foreigners that no queue pair has used lately: not since the last but one of these calls.
    pub(crate) fn forget_who_talked(&self) {
        for link in self.foreigners_attended() {
            // Who waits for room in its ring is still at it.
            if link.has_stalled() {
                drop(UsedLink::new(link));
            } else {
                link.attention.fade();
            }
        }
        self.look_who_talks();
    }

    /// The links of foreigners that polls look at.
    pub(crate) fn foreigners_attended(&self) -> Vec<Arc<Link>> {
        let attended = self.attended();
        attended.links[attended.own..].to_vec()
    }

    /// Grows whenever other links than before are looked at.
    pub(crate) fn links_version(&self) -> u64 {
        self.links.version.load(Ordering::Acquire)
    }

    /// The user whose processes are no foreigners.
    pub(crate) fn own_user(&self) -> Option<u32> {
        self.own_user
    }

    pub(crate) fn is_own_user(&self, user: u32) -> bool {
        self.own_user == Some(user)
    }

    /// Watches what belongs to a link. A foreigner's is reported once, until it has had its turn.
    pub(super) fn watch(&self, link: &Link, token: u64) {
        let foreign = self.is_foreign(link);
        for watched in [link.socket(), link.process()].into_iter().flatten() {
            let result = if foreign {
                self.agent.epoll.add_once(watched, token)
            } else {
                self.agent.epoll.add(watched, token)
            };
            if let Err(error) = result
                && let Some(unsaid) = UNWATCHED.turn()
            {
                tracing::warn!(%error, unsaid, "a link cannot be watched");
            }
        }
    }

    /// Watches what belongs to a foreigner's link again, after it had its turn.
    pub(crate) fn watch_on(&self, link: &Link, token: u64) {
        let foreign = self.is_foreign(link);
        for watched in [link.socket(), link.process()].into_iter().flatten() {
            let _ = if foreign {
                self.agent.epoll.watch_once_more(watched, token)
            } else {
                self.agent.epoll.watch_room(watched, token, false)
            };
        }
    }
}

fn process_of(link: &Link) -> (i32, u32) {
    let credentials = link.credentials();
    (credentials.pid, credentials.uid)
}

static UNWATCHED: Seldom = Seldom::new();
