use std::cell::Cell;

use nonic_memory::AdoptionPolicy;
use nonic_message::Descriptors;
use nonic_protocol::{BaseHeader, Psn, QpNumber};
use nonic_sys::{AsFd, EventFd};
use nonic_trust::TrustedUsers;

use super::*;
use crate::FRAGMENT;
use crate::layout::LINK_LENGTH;
use crate::ring::Sleeper;
use crate::tier::Tier;

fn party() -> Arc<Party> {
    Arc::new(
        Party::create(Tier::Ring, AdoptionPolicy::Never, Arc::default(), vec![], TrustedUsers::default())
            .unwrap(),
    )
}

/// The two ends of a channel between two processes, which are one here.
pub(super) fn ends() -> [Channel; 2] {
    let memory = Arc::new(SharedMapping::anonymous(LINK_LENGTH).unwrap());
    [LinkEnd::Active, LinkEnd::Passive].map(|end| Channel::new(party(), Arc::clone(&memory), end))
}

/// Both ends of a channel of a process to itself.
pub(super) fn loopback() -> Channel {
    Channel::new(party(), Arc::new(SharedMapping::anonymous(LINK_LENGTH).unwrap()), LinkEnd::Both)
}

/// Has `channel` know the bells of whoever has `other`.
pub(super) fn show(other: &Channel, channel: &Channel) {
    let (party, call) = (&other.party, other.call_number());
    let descriptors = [party.doorbell.as_fd(), party.waiter_bell.as_fd(), party.calls.as_fd()];
    let descriptors = descriptors.map(|descriptor| descriptor.try_clone_to_owned().unwrap());
    let mut descriptors = Descriptors::new(descriptors.into());
    channel.take_bells(PeerBells::from_peer(&mut descriptors, call).unwrap()).unwrap();
}

fn base(number: u32) -> BaseHeader {
    BaseHeader::new(QpNumber(1), QpNumber(number), Psn(number), 0)
}

fn send(channel: &Channel, number: u32) {
    let send = ShortSend { base: base(number), solicited: false, acknowledges: None };
    assert!(channel.push_short(send, SharedSlice::EMPTY));
}

/// The numbers of the messages that came.
fn received(channel: &Channel) -> Vec<u32> {
    let mut ring = channel.try_receive().unwrap();
    let mut seen = Vec::new();
    while let Some(psn) = ring.peek().unwrap().map(|found| found.message.base.psn) {
        seen.push(psn.0);
        ring.advance();
    }
    seen
}

/// How often an end says to its peer otherwise that it is to look.
struct Looks(Cell<u32>);

impl Looks {
    fn count(&self) -> impl Fn() {
        || self.0.set(self.0.get() + 1)
    }
}

#[test]
fn what_one_end_pushes_the_other_receives_and_not_itself() {
    let [active, passive] = ends();
    send(&active, 1);
    send(&passive, 2);
    send(&active, 3);
    assert_eq!(received(&passive), [1, 3]);
    assert_eq!(received(&active), [2]);
    assert!(received(&passive).is_empty() && received(&active).is_empty());
}

#[test]
fn a_loopback_receives_what_it_pushes() {
    let channel = loopback();
    send(&channel, 1);
    assert_eq!(received(&channel), [1]);
    assert_eq!(channel.call_number(), None, "it never rests");
}

#[test]
fn a_peer_that_has_shown_no_bell_is_told_otherwise_and_only_when_it_sleeps() {
    let [active, passive] = ends();
    let looks = Looks(Cell::new(0));
    active.ring_bell(looks.count());
    assert_eq!(looks.0.get(), 0, "nobody sleeps");
    assert!(!passive.set_sleeping(Sleeper::Agent, || ()));
    send(&active, 1);
    active.ring_bell(looks.count());
    active.ring_bell(looks.count());
    assert_eq!(looks.0.get(), 1);
}

#[test]
fn a_peer_that_has_shown_its_bells_is_woken_by_them() {
    let [active, passive] = ends();
    show(&passive, &active);
    for sleeper in [Sleeper::Agent, Sleeper::Waiter] {
        assert!(!passive.set_sleeping(sleeper, || ()));
        active.ring_bell(|| panic!("there are bells"));
        let bells = [&passive.party.doorbell, &passive.party.waiter_bell];
        assert_eq!(
            bells.map(EventFd::take_if_ready),
            [sleeper == Sleeper::Agent, sleeper == Sleeper::Waiter]
        );
    }
}

#[test]
fn a_channel_that_rests_is_called_for_by_its_number() {
    let [active, passive] = ends();
    show(&passive, &active);
    assert!(passive.is_quiet());
    assert_eq!(passive.begin_rest(|| ()), Some(BeginsRest::AfterFence));
    assert!(passive.is_still_quiet() && passive.rests());
    send(&active, 1);
    active.ring_bell(|| panic!("there are calls"));
    let mut called = Vec::new();
    passive.party.calls.take(|number| called.push(Some(number)));
    assert_eq!(called, [passive.call_number()]);
    passive.end_rest();
    assert_eq!(received(&passive), [1]);
    assert!(!passive.rests() && !passive.is_quiet());
}

