use nonic_roce::HostAddress;
use nonic_sys::{Epoll, random_u64};

use super::*;
use crate::station::Location;
use crate::wire::Wire;

/// A share that no process has, of a block that no queue pair is in.
fn free_share() -> Share {
    Share::Block(random_u64() as u32 | 1 << 31)
}

fn handing() -> (Handing, Epoll) {
    (Handing::new(TrustedUsers::default()), Epoll::new().unwrap())
}

/// A datagram that came to an address at which nobody else is.
fn arrival() -> Arrival {
    let [first, second, third, ..] = random_u64().to_ne_bytes();
    let address = HostAddress::V4([127, first, second, third.clamp(1, 254)]);
    let location = Location { address, interface: 1 };
    let (station, _) = Wire::new().unwrap().station(location).unwrap();
    Arrival {
        station,
        source: HostAddress::V4([127, 0, 0, 2]),
        source_port: 1,
        traffic_class: 0,
        hop_limit: 64,
        index: 0,
        was_handed_on: false,
    }
}

/// Who takes a share, and what it took: the first byte of each datagram.
struct Taking {
    handing: Handing,
    epoll: Epoll,
    listener: PacketSocket,
    stations: Vec<Arc<Station>>,
    taken: Vec<u8>,
}

impl Taking {
    fn new(share: Share, arrival: &Arrival) -> Self {
        let (handing, epoll) = handing();
        let stations = vec![Arc::clone(&arrival.station)];
        Self { handing, epoll, listener: listener(share).unwrap(), stations, taken: Vec::new() }
    }

    /// Looks at everything that has come.
    fn look(&mut self) {
        self.handing.welcome(&self.listener, &self.epoll);
        let numbers: Vec<_> = self.handing.givers.iter().map(|giver| giver.number).collect();
        for number in numbers {
            let mut take = |run: &mut Run<'_>| {
                let (_, datagram) = run.current();
                self.taken.push(datagram[0]);
                Taken::Taken
            };
            self.handing.receive(number, &self.epoll, &self.stations, &mut take);
        }
    }
}

/// The number of whoever is doubted.
fn doubted(handing: &Handing) -> Option<u64> {
    handing.takers.values().find_map(|taker| match taker.found {
        Found::Doubted { number, .. } => Some(number),
        _ => None,
    })
}

#[test]
fn packets_are_held_until_both_sides_have_proved_that_they_may_and_then_come_in_order() {
    let (share, arrival) = (free_share(), arrival());
    let mut taking = Taking::new(share, &arrival);
    let (mut handing, epoll) = handing();
    let hand = |handing: &mut Handing, mark: u8| {
        assert!(handing.hand_to(share, (&arrival, &[mark; 16]), false, &epoll));
    };
    (0..3).for_each(|mark| hand(&mut handing, mark));
    taking.look();
    assert!(taking.taken.is_empty() && handing.held == 3);
    let number = doubted(&handing).unwrap();
    handing.hear(number, &epoll);
    hand(&mut handing, 3);
    taking.look();
    assert_eq!((&taking.taken[..], handing.held, doubted(&handing)), (&[0, 1, 2, 3][..], 0, None));
}

#[test]
fn what_is_held_has_a_bound() {
    let (share, arrival) = (free_share(), arrival());
    let mut taking = Taking::new(share, &arrival);
    let (mut handing, epoll) = handing();
    for _ in 0..HELD_FOR_ONE + 10 {
        assert!(handing.hand_to(share, (&arrival, &[7; 16]), false, &epoll));
    }
    assert_eq!(handing.held, HELD_FOR_ONE);
    taking.look();
    handing.hear(doubted(&handing).unwrap(), &epoll);
    // Not so many at a time.
    taking.look();
    taking.look();
    assert_eq!(taking.taken, [7; HELD_FOR_ONE]);
}

