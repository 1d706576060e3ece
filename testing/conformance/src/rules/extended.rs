//! Extended reliable connections: section 7.5.

use nonic_device::{AsyncEventKind, QpNumber, QpState, QpType, Selectivity, Status};

use crate::arrangement::Place;
use crate::command::{Command, Receive};
use crate::memory::{EVERYTHING, FLUSHABLE, Memory, pattern};
use crate::options::{End, Options, RELIABLE};
use crate::pair::Pair;
use crate::request::{fetch_add, flush, read, send, write};
use crate::side::NEVER;

const SENDER: Options = Options { transport: QpType::ExtendedSend, ..RELIABLE };
const TARGET: Options = Options { transport: QpType::ExtendedReceive, access: FLUSHABLE, ..RELIABLE };

const LENGTH: u64 = 20_000;

/// A shared receive queue of a domain, with a zone, a completion queue and memory of its own.
#[derive(Clone, Copy)]
struct Named {
    shared: u32,
    /// By which requests name it.
    number: u32,
    completions: u32,
    memory: Memory,
}

/// The client's queue pair, the server's, which is in the domain, and two queues there.
struct Scene {
    client: End,
    near: Memory,
    server: End,
    domain: u32,
    queues: [Named; 2],
}

fn named(pair: &mut Pair, domain: u32) -> Named {
    let zone = pair.server.zone();
    let completions = pair.server.make(Command::Queue { entries: 64, vector: 0, channel: None });
    let made = pair.server.ask(Command::DomainQueue { domain, zone, completions });
    let memory = pair.server.memory(zone, LENGTH, FLUSHABLE);
    Named { shared: made[0] as u32, number: made[1] as u32, completions, memory }
}

/// Fresh queue pairs, connected: the client's in a zone.
fn connect(pair: &mut Pair, zone: u32, domain: u32, completions: u32) -> (End, End) {
    let client = pair.client.end_in(zone, &SENDER, None);
    let made = pair.server.ask(Command::Target { domain });
    let (target, number) = (made[0] as u32, QpNumber(made[1] as u32));
    let (send_queue, receive_queue) = (completions, completions);
    let server =
        End { pair: target, number, zone: 0, send_queue, receive_queue, channel: None, shared: None };
    pair.join(&client, &SENDER, &server, &TARGET);
    (client, server)
}

fn scene(pair: &mut Pair) -> Scene {
    let domain = pair.server.make(Command::Domain {});
    let queues = [(); 2].map(|()| named(pair, domain));
    let zone = pair.client.zone();
    let (client, server) = connect(pair, zone, domain, queues[0].completions);
    let near = pair.client.memory(zone, LENGTH, EVERYTHING);
    Scene { client, near, server, domain, queues }
}

fn receive(pair: &mut Pair, queue: &Named, id: u64) {
    let receives = vec![Receive { id, pieces: vec![queue.memory.all()] }];
    pair.server.must(Command::PostShared { queue: queue.shared, receives });
}

pub(crate) fn a_message_goes_to_the_shared_queue_it_names_and_to_no_other(pair: &mut Pair) {
    let Scene { client, near, server, queues, .. } = scene(pair);
    let mut due = [0; 2];
    for (turn, length) in [1, 64, 4096, 9000, LENGTH].into_iter().enumerate() {
        queues.iter().for_each(|queue| receive(pair, queue, turn as u64));
        let bytes = pattern(turn as u64, length);
        pair.client.write(&near, 0, &bytes);
        let (this, other) = (turn % 2, 1 - turn % 2);
        let request = send(&[near.piece(0, length)]).naming(queues[this].number);
        assert_eq!(pair.client.carry_out(&client, request), Status::Success);
        let came = pair.server.completions(queues[this].completions, 1)[0];
        assert_eq!((came.id, came.status), (due[this], Status::Success));
        assert_eq!((came.qp_number, u64::from(came.byte_length)), (server.number, length));
        assert!(pair.server.read(&queues[this].memory, 0, length) == bytes, "{length} bytes did not arrive");
        pair.server.assert_quiet(queues[other].completions);
        due[this] += 1;
    }
}