#[test]
fn what_waits_for_room_is_taken_once_and_calls_for_a_channel_that_rests() {
    let [channel, _] = ends();
    assert_eq!(channel.begin_rest(|| ()), Some(BeginsRest::AfterFence));
    channel.add_stalled(QpNumber(7));
    channel.add_stalled(QpNumber(7));
    channel.decline_later(base(3));
    channel.decline_later(BaseHeader::new(QpNumber(1), QpNumber(3), Psn(9), 0));
    assert!(channel.has_stalled() && channel.party.calls.any() && !channel.is_still_quiet());
    assert!(channel.stalled_may_go_on());
    assert_eq!(channel.take_declined(), [base(3)], "of an attempt the first");
    assert_eq!((channel.has_stalled(), channel.stalled_pairs()), (true, 1));
    assert_eq!(channel.take_stalled_pair(), Some(QpNumber(7)));
    assert!(!channel.has_stalled() && channel.take_stalled_pair().is_none());
}

#[test]
fn who_waits_for_longest_goes_on_first_and_nobody_once_there_is_no_room() {
    let [active, passive] = ends();
    show(&active, &passive);
    let message = |payload: u32| {
        ShortSend { base: base(payload), solicited: false, acknowledges: None }.to_message(payload)
    };
    let mut bytes = [0; FRAGMENT];
    let payload = SharedSlice::of_private(&mut bytes);
    let fill = || while active.push(&message(FRAGMENT as u32), &[payload]).is_ok() {};
    fill();
    (1..=3).for_each(|number| active.add_stalled(QpNumber(number)));
    for number in [1, 2, 3, 1, 2] {
        assert!(
            !active.stalled_may_go_on() && active.take_stalled_pair().is_none(),
            "the peer has read nothing"
        );
        assert!(!received(&passive).is_empty());
        if passive.try_receive().unwrap().report() {
            passive.ring_bell_now(|| ());
        }
        assert!(active.stalled_may_go_on());
        assert_eq!(active.take_stalled_pair(), Some(QpNumber(number)));
        // It takes all the room, and has more to send.
        fill();
        active.add_stalled(QpNumber(number));
        assert!(active.has_stalled());
    }
    assert_eq!(active.stalled_pairs(), 3);
}

#[test]
fn who_was_rung_for_before_it_was_known_that_somebody_waits_is_rung_for_again() {
    let [active, passive] = ends();
    show(&active, &passive);
    let message = ShortSend { base: base(1), solicited: false, acknowledges: None }.to_message(0);
    let pushed = (0..).take_while(|_| active.push(&message, &[]).is_ok()).count();
    // The peer makes room at this very moment, and rings: the agent finds nobody who waits.
    assert_eq!(received(&passive).len(), pushed);
    let bell = passive.try_receive().unwrap().report();
    if bell {
        passive.ring_bell_now(|| ());
    }
    active.party.doorbell.take_if_ready();
    assert!(!active.stalled_may_go_on() && !active.set_sleeping(Sleeper::Agent, || ()));
    active.add_stalled(QpNumber(7));
    assert!(active.party.doorbell.take_if_ready(), "nobody rings any more");
    assert!(active.stalled_may_go_on());
    assert_eq!(active.take_stalled_pair(), Some(QpNumber(7)));
    // While the peer is still to ring nobody else does.
    while active.push(&message, &[]).is_ok() {}
    active.add_stalled(QpNumber(7));
    assert!(!active.party.doorbell.take_if_ready());
}

#[test]
fn who_waits_until_everything_was_read_is_left_alone_until_the_peer_has_read_something() {
    let [active, passive] = ends();
    show(&active, &passive);
    send(&active, 1);
    assert!(!active.everything_was_read());
    active.add_stalled(QpNumber(7));
    for _ in 0..3 {
        assert!(!active.stalled_may_go_on(), "it would find the same again");
        assert!(!active.set_sleeping(Sleeper::Agent, || ()) && !active.party.doorbell.take_if_ready());
    }
    assert_eq!(received(&passive), [1]);
    assert!(passive.try_receive().unwrap().report());
    passive.ring_bell_now(|| ());
    assert!(active.party.doorbell.take_if_ready());
    assert!(active.stalled_may_go_on());
    assert_eq!(active.take_stalled_pair(), Some(QpNumber(7)));
    assert!(active.everything_was_read());
}

#[test]
fn who_goes_on_and_sends_nothing_leaves_nobody_behind_where_there_is_room() {
    let [active, passive] = ends();
    show(&active, &passive);
    (1..=2).for_each(|number| active.add_stalled(QpNumber(number)));
    assert!(active.stalled_may_go_on());
    assert_eq!(active.take_stalled_pair(), Some(QpNumber(1)));
    // It asks to be rung for; another one, say, has sent what the peer has not read.
    send(&active, 1);
    assert!(!active.everything_was_read());
    assert_eq!(active.take_stalled_pair(), Some(QpNumber(2)), "nobody would come for it");
}

#[test]
fn the_number_of_a_channel_is_free_again_when_it_ends() {
    let party = party();
    let new = || {
        let memory = Arc::new(SharedMapping::anonymous(LINK_LENGTH).unwrap());
        Channel::new(Arc::clone(&party), memory, LinkEnd::Active)
    };
    let (first, second) = (new(), new());
    let number = first.call_number();
    assert_ne!(number, second.call_number());
    drop(first);
    assert_eq!(new().call_number(), number);
}
