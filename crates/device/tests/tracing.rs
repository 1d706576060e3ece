//! Whoever listens to `tracing` hears of each request what happens to it, whichever way it takes.

mod common;

use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::connected;
use nonic_device::{Key, Operation, RemoteRange, Status};
use tracing::level_filters::LevelFilter;

/// What was said.
#[derive(Clone, Default)]
struct Said(Arc<Mutex<Vec<u8>>>);

impl Said {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Said {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn the_life_of_a_request_is_told_in_its_order() {
    let said = Said::default();
    let place = said.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        .with_writer(move || place.clone())
        .with_ansi(false)
        .without_time()
        .finish();
    // Of every thread: the library's own may be the one that carries a message out.
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let (one, other) = connected();
    let remote = RemoteRange { address: other.buffer.as_ptr() as u64, key: other.region.remote_key() };
    let bad = RemoteRange { key: Key(remote.key.0 ^ 1), ..remote };
    one.post(71, Operation::Write { remote, immediate: None }, &[one.piece(0, 24)]);
    assert_eq!(one.completion().status, Status::Success);
    one.post(72, Operation::Write { remote: bad, immediate: None }, &[one.piece(0, 24)]);
    assert_eq!(one.completion().status, Status::RemoteAccess);
    let text = said.text();
    let mut rest = text.as_str();
    for words in [
        "a request is posted queue_pair=",
        "id=71 operation=RdmaWrite pieces=1",
        "a request is carried out directly on the peer's memory",
        "id=71 operation=RdmaWrite status=Success bytes=24",
        "id=72 operation=RdmaWrite pieces=1",
        "a request is on its way",
        "a message of the peer's is refused",
        "the peer refuses a request",
        "id=72 operation=RdmaWrite status=RemoteAccess",
    ] {
        let at =
            rest.find(words).unwrap_or_else(|| panic!("no {words:?} behind what comes before it in\n{text}"));
        rest = &rest[at + words.len()..];
    }
    let deadline = Instant::now() + Duration::from_secs(20);
    while !said.text().contains("an asynchronous event is raised") {
        assert!(Instant::now() < deadline, "no event in\n{}", said.text());
        std::thread::yield_now();
    }
}