pub(crate) fn memory_is_judged_by_the_zone_of_the_queue_a_request_names(pair: &mut Pair) {
    let Scene { client, near, server, queues, .. } = scene(pair);
    let [one, two] = queues;
    for queue in queues {
        let bytes = pattern(9, LENGTH);
        pair.client.write(&near, 0, &bytes);
        let far = queue.memory;
        let carry_out = |pair: &mut Pair, request: crate::command::Send| {
            let ended = pair.client.carry_out(&client, request.naming(queue.number));
            assert_eq!(ended, Status::Success);
        };
        carry_out(pair, write(&[near.all()], far.remote(0)));
        pair.server.assert_holds(&far, &bytes);
        carry_out(pair, flush(far.remote(0), LENGTH, Selectivity::Range));
        pair.client.write(&near, 0, &vec![0; LENGTH as usize]);
        carry_out(pair, read(&[near.all()], far.remote(0)));
        pair.client.assert_holds(&near, &bytes);
        pair.server.write(&far, 8, &41u64.to_ne_bytes());
        carry_out(pair, fetch_add(near.piece(0, 8), far.remote(8), 1));
        assert_eq!((pair.client.word(&near, 0), pair.server.word(&far, 8)), (41, 42));
    }
    let before = pair.server.read(&two.memory, 0, LENGTH);
    let request = write(&[near.all()], two.memory.remote(0)).naming(one.number);
    assert_eq!(pair.client.carry_out(&client, request), Status::RemoteAccess);
    pair.server.async_event(AsyncEventKind::QpAccessError, server.pair);
    assert_eq!(pair.server.state(&server), QpState::Error);
    assert!(pair.server.read(&two.memory, 0, LENGTH) == before, "a refused write moved bytes");
}

pub(crate) fn a_queue_that_is_not_in_the_domain_takes_nothing_whoever_has_it(pair: &mut Pair) {
    let Scene { client: End { zone, .. }, near, domain, queues, .. } = scene(pair);
    let mine = queues[0];
    // In another domain, of the other side, gone, never made.
    let elsewhere = pair.server.make(Command::Domain {});
    let other = named(pair, elsewhere);
    receive(pair, &other, 5);
    let completions = pair.client.make(Command::Queue { entries: 64, vector: 0, channel: None });
    let own = pair.client.make(Command::Domain {});
    let of_client = pair.client.ask(Command::DomainQueue { domain: own, zone, completions })[1] as u32;
    if pair.arrangement.server == Place::OtherProcess {
        let known = [mine.number, queues[1].number, other.number];
        assert!(!known.contains(&of_client), "two processes have a queue of one number");
    }
    let gone = queues[1];
    pair.server.must(Command::DestroyShared { queue: gone.shared });
    receive(pair, &mine, 7);
    for number in [other.number, of_client, gone.number, 0, 0xff_ffff] {
        let (client, server) = connect(pair, zone, domain, mine.completions);
        let request = send(&[near.piece(0, 64)]).naming(number);
        assert_eq!(pair.client.carry_out(&client, request), Status::RemoteAccess, "{number:#x}");
        pair.server.async_event(AsyncEventKind::QpAccessError, server.pair);
        for queue in [mine, other] {
            assert!(pair.server.wait(queue.completions, 1, 0).is_empty(), "{number:#x}");
            pair.server.assert_untouched(&queue.memory);
        }
    }
    let (client, _) = connect(pair, zone, domain, mine.completions);
    let request = send(&[near.piece(0, 64)]).naming(mine.number);
    assert_eq!(pair.client.carry_out(&client, request), Status::Success);
    assert_eq!(pair.server.completions(mine.completions, 1)[0].id, 7);
}

pub(crate) fn a_sender_waits_for_a_receive_in_the_queue_it_names(pair: &mut Pair) {
    let Scene { client, near, queues, .. } = scene(pair);
    receive(pair, &queues[1], 1);
    pair.client.post(&client, send(&[near.piece(0, 64)]).naming(queues[0].number));
    assert!(pair.client.wait(client.send_queue, 1, NEVER).is_empty());
    receive(pair, &queues[0], 2);
    assert_eq!(pair.client.sent(&client).status, Status::Success);
    assert_eq!(pair.server.completions(queues[0].completions, 1)[0].id, 2);
    pair.server.assert_quiet(queues[1].completions);
}

pub(crate) fn a_domain_in_use_cannot_go(pair: &mut Pair) {
    let Scene { server, domain, queues, .. } = scene(pair);
    pair.server.refuses(Command::CloseDomain { domain }, "Busy");
    pair.server.must(Command::DestroyPair { pair: server.pair });
    pair.server.refuses(Command::CloseDomain { domain }, "Busy");
    for queue in queues {
        pair.server.must(Command::DestroyShared { queue: queue.shared });
    }
    pair.server.must(Command::CloseDomain { domain });
}

/// A queue pair of the server's and a queue of the client's, in a domain that both have open: the client sends to itself through the
/// server.
struct Roundabout {
    client: End,
    near: Memory,
    server: End,
    own: Named,
    /// What a receive of the queue is for.
    at_server: Memory,
}

