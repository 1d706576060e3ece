//! What one process asks another that has a domain open, by hand: what a process may do that ends in the middle, is stopped, or talks
//! rubbish.

use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nonic_protocol::ReceiveRequest;
use nonic_sys::{AsFd, PacketSocket, Received, file_identity, listen_abstract};

use super::door::Door;
use super::fellow::Fellow;
use super::file::name_in_domain;
use super::words::{Answer, Question};
use super::{DomainFile, ExtendedDomain, SharedReceiveQueue};
use crate::common::eventually;
use crate::common::pair::Side;
use crate::{Config, EngineHandle};

/// A process with a queue of three receives in a domain.
struct Owner {
    side: Side,
    domain: Arc<ExtendedDomain>,
    queue: Arc<SharedReceiveQueue>,
    name: String,
    _engine: EngineHandle,
}

impl Owner {
    fn new(test: &str) -> Self {
        let engine = EngineHandle::create(Config::default()).unwrap();
        let side = Side::on(&engine);
        let path = std::env::temp_dir().join(format!("nonic-asked-{}-{test}", std::process::id()));
        let file = File::create(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let request = DomainFile { descriptor: file.as_fd(), create: true, exclusive: false };
        let domain = side.end.context().open_extended_domain(Some(request)).unwrap();
        let completions = &side.end.completions;
        let queue = side.end.zone.create_extended_receive_queue(&domain, completions, (8, 1), 0).unwrap();
        for id in 1..=3 {
            queue.post_receive(&ReceiveRequest { id, pieces: &[side.piece(0, 64)] }).unwrap();
        }
        let number = queue.number().unwrap();
        let name = name_in_domain(file_identity(file.as_fd()).unwrap(), number);
        Self { side, domain, queue, name, _engine: engine }
    }

    fn number(&self) -> u32 {
        self.queue.number().unwrap().0
    }

    fn fellow(&self) -> Arc<Fellow> {
        Fellow::meet(&self.name, self.side.end.context().engine().own_user()).unwrap()
    }
}

fn take(fellow: &Fellow, queue: u32) -> u64 {
    let answer = fellow.ask(&Question::Take { queue });
    let Some(Answer::Receive { receive, length: 64 }) = answer else { panic!("{answer:?}") };
    receive
}

#[test]
fn what_a_process_took_that_ends_is_the_next_again_in_its_order() {
    let owner = Owner::new("ends");
    let fellow = owner.fellow();
    assert_ne!(take(&fellow, owner.number()), take(&fellow, owner.number()));
    assert_eq!((owner.queue.waiting(), owner.queue.unfinished()), (1, 3));
    drop(fellow);
    eventually("the receives never come back", || owner.queue.waiting() == 3);
    let order: Vec<_> = std::iter::from_fn(|| owner.queue.take()).map(|receive| receive.id).collect();
    assert_eq!(order, [1, 2, 3]);
}

#[test]
fn a_receive_ends_once_and_only_for_whoever_took_it() {
    let owner = Owner::new("once");
    let [one, other] = [owner.fellow(), owner.fellow()];
    let receive = take(&one, owner.number());
    let bytes: Box<[u8]> = [7; 8].into();
    let fill = |receive| Question::Fill { receive, offset: 0, bytes: bytes.clone() };
    assert!(!other.confirms(&fill(receive)), "another took it");
    assert!(!one.confirms(&fill(receive + 1)), "nobody took it");
    assert_eq!(owner.side.memory.get(0, 8), [0; 8]);
    assert!(one.confirms(&fill(receive)));
    assert_eq!(owner.side.memory.get(0, 8), [7; 8]);
    assert!(!one.confirms(&Question::Fill { receive, offset: 60, bytes: bytes.clone() }), "beyond its end");
    assert!(!one.confirms(&Question::Fill { receive, offset: u64::MAX, bytes: bytes.clone() }));
    assert_eq!(owner.side.memory.get(56, 16), [0; 16]);
    other.tell(&Question::GiveBack { receive });
    one.tell(&Question::GiveBack { receive });
    one.tell(&Question::GiveBack { receive });
    assert!(!one.confirms(&fill(receive)), "it was given back");
    assert_eq!(owner.queue.waiting(), 3);
}

#[test]
fn who_talks_rubbish_is_hung_up_on_and_what_it_took_comes_back() {
    let owner = Owner::new("rubbish");
    let socket = PacketSocket::connect_abstract(&owner.name).unwrap();
    socket.send(&Question::Take { queue: owner.number() }.emit(), &[]).unwrap();
    eventually("nothing was taken", || owner.queue.waiting() == 2);
    socket.send(b"rubbish", &[]).unwrap();
    eventually("it is not hung up on", || socket.is_hung_up());
    eventually("the receive never comes back", || owner.queue.waiting() == 3);
    assert!(owner.fellow().confirms(&Question::Find { queue: owner.number() }), "others are answered");
}

#[test]
fn who_does_not_read_its_answers_is_hung_up_on() {
    let owner = Owner::new("unread");
    let socket = PacketSocket::connect_abstract(&owner.name).unwrap();
    let question = Question::Has { queue: owner.number() }.emit();
    let deadline = Instant::now() + Duration::from_secs(20);
    while !socket.is_hung_up() {
        let _ = socket.send(&question, &[]);
        assert!(Instant::now() < deadline, "it is answered without end");
    }
    assert!(owner.fellow().confirms(&Question::Find { queue: owner.number() }), "others are answered");
}

#[test]
fn nobody_is_answered_any_more_when_the_domain_is_closed() {
    let owner = Owner::new("closed");
    let fellow = owner.fellow();
    assert!(fellow.confirms(&Question::Find { queue: owner.number() }));
    owner.queue.destroy().unwrap();
    assert!(!fellow.confirms(&Question::Find { queue: owner.number() }));
    owner.domain.close().unwrap();
    assert!(Fellow::meet(&owner.name, owner.side.end.context().engine().own_user()).is_none());
    eventually("the other side never learns of it", || fellow.has_ended());
}

#[test]
fn processes_of_other_users_neither_answer_nor_are_answered() {
    let owner = Owner::new("users");
    let own = owner.side.end.context().engine().own_user();
    let other = own.map(|user| user + 1);
    for user in [other, None] {
        assert!(Fellow::meet(&owner.name, user).is_none(), "{user:?} is met");
    }
    for user in [other, None] {
        let name = format!("nonic-others/{}", std::process::id());
        let door = Arc::new(Door::open(&name).unwrap());
        door.begin(Arc::downgrade(owner.domain.members()), user).unwrap();
        let fellow = Fellow::meet(&name, own).unwrap();
        assert!(!fellow.confirms(&Question::Find { queue: owner.number() }), "{user:?} is answered");
        eventually("it is not hung up on", || fellow.has_ended());
        door.close();
    }
    assert!(owner.fellow().confirms(&Question::Find { queue: owner.number() }));
}

#[test]
fn who_does_not_answer_is_waited_for_once_and_what_it_says_late_goes_back() {
    let engine = EngineHandle::create(Config::default()).unwrap();
    let side = Side::on(&engine);
    let name = format!("nonic-silent/{}", std::process::id());
    let listener = listen_abstract(&name).unwrap();
    let fellow = Fellow::meet(&name, side.end.context().engine().own_user()).unwrap();
    let silent = listener.accept().unwrap();
    let take = Question::Take { queue: 7 };
    let began = Instant::now();
    assert_eq!(fellow.ask(&take), None);
    let waited = began.elapsed();
    (0..100).for_each(|_| assert_eq!(fellow.ask(&take), None));
    assert!(began.elapsed() < waited * 2, "it is waited for again: {:?}, then {:?}", waited, began.elapsed());
    let heard = || {
        let mut bytes = [0; 256];
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            if let Received::Message(length, _) = silent.receive_bytes(&mut bytes) {
                return Question::parse(&bytes[..length]).unwrap();
            }
            assert!(Instant::now() < deadline, "nothing is said");
        }
    };
    assert_eq!(heard(), take);
    silent.send(&Answer::Receive { receive: 5, length: 64 }.emit(), &[]).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| assert!(fellow.confirms(&Question::Find { queue: 7 })));
        assert_eq!(heard(), Question::GiveBack { receive: 5 });
        assert_eq!(heard(), Question::Find { queue: 7 });
        silent.send(&Answer::Yes.emit(), &[]).unwrap();
    });
}
