//! What a fork does to sockets.
//!
//! A connection by a stream stays this process's until a child uses it, or until this process closes it: then both have the kernel's
//! socket, and this process carries what goes between that and the stream ([`crate::carrier`]). One that was accepted and not
//! used since goes that way before the fork: it is what servers fork for. What listens is the kernel's in both; the stream beside
//! it stays with the process that waits for connections: the parent if it has done so before, else the next that does.

use std::sync::Arc;

use crate::carrier;
use crate::carrying::Kept;
use crate::event_set::EventSet;
use crate::socket::Socket;
use crate::table::{self, Object, Slots};

/// Has each connection be found by children.
fn bequeath() {
    for (number, socket) in table::sockets_by_number() {
        if socket.is_untouched() {
            socket.bequeath(Vec::new);
            socket.hand_on(number, Some(number), None);
        } else {
            socket.bequeath(carrier::addresses);
        }
    }
}

/// Calls `fork`, which answers 0 in a child, with the table in order on both sides.
pub fn around_fork(fork: impl FnOnce() -> i32) -> i32 {
    bequeath();
    // From here on nothing begins that a child must not keep.
    let mut kept = Kept::lock();
    let slots = table::write();
    let sockets: Vec<Arc<Socket>> = each(&slots, |object| match object {
        Object::Socket(socket) => Some(Arc::clone(socket)),
        Object::EventSet(_) => None,
    });
    let sets: Vec<Arc<EventSet>> = each(&slots, |object| match object {
        Object::EventSet(set) => Some(Arc::clone(set)),
        Object::Socket(_) => None,
    });
    for socket in &sockets {
        socket.leave_to_child();
    }
    // In the order in which everybody takes them.
    let set_locks = hold(&sets, |set| set.lock());
    let socket_locks = hold(&sockets, Socket::lock);
    let answer = fork();
    drop((socket_locks, set_locks));
    if answer == 0 {
        kept.close_in_child();
        sets.iter().for_each(|set| set.leave_to_parent());
        sockets.iter().for_each(|socket| socket.leave_to_parent());
        // The last holder of a parent's stream must not be here.
        sets.into_iter().for_each(std::mem::forget);
        sockets.into_iter().for_each(std::mem::forget);
    }
    drop((slots, kept));
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