fn roundabout(pair: &mut Pair) -> Roundabout {
    let made = pair.server.ask(Command::DomainOfFile {});
    let [domain, process, descriptor] = [0, 1, 2].map(|place| made[place] as u32);
    let same = pair.client.make(Command::SameDomain { process, descriptor });
    let zone = pair.client.zone();
    let completions = pair.client.make(Command::Queue { entries: 64, vector: 0, channel: None });
    let made = pair.client.ask(Command::DomainQueue { domain: same, zone, completions });
    let memory = pair.client.memory(zone, LENGTH, FLUSHABLE);
    let own = Named { shared: made[0] as u32, number: made[1] as u32, completions, memory };
    let other = pair.server.make(Command::Queue { entries: 64, vector: 0, channel: None });
    let (client, server) = connect(pair, zone, domain, other);
    let near = pair.client.memory(zone, LENGTH, EVERYTHING);
    let server_zone = pair.server.zone();
    let at_server = pair.server.memory(server_zone, LENGTH, EVERYTHING);
    Roundabout { client, near, server, own, at_server }
}

impl Roundabout {
    fn receive(&self, pair: &mut Pair, id: u64) {
        let receives = vec![Receive { id, pieces: vec![self.own.memory.all()] }];
        pair.client.must(Command::PostShared { queue: self.own.shared, receives });
    }

    fn carry_out(&self, pair: &mut Pair, request: crate::command::Send) -> Status {
        pair.client.carry_out(&self.client, request.naming(self.own.number))
    }
}

pub(crate) fn a_message_goes_to_a_queue_of_another_process_in_the_same_domain(pair: &mut Pair) {
    let scene = roundabout(pair);
    for (turn, length) in [0, 1, 4096, 9000, LENGTH].into_iter().enumerate() {
        scene.receive(pair, turn as u64);
        let bytes = pattern(turn as u64, length);
        pair.client.write(&scene.near, 0, &bytes);
        assert_eq!(scene.carry_out(pair, send(&[scene.near.piece(0, length)])), Status::Success);
        let came = pair.client.completions(scene.own.completions, 1)[0];
        assert_eq!((came.id, came.status), (turn as u64, Status::Success));
        assert_eq!((came.qp_number, u64::from(came.byte_length)), (scene.server.number, length));
        assert!(pair.client.read(&scene.own.memory, 0, length) == bytes, "{length} bytes did not arrive");
    }
    pair.server.assert_untouched(&scene.at_server);
}

pub(crate) fn memory_of_another_process_is_judged_by_the_zone_of_its_queue(pair: &mut Pair) {
    let scene = roundabout(pair);
    let (near, far) = (scene.near, scene.own.memory);
    let bytes = pattern(3, LENGTH);
    pair.client.write(&near, 0, &bytes);
    assert_eq!(scene.carry_out(pair, write(&[near.all()], far.remote(0))), Status::Success);
    pair.client.assert_holds(&far, &bytes);
    assert_eq!(scene.carry_out(pair, flush(far.remote(0), LENGTH, Selectivity::Range)), Status::Success);
    pair.client.write(&near, 0, &vec![0; LENGTH as usize]);
    assert_eq!(scene.carry_out(pair, read(&[near.all()], far.remote(0))), Status::Success);
    pair.client.assert_holds(&near, &bytes);
    pair.client.write(&far, 8, &41u64.to_ne_bytes());
    assert_eq!(scene.carry_out(pair, fetch_add(near.piece(0, 8), far.remote(8), 1)), Status::Success);
    assert_eq!((pair.client.word(&near, 0), pair.client.word(&far, 8)), (41, 42));
    // Memory of the process that has the queue pair is another's.
    scene.receive(pair, 1);
    let wrong = write(&[near.all()], scene.at_server.remote(0));
    assert_eq!(scene.carry_out(pair, wrong), Status::RemoteAccess);
    pair.server.async_event(AsyncEventKind::QpAccessError, scene.server.pair);
    assert_eq!(pair.server.state(&scene.server), QpState::Error);
    pair.server.assert_untouched(&scene.at_server);
    pair.client.assert_quiet(scene.own.completions);
}

pub(crate) fn a_sender_waits_for_a_receive_of_another_process(pair: &mut Pair) {
    let scene = roundabout(pair);
    let request = send(&[scene.near.piece(0, 64)]).naming(scene.own.number);
    pair.client.post(&scene.client, request);
    assert!(pair.client.wait(scene.client.send_queue, 1, NEVER).is_empty());
    scene.receive(pair, 2);
    assert_eq!(pair.client.sent(&scene.client).status, Status::Success);
    assert_eq!(pair.client.completions(scene.own.completions, 1)[0].id, 2);
}
