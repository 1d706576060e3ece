//! The links of a process: finding the one to a peer, and taking leave of those whose peer is gone.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use nonic_queue::QpNumber;
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
        let _meeting = lock(&self.meeting);
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
        let parted = link.peer_may_operate();
        {
            let mut links = self.links.write().unwrap_or_else(PoisonError::into_inner);
            let keep = |other: &Arc<Link>| !Arc::ptr_eq(other, link);
            links.all = Arc::new(links.all.iter().filter(|other| keep(other)).cloned().collect());
            links.by_block.retain(|_, other| keep(other));
            let others = links.parted.iter().filter(|other| keep(other) && other.peer_may_operate());
            let parted_now = others.chain(parted.then_some(link)).cloned().collect();
            links.parted = Arc::new(parted_now);
            if !parted {
                links.by_token.retain(|_, other| keep(other));
            }
        }
        self.links_version.fetch_add(1, Ordering::Release);
        if parted {
            // Between the question and the entry its end may have been closed.
            self.watch_parted(link);
        } else {
            self.stop_watching(link);
            if link.was_given_up() {
                self.wake_to_use_again();
            }
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
