//! Services that are listened for by GIDs and by addresses of IP at once.

use nonic_roce::{
    Accepts, Claim, Event, ManagementDatagram, Message, Naming, PortSpace, Reason, ServiceRequest, Transport,
};

use crate::host::{Host, PORT, THEIR_TRANSACTION, THEIRS, ends, question, request};

const CONNECTIONS: Accepts = Accepts::Connections(Transport::Reliable);
const TCP: u64 = PortSpace::Tcp.service_id(PORT);
const UDP: u64 = PortSpace::Udp.service_id(PORT);

/// A request for a connection by a GID.
fn request_by_gid() -> Message {
    let mut asked = request();
    asked.private_data = [0; 92];
    Message::ConnectRequest(asked)
}

fn question_by_gid() -> Message {
    Message::ServiceRequest(ServiceRequest { private_data: [0; 216], ..question() })
}

fn claim(host: &Host, message: &Message) -> Claim {
    let datagram = ManagementDatagram { transaction_id: THEIR_TRANSACTION, message: *message };
    host.manager.claim(ends(THEIRS), &datagram)
}

#[test]
fn of_two_that_listen_for_a_service_each_is_asked_as_it_is_named() {
    // What it takes tells them apart.
    let mut host = Host::new();
    host.manager.listen(TCP, Naming::Gid, None, Accepts::Datagrams).expect("nobody listens so");
    host.manager.listen(UDP, Naming::Gid, None, CONNECTIONS).expect("nobody listens so");
    host.hears(request_by_gid());
    let Message::Reject(reject) = host.says() else { panic!("no rejection") };
    assert_eq!(reject.reason, Reason::CONSUMER);
    host.hears(question_by_gid());
    let Message::ServiceReply(reply) = host.says() else { panic!("no answer") };
    assert_eq!(reply.status, 2);
    host.is_unmoved();
    assert!(host.manager.is_empty());
    host.hears(Message::ConnectRequest(request()));
    assert!(matches!(host.event(), Event::Asked { header: Some(_), .. }));
    host.hears(Message::ServiceRequest(question()));
    assert!(matches!(host.event(), Event::ServiceAsked { header: Some(_), .. }));
}

#[test]
fn a_request_is_its_listeners_and_the_other_ones_only_if_no_manager_has_that() {
    let mut host = Host::new();
    for (by_ip, by_gid) in [
        (Message::ConnectRequest(request()), request_by_gid()),
        (Message::ServiceRequest(question()), question_by_gid()),
    ] {
        assert_eq!(
            [&by_ip, &by_gid].map(|asked| claim(&host, asked)),
            [Claim::Own, Claim::OwnUnless(Naming::Gid)]
        );
    }
    for service in [TCP, UDP] {
        let accepts = if service == TCP { CONNECTIONS } else { Accepts::Datagrams };
        host.manager.listen(service, Naming::Gid, None, accepts).expect("nobody listens so");
        host.manager.stop_listening(service, Naming::Ip, None);
    }
    for (by_ip, by_gid) in [
        (Message::ConnectRequest(request()), request_by_gid()),
        (Message::ServiceRequest(question()), question_by_gid()),
    ] {
        assert_eq!(
            [&by_ip, &by_gid].map(|asked| claim(&host, asked)),
            [Claim::OwnUnless(Naming::Ip), Claim::Own]
        );
    }
    // One that was taken is nobody else's from then on.
    host.is_asked();
    assert_eq!(claim(&host, &Message::ConnectRequest(request())), Claim::Own);
    for service in [TCP, UDP] {
        host.manager.stop_listening(service, Naming::Gid, None);
    }
    assert_eq!(
        [request_by_gid(), question_by_gid()].map(|asked| claim(&host, &asked)),
        [Claim::Own, Claim::None]
    );
}

#[test]
fn a_request_that_is_left_to_another_manager_ends_what_its_queue_pair_had_here_and_is_not_answered() {
    let mut host = Host::new();
    let id = host.has_accepted();
    let mut asked = request();
    asked.local_id += 1;
    asked.private_data = [0; 92];
    let message = Message::ConnectRequest(asked);
    let datagram = ManagementDatagram { transaction_id: THEIR_TRANSACTION, message };
    host.manager.leave_to_another(host.now, ends(THEIRS), &datagram);
    let Message::DisconnectRequest(end) = host.says() else { panic!("it goes on") };
    assert_eq!(end.ids.local, id.number());
    host.is_unmoved();
    // Of one that has nothing here, nothing is done.
    let mut host = Host::new();
    let datagram = ManagementDatagram { transaction_id: THEIR_TRANSACTION, message: request_by_gid() };
    host.manager.leave_to_another(host.now, ends(THEIRS), &datagram);
    host.is_unmoved();
    assert!(host.manager.is_empty());
}
