//! The words of a byte stream, one way, and the rules by which its two sides wake each other.
//!
//! Each side has cache lines of its own:
//!
//! | line | written by | words |
//! |---|---|---|
//! | 0 | sender | `tail`: bytes sent since the beginning; `sent`: tokens sent; `full` (also cleared by the receiver) |
//! | 1 | receiver | `head`: bytes taken; `wanted`: position up to which a receiver that is inside a call will take bytes; `taken`: tokens taken |
//! | 2 | sender | `decided`: position up to which it is decided whether a token is sent; `lowered`: the descriptor's send buffer is small |
//!
//! **Tokens** are bytes on the socket that make the receiver's descriptor readable. The rule: while bytes are unread and
//! nobody has promised to take them, at least one token is there; while none are unread, none is. After publishing `tail`
//! the sender looks at `wanted`: at or behind `tail`, the receiver has promised to take the bytes and sends no token is
//! needed. The promise is kept or taken back, never forgotten. Between the two looks stands a full fence on each side, so
//! that either the sender sees the promise or the receiver sees the bytes.
//!
//! A receiver that finds bytes in its first look after such a fence cannot know what the sender decided: it waits for
//! `decided` before it takes tokens away. What arrives later is covered by the promise for certain.
//!
//! **A full ring.** The sender says so in `full`, has the kernel interrupt whoever might not have seen it, looks once more,
//! and makes its descriptor unwritable: a send buffer so small that two tokens fill it. A receiver that took bytes looks at
//! `full` and takes the tokens but one, which makes the kernel wake the sender. It says in `taken` that it will before it
//! looks how many are needed, so that a sender that fills the ring at that moment sends new ones, or is seen.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nonic_memory::SharedSlice;
use nonic_sys::{AtomicU64, SharedMapping, cpu_relax, full_fence, yield_now};

/// Bytes of the ring.
pub(crate) const RING: u64 = 4096;
/// Bytes that fit: one place is kept free.
pub(crate) const WINDOW: u64 = RING - 1;
/// Tokens at most that are on their way, so that they never fill the ordinary send buffer.
pub(crate) const TOKENS_MOST: u64 = 8;
/// So many make a sender with the small buffer unwritable, and one does not.
const TOKENS_WHEN_FULL: u64 = 2;

const TAIL: usize = 0;
const SENT: usize = 8;
const FULL: usize = 16;
const HEAD: usize = 128;
const WANTED: usize = 136;
const TAKEN: usize = 144;
const DECIDED: usize = 256;
const LOWERED: usize = 264;

/// The ring is not full, or nobody minds.
const NOT_FULL: u64 = 0;
/// The sender is about to make its descriptor unwritable.
const FILLING: u64 = 1;
/// It has done so.
const FILLED: u64 = 2;

/// Looks at a word that the other side is about to change, before this thread sleeps between two.
const LOOKS: u32 = 4_000;
const LOOKS_PER_YIELD: u32 = 64;
/// Sleeps before the other side is taken for stopped, and how long they are.
const SLEEPS: u32 = 2_000;
const SLEEP: Duration = Duration::from_micros(50);

/// What the kernel does for a direction: one end of its socket.
pub(crate) trait Signals {
    /// Sends a token.
    fn send(&self) -> Sent;
    /// Takes up to so many tokens; returns how many there were.
    fn take(&self, count: u64) -> u64;
    /// Makes the sending end unwritable once two tokens are on their way.
    fn lower(&self);
    /// Takes that back.
    fn raise(&self);
}

/// What became of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// It is on its way.
    Yes,
    /// There is no room: others are on their way.
    NoRoom,
    /// Nobody is there to take it.
    Gone,
}

/// The other side has written what cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Nonsense;

/// One way of a stream.
#[derive(Clone, Debug)]
pub(crate) struct Direction {
    mapping: Arc<SharedMapping>,
    words: usize,
    /// Offset of the ring in the mapping.
    ring: usize,
}

impl Direction {
    pub(crate) fn new(mapping: Arc<SharedMapping>, words: usize, ring: usize) -> Self {
        Self { mapping, words, ring }
    }

    /// The places of `length` bytes (at most [`WINDOW`]) from a position on: in one piece or two.
    #[inline]
    pub(crate) fn places(&self, position: u64, length: usize) -> (SharedSlice<'_>, SharedSlice<'_>) {
        let at = (position % RING) as usize;
        let first = length.min(RING as usize - at);
        (self.bytes(self.ring + at, first), self.bytes(self.ring, length - first))
    }

