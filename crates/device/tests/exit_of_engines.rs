//! A process that exits takes leave for each of its engines: who is connected to one sees a peer that departed, and not one that
//! died.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use common::pair::Side;
use nonic_device::{Config, EngineHandle, Operation, QpNumber, QpState, ReceiveRequest, Status};

const TEST: &str = "every_engine_of_a_process_that_exits_says_goodbye";
/// To whose queue pairs the process that exits connects those of its engines.
const PEERS: &str = "NONIC_TEST_PEERS";

fn numbers(text: &str) -> Vec<QpNumber> {
    text.split_ascii_whitespace().map(|number| QpNumber(number.parse().unwrap())).collect()
}

/// What the process that exits does: a message from each of its engines. They are still there when it exits.
fn exits(peers: &str) {
    let engines = [(); 2].map(|()| EngineHandle::create(Config::default()).unwrap());
    let sides = engines.each_ref().map(Side::on);
    for (side, peer) in sides.iter().zip(numbers(peers)) {
        side.end.connect(peer);
    }
    println!("\nnumbers {} {}", sides[0].end.pair.number().0, sides[1].end.pair.number().0);
    std::io::stdin().lock().read_line(&mut String::new()).unwrap();
    for side in &sides {
        assert_eq!(side.run(Operation::Send { immediate: None }, side.piece(0, 64)), Status::Success);
    }
    std::mem::forget((engines, sides));
}

#[test]
fn every_engine_of_a_process_that_exits_says_goodbye() {
    if let Ok(peers) = std::env::var(PEERS) {
        return exits(&peers);
    }
    let engine = EngineHandle::create(Config::default()).unwrap();
    let sides = [(); 2].map(|()| Side::on(&engine));
    let [one, other] = sides.each_ref().map(|side| side.end.pair.number().0);
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", TEST, "--nocapture"]).env(PEERS, format!("{one} {other}"));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
    let theirs = said.find_map(|line| line.unwrap().strip_prefix("numbers ").map(numbers)).unwrap();
    for (side, number) in sides.iter().zip(theirs) {
        side.end.connect(number);
        for id in [1, 2] {
            side.end.pair.post_receive(&ReceiveRequest { id, pieces: &[side.piece(0, 64)] }).unwrap();
        }
    }
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    for side in &sides {
        assert_eq!(side.end.completion().id, 1);
    }
    said.for_each(drop);
    assert!(child.wait().unwrap().success());

    // Whoever meets this engine now is met after it has noticed the end of the others.
    let newcomer = EngineHandle::create(Config::default()).unwrap();
    let met = [&newcomer, &engine].map(Side::on);
    met[0].connect(&met[1]);
    met[0].meet(&met[1]);
    for side in &sides {
        assert_eq!(side.end.pair.state(), QpState::ReadyToSend);
        side.end.post(3, Operation::Send { immediate: None }, &[side.piece(0, 64)]);
        let [first, second] = [side.end.completion(), side.end.completion()];
        assert_eq!((first.id, first.status), (3, Status::RetryExceeded));
        assert_eq!((second.id, second.status), (2, Status::Flushed));
    }
    sides.into_iter().chain(met).for_each(Side::leave);
}
