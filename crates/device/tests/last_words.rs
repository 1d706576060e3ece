//! What a process says last, in the ring of a connection that it has only just made.

mod common;

use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use common::End;
use nonic_device::{Key, Operation, OwnThread, QpNumber, RemoteRange, Status};
use nonic_second_process::{SecondProcess, role, say, told};

/// For so long the agent here takes no connection: longer than a thread waits for another that reads a ring, and less than it waits for
/// the agent.
const LONGER: Duration = Duration::from_millis(200);

/// What the second process does: while its agent takes no connection, it says its number and writes to who tells it where.
#[test]
fn writer() {
    if role().is_none() {
        return;
    }
    let end = End::new();
    OwnThread::count().work(|| {
        say(&end.pair.number().0.to_string());
        let [number, key, address] = words(&told());
        end.connect(QpNumber(number as u32));
        let remote = RemoteRange { address, key: Key(key as u32) };
        end.post(1, Operation::Write { remote, immediate: Some(7) }, &[end.piece(0, 8)]);
        say("written");
    });
    told();
}

/// What the second process does: it makes a connection of its own as above, receives by the other, and goes.
#[test]
fn receiver() {
    if role().is_none() {
        return;
    }
    let end = End::new();
    OwnThread::count().work(|| {
        say(&end.pair.number().0.to_string());
        end.connect(QpNumber(told().parse().unwrap()));
        end.post_receive(1);
    });
    assert_eq!(end.completion().status, Status::Success);
    end.to_error();
    say("received");
    told();
}

fn words(line: &str) -> [u64; 3] {
    let numbers: Vec<u64> = line.split(' ').map(|word| word.parse().unwrap()).collect();
    numbers.try_into().unwrap()
}

#[test]
fn who_catches_up_takes_what_a_peer_said_by_a_connection_that_the_agent_has_not_taken() {
    let mut other = SecondProcess::start("writer", "writer", &[]);
    let end = End::new();
    let number = QpNumber(other.hear().parse().unwrap());
    while_the_agent_takes_nobody(|go| {
        // The peer's agent does not take this process's connection, so that the peer makes one.
        end.receive_from(number);
        end.post_receive(1);
        let (number, key) = (end.pair.number().0, end.region.remote_key().0);
        assert_eq!(other.tell(&format!("{number} {key} {}", end.buffer.as_ptr() as u64)), "written");
        assert_eq!(end.completions.waiting(), 0, "nobody here has looked");
        go.send(()).unwrap();
        end.context().catch_up();
        assert_eq!(end.completions.waiting(), 1);
    });
    assert_eq!(end.completion().immediate, Some(7));
    other.finish();
}

#[test]
fn what_was_acknowledged_by_a_connection_that_the_agent_has_not_taken_is_not_flushed() {
    let mut other = SecondProcess::start("receiver", "receiver", &[]);
    let end = End::new();
    let number = QpNumber(other.hear().parse().unwrap());
    while_the_agent_takes_nobody(|go| {
        end.connect(number);
        end.post(8, Operation::Send { immediate: None }, &[end.piece(0, 8)]);
        assert_eq!(other.tell(&end.pair.number().0.to_string()), "received");
        assert_eq!(end.completions.waiting(), 0, "nobody here has looked");
        go.send(()).unwrap();
        end.to_error();
        let sent = end.completion();
        assert_eq!((sent.id, sent.status), (8, Status::Success));
    });
    other.finish();
}

/// Runs `work` with what has the agent take connections again, after a while.
fn while_the_agent_takes_nobody(work: impl FnOnce(Sender<()>)) {
    std::thread::scope(|scope| {
        let ((begun, begins), (go, gone)) = (channel(), channel());
        scope.spawn(move || {
            OwnThread::count().work(|| {
                begun.send(()).unwrap();
                gone.recv().unwrap();
                std::thread::sleep(LONGER);
            });
        });
        begins.recv().unwrap();
        work(go);
    });
}
