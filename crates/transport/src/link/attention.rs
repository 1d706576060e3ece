//! Whether somebody in this process uses a link, which decides how much attention its peer gets.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// What the engine notes of a link.
#[derive(Debug, Default)]
pub struct Attention {
    /// Queue pairs whose way to their peer is this link.
    users: AtomicU32,
    /// Looks at who talks that a use of the link outlasts, so that one who talks with many in turn keeps all of them.
    memory: AtomicU32,
    /// When the peer last said something, in any order that grows.
    heard: AtomicU64,
    /// The peer has something to say and waits for its turn.
    queued: AtomicBool,
}

/// So many looks.
const MEMORY: u32 = 2;

impl Attention {
    /// A queue pair begins to use the link.
    pub fn begin_use(&self) {
        self.users.fetch_add(1, Ordering::SeqCst);
        self.memory.store(MEMORY, Ordering::SeqCst);
    }

    /// It ceases to.
    pub fn end_use(&self) {
        self.users.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether a queue pair uses the link now.
    pub fn is_used(&self) -> bool {
        self.users.load(Ordering::SeqCst) > 0
    }

    /// Whether one does, or did lately.
    pub fn was_used_lately(&self) -> bool {
        self.is_used() || self.memory.load(Ordering::SeqCst) > 0
    }

    /// A look at who talks: uses that are over are so much longer ago.
    pub fn fade(&self) {
        let less = |memory: u32| Some(memory.saturating_sub(1));
        let _ = self.memory.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
    }

    /// Notes that the peer said something at `moment`.
    pub fn note_heard(&self, moment: u64) {
        self.heard.store(moment, Ordering::Relaxed);
    }

    /// When it last did.
    pub fn heard(&self) -> u64 {
        self.heard.load(Ordering::Relaxed)
    }

    /// The peer waits for its turn from now on, or no longer; whether it did before.
    pub fn set_queued(&self, queued: bool) -> bool {
        self.queued.swap(queued, Ordering::Relaxed)
    }
}