#[test]
fn who_proves_nothing_hands_on_nothing() {
    let (share, arrival) = (free_share(), arrival());
    let mut taking = Taking::new(share, &arrival);
    let liar = PacketSocket::connect_abstract(&share.name()).unwrap();
    let mut message = [7; HEAD + 16];
    write(&mut message, &arrival, &[7; 16], false);
    let doubt = Doubt::about(&liar).unwrap().unwrap();
    // At once, and behind a question.
    for first in [message.to_vec(), doubt.ask()] {
        let liar = PacketSocket::connect_abstract(&share.name()).unwrap();
        for message in [&first[..], &message, &message] {
            let _ = liar.send(message, &[]);
        }
        taking.look();
        assert!(taking.taken.is_empty());
        let is_left = taking.handing.givers.iter().any(|giver| giver.is_known());
        assert!(!is_left, "{:?}", taking.handing.givers);
    }
    // The one that has said nothing is there still.
    assert_eq!(taking.handing.givers.len(), 1);
}

#[test]
fn who_proves_nothing_is_handed_nothing() {
    let (share, arrival) = (free_share(), arrival());
    let listener = listener(share).unwrap();
    let (mut handing, epoll) = handing();
    let hand = |handing: &mut Handing| handing.hand_to(share, (&arrival, &[7; 16]), false, &epoll);
    assert!(hand(&mut handing));
    let liar = listener.accept().unwrap();
    let mut bytes = [0; MESSAGE];
    let Received::Message(length, _) = liar.receive_bytes(&mut bytes) else { panic!("nothing was asked") };
    assert!(length < HEAD);
    // Its own question back.
    liar.send(&bytes[..length], &[]).unwrap();
    handing.hear(doubted(&handing).unwrap(), &epoll);
    assert_eq!((handing.held, doubted(&handing)), (0, None));
    assert!(matches!(liar.receive_bytes(&mut bytes), Received::HungUp), "it was told something");
    assert!(!hand(&mut handing), "nobody takes it");
}

#[test]
fn who_connects_again_and_again_does_not_keep_whoever_takes_what_comes() {
    let share = free_share();
    let listener = listener(share).unwrap();
    let (mut handing, epoll) = handing();
    let connect = |_| PacketSocket::connect_abstract(&share.name()).unwrap();
    let _others: Vec<_> = (0..=WELCOMED_PER_LOOK).map(connect).collect();
    handing.welcome(&listener, &epoll);
    assert_eq!(handing.givers.len(), WELCOMED_PER_LOOK);
    handing.welcome(&listener, &epoll);
    assert_eq!(handing.givers.len(), WELCOMED_PER_LOOK + 1);
}

#[test]
fn who_is_silent_makes_room_for_who_comes() {
    let (share, arrival) = (free_share(), arrival());
    let mut taking = Taking::new(share, &arrival);
    let mut silent = Vec::new();
    while silent.len() < GIVERS_MAX {
        silent.push(PacketSocket::connect_abstract(&share.name()).unwrap());
        taking.look();
    }
    let (mut handing, epoll) = handing();
    assert!(handing.hand_to(share, (&arrival, &[7; 16]), false, &epoll));
    taking.look();
    handing.hear(doubted(&handing).unwrap(), &epoll);
    taking.look();
    assert_eq!(taking.taken, [7]);
    assert_eq!(taking.handing.givers.len(), GIVERS_MAX);
}

#[test]
fn who_may_have_a_share_and_cannot_be_reached_is_not_taken_for_nobody() {
    let arrival = arrival();
    let hand = |share| {
        let (mut handing, epoll) = handing();
        handing.hand_to(share, (&arrival, &[0; 16]), false, &epoll)
    };
    let share = free_share();
    assert!(!hand(share), "nobody has it");
    let listener = listener(share).unwrap();
    let mut others = Vec::new();
    while let Ok(socket) = PacketSocket::connect_abstract(&share.name()) {
        others.push(socket);
    }
    assert!(hand(share), "so many wait there that no more can");
    drop(others);
    while listener.accept().is_ok() {}
    assert!(hand(share));
    drop(listener);
    assert!(!hand(share), "it has gone");
}
