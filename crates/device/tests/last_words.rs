//! What a process says last, in the ring of a connection that it has only just made.

mod common;

use std::sync::mpsc::channel;
use std::time::Duration;

use common::End;
use nonic_device::{Key, Operation, OwnThread, QpNumber, RemoteRange};
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

fn words(line: &str) -> [u64; 3] {
    let numbers: Vec<u64> = line.split(' ').map(|word| word.parse().unwrap()).collect();
    numbers.try_into().unwrap()
}

#[test]
fn who_catches_up_takes_what_a_peer_said_by_a_connection_that_the_agent_has_not_taken() {
    let mut other = SecondProcess::start("writer", "writer", &[]);
    let end = End::new();
    let number = QpNumber(other.hear().parse().unwrap());
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
