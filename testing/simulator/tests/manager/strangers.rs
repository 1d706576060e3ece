//! Whoever is not the peer, or names other numbers, changes nothing.

use nonic_protocol::QpNumber;
use nonic_roce::{
    Answered, CommunicationId, Delay, DisconnectRequest, HostAddress, Ids, Message, Notice, Reason, Reject,
};

use crate::host::{Host, STRANGE, THEIR_GUID, THEIR_ID, THEIRS, end, reply};

type Reached = fn(&mut Host) -> CommunicationId;

fn thinks(host: &mut Host) -> CommunicationId {
    let id = host.has_accepted();
    host.manager.disconnect(host.now, id, &[]).expect("there is a connection");
    host.says();
    id
}

fn is_asked_to_end(host: &mut Host) -> CommunicationId {
    let id = host.is_connected();
    host.hears(Message::DisconnectRequest(end(id)));
    host.event();
    id
}

const STATES: [(&str, Reached); 8] = [
    ("request sent", Host::asks),
    ("reply received", Host::is_replied_to),
    ("connected", Host::is_connected),
    ("request received", Host::is_asked),
    ("reply sent", Host::accepts),
    ("accepted", Host::has_accepted),
    ("end asked for", thinks),
    ("asked to end", is_asked_to_end),
];

/// Everything that can be said about a communication.
fn messages(id: CommunicationId, ids: Ids) -> Vec<Message> {
    let notice = Notice { ids, private_data: [1; 224] };
    let mut all = vec![
        Message::ReadyToUse(notice),
        Message::DisconnectReply(notice),
        Message::DisconnectRequest(DisconnectRequest { ids, ..end(id) }),
        Message::ConnectReply(nonic_roce::ConnectReply { ids, ..reply(id) }),
    ];
    for answered in [Answered::Request, Answered::Reply, Answered::Other] {
        all.push(Message::Delay(Delay { ids, answered, service_timeout: 24, private_data: [0; 222] }));
        for reason in [Reason::TIMEOUT, Reason::CONSUMER, Reason::STALE_CONNECTION] {
            let mut info = [0; 72];
            info[..8].copy_from_slice(&THEIR_GUID.to_be_bytes());
            let reject = Reject { ids, answered, reason, info_length: 8, info, private_data: [0; 148] };
            all.push(Message::Reject(reject));
        }
    }
    all
}

/// Who says it gets an answer of the same length at most; nothing is told, and what is waited for is waited for as long.
fn changes_nothing(name: &str, host: &mut Host, from: HostAddress, message: Message) {
    let before = (host.manager.len(), host.manager.poll_timeout());
    host.hears_from(from, message);
    assert_eq!(host.manager.poll_event(), None, "{name}: {message:?}");
    assert_eq!((host.manager.len(), host.manager.poll_timeout()), before, "{name}: {message:?}");
    if let Some(answer) = host.manager.poll_transmit() {
        assert_eq!(answer.ends.remote, from);
    }
    host.is_silent();
}

#[test]
fn what_another_host_says_changes_nothing() {
    for (name, reached) in STATES {
        let mut host = Host::new();
        let id = reached(&mut host);
        for message in messages(id, Ids { local: THEIR_ID, remote: id.number() }) {
            changes_nothing(name, &mut host, STRANGE, message);
        }
        for message in messages(id, Ids { local: 0, remote: id.number() }) {
            changes_nothing(name, &mut host, STRANGE, message);
        }
    }
}

#[test]
fn what_names_another_communication_changes_nothing() {
    for (name, reached) in STATES {
        let mut host = Host::new();
        let id = reached(&mut host);
        let number = id.number();
        for (local, remote) in [(THEIR_ID + 1, number), (THEIR_ID + 1, number + 1), (THEIR_ID + 1, 0)] {
            // As long as the peer's number is not known, its first word of it counts.
            if name == "request sent" && remote == number {
                continue;
            }
            for message in messages(id, Ids { local, remote }) {
                changes_nothing(name, &mut host, THEIRS, message);
            }
        }
    }
}

#[test]
fn an_end_for_another_queue_pair_is_not_heard() {
    for reached in [Host::accepts, Host::has_accepted, Host::is_connected] as [Reached; 3] {
        let mut host = Host::new();
        let id = reached(&mut host);
        host.hears(Message::DisconnectRequest(DisconnectRequest {
            remote_qp_number: QpNumber(9),
            ..end(id)
        }));
        host.is_unmoved();
        assert_eq!(host.manager.len(), 1);
    }
}

#[test]
fn nobody_speaks_for_a_group() {
    let mut host = Host::new();
    let group = HostAddress::V4([239, 1, 2, 3]);
    host.hears_from(group, Message::ConnectRequest(crate::host::request()));
    host.is_unmoved();
    assert!(host.manager.is_empty());
}
