//! Strangers that do all they can to a process which offers a service, while honest ones connect to it: every connection is
//! made, and descriptors, memory and messages stay within their bounds. Needs root, to be two users, in a network namespace
//! of its own.

mod strangers;

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nonic_connection::{ConnectionSink, End, Request, Response, ServiceSink, connect, listen};
use nonic_second_process::{SecondProcess, role, serve};
use nonic_sys::{Shares, descriptor_limit};

use strangers::*;

/// The only one.
const NUMBER: u64 = 7;
/// Connections that the victim's program keeps.
const KEPT: usize = 32;
/// How long an honest connection may take beside strangers.
const PATIENCE: Duration = Duration::from_secs(20);

// The victim.

struct Desk(Mutex<Sender<Request>>);

impl ServiceSink for Desk {
    fn request(&self, request: Request) {
        let _ = self.0.lock().unwrap().send(request);
    }
}

struct Deaf;

impl ConnectionSink for Deaf {
    fn accepted(&self, _: &[u8], _: &[u8]) -> Response {
        Response::Confirmed
    }
    fn established(&self) {}
    fn ended(&self, _: End<'_>) {}
}

/// Accepts whoever asks, and gives back what came.
fn be_the_victim(space: &str) -> ! {
    count_warnings();
    let (sender, requests) = channel();
    let _listener = listen(space, NUMBER, Arc::new(Desk(Mutex::new(sender)))).unwrap();
    std::thread::spawn(move || {
        let mut kept = VecDeque::new();
        for request in requests {
            let data = request.data().to_vec();
            if let Ok(connection) = request.accept(b"answer", &data, Arc::new(Deaf)) {
                kept.push_back(connection);
            }
            if kept.len() > KEPT {
                kept.pop_front();
            }
        }
    });
    serve(|command, _| match command {
        "begin" => "begun".into(),
        "warnings" => warnings().to_string(),
        other => panic!("{other}"),
    })
}

// The honest.

struct Ear(Mutex<Sender<Option<Vec<u8>>>>);

impl ConnectionSink for Ear {
    fn accepted(&self, _: &[u8], data: &[u8]) -> Response {
        let _ = self.0.lock().unwrap().send(Some(data.to_vec()));
        Response::Confirmed
    }
    fn established(&self) {}
    fn ended(&self, _: End<'_>) {
        let _ = self.0.lock().unwrap().send(None);
    }
}

/// Connects, and ends the connection; how long it took to be accepted.
fn connect_once(space: &str, number: u64) -> Duration {
    let (sender, told): (_, Receiver<Option<Vec<u8>>>) = channel();
    let (data, since) = (number.to_le_bytes(), Instant::now());
    let connection =
        connect(&[(space, NUMBER)], b"facts", &data, Some(PATIENCE), Arc::new(Ear(Mutex::new(sender))))
            .unwrap();
    assert_eq!(told.recv().unwrap().as_deref(), Some(&data[..]), "connection {number} is accepted");
    let took = since.elapsed();
    connection.disconnect();
    took
}

#[test]
fn whatever_a_stranger_does_honest_processes_are_connected() {
    const TEST: &str = "whatever_a_stranger_does_honest_processes_are_connected";
    if let Some(space) = role() {
        be_the_victim(&space)
    }
    let Some(_alone) = alone(TEST) else { return };
    let space = format!("hostile-{}", std::process::id());
    let mut victim = SecondProcess::start(TEST, &space, &[]);
    assert_eq!(victim.tell("begin"), "begun");
    let service = format!("{space}/{NUMBER}");
    // Each of the strangers has a share, and the program keeps some of their connections.
    let share = Shares::of_limit(descriptor_limit()).stranger.min(512);
    let more = 2 * (share + IN_A_MESSAGE) + KEPT;
    campaign(&mut victim, Victim::Service(&service), more, |_, number| connect_once(&space, number));
    victim.finish();
}
