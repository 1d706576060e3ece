//! The words of a SCIF stream under the model checker: when everybody has left, a descriptor is readable exactly if bytes are
//! unread, and writable exactly if there is room. Runs with `ci/loom`; elsewhere there is nothing to run. It stands here
//! because what it tries needs only what a model has: words.

#![cfg(loom)]

#[allow(dead_code, unreachable_pub)]
#[path = "../../scif/src/direction.rs"]
mod direction;

use std::sync::Arc;

use direction::{Direction, Sent, Signals, WINDOW};
use loom::sync::atomic::{AtomicU64, Ordering};
use nonic_sys::{SharedMapping, full_fence};

/// The socket: tokens on it, and whether the sender's buffer is small. The kernel's calls are full fences.
#[derive(Default)]
struct Socket {
    tokens: AtomicU64,
    small: AtomicU64,
}

impl Signals for Socket {
    fn send(&self) -> Sent {
        self.tokens.fetch_add(1, Ordering::SeqCst);
        Sent::Yes
    }

    fn take(&self, count: u64) -> u64 {
        let taken = count.min(self.tokens.load(Ordering::SeqCst));
        self.tokens.fetch_sub(taken, Ordering::SeqCst);
        taken
    }

    fn lower(&self) {
        self.small.store(1, Ordering::SeqCst);
    }

    fn raise(&self) {
        self.small.store(0, Ordering::SeqCst);
    }
}

/// What both sides have.
#[derive(Clone)]
struct Stream {
    direction: Direction,
    socket: Arc<Socket>,
}

impl Stream {
    fn new() -> Self {
        let mapping = Arc::new(SharedMapping::anonymous(512).unwrap());
        Self { direction: Direction::new(mapping, 0, 0), socket: Arc::new(Socket::default()) }
    }

    /// Sends as a call without waiting does: what there is room for, at most `most`; returns the new tail.
    fn send(&self, tail: u64, most: u64) -> u64 {
        self.send_with(tail, most, full_fence)
    }

    fn send_with(&self, tail: u64, most: u64, fence: fn()) -> u64 {
        let room = WINDOW - (tail - self.direction.head());
        let count = room.min(most);
        let mut head = tail - (WINDOW - room);
        if count > 0 {
            self.direction.reopen(&*self.socket);
            head = self.direction.publish(tail + count, &*self.socket).unwrap().0;
        }
        if tail + count - head == WINDOW {
            self.direction.close_when_full(tail + count, &*self.socket, fence).unwrap();
        }
        tail + count
    }

    /// Takes what is there, up to `target`.
    fn take(&self, receiver: &mut Receiver, sure: bool) {
        self.take_with(receiver, sure, full_fence);
    }

    fn take_with(&self, receiver: &mut Receiver, sure: bool, fence: fn()) {
        let tail = self.direction.tail();
        if tail == receiver.head {
            return;
        }
        if !sure {
            receiver.unsure = tail;
        }
        receiver.head = tail.min(receiver.target);
        self.direction.advance(receiver.head, &*self.socket, fence);
    }

    /// A call that waits, until a signal ends it at once: promises, looks, takes the promise back.
    fn receive_blocking(&self, receiver: &mut Receiver) {
        self.direction.promise(receiver.target);
        self.take(receiver, false);
        self.take(receiver, true);
        if receiver.head < receiver.target {
            self.direction.retract(receiver.head);
            self.take(receiver, false);
        }
        self.leave(receiver);
    }

    /// A call that does not wait.
    fn receive(&self, receiver: &mut Receiver) {
        self.take(receiver, false);
        self.leave(receiver);
    }

    fn leave(&self, receiver: &mut Receiver) {
        self.direction.settle(receiver.head, receiver.unsure, &*self.socket);
    }

    /// Everybody has left.
    fn check(&self) {
        let unread = self.direction.tail() - self.direction.head();
        let (tokens, small) =
            (self.socket.tokens.load(Ordering::SeqCst), self.socket.small.load(Ordering::SeqCst));
        assert_eq!(unread > 0, tokens > 0, "{unread} unread, {tokens} tokens");
        let writable = small == 0 || tokens < 2;
        assert_eq!(unread < WINDOW, writable, "{unread} unread, {tokens} tokens, small {small}");
    }
}

