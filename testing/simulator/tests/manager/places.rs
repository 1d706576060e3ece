//! Managers of several processes at one address, each of which hears everything.

use nonic_protocol::QpNumber;
use nonic_roce::{
    Answered, ConnectReply, Event, Ids, ManagementDatagram, ManagerSettings, Message, Reason, ServiceRequest,
};

use crate::host::{
    Host, OUR_GUID, THEIR_ID, THEIR_TRANSACTION, THEIRS, end, ends, notice, our_ids, question, reply, request,
};

fn host(place: u8) -> Host {
    Host::with(ManagerSettings { places: 16, place, ..ManagerSettings::new(OUR_GUID) })
}

#[test]
fn whose_a_communication_is_its_number_says() {
    for place in [0, 1, 15] {
        let mut host = host(place);
        for number in 0..20 {
            let id = host.manager.connect(
                host.now,
                ends(THEIRS),
                crate::host::SERVICE,
                &crate::host::OFFER,
                &crate::host::SIDE,
                &[],
            );
            let id = id.expect("it is asked");
            assert_eq!(id.number() % 16, u32::from(place), "communication {number}");
        }
        assert_eq!(host.manager.len(), 20);
    }
}

#[test]
fn what_is_for_another_manager_is_left_to_it() {
    let mut host = host(3);
    let id = host.asks();
    for (number, is_own) in [(id.number() + 1, false), (id.number() + 16, true)] {
        let ids = Ids { local: THEIR_ID, remote: number };
        host.hears(Message::ConnectReply(ConnectReply { ids, ..reply(id) }));
        host.answers_if(is_own, |said| matches!(said, Message::Reject(told) if told.reason.0 == 6));
        host.hears(Message::DisconnectRequest(nonic_roce::DisconnectRequest { ids, ..end(id) }));
        host.answers_if(is_own, |said| matches!(said, Message::DisconnectReply(_)));
    }
    let mut elsewhere = request();
    elsewhere.service_id += 1;
    host.hears(Message::ConnectRequest(elsewhere));
    host.is_unmoved();
    let service_id = question().service_id + 1;
    host.hears(Message::ServiceRequest(ServiceRequest { service_id, ..question() }));
    host.is_unmoved();
    assert_eq!(host.manager.len(), 1);
    // What it listens for itself it takes, and refuses.
    host.is_asked();
    let wrong = nonic_roce::ConnectRequest { local_id: 5, qp_number: QpNumber(5), p_key: 1, ..request() };
    host.hears(Message::ConnectRequest(wrong));
    assert!(matches!(host.says(), Message::Reject(told) if told.reason == Reason::INVALID_GID));
}

#[test]
fn a_queue_pair_that_asks_another_manager_has_lost_its_connection_here() {
    let mut host = host(3);
    let id = host.has_accepted();
    let mut elsewhere = request();
    elsewhere.service_id += 1;
    elsewhere.local_id += 1;
    host.hears(Message::ConnectRequest(elsewhere));
    // The other one answers the request.
    assert!(matches!(host.says(), Message::DisconnectRequest(asked) if asked.ids == our_ids(id)));
    host.hears(Message::DisconnectReply(notice(id)));
    assert!(matches!(host.event(), Event::Disconnected { .. }));
}

#[test]
fn what_nobody_takes_one_refuses_for_all() {
    let mut host = host(0);
    let said = |message| ManagementDatagram { transaction_id: THEIR_TRANSACTION, message };
    host.manager.refuse_unclaimed(ends(THEIRS), &said(Message::ConnectRequest(request())));
    let Message::Reject(told) = host.says() else { panic!("no rejection") };
    assert_eq!((told.answered, told.reason), (Answered::Request, Reason::INVALID_SERVICE_ID));
    assert_eq!(told.ids, Ids { local: 0, remote: THEIR_ID });
    host.manager.refuse_unclaimed(ends(THEIRS), &said(Message::ServiceRequest(question())));
    assert!(
        matches!(host.says(), Message::ServiceReply(told) if (told.status, told.request_id) == (1, THEIR_ID))
    );
    let id = host.asks();
    host.manager.refuse_unclaimed(ends(THEIRS), &said(Message::ReadyToUse(notice(id))));
    host.is_unmoved();
    assert_eq!(host.manager.len(), 1);
}

impl Host {
    #[track_caller]
    fn answers_if(&mut self, answers: bool, is_right: impl FnOnce(Message) -> bool) {
        if answers {
            assert!(is_right(self.says()));
        }
        self.is_unmoved();
    }
}

#[test]
#[should_panic(expected = "there is no place 16 of 16")]
fn there_are_no_more_places_than_are_said() {
    host(16);
}
