//! Datagrams of queue pair 1, between two engines that share an address. In a network namespace of its own, where the port is free.
#![forbid(unsafe_code)]

#[path = "common/inside.rs"]
mod inside;

use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use nonic_device::{
    Config, EngineHandle, ManagementArrival, ManagementError, ManagementObserver, WirePolicy,
};

use crate::inside::is_inside;

/// The bytes of a datagram, where it came from, and whether it was handed on.
type Note = (Vec<u8>, [u8; 16], bool);

#[derive(Debug, Default)]
struct Notes(Mutex<Vec<Note>>);

impl ManagementObserver for Notes {
    fn received(&self, arrival: &ManagementArrival<'_>) {
        let note = (arrival.bytes.to_vec(), arrival.source, arrival.was_handed_on);
        self.0.lock().unwrap().push(note);
    }
}

fn context(wire: WirePolicy) -> Arc<nonic_device::Context> {
    let handle = EngineHandle::create(Config { wire, ..Config::default() }).unwrap();
    handle.devices()[0].open().unwrap()
}

#[test]
fn a_management_datagram_is_told_to_every_engine_that_asked() {
    if !is_inside("a_management_datagram_is_told_to_every_engine_that_asked") {
        return;
    }
    let notes = [(); 2].map(|()| Arc::new(Notes::default()));
    let contexts = [(); 2].map(|()| context(WirePolicy::Auto));
    let ports = [0, 1].map(|index: usize| {
        let observer: Weak<dyn ManagementObserver> = Arc::downgrade(&notes[index]) as _;
        contexts[index].open_management(observer).unwrap()
    });
    let table = contexts[0].gid_table();
    // What is sent to the own address goes by loopback.
    let own =
        table.iter().find(|entry| entry.interface_index != 0 && entry.gid[10..12] == [0xff; 2]).unwrap();
    assert_eq!(ports[0].listen(0), Err(ManagementError::Index { index: 0 }));
    for port in &ports {
        port.listen(own.index).unwrap();
    }
    let bytes: Vec<u8> = (0..=255).collect();
    assert_eq!(ports[0].send(own.index, own.gid, 0, 64, &bytes), Ok(true));
    let deadline = Instant::now() + Duration::from_secs(20);
    let all = |notes: &Arc<Notes>| notes.0.lock().unwrap().clone();
    while notes.iter().any(|notes| all(notes).is_empty()) {
        assert!(Instant::now() < deadline, "it was told to {:?}", notes.each_ref().map(all));
        std::thread::yield_now();
    }
    let mut told = notes.each_ref().map(all).concat();
    told.sort_by_key(|note| note.2);
    assert_eq!(told, [(bytes.clone(), own.gid, false), (bytes, own.gid, true)]);
}

#[test]
fn where_the_wire_is_forbidden_nobody_is_told() {
    let refused = context(WirePolicy::Off).open_management(Weak::<Notes>::new()).unwrap_err();
    assert_eq!(refused, ManagementError::Forbidden);
}