struct Receiver {
    head: u64,
    target: u64,
    unsure: u64,
}

impl Receiver {
    fn new(target: u64) -> Self {
        Self { head: 0, target, unsure: 0 }
    }
}

fn race(send: fn(&Stream), receive: fn(&Stream)) {
    let stream = Stream::new();
    let sender = {
        let stream = stream.clone();
        loom::thread::spawn(move || send(&stream))
    };
    receive(&stream);
    sender.join().unwrap();
    stream.check();
}

#[test]
fn a_promise_is_kept_or_taken_back() {
    loom::model(|| race(|s| _ = s.send(0, 8), |s| s.receive_blocking(&mut Receiver::new(8))));
}

#[test]
fn a_promise_of_part_of_what_comes_leaves_a_token() {
    loom::model(|| race(|s| _ = s.send(0, 8), |s| s.receive_blocking(&mut Receiver::new(4))));
}

#[test]
fn two_messages_meet_one_call() {
    let send = |s: &Stream| {
        let tail = s.send(0, 4);
        s.send(tail, 4);
    };
    loom::model(move || race(send, |s| s.receive_blocking(&mut Receiver::new(6))));
}

#[test]
fn a_call_that_does_not_wait_takes_the_tokens_of_what_it_takes() {
    let send = |s: &Stream| {
        let tail = s.send(0, 4);
        s.send(tail, 4);
    };
    loom::model(move || race(send, |s| s.receive(&mut Receiver::new(u64::MAX))));
}

#[test]
fn a_full_ring_is_not_writable_and_one_with_room_is() {
    loom::model(|| race(|s| _ = s.send(0, WINDOW), |s| s.receive(&mut Receiver::new(1))));
}

#[test]
fn an_emptied_ring_leaves_no_token() {
    loom::model(|| race(|s| _ = s.send(0, WINDOW), |s| s.receive_blocking(&mut Receiver::new(WINDOW))));
}

#[test]
fn a_ring_filled_again_is_not_writable() {
    let send = |s: &Stream| {
        let tail = s.send(0, WINDOW);
        s.send(tail, WINDOW);
    };
    loom::model(move || race(send, |s| s.receive(&mut Receiver::new(1))));
}

#[test]
fn tokens_of_a_ring_filled_again_are_not_taken_with_those_of_before() {
    let send = |s: &Stream| {
        let tail = s.send(0, WINDOW);
        s.send(tail, WINDOW);
    };
    let receive = |s: &Stream| {
        let mut receiver = Receiver::new(1);
        s.receive(&mut receiver);
        (receiver.target, receiver.unsure) = (2, receiver.head);
        s.receive(&mut receiver);
    };
    loom::model(move || race(send, receive));
}

#[test]
#[should_panic(expected = "tokens")]
fn without_waiting_for_the_decision_the_model_finds_the_token_that_comes_late() {
    let receive = |s: &Stream| {
        let mut receiver = Receiver::new(8);
        s.take(&mut receiver, true);
        s.direction.settle(receiver.head, 0, &*s.socket);
    };
    loom::model(move || race(|s| _ = s.send(0, 8), receive));
}

#[test]
#[should_panic(expected = "tokens")]
fn without_another_look_after_a_broken_promise_the_model_finds_the_bytes_without_a_token() {
    let receive = |s: &Stream| {
        let mut receiver = Receiver::new(8);
        s.direction.promise(8);
        s.take(&mut receiver, false);
        s.direction.retract(receiver.head);
        s.leave(&mut receiver);
    };
    loom::model(move || race(|s| _ = s.send(0, 8), receive));
}

#[test]
#[should_panic(expected = "small")]
fn without_the_fences_the_model_finds_the_sender_that_is_not_woken() {
    let receive = |s: &Stream| {
        let mut receiver = Receiver::new(1);
        s.take_with(&mut receiver, false, || {});
        // Without the tokens that would be found on leaving: a call that goes on.
    };
    loom::model(move || race(|s| _ = s.send_with(0, WINDOW, || {}), receive));
}
