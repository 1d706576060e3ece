//! The links of a process: finding the one to a peer, and taking leave of those whose peer is gone.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use nonic_queue::QpNumber;
use nonic_sys::FenceReach;
use nonic_transport::{BLOCK_SIZE, Link};

use super::{Engine, Progress, lock};
use crate::agent;

impl Engine {
    pub(crate) fn links(&self) -> Arc<Vec<Arc<Link>>> {
        Arc::clone(&self.links.read().unwrap_or_else(PoisonError::into_inner).all)
    }

    /// The link to the process that owns a queue-pair number; connects if there is none. `None`: nobody owns it.
    pub(crate) fn link_to(&self, number: QpNumber) -> Option<Arc<Link>> {
        let block = number.0 / BLOCK_SIZE;
        let own_blocks = self.own_blocks();
        if own_blocks.contains(&block) {
            return Some(Arc::clone(&self.loopback));
        }
        {
            let links = self.links.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(link) = links.by_block.get(&block)
                && !link.is_dead()
            {
                return Some(Arc::clone(link));
            }
        }
        match Link::connect(&self.party, number, &own_blocks) {
            Ok(link) => Some(self.add_link(Arc::new(link), Some(block))),
            Err(error) => {
                tracing::debug!(number = number.0, %error, "no process answers for this queue-pair number");
                None
            }
        }
    }

    /// Enters a link: to the owner of `block` if this process connected, else to whoever connected.
    pub(crate) fn add_link(&self, link: Arc<Link>, block: Option<u32>) -> Arc<Link> {
        let token = agent::LINKS + u64::from(self.tokens.fetch_add(1, Ordering::Relaxed));
        {
            let mut links = self.links.write().unwrap_or_else(PoisonError::into_inner);
            let mut all = Vec::clone(&links.all);
            all.push(Arc::clone(&link));
            links.all = Arc::new(all);
            links.by_token.insert(token, Arc::clone(&link));
            for block in block.iter().chain(link.claimed_blocks()) {
                let known = links.by_block.get(block).is_some_and(|known| !known.is_dead());
                if !known {
                    links.by_block.insert(*block, Arc::clone(&link));
                }
            }
        }
        self.links_version.fetch_add(1, Ordering::Release);
        for watched in [link.socket(), link.process()].into_iter().flatten() {
            if let Err(error) = self.epoll.add(watched, token) {
                tracing::warn!(%error, "a link cannot be watched");
            }
        }
        // The agent must say on the new link's ring, too, that it sleeps.
        self.party.doorbell.signal();
        link
    }

    pub(crate) fn link_of_token(&self, token: u64) -> Option<Arc<Link>> {
        self.links.read().unwrap_or_else(PoisonError::into_inner).by_token.get(&token).cloned()
    }

    /// Takes leave of a link whose peer is gone: what it still sent is handled, then its queue pairs fail.
    pub(crate) fn bury(&self, link: &Arc<Link>) {
        {
            let mut driver = self.driver.lock();
            let mut held = false;
            // What the peer said last may stand in another ring: two processes that connected to each other at the same
            // moment have two links. A ring's worth and some of each: a peer that closed its socket and goes on writing
            // is not listened to for ever.
            for ring in self.links().iter().filter(|other| other.leads_where(link)) {
                for _ in 0..64 {
                    let progress = self.drain(ring, &mut driver, usize::MAX);
                    held |= progress.any_of(Progress::HELD);
                    if !progress.any_of(Progress::WORKED) {
                        break;
                    }
                }
            }
            driver.answer();
            if held {
                // What waits for a receive is not lost with its sender: once more, later.
                lock(&self.ended).push(Arc::clone(link));
                return;
            }
        }
        link.close();
        {
            let mut links = self.links.write().unwrap_or_else(PoisonError::into_inner);
            let keep = |other: &Arc<Link>| !Arc::ptr_eq(other, link);
            links.all = Arc::new(links.all.iter().filter(|other| keep(other)).cloned().collect());
            links.by_block.retain(|_, other| keep(other));
            links.by_token.retain(|_, other| keep(other));
        }
        self.links_version.fetch_add(1, Ordering::Release);
        for watched in [link.socket(), link.process()].into_iter().flatten() {
            self.epoll.remove(watched);
        }
        for pair in self.all_pairs() {
            pair.peer_is_gone(link);
        }
    }

    pub(super) fn say_goodbye(&self) {
        for link in self.links().iter() {
            link.say_goodbye();
        }
    }

    /// Waits until no operation that began before is under way on this process's memory, by its own threads or peers.
    pub(crate) fn wait_for_operations(&self) {
        // Only the link to itself: no other process can have anything under way.
        let alone = self.links().len() == 1;
        nonic_sys::heavy_fence(if alone { FenceReach::Process } else { FenceReach::Machine });
        self.party.memory.slots().wait_idle(Duration::MAX / 4, &|| false);
        for link in self.links().iter() {
            if !link.wait_for_peer(PEER_PATIENCE) {
                self.end_link(link);
            }
        }
    }

    /// Closes a link; the agent buries it, when nobody holds a lock.
    pub(super) fn end_link(&self, link: &Arc<Link>) {
        link.close();
        lock(&self.ended).push(Arc::clone(link));
        self.party.doorbell.signal();
    }

    /// Counts one region less on a file of the program; peers let go of it with the last.
    pub(crate) fn release_file(&self, file: u32) {
        if self.party.files.release(file) {
            for link in self.links().iter() {
                link.drop_file(file);
            }
        }
    }
}

/// How long deregistration waits for a peer that is inside a copy but does not move (stopped, or in a debugger).
pub(super) const PEER_PATIENCE: Duration = Duration::from_secs(2);