    #[inline]
    fn bytes(&self, offset: usize, length: usize) -> SharedSlice<'_> {
        SharedSlice::of_mapping(&self.mapping, offset, length).unwrap_or(SharedSlice::EMPTY)
    }

    #[inline(always)]
    fn word(&self, offset: usize) -> &AtomicU64 {
        self.mapping.word(self.words + offset)
    }

    #[inline(always)]
    pub(crate) fn tail(&self) -> u64 {
        self.word(TAIL).load(Ordering::Acquire)
    }

    #[inline(always)]
    pub(crate) fn head(&self) -> u64 {
        self.word(HEAD).load(Ordering::Acquire)
    }

    /// Bytes unread. `Err` if head and tail contradict each other.
    #[inline]
    pub(crate) fn unread(head: u64, tail: u64) -> Result<u64, Nonsense> {
        let unread = tail.wrapping_sub(head);
        if unread <= WINDOW { Ok(unread) } else { Err(Nonsense) }
    }

    // The sender's side.

    /// Publishes bytes and tells the receiver if it has not promised to take them. Returns how far the receiver is.
    #[inline]
    pub(crate) fn publish(&self, tail: u64, signals: &impl Signals) -> Result<(u64, Sent), Nonsense> {
        self.word(TAIL).store(tail, Ordering::Release);
        full_fence();
        let wanted = self.word(WANTED).load(Ordering::Relaxed);
        let head = self.head();
        let unread = Self::unread(head, tail)?;
        let mut told = Sent::Yes;
        if wanted < tail && unread > 0 {
            told = self.tell(signals);
        }
        self.word(DECIDED).store(tail, Ordering::Release);
        Ok((head, told))
    }

    fn tell(&self, signals: &impl Signals) -> Sent {
        if self.tokens_left() >= TOKENS_MOST {
            return Sent::NoRoom;
        }
        self.send_token(signals)
    }

    fn send_token(&self, signals: &impl Signals) -> Sent {
        let told = signals.send();
        if told == Sent::Yes {
            let sent = self.word(SENT).load(Ordering::Relaxed);
            self.word(SENT).store(sent.wrapping_add(1), Ordering::Release);
        }
        told
    }

    /// Before bytes are published: makes the descriptor what it was before the ring was full.
    #[inline]
    pub(crate) fn reopen(&self, signals: &impl Signals) {
        if self.word(LOWERED).load(Ordering::Relaxed) != 0 {
            self.reopen_slowly(signals);
        }
    }

    /// The sender's end has the small buffer from before the connection: it has the ordinary one from its first bytes on.
    pub(crate) fn begins_lowered(&self) {
        self.word(LOWERED).store(1, Ordering::Relaxed);
    }

    #[cold]
    fn reopen_slowly(&self, signals: &impl Signals) {
        let _ = self.word(FULL).compare_exchange(FILLED, NOT_FULL, Ordering::SeqCst, Ordering::Relaxed);
        self.reopen_buffer(signals);
    }

    fn reopen_buffer(&self, signals: &impl Signals) {
        if self.word(LOWERED).load(Ordering::Relaxed) != 0 {
            signals.raise();
            self.word(LOWERED).store(0, Ordering::Relaxed);
        }
    }

    /// Tokens that the receiver has not taken, nor said that it will.
    fn tokens_left(&self) -> u64 {
        self.word(SENT).load(Ordering::Relaxed).wrapping_sub(self.word(TAKEN).load(Ordering::SeqCst))
    }

    /// Makes the descriptor unwritable because the ring is full; false if it no longer is. `fence` is one that reaches the
    /// receiver.
    pub(crate) fn close_when_full(
        &self,
        tail: u64,
        signals: &impl Signals,
        fence_all: impl Fn(),
    ) -> Result<bool, Nonsense> {
        self.close_until_taken(tail, tail.wrapping_sub(WINDOW), signals, fence_all)
    }

    /// The same until the receiver has taken anything behind `head`, full or not.
    pub(crate) fn close_until_taken(
        &self,
        tail: u64,
        head: u64,
        signals: &impl Signals,
        fence_all: impl Fn(),
    ) -> Result<bool, Nonsense> {
        let is_taken = || Self::unread(self.head(), tail).map(|unread| unread < tail.wrapping_sub(head));
        if self.word(FULL).load(Ordering::SeqCst) != FILLED {
            self.word(FULL).store(FILLING, Ordering::SeqCst);
            fence_all();
            if is_taken()? {
                self.word(FULL).store(NOT_FULL, Ordering::SeqCst);
                return Ok(false);
            }
        }
        if self.tokens_left() < TOKENS_WHEN_FULL {
            // In the ordinary buffer, where they have room beside those that the receiver is about to take.
            self.reopen_buffer(signals);
            while self.tokens_left() < TOKENS_WHEN_FULL && self.send_token(signals) == Sent::Yes {}
        }
        if self.word(LOWERED).load(Ordering::Relaxed) == 0 {
            signals.lower();
            self.word(LOWERED).store(1, Ordering::Relaxed);
        }
        self.word(FULL).store(FILLED, Ordering::SeqCst);
        full_fence();
        if !is_taken()? {
            return Ok(true);
        }
        self.reopen_slowly(signals);
        Ok(false)
    }

    // The receiver's side.

    /// Promises to take all bytes up to a position. What the next look shows is not covered yet, what comes later is.
    #[inline]
    pub(crate) fn promise(&self, position: u64) {
        self.word(WANTED).store(position, Ordering::Relaxed);
        full_fence();
    }

    /// Takes a promise back, having taken the bytes up to `head`. The next look shows what came relying on it.
    #[inline]
    pub(crate) fn retract(&self, head: u64) {
        self.promise(head);
    }

    /// Says that the bytes up to `head` are taken. `free`: whether the sender's fence reaches this process.
    #[inline]
    pub(crate) fn advance(&self, head: u64, signals: &impl Signals, light_fence: impl Fn()) {
        self.word(HEAD).store(head, Ordering::Release);
        light_fence();
        // Acquire: a sender that has opened it itself may have sent tokens before.
        if self.word(FULL).load(Ordering::Acquire) != NOT_FULL {
            self.open_full(head, signals);
        }
    }

    #[cold]
    fn open_full(&self, head: u64, signals: &impl Signals) {
        self.wait_until(|| self.word(FULL).load(Ordering::SeqCst) != FILLING);
        // Before the tokens go: afterwards the sender may be at it again.
        if self.word(FULL).compare_exchange(FILLED, NOT_FULL, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            self.take_tokens(head, signals);
        }
    }

    /// Whether tokens are on their way or waiting.
    #[inline]
    pub(crate) fn has_tokens(&self) -> bool {
        self.word(SENT).load(Ordering::Acquire) != self.word(TAKEN).load(Ordering::Relaxed)
    }

    /// Takes the tokens away that no unread byte needs, after bytes up to `head` were taken, of which those before `unsure`
    /// were not covered by a promise for certain. Returns how many it took.
    #[cold]
    pub(crate) fn settle(&self, head: u64, unsure: u64, signals: &impl Signals) -> u64 {
        let until = unsure.min(head);
        self.wait_until(|| self.word(DECIDED).load(Ordering::Acquire) >= until);
        self.take_tokens(head, signals)
    }

    fn take_tokens(&self, head: u64, signals: &impl Signals) -> u64 {
        self.take_tokens_but(signals, || match self.tail().wrapping_sub(head) {
            0 => 0,
            WINDOW => TOKENS_WHEN_FULL,
            _ => 1,
        })
    }

    /// For a receiver that looks at bytes and leaves them unread for now, those before `head` taken: takes all tokens, so that the next
    /// one tells of bytes that it has not seen. While the ring is full they stay, and so does the sender's end unwritable.
    pub(crate) fn take_tokens_of_seen(&self, head: u64, signals: &impl Signals) {
        self.take_tokens_but(signals, || match self.tail().wrapping_sub(head) {
            WINDOW => TOKENS_WHEN_FULL,
            _ => 0,
        });
    }

    fn take_tokens_but(&self, signals: &impl Signals, needed: impl Fn() -> u64) -> u64 {
        let sent = self.word(SENT).load(Ordering::Acquire);
        let taken = self.word(TAKEN).load(Ordering::Relaxed);
        let count = sent.wrapping_sub(taken);
        if count == 0 {
            return 0;
        }
        // Said before it is done: a sender that publishes from here on sends a token, one that published before is seen.
        self.word(TAKEN).store(sent, Ordering::Relaxed);
        full_fence();
        let needed = needed();
        let got = if count > needed { signals.take(count - needed) } else { 0 };
        self.word(TAKEN).store(taken.wrapping_add(got), Ordering::Release);
        got
    }

    /// Waits for what the other side does within a few instructions and one system call. A process that was stopped just
    /// there is not waited for: then its token may show late.
    fn wait_until(&self, done: impl Fn() -> bool) {
        for look in 1..=LOOKS {
            if done() {
                return;
            }
            if look.is_multiple_of(LOOKS_PER_YIELD) { yield_now() } else { cpu_relax() }
        }
        // It lost its CPU at just that place.
        for _ in 0..SLEEPS {
            if done() {
                return;
            }
            std::thread::sleep(SLEEP);
        }
    }
}
