use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use nonic_sys::{AsFd, SharedMapping, effective_user, listen_abstract};
use nonic_trust::{Answer, TrustedUsers};

use super::*;
use crate::control::ControlMessage;
use crate::layout::PAGE;
use crate::link_record::LinkTable;

fn session(socket: PacketSocket) -> Session {
    let peer = Peer::of(socket.as_fd()).unwrap();
    let table = Arc::new(LinkTable::new(Arc::new(SharedMapping::anonymous(PAGE).unwrap())));
    Session::with_peer(socket, peer, |facts| LinkTable::enter(&table, facts))
}

/// The two sides of a session between two processes, which are one here.
fn sides() -> [Session; 2] {
    static NAMES: AtomicU32 = AtomicU32::new(0);
    let number = NAMES.fetch_add(1, Ordering::Relaxed);
    let name = format!("nonic-session-test/{}/{number}", std::process::id());
    let listening = listen_abstract(&name).unwrap();
    let near = PacketSocket::connect_abstract(&name).unwrap();
    [near, listening.accept().unwrap()].map(session)
}

/// What was told.
fn heard(session: &Session) -> (Vec<ControlMessage>, ControlFlow<()>) {
    let mut messages = Vec::new();
    let flow = session.receive(8, |message, _| {
        messages.push(message);
        Ok(())
    });
    (messages, flow)
}

fn introduction(token: u64, blocks: Vec<u32>) -> Introduction {
    Introduction { token: ProcessToken([token; 2]), question: None, blocks }
}

#[test]
fn what_one_side_tells_the_other_hears_until_it_hangs_up() {
    let [near, far] = sides();
    assert_eq!(heard(&far), (vec![], ControlFlow::Continue(())));
    near.tell(&ControlMessage::Look, &[]).unwrap();
    near.tell(&ControlMessage::Goodbye, &[]).unwrap();
    assert!(!far.peer_is_gone());
    near.stop_sending();
    assert!(far.peer_is_gone() && !far.process_ended());
    let told = vec![ControlMessage::Look, ControlMessage::Goodbye];
    assert_eq!(heard(&far), (told, ControlFlow::Break(())), "what was said before is not lost");
}

#[test]
fn a_message_that_cannot_be_handled_ends_the_session_but_not_because_the_peer_could_not_be_answered() {
    let [near, far] = sides();
    for (error, flow) in [
        (io::ErrorKind::BrokenPipe, ControlFlow::Continue(())),
        (io::ErrorKind::InvalidData, ControlFlow::Break(())),
    ] {
        near.tell(&ControlMessage::Look, &[]).unwrap();
        near.tell(&ControlMessage::Look, &[]).unwrap();
        let mut count = 0;
        let ended = far.receive(2, |_, _| {
            count += 1;
            Err(error.into())
        });
        assert_eq!((ended, count), (flow, if flow.is_break() { 1 } else { 2 }));
    }
    far.discard(8);
    assert_eq!(heard(&far), (vec![], ControlFlow::Continue(())));
}

#[test]
fn a_peer_that_answers_is_trusted_and_shown_once_and_one_that_answers_anything_else_is_not() {
    let [near, far] = sides();
    let question = near.ask(&TrustedUsers::default());
    assert!(question.is_some() && !near.is_trusted() && !near.begin_to_show());
    let answer = far.reply(question).expect("the kernel lets a process at itself");
    near.take_answer(&answer).unwrap();
    assert!(near.is_trusted() && !near.has_shown() && !near.peer_may_operate());
    assert!(near.begin_to_show() && !near.begin_to_show());
    assert!(near.has_shown() && near.peer_may_operate());
    near.take_answer(&answer).expect_err("nothing was asked");

    far.ask(&TrustedUsers::default());
    far.take_answer(&Answer([0; 16])).expect_err("an answer to nothing that was shown");
    far.take_answer(&answer).expect_err("there is one answer");
    assert!(!far.is_trusted());
}

#[test]
fn a_peer_of_a_user_that_is_trusted_by_name_is_asked_nothing() {
    let [near, _far] = sides();
    let trusted = TrustedUsers::parse(&effective_user().to_string()).unwrap();
    assert!(near.ask(&trusted).is_none() && near.is_trusted());
}

#[test]
fn a_session_ends_once_and_says_so_to_people_at_once_and_to_the_peer_later() {
    let [near, far] = sides();
    assert!(near.end() && near.is_dead() && !near.end());
    assert!(!far.peer_is_gone() && !far.is_dead());
    near.stop_sending();
    assert!(far.peer_is_gone() && !near.peer_is_gone());
    far.depart();
    assert!(far.peer_departed() && !near.peer_departed());
}

#[test]
fn sessions_are_with_the_same_peer_if_kernel_and_tokens_say_so() {
    let [[one, _a], [other, _b], [third, _c]] = [sides(), sides(), sides()];
    assert!(one.is_with_peer_of(&other), "nobody has said otherwise");
    one.meet(introduction(1, vec![]));
    assert!(one.is_with_peer_of(&other), "one has not introduced itself yet");
    other.meet(introduction(1, vec![]));
    third.meet(introduction(2, vec![]));
    assert!(one.is_with_peer_of(&other) && !one.is_with_peer_of(&third));
    assert!(!one.is_with_peer_of(&Session::with_itself(ProcessToken([1; 2]))));
}

#[test]
fn a_peer_owns_the_blocks_it_names_if_the_kernel_finds_it_behind_their_name() {
    let [near, far] = sides();
    let FarEnd { socket, .. } = far.far.as_ref().unwrap();
    assert!(!near.is_with_owner(7, socket), "it has said nothing");
    near.meet(introduction(1, vec![7]));
    assert!(near.is_with_owner(7, socket) && !near.is_with_owner(8, socket));
    near.end();
    assert!(!near.is_with_owner(7, socket));
}

#[test]
fn a_session_with_itself_is_trusted_and_tells_nobody_anything() {
    let own = Session::with_itself(ProcessToken([3; 2]));
    assert!(own.is_loopback() && own.is_trusted() && own.has_met());
    assert!(own.tell(&ControlMessage::Goodbye, &[]).is_ok());
    assert_eq!(heard(&own), (vec![], ControlFlow::Continue(())));
    assert!(!own.peer_is_gone() && !own.peer_may_operate() && own.socket().is_none());
}
