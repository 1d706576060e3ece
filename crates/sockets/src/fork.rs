//! What a fork does to sockets.
//!
//! A connection by a stream stays the parent's: its child finds it reset. What listens is the kernel's in both; the stream beside
//! it stays with the process that waits for connections: the parent if it has done so before, else the next that does.

use std::sync::Arc;

use nonic_sys::Seldom;

use crate::event_set::EventSet;
use crate::socket::Socket;
use crate::table::{self, Object, Slots};

/// Tells people of a server whose connections are in the wrong process.
static TOLD: Seldom = Seldom::new();

/// Calls `fork`, which answers 0 in a child, with the table in order on both sides.
pub fn around_fork(fork: impl FnOnce() -> i32) -> i32 {
    let slots = table::write();
    let sockets: Vec<Arc<Socket>> = each(&slots, |object| match object {
        Object::Socket(socket) => Some(Arc::clone(socket)),
        Object::EventSet(_) => None,
    });
    let sets: Vec<Arc<EventSet>> = each(&slots, |object| match object {
        Object::EventSet(set) => Some(Arc::clone(set)),
        Object::Socket(_) => None,
    });
    if sockets.iter().any(|socket| socket.is_untouched())
        && let Some(left_out) = TOLD.turn()
    {
        tracing::warn!(
            left_out,
            "the program forks with a connection that it has just accepted, which its child finds reset; \
             run servers that fork for each connection with NONIC_SOCKETS=connect"
        );
    }
    for socket in &sockets {
        socket.leave_to_child();
    }
    // In the order in which everybody takes them.
    let set_locks = hold(&sets, |set| set.lock());
    let socket_locks = hold(&sockets, Socket::lock);
    let answer = fork();
    drop((socket_locks, set_locks));
    if answer == 0 {
        sets.iter().for_each(|set| set.leave_to_parent());
        sockets.iter().for_each(|socket| socket.leave_to_parent());
        // The last holder of a parent's stream must not be here.
        sets.into_iter().for_each(std::mem::forget);
        sockets.into_iter().for_each(std::mem::forget);
    }
    drop(slots);
    answer
}

fn each<T>(slots: &Slots, pick: impl Fn(&Object) -> Option<Arc<T>>) -> Vec<Arc<T>> {
    let mut found: Vec<Arc<T>> = Vec::new();
    for one in slots.iter().flatten().filter_map(pick) {
        if !found.iter().any(|other| Arc::ptr_eq(other, &one)) {
            found.push(one);
        }
    }
    found
}

fn hold<'a, T, G>(all: &'a [Arc<T>], lock: impl Fn(&'a T) -> G) -> Vec<G> {
    all.iter().map(|one| lock(one)).collect()
}
