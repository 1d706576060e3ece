//! Whoever has the name behind a queue pair's number and never introduces itself.

mod bare;
mod common;

use std::time::{Duration, Instant};

use bare::BarePeer;
use common::pair::Side;
use common::{End, nothing_for};
use nonic_device::{Config, EngineHandle, Operation, QpNumber, QpState, Status};
use nonic_second_process::{SecondProcess, role, serve};
use nonic_transport::Tier;

/// How long a peer may be silent here.
const SILENCE: Duration = Duration::from_millis(300);

fn impatient() -> EngineHandle {
    EngineHandle::create(Config { wire_silence: Some(SILENCE), ..Config::default() }).unwrap()
}

fn say(end: &End) {
    end.post(1, Operation::Send { immediate: None }, &[end.piece(0, 64)]);
}

#[test]
fn a_process_that_takes_a_number_and_never_says_a_word_counts_as_gone() {
    let engine = impatient();
    let [one, other, third] = [(); 3].map(|()| Side::on(&engine).end);
    let peer = BarePeer::new(Tier::Ring);
    let began = Instant::now();
    one.connect(peer.number());
    say(&one);
    other.connect(third.pair.number());
    third.connect(other.pair.number());
    assert_eq!(one.completion().status, Status::RetryExceeded);
    assert!(began.elapsed() >= SILENCE, "after {:?}", began.elapsed());
    assert_eq!(one.pair.state(), QpState::Error);
    // Others are none the worse.
    third.post_receive(2);
    say(&other);
    assert_eq!([other.completion().status, third.completion().status], [Status::Success; 2]);
}

#[test]
fn a_process_that_has_introduced_itself_may_be_silent_for_as_long_as_it_likes() {
    let engine = impatient();
    let end = Side::on(&engine).end;
    let peer = BarePeer::new(Tier::Ring);
    end.connect(peer.number());
    let link = peer.accept();
    say(&end);
    nothing_for(&end, 4 * SILENCE);
    assert_eq!(end.pair.state(), QpState::ReadyToSend);
    link.close();
}

#[test]
fn a_process_that_is_stopped_before_it_can_introduce_itself_is_waited_for() {
    const TEST: &str = "a_process_that_is_stopped_before_it_can_introduce_itself_is_waited_for";
    if role().is_some() {
        let end = End::new();
        serve(|command, rest| match command {
            "number" => end.pair.number().0.to_string(),
            "receive" => {
                end.receive_from(QpNumber(rest.parse().unwrap()));
                end.post_receive(1);
                "ready".into()
            }
            other => panic!("{other}"),
        })
    }
    let mut other = SecondProcess::start(TEST, "other", &[]);
    let engine = impatient();
    let end = Side::on(&engine).end;
    let number = other.tell("number").parse().unwrap();
    other.tell(&format!("receive {}", end.pair.number().0));
    other.stop();
    end.connect(QpNumber(number));
    say(&end);
    nothing_for(&end, 4 * SILENCE);
    other.resume();
    assert_eq!(end.completion().status, Status::Success);
    other.finish();
}
